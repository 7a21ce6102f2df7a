"""Passes over the encoded rows of a table, with less at a time where the engine runs out of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy.typing as npt

from qcompile.data.sources.engine_errors import ExhaustedError

T = TypeVar("T")

Batch: TypeAlias = list[npt.NDArray[Any]]
"""The columns of some rows."""

MOST_PARTS = 256
"""Parts of a table at most, each read by itself: DuckDB then takes a 256th of the memory for the ids of units."""

GROWTH = 4
"""Factor by which the number of parts grows."""


@dataclass
class Passes:
    """Passes over all rows, each from the start.

    The number of parts decides memory and time only: so no error tells how many rows there are.

    Attributes:
      batches: from a number of parts to all batches, one part after the other.
      most: parts at most; 1 where the rows cannot be divided.
      parts: of the next pass; those of the last one sufficed.
    """

    batches: Callable[[int], Iterator[Batch]]
    most: int = 1
    parts: int = 1

    def make(self, work: Callable[[Iterator[Batch]], T]) -> T:
        """Return the result of work on all batches.

        Where the engine runs out of memory, the work starts anew with more parts.

        Args:
          work: takes all batches; what it holds of an earlier attempt is no part of its result.

        Raises:
          SizeError: the smallest parts are too large.
        """
        while True:
            try:
                return work(self.batches(self.parts))
            except ExhaustedError:
                if self.parts >= self.most:
                    raise
            self.parts = min(GROWTH * self.parts, self.most)
