"""Exact tables from an engine that counts several of them in one scan of the rows, and holds no rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from qcompile.data.engines.cover import Names, Union, group_scans, plan_unions
from qcompile.data.engines.given_counts import marginal
from qcompile.errors import IntegrityError
from qcompile.queries.schema import Schema
from qcompile.support.arrays import IntArray, cells, require_memory

Count = Callable[[Sequence[Names]], dict[Names, IntArray]]
"""One scan: from sets of attributes in schema order to their tables."""


Scan = list[Union]
"""The unions that are counted in one scan."""


class Scans:
    """`ExactCounts` by scans. The tables of the last scan are kept until another is needed.

    Attributes:
      schema: the attributes of the axes.
      total: number of rows that count.
    """

    def __init__(
        self, schema: Schema, total: int, planned: Sequence[Scan], count: Count, held: Mapping[Names, IntArray]
    ) -> None:
        """Args: ``planned`` are the scans that are expected; ``held`` are tables that are counted already."""
        self.schema, self.total = schema, total
        self._planned = planned
        self._expected = sorted(view for scan in planned for union in scan for view in union.views)
        self._count = count
        self._held = dict(held)
        self._lock = threading.Lock()

    def table(self, names: Names) -> IntArray:
        """Return the exact counts over ``names``, one axis each in that order; 0-dimensional for no names.

        Raises:
          IntegrityError: an unknown or repeated name.
          SizeError: the table is too large for the memory.
          DataError: the engine failed.
        """
        key = require_names(self.schema, names)
        with self._lock:
            holder = _holder(self._held, key)
            if holder is None:
                planned = (scan for scan in self._planned if _holder([u.names for u in scan], key) is not None)
                self._scan(next(planned, [Union(key, (names,))]))
                holder = _holder(self._held, key)
            if holder is None:
                raise IntegrityError(f"the scan did not count {', '.join(names)}")
            return marginal(holder, self._held[holder], names)

    def tables(self, views: Sequence[Names]) -> Iterator[tuple[Names, Callable[[], IntArray]]]:
        """Yield all views once, those of one scan in a row; the functions may be called from any thread.

        Raises:
          IntegrityError: an unknown or repeated name.
          SizeError: a table is too large for the memory.
          DataError: the engine failed.
        """
        for view in views:
            require_names(self.schema, view)
        for scan in self._planned if sorted(views) == self._expected else plan_scans(self.schema, views):
            with self._lock:
                if any(union.names not in self._held for union in scan):
                    self._scan(scan)
                held = {union.names: self._held[union.names] for union in scan}
            for union in scan:
                table = held.pop(union.names)
                for view in union.views:
                    yield view, partial(marginal, union.names, table, view)

    def _scan(self, scan: Sequence[Union]) -> None:
        self._held = {}  # first, so that the tables of two scans are never held here at once
        self._held = self._count([union.names for union in scan])


def plan_scans(schema: Schema, views: Sequence[Names]) -> list[Scan]:
    """Return the scans that serve all views."""
    return list(group_scans(schema, plan_unions(schema, views)))


def require_names(schema: Schema, names: Names) -> Names:
    """Return the names in schema order.

    Raises:
      IntegrityError: an unknown or repeated name.
      SizeError: their table is too large for the memory.
    """
    size = cells(schema.shape(names))
    if len(set(names)) != len(names):
        raise IntegrityError(f"a table needs distinct attributes, got {', '.join(names)}")
    require_memory(f"the table of {', '.join(names)}", size, "use fewer attributes or coarser bins")
    return schema.order(names)


def _holder(tables: Mapping[Names, IntArray] | Sequence[Names], key: Names) -> Names | None:
    return next((names for names in tables if set(key) <= set(names)), None)
