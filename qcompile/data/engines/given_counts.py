"""Counts that were made elsewhere: contingency tables of one and the same population."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from qcompile.data.encode.row_counts import LARGEST_TOTAL
from qcompile.data.engines.cover import Names
from qcompile.errors import DataError, did_you_mean
from qcompile.queries.schema import Schema
from qcompile.support.arrays import IntArray, cells, digest


@dataclass(frozen=True, eq=False)
class GivenCounts:
    """Exact tables over some sets of attributes, which agree wherever they overlap.

    Attributes:
      schema: the attributes of the axes.
      arrays: attribute names to int64 counts, one axis per name in that order.
      total: number of rows, the sum of every table.
    """

    schema: Schema
    arrays: Mapping[Names, IntArray]
    total: int

    @classmethod
    def of(cls, data: Mapping[Any, Any], schema: Schema) -> GivenCounts:
        """Check the tables of a user.

        Raises:
          DataError: unknown names, a wrong shape, counts that are not whole numbers from 0 to 2^53, or two tables
            that cannot be of the same rows. The message names tables, never counts.
        """
        tables = {_names(key, schema): _counts(key, value, schema) for key, value in data.items()}
        _require_agreement(schema, tables)
        return cls(schema, tables, int(next(iter(tables.values())).sum()))

    def require(self, views: Iterable[Names]) -> None:
        """Refuse views that `table` would refuse later.

        Raises:
          DataError: no table has all attributes of a view; names the first such view.
        """
        for names in views:
            self._holder(names)

    def table(self, names: Names) -> IntArray:
        """Return the counts over ``names`` in that order, summed from the smallest table that has them all.

        Raises:
          DataError: no table has them all.
        """
        key = self._holder(names)
        return marginal(key, self.arrays[key], names)

    def tables(self, views: Sequence[Names]) -> Iterator[tuple[Names, Callable[[], IntArray]]]:
        """Return all views in their order, each with a function that sums its table.

        Raises:
          DataError: no table has all attributes of a view.
        """
        self.require(views)
        return ((view, partial(self.table, view)) for view in views)

    def _holder(self, names: Names) -> Names:
        holders = [key for key in self.arrays if set(names) <= set(key)]
        if not holders:
            raise DataError(f"no table has the view ({', '.join(names)}); add its counts to the data")
        return min(holders, key=lambda k: cells(self.schema.shape(k)))


def marginal(key: Names, counts: IntArray, names: Names) -> IntArray:
    """Sum a table down to some of its attributes, axes in the order of ``names``."""
    away = tuple(axis for axis, name in enumerate(key) if name not in names)
    kept = [name for name in key if name in names]
    summed = np.asarray(counts.sum(axis=away, dtype=np.int64))
    return np.asarray(summed.transpose([kept.index(name) for name in names]), order="C")


def _title(key: Names) -> str:
    return f"the table ({', '.join(key)})"


def _names(key: object, schema: Schema) -> Names:
    if not isinstance(key, tuple):
        raise DataError(f"counts are keyed by tuples of attribute names, but one key is {key!r}; write ({key!r},)")
    for name in key:
        if name not in schema:
            raise DataError(f"counts for an unknown attribute {name!r}; {did_you_mean(str(name), schema.names)}")
    if len(set(key)) != len(key):
        raise DataError(f"{_title(key)} names an attribute twice")
    return key


def _counts(key: Names, value: object, schema: Schema) -> IntArray:
    """Return one table as int64, checked."""
    try:
        array = np.asarray(value)
    except ValueError:  # nested lists of unequal lengths
        array = np.empty(0, dtype=object)
    if array.dtype == object and array.size and all(type(n) is int for n in array.flat):
        # Python integers, some of them beyond 64 bits: all of those are too large, whatever their size.
        array = np.array([min(max(n, -1), LARGEST_TOTAL + 1) for n in array.flat]).reshape(array.shape)
    if array.dtype.kind not in "iuf":
        raise DataError(f"{_title(key)} must be an array of whole numbers, one axis per attribute")
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        array = array.astype(np.float64)  # 2^53 is beyond the range of half precision
    shape = schema.shape(key)
    if array.shape != shape:
        raise DataError(f"{_title(key)} has shape {array.shape}, but the schema needs {shape}")
    # Written so that NaN fails, too.
    if not ((array >= 0) & (array <= LARGEST_TOTAL) & (array == np.floor(array))).all():
        raise DataError(f"{_title(key)} has a count that is not a whole number from 0 to 2^53")
    whole = array.astype(np.int64)
    # In doubles first, as integers wrap around; then exactly, as 2^53 + 1 is no double.
    if whole.sum(dtype=np.float64) > 2 * LARGEST_TOTAL or int(whole.sum()) > LARGEST_TOTAL:
        raise DataError(f"{_title(key)} counts more than 2^53 rows, which cannot be added up exactly")
    return whole


def _require_agreement(schema: Schema, tables: Mapping[Names, IntArray]) -> None:
    """Refuse tables with different sums over the attributes that they share, or with different totals."""
    # Sets of attributes as bits: with thousands of tables, this must be quick.
    masks = {key: sum(1 << schema.positions[name] for name in key) for key in tables}
    first: dict[int, tuple[Names, str]] = {}
    for key, mask in masks.items():
        for common in sorted({mask & other for other in masks.values()}):
            names = tuple(name for i, name in enumerate(schema.names) if common >> i & 1)
            sums = digest(marginal(key, tables[key], names))
            holder, expected = first.setdefault(common, (key, sums))
            if sums != expected:
                axes = f"over ({', '.join(names)})" if names else "in their totals"
                raise DataError(f"{_title(holder)} and {_title(key)} disagree {axes}: they cannot be of the same rows")
