"""A new file that never takes the place of an older one: what stood there before is kept under a number.

For releases, which were paid for. The file is made, hidden, before the work begins: what can go wrong with the name or
the folder does so before anything is spent. It gets its name when it is whole. No step overwrites anything, so two runs
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
    finished,
    new_hidden,
    require_place,
    require_short_name,
    shortened,
    sync_folder,
    usual_mode,
)

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
"""How file systems refuse that know no second names."""


@dataclass
class Pending:
    """A file in the making.

    Attributes:
      hidden: where its contents go.
      target: the name that it will have.
      left: whether the hidden file stays because it could not get its name.
    """

    hidden: Path
    target: Path
    left: bool = False

    def publish(self) -> None:
        """Give the finished file its name; what has the name is kept as ``name.1``, or the next number that is free.

        Raises:
          StorageError: the disk refuses; the contents stay in the hidden file, which the message names.
        """
        try:
            finished(self.hidden, usual_mode())
            keep_aside(self.target)
            while not _named(self.hidden, self.target):
                keep_aside(self.target)
            sync_folder(self.target.parent)
        except OSError as e:
            self.left = True
            raise StorageError(
                f"cannot write {self.target}: {e.strerror or e}; everything is in {self.hidden}: move it"
            ) from None


@contextmanager
def pending(path: str | Path) -> Iterator[Pending]:
    """A file to be filled and published inside the block; without that nothing is left of it.

    Raises:
      StorageError: no such file can be written.
    """
    target = require_place(path)
    require_short_name(target)
    try:
        file = Pending(new_hidden(target), target)
    except OSError as e:
        raise StorageError(f"cannot write {shortened(path)}: {e.strerror or e}") from None
    try:
        yield file
    finally:
        if not file.left:
            file.hidden.unlink(missing_ok=True)


def keep_aside(path: Path) -> Path | None:
    """Give what stands at ``path`` the first free of ``path.1``, ``path.2``, ... instead; None where nothing does.

    Whatever fails in between, nothing is removed that has no other name.
    """
    aside = _numbered(path, path)
    if aside is None:
        return None
    taken = new_hidden(path)
    try:
        os.replace(path, taken)
    except FileNotFoundError:  # another run keeps it, under a number of its own
        if aside.stat().st_nlink > 1:
            aside.unlink()
        aside = None
    else:
        if not taken.samefile(aside):  # another run's file had come in between
            _numbered(taken, path)
    taken.unlink(missing_ok=True)
    return aside


def _numbered(source: Path, path: Path) -> Path | None:
    for number in itertools.count(1):
        aside = path.with_name(f"{path.name}.{number}")
        try:
            if _named(source, aside):
                return aside
        except FileNotFoundError:
            return None
    raise AssertionError


def _named(source: Path, name: Path) -> bool:
    """Give a file one more name; False where the name is taken."""
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
