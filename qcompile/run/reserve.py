"""Space on disk for the files of a run, taken before the charge: a full disk must not cost the budget.

How much depends on plan and options alone. The space is held by a file beside the release in the making; it is given
back in two steps, when the measurements are drawn and when the release is written, to the files that need it then. On
disks that compress or copy on write, and against other programs that write at that very moment, it is no guarantee.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from qcompile.errors import StorageError
from qcompile.plan.basis import basis_strategies
from qcompile.plan.document import PlanDocument
from qcompile.plan.plan import Plan
from qcompile.run.options import RunOptions
from qcompile.support.arrays import bytes_text
from qcompile.support.files import shorten
from qcompile.support.numbered_backup import Pending

NUMBER = 8
"""Bytes of a measurement at most; whole numbers usually take two or four."""

RECORD = 512
"""Bytes that a node or class takes at most in the records of journal and release."""

OVERHEAD = 2**16
"""Bytes of headers, terms and folders."""

BLOCK = 2**20
"""Zeros that are written at a time where the system cannot reserve space."""


@dataclass(frozen=True)
class Space:
    """Bytes that the files of a run take at most.

    Attributes:
      measurements: of the folder of the unfinished run.
      release: of the release.
    """

    measurements: int
    release: int

    @property
    def total(self) -> int:
        """Both, which are on disk at once."""
        return self.measurements + self.release


def required_space(plan: Plan, document: PlanDocument, options: RunOptions) -> Space:
    """Return the space that a run takes at most.

    Of an adaptive run, as if it measured every node once: it may measure a node more than once, but rarely most of
    them.

    Args:
      plan: what is measured.
      document: the plan, serialised.
      options: of the run.

    Raises:
      OptionError: the plan cannot be measured in the basis of the options.
    """
    rows = [strategy.rows for strategy in basis_strategies(plan, options.basis)]
    members = plan.closure.members.tolist()
    numbers = NUMBER * sum(m * n for m, n in zip(members, rows, strict=True))
    records = RECORD * (sum(members) + len(rows)) + OVERHEAD
    stored = len(json.dumps({"plan": dict(document.data)}, indent=1)) + sum(a.nbytes for a in document.arrays.values())
    return Space(numbers + records, numbers + records + stored)


@dataclass(frozen=True)
class Reservation:
    """Space that is held.

    Attributes:
      space: how much of it.
      path: of the file that holds it; None where there is nothing to hold.
    """

    space: Space
    path: Path | None = None

    def free_measurements(self) -> None:
        """Give back the space of the measurements, to their files and to the notes of the charge.

        Raises:
          StorageError: the file that holds it cannot be made smaller.
        """
        self._shrink(self.space.release)

    def free_release(self) -> None:
        """Give back all space, to the release; errors as of `free_measurements`."""
        self._shrink(0)

    def _shrink(self, size: int) -> None:
        if self.path is None:
            return
        try:
            os.truncate(self.path, size)
        except OSError as e:
            raise StorageError(f"cannot give back the space of {shorten(self.path)}: {e.strerror or e}") from None


@contextmanager
def reserve(file: Pending | None, space: Space, *, paid: bool = False) -> Iterator[Reservation]:
    """Hold space until the block ends.

    Args:
      file: the release in the making, beside which the space is held; without one, none is.
      space: how much.
      paid: True if the run is charged already: then no refusal saves anything, and no space is held.

    Raises:
      StorageError: the disk has not as much.
    """
    if file is None:
        yield Reservation(space)
        return
    path = file.hidden.with_name(f"{file.hidden.name}.space")
    path.unlink(missing_ok=True)  # of a run that was killed
    if paid:
        yield Reservation(space)
        return
    try:
        _allocate(path, space.total)
        yield Reservation(space, path)
    finally:
        path.unlink(missing_ok=True)


def _allocate(path: Path, size: int) -> None:
    try:
        with path.open("wb", buffering=0) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                _write_zeros(file.fileno(), size)
            os.fsync(file.fileno())
    except OSError as e:
        raise StorageError(
            f"the release and its measurements need up to {bytes_text(size)} on disk, in {shorten(path.parent)}: "
            f"{e.strerror or e}; nothing is charged: free some space, or write to another disk"
        ) from None


def _write_zeros(handle: int, size: int) -> None:
    zeros = bytes(BLOCK)
    left = size
    while left > 0:
        left -= os.write(handle, zeros[:left])
