"""The journal of an unfinished run: its charge and all its measurements, on disk.

A long run may be killed after its measurements were paid for. So they go to disk before anything is made of them, and a
resumed run draws only those that are missing. Beside the terms (`qcompile.run.unfinished`) the folder holds

- ``journal.jsonl``: a line per event: the charge's number in the ledger; a part with its hash;
- ``00000.npy``, ...: the measurements, in parts that certify themselves (`qcompile.run.journal.parts`);
- ``lock``: an empty file that the process at work has locked.

A part is on disk before its line. A whole part without a line was written by a process that was killed in between: it
is taken over as it is. A line that was cut short is ignored. Measurements that had not reached a whole part are lost
with the process: they were never readable, and are drawn anew.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qcompile.errors import StorageError
from qcompile.release.values import NodeValues
from qcompile.run.journal.lock import lock_folder
from qcompile.run.journal.parts import Part, finish_draft, part_name, read_part, read_values, write_part
from qcompile.support.files import sync_folder
from qcompile.support.numbered_backup import Pending

JOURNAL, RELEASE = "journal.jsonl", "release.part"


class Journal:
    """An unfinished run.

    Attributes:
      target: the file of the release.
      folder: of the journal.
      run: the run's name in the ledger: the release's name and a random id.
      charged: the charge's number in the ledger; None where none is noted.
      paying: whether the ledger may have been charged although no charge is noted.
      parts: the measurements on disk, in the order in which they were drawn.
    """

    def __init__(self, target: Path, folder: Path, run: str) -> None:
        self.target, self.folder, self.run = target, folder, run
        self.charged: int | None = None
        self.paying = False
        self.parts: list[Part] = []
        self._lock = lock_folder(folder)
        self._file = (folder / JOURNAL).open("ab", buffering=0)  # nothing is left to fail when it is closed

    @property
    def holds_paid_work(self) -> bool:
        """True if a charge or a measurement is in it."""
        return self.paying or self.charged is not None or bool(self.parts)

    def note_charge(self, number: int) -> None:
        """Note which entry of the ledger pays for the run.

        Raises:
          StorageError: the disk refuses.
        """
        try:
            self._note({"charged": number})
        except OSError as e:
            raise StorageError(
                f"cannot write {self.folder}: {e.strerror or e}; the budget is spent: entry {number} of the ledger; "
                "finish the run with --resume, resume=True"
            ) from None
        self.charged = number

    def append(self, nodes: Sequence[int], values: Sequence[NodeValues], note: Any = None) -> None:
        """Write measurements to disk.

        Args:
          nodes: by position; at least one.
          values: of each node.
          note: plain data that comes back with them.

        Raises:
          StorageError: the disk refuses.
        """
        part = Part(self.run, len(self.parts), nodes, [v.size for v in values], note)
        try:
            self._note_part(part, write_part(self.folder, part, values))
        except OSError as e:
            raise StorageError(f"cannot write {self.folder / part_name(part.number)}: {e.strerror or e}") from None

    def values(self, part: Part, start: int, stop: int) -> NodeValues:
        """Return some of a part's measurements."""
        return read_values(self.folder / part_name(part.number), start, stop)

    def _note_part(self, part: Part, sha256: str) -> None:
        self._note({"part": part.number, "sha256": sha256})
        self.parts.append(part)

    def _note(self, line: Mapping[str, Any]) -> None:
        left = json.dumps(line).encode() + b"\n"
        while left:
            left = left[self._file.write(left) :]
        os.fsync(self._file.fileno())

    def read(self) -> None:
        """Take over the charge and the parts of an interrupted run.

        Raises:
          ValueError, LookupError, TypeError, OSError: it is damaged.
        """
        lines = (self.folder / JOURNAL).read_bytes().split(b"\n")
        self._file.truncate(sum(len(line) + 1 for line in lines[:-1]))  # a line that was cut short is ignored
        for line in map(json.loads, lines[:-1]):
            if "charged" in line:
                self.charged = int(line["charged"])
            else:
                self._read_part(line)
        self._adopt_part()
        if {p.name for p in self.folder.glob("*.npy")} != {part_name(p.number) for p in self.parts}:
            raise ValueError("there are parts without the parts before them")

    def _read_part(self, line: Mapping[str, Any]) -> None:
        part = self._require_own(read_part(self.folder / part_name(line["part"])))
        if line["sha256"] != part.sha256:
            raise ValueError("a part is another")
        self.parts.append(part)

    def _adopt_part(self) -> None:
        """Take over the part that was written last, if its line is missing: what is drawn is not drawn again."""
        path = self.folder / part_name(len(self.parts))
        finish_draft(self.folder, len(self.parts))
        if not path.exists():
            return
        part = self._require_own(read_part(path))
        try:
            self._note_part(part, part.sha256)
        except OSError as e:  # no damage: the next attempt may succeed
            raise StorageError(f"cannot write {self.folder / JOURNAL}: {e.strerror or e}") from None

    def _require_own(self, part: Part) -> Part:
        if (part.run, part.number) != (self.run, len(self.parts)) or len(part.nodes) != len(part.sizes):
            raise ValueError("a part is of another run, or missing")
        return part

    def pending(self) -> Pending:
        """The release in the making: written inside the folder, it gets its name when it is whole.

        Always a new file: one that an earlier run has made may have its name already.
        """
        (self.folder / RELEASE).unlink(missing_ok=True)
        return Pending(self.folder / RELEASE, self.target, left=True)

    def close(self) -> None:
        """Close the journal and release its lock."""
        self._file.close()
        self._lock.close()

    def remove(self) -> None:
        """Remove the folder, after the release has its name, or where nothing was paid for.

        The folder loses its name first, in one step: half of it must not pass for an unfinished run.
        """
        self.close()
        gone = self.folder.with_name(f".{self.target.name[:40]}.{self.run.split()[-1].strip(')')}.part")
        try:
            self.folder.rename(gone)
        except OSError:  # somebody has removed it
            return
        sync_folder(gone.parent)
        shutil.rmtree(gone, ignore_errors=True)
