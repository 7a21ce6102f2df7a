"""A new file that never replaces an older one: the older file is kept under a number.

For releases, which were paid for. The file is created, hidden, before the work begins: errors of the name or the
folder appear before any budget is spent. It gets its name when it is whole. No step overwrites anything, so two runs
to the same name, or one that is killed, lose nothing.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from qcompile.errors import StorageError
from qcompile.support.files import (
    create_hidden,
    finish_file,
    require_place,
    require_short_name,
    shorten,
    sync_folder,
    usual_mode,
)

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
"""Errors of file systems without hard links."""


@dataclass
class Pending:
    """A file that is being written.

    Attributes:
      hidden: where its contents go.
      target: the name that it will have.
      left: whether the hidden file stays because it could not get its name.
    """

    hidden: Path
    target: Path
    left: bool = False

    def publish(self) -> None:
        """Give the finished file its name; a file that has the name is kept as ``name.1``, or the next free number.

        Raises:
          StorageError: the disk refuses; the contents stay in the hidden file, which the message names.
        """
        try:
            finish_file(self.hidden, usual_mode())
            keep_aside(self.target)
            while not _add_name(self.hidden, self.target):
                keep_aside(self.target)
            sync_folder(self.target.parent)
        except OSError as e:
            self.left = True
            raise StorageError(
                f"cannot write {self.target}: {e.strerror or e}; everything is in {self.hidden}: move it"
            ) from None


@contextmanager
def pending(path: str | Path) -> Iterator[Pending]:
    """Yield a file to fill and publish inside the block; it is removed if it is not published.

    Raises:
      StorageError: no such file can be written.
    """
    target = require_place(path)
    require_short_name(target)
    try:
        file = Pending(create_hidden(target), target)
    except OSError as e:
        raise StorageError(f"cannot write {shorten(path)}: {e.strerror or e}") from None
    try:
        yield file
    finally:
        if not file.left:
            file.hidden.unlink(missing_ok=True)


def keep_aside(path: Path) -> Path | None:
    """Rename a file at ``path`` to the first free name of ``path.1``, ``path.2``, ...; None if there is no file.

    Whatever fails in between, nothing is removed that has no other name.
    """
    aside = _add_number(path, path)
    if aside is None:
        return None
    taken = create_hidden(path)
    try:
        os.replace(path, taken)
    except FileNotFoundError:  # another run keeps it, under a number of its own
        if aside.stat().st_nlink > 1:
            aside.unlink()
        aside = None
    else:
        if not taken.samefile(aside):  # another run's file had come in between
            _add_number(taken, path)
    taken.unlink(missing_ok=True)
    return aside


def _add_number(source: Path, path: Path) -> Path | None:
    for number in itertools.count(1):
        aside = path.with_name(f"{path.name}.{number}")
        try:
            if _add_name(source, aside):
                return aside
        except FileNotFoundError:
            return None
    raise AssertionError


def _add_name(source: Path, name: Path) -> bool:
    """Add a name to a file; False if the name is taken."""
    try:
        os.link(source, name)
    except FileExistsError:
        return False
    except OSError as e:
        if e.errno not in _NO_LINKS:
            raise
        if name.exists():
            return False
        os.rename(source, name)  # the best that such a disk can do
    return True
