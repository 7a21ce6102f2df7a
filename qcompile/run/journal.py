"""The journal of an unfinished run: its charge and all its measurements, on disk.

A long run may be killed after its measurements were paid for. So they go to disk before anything is made of them, and a
resumed run draws only those that are missing. Beside the terms (`qcompile.run.unfinished`) the folder holds

- ``journal.jsonl``: a line per event: the charge's number in the ledger; a file of measurements with its hash;
- ``00000.npy``, ...: the measurements.

A line is written after its file is on disk, and a line that was cut short is ignored. Measurements that were not yet
written are lost with the process: nobody has seen them, and their nodes are drawn anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from qcompile.errors import StorageError
from qcompile.release.values import PART, ByNode, NodeValues, narrow
from qcompile.support.files import sync_folder
from qcompile.support.numbered_backup import Pending

JOURNAL, RELEASE = "journal.jsonl", "release.part"

SECONDS = 10.0
"""Time after which measurements go to disk, however few they are."""

NOTHING = np.zeros(0)


class Journal(ByNode):
    """An unfinished run; as a sequence, its measurements by node, empty where there are none yet.

    Attributes:
      target: the file of the release.
      folder: of the journal.
      run: the run's name in the ledger: the release's name and a random id.
      charged: the charge's number in the ledger; None where none is noted.
      paying: whether the ledger may have been charged although no charge is noted.
    """

    def __init__(self, target: Path, folder: Path, run: str, nodes: int) -> None:
        self.target, self.folder, self.run = target, folder, run
        self.charged: int | None = None
        self.paying = False
        self._nodes = nodes
        self._where: dict[int, tuple[int, int, int]] = {}
        self._parts = 0
        self._file = _open_locked(folder)

    def __len__(self) -> int:
        return self._nodes

    def of_node(self, node: int) -> NodeValues:
        """The measurements of a node; none where it is not on disk."""
        if node not in self._where:
            return NOTHING
        part, start, stop = self._where[node]
        # Mapped anew each time, as what stays mapped counts as memory of the process.
        return np.array(np.load(self.folder / _name(part), mmap_mode="r", allow_pickle=False)[start:stop])

    @property
    def holds_paid_work(self) -> bool:
        """Whether a charge or a measurement is in it."""
        return self.paying or self.charged is not None or bool(self._where)

    @property
    def nodes(self) -> set[int]:
        """The nodes whose measurements are on disk."""
        return set(self._where)

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

    def keep(self, measured: Iterable[tuple[int, NodeValues]]) -> None:
        """Write measurements to disk as they come, some at a time.

        Args:
          measured: nodes with their measurements.

        Raises:
          StorageError: the disk refuses.
        """
        held, size, since = list[tuple[int, NodeValues]](), 0, time.monotonic()
        for node, values in measured:
            held.append((node, values))
            size += values.size
            if size >= PART or time.monotonic() - since > SECONDS:
                self._write(held)
                held, size, since = [], 0, time.monotonic()
        if held:
            self._write(held)

    def _write(self, held: list[tuple[int, NodeValues]]) -> None:
        number = self._parts
        nodes, sizes = [n for n, _ in held], [v.size for _, v in held]
        path = self.folder / _name(number)
        try:
            with path.open("wb") as file:
                np.save(file, narrow(np.concatenate([v for _, v in held])), allow_pickle=False)
                file.flush()
                os.fsync(file.fileno())
            sync_folder(self.folder)
            self._note({"part": number, "nodes": nodes, "sizes": sizes, "sha256": _sha256(path)})
        except OSError as e:
            raise StorageError(f"cannot write {path}: {e.strerror or e}") from None
        self._take(nodes, sizes)

    def _note(self, line: Mapping[str, Any]) -> None:
        left = json.dumps(line).encode() + b"\n"
        while left:
            left = left[self._file.write(left) :]
        os.fsync(self._file.fileno())

    def _take(self, nodes: Sequence[int], sizes: Sequence[int]) -> None:
        ends, part = np.cumsum(sizes).tolist(), self._parts
        self._where |= {n: (part, end - size, end) for n, size, end in zip(nodes, sizes, ends, strict=True)}
        self._parts += 1

    def read(self) -> None:
        """Take over the lines of an interrupted run.

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

    def _read_part(self, line: Mapping[str, Any]) -> None:
        path = self.folder / _name(line["part"])
        if line["part"] != self._parts or _sha256(path) != line["sha256"]:
            raise ValueError("a part is missing or damaged")
        if not set(line["nodes"]) <= set(range(self._nodes)) - self.nodes:
            raise ValueError("a node is there twice, or is none of the plan")
        self._take(line["nodes"], line["sizes"])

    def pending(self) -> Pending:
        """The release in the making: written inside the folder, it gets its name when it is whole.

        Always a new file: one that an earlier run has made may have its name already.
        """
        (self.folder / RELEASE).unlink(missing_ok=True)
        return Pending(self.folder / RELEASE, self.target, left=True)

    def close(self) -> None:
        """Close the journal and release its lock."""
        self._file.close()

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


def _name(number: int) -> str:
    return f"{number:05}.npy"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _open_locked(folder: Path) -> IO[bytes]:
    """Open the journal for additions, with a lock that ends with the process.

    Raises:
      StorageError: another process has the lock.
      OSError: the disk refuses.
    """
    file = (folder / JOURNAL).open("ab", buffering=0)  # nothing is left to fail when it is closed
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:  # a system without such locks: nothing keeps two processes apart
        pass
    except OSError:
        file.close()
        raise StorageError(f"{folder} is in use by another run; wait for its end") from None
    return file
