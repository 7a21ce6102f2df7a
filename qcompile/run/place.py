"""The place of a release: claimed before the charge, published after the last measurement."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from qcompile.errors import StorageError
from qcompile.plan.document import PlanDocument
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.release.files import KIND, fill, load_release, written
from qcompile.release.release import Release
from qcompile.run.journal import Journal
from qcompile.run.mechanisms import Progress
from qcompile.run.options import RunOptions
from qcompile.run.unfinished import require_none, require_one, unfinished
from qcompile.support import archive
from qcompile.support.files import require_place, require_short_name
from qcompile.support.numbered_backup import Pending
from qcompile.support.options import require_other


@dataclass(frozen=True)
class Place:
    """The place of a release.

    Attributes:
      journal: keeps the measurements on disk; None without an output.
      file: the release in the making; None without an output.
    """

    journal: Journal | None = None
    file: Pending | None = None

    @property
    def is_paid(self) -> bool:
        """True for a resumed run whose charge is noted."""
        return self.journal is not None and self.journal.charged is not None


def require_output(options: RunOptions) -> None:
    """Refuse an output that cannot be written, an unfinished run to it, or none to resume.

    Raises:
      StorageError: with the reason and a next step.
    """
    if options.output is None:
        return
    require_short_name(require_place(options.output))
    (require_one if options.resume else require_none)(options.output)


def require_apart(output: str | Path | None, inputs: Sequence[Path], ledger: Ledger | None) -> None:
    """Refuse to write a release over a file that the run reads.

    Raises:
      OptionError: the output is one of the data's files, the ledger, or a file that SQLite takes for the ledger's own.
    """
    if output is None:
        return
    for path in inputs:
        require_other(output, path)
    if ledger is not None:
        for end in ("", "-journal", "-wal", "-shm"):
            require_other(output, ledger.path.with_name(ledger.path.name + end))
            require_other(output, ledger.path.resolve().with_name(ledger.path.resolve().name + end))


@contextmanager
def claim(options: RunOptions, terms: Mapping[str, Any], check: Callable[[Journal], object]) -> Iterator[Place]:
    """Make the place of a release, before anything is spent.

    Args:
      options: say where, and whether a run is resumed.
      terms: of the run, as plain data; those of a resumed run must be the same.
      check: of the measurements of a resumed run, see `unfinished`.

    Raises:
      StorageError: it cannot be written, or (see `unfinished`) not begun or not resumed.
    """
    if options.output is None:
        yield Place()
        return
    with unfinished(options.output, terms, check, resume=options.resume) as journal:
        yield Place(journal, journal.pending())


def finished_release(journal: Journal | None, ledger: Ledger | None) -> Release | None:
    """The release of a run that was killed after its last step but tidying up; None of any other.

    Raises:
      StorageError: the ledger names another release than there is.
    """
    if journal is None or ledger is None or journal.charged is None:
        return None
    content = ledger.entry(journal.charged, journal.run).content
    if content is None:
        return None
    if not _is_published(journal.target, content):
        raise StorageError(
            f"{journal.target} is not the release that the run in {journal.folder} has written; look for it under "
            f"{journal.target.name}.1 and so on, and delete the folder"
        )
    journal.remove()
    return load_release(journal.target)


def publish(
    release: Release, plan: PlanDocument, place: Place, ledger: Ledger | None, entry: int | None, progress: Progress
) -> Release:
    """Write the release, give the file its name, and note it in the ledger.

    Args:
      release: complete.
      plan: its plan, serialised.
      place: of the release; without a file nothing is written.
      ledger: the account that was charged.
      entry: number of the charge.
      progress: called before every part.

    Returns:
      The release; where there is a file, its measurements are read from there.

    Raises:
      StorageError: the file cannot be written.
    """
    file, journal = place.file, place.journal
    if file is None or journal is None:
        return release
    content = fill(file.hidden, release, plan, partial(progress, "writing"))
    if not _is_published(file.target, content):
        file.publish()
    _note(ledger, entry, file.target, content)
    journal.remove()
    return written(file.target, release)


def _note(ledger: Ledger | None, entry: int | None, target: Path, content: str) -> None:
    """Note in the ledger which file a charge paid for; a failure is a warning, as the release is there."""
    if ledger is None or entry is None:
        return
    try:
        ledger.record(entry, target.name, content)
    except StorageError as e:
        warnings.warn(f"{target} is written and paid for, but the ledger could not be updated: {e}", stacklevel=5)


def _is_published(target: Path, content: str) -> bool:
    """Whether an interrupted run had given its release the name already."""
    return target.exists() and archive.kind_of(target) == KIND and archive.stated_hash(target, KIND) == content


def real_path(path: str | Path | None) -> str | None:
    """The path without links, by which a resumed run recognises its files."""
    return None if path is None else os.path.realpath(path)
