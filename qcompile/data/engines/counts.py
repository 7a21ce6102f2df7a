"""Exact contingency tables of encoded rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from qcompile.data.engines.add_rows import add_rows
from qcompile.data.engines.cover import Names
from qcompile.data.engines.scans import require_names
from qcompile.queries.schema import Schema
from qcompile.support.arrays import IntArray, cells

MANY_ROWS = 2**23
"""Rows from which a single table is counted by several threads."""


class ExactCounts(Protocol):
    """The exact tables of the data, as mechanisms use them."""

    @property
    def total(self) -> int:
        """Number of rows that count."""

    def table(self, names: Names) -> IntArray:
        """Return the exact counts over ``names``, one axis each in that order; 0-dimensional for no names."""

    def tables(self, views: Sequence[Names]) -> Iterator[tuple[Names, Callable[[], IntArray]]]:
        """Yield each view once, in an order that suits the engine, with a function that returns its table.

        The functions may be called from any thread, several at a time, as long as they are called before many more
        views are taken: the tables of one scan of the rows are held together, see `qcompile.data.engines.cover`.
        """


@dataclass(frozen=True, eq=False)
class Rows:
    """The encoded rows that are counted.

    Attributes:
      schema: the attributes that are encoded.
      codes: attribute name to one code in ``range(size)`` per row, in the smallest unsigned type that fits.
      total: number of rows, the same for every table.
      weights: number of rows that each represents, where cells were counted elsewhere: whole numbers.
      workers: threads that count a single table of many rows.
    """

    schema: Schema
    codes: Mapping[str, npt.NDArray[Any]]
    total: int
    weights: npt.NDArray[np.float64] | None = None
    workers: int = 1

    def table(self, names: Names) -> IntArray:
        """Return the exact counts over ``names``, one axis each in that order; the total, 0-dimensional, for no names.

        Raises:
          IntegrityError: an unknown or repeated name.
          SizeError: the table is too large for the memory.
        """
        require_names(self.schema, names)
        shape = self.schema.shape(names)
        if not names:
            return np.array(self.total, dtype=np.int64)
        counts = np.zeros(cells(shape), dtype=np.int64)
        columns = [self.codes[name] for name in names]
        rows = len(columns[0])
        parts = self.workers if rows >= MANY_ROWS and 8 * len(counts) <= rows else 1
        ends = [rows * i // parts for i in range(parts + 1)]
        # Each thread but the first fills a table of its own, so that none waits for another.
        tables = [counts, *(np.zeros_like(counts) for _ in range(parts - 1))]
        jobs = [
            threading.Thread(target=add_rows, args=(table, columns, shape, self.weights, (start, stop)))
            for table, start, stop in zip(tables[1:], ends[1:-1], ends[2:], strict=True)
        ]
        for job in jobs:
            job.start()
        add_rows(counts, columns, shape, self.weights, (0, ends[1]))
        for job, table in zip(jobs, tables[1:], strict=True):
            job.join()
            counts += table
        return counts.reshape(shape)

    def tables(self, views: Sequence[Names]) -> Iterator[tuple[Names, Callable[[], IntArray]]]:
        """Return all views in their order; the rows are counted by the thread that calls the function.

        Raises:
          IntegrityError: an unknown or repeated name.
          SizeError: a table is too large for the memory.
        """
        for view in views:
            require_names(self.schema, view)
        return ((view, partial(self.table, view)) for view in views)


def holds_counts(data: object) -> TypeGuard[Mapping[Any, Any]]:
    """True if the data are counts that were made elsewhere, not rows."""
    return isinstance(data, Mapping) and any(isinstance(key, tuple) for key in data)
