"""Tables of answers, made in batches of bounded size that share their labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from qcompile.queries.factors import Factor
from qcompile.queries.workload import Product
from qcompile.release.answers.intervals import Width
from qcompile.release.answers.selection import SelectedAnswers
from qcompile.support.arrays import Array

if TYPE_CHECKING:
    import pyarrow as pa

RESERVED = ("estimate", "std_error", "lower", "upper")

ROWS = 2**18
"""Rows of a batch, at most: some tens of megabytes."""

FIRST = 2**10
"""Rows of the first batch where products are small: who wants to see the first answers need not wait for more."""

Answers: TypeAlias = tuple[Product, Array, Array | None]
"""A product with its answers and their variances, each of shape ``product.shape``; no variances where none hold."""


class Layout:
    """The columns of a table: labels as text from one dictionary each, then estimate, std_error, lower and upper.

    Args:
      selection: what is in the table.
      width: of the intervals, named in the metadata as ``interval``; None where none hold.
      made: how the estimates were made, in the metadata as ``estimate``.

    Attributes:
      schema: Arrow's, with the metadata.
    """

    def __init__(self, selection: SelectedAnswers, width: Width | None, made: str) -> None:
        import pyarrow as pa

        self._width = width
        # By a factor's id, where its labels begin in its column's dictionary; holds the factor alive.
        self._offsets = dict[int, tuple[Factor, int]]()
        self._dictionaries: dict[str, Any] = {}
        for column in selection.columns:
            self._dictionaries[column] = self._dictionary([f for f in selection.factors if f.column == column])
        labels = [(label_column(c), pa.dictionary(pa.int32(), pa.string())) for c in self._dictionaries]
        interval = "none: best estimates are biased" if width is None else width.method
        metadata = {"family": selection.family.name, "estimate": made, "interval": interval}
        self.schema = pa.schema([*labels, *((name, pa.float64()) for name in RESERVED)], metadata=metadata)

    def _dictionary(self, factors: Sequence[Factor]) -> Any:
        import pyarrow as pa

        texts = list[str]()
        for f in factors:
            self._offsets[id(f)] = f, len(texts)
            texts += f.labels()
        return pa.array(texts, pa.string())

    def reader(self, rows: Iterable[Answers]) -> pa.RecordBatchReader:
        """The rows as Arrow reads them, batch by batch: each is made when it is asked for."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self._batches(rows))

    def _batches(self, rows: Iterable[Answers]) -> Iterator[Any]:
        """The rows in batches of at most `ROWS`, in query order; small products share one, and the first come early."""
        waiting, held, enough = list[Any](), 0, FIRST
        for batch in self._pieces(rows):
            if waiting and held + batch.num_rows > enough:
                yield _joined(waiting)
                waiting, held, enough = [], 0, min(2 * enough, ROWS)
            waiting.append(batch)
            held += batch.num_rows
        if waiting:
            yield _joined(waiting)

    def _pieces(self, rows: Iterable[Answers]) -> Iterator[Any]:
        """At most `ROWS` rows of one product at a time."""
        for product, estimates, variances in rows:
            flat = estimates.reshape(-1)
            spread = None if variances is None else variances.reshape(-1)
            for start in range(0, flat.size, ROWS):
                some = slice(start, min(start + ROWS, flat.size))
                yield self._batch(product, some, flat[some], None if spread is None else spread[some])

    def _batch(self, product: Product, rows: slice, estimates: Array, variances: Array | None) -> Any:
        import pyarrow as pa

        labels = self._labels(product, rows)
        absent = _nulls(estimates.size)
        columns = [
            pa.DictionaryArray.from_arrays(labels.get(column, absent), dictionary)
            for column, dictionary in self._dictionaries.items()
        ]
        return pa.RecordBatch.from_arrays([*columns, *self._numbers(estimates, variances)], schema=self.schema)

    def _labels(self, product: Product, rows: slice) -> dict[str, Any]:
        """Per column of a product the places of its rows' labels in the dictionary."""
        import pyarrow as pa

        found = {}
        for axis, f in enumerate(product.factors):
            places, (_, offset) = _places(product.shape, axis, rows.start, rows.stop), self._offsets[id(f)]
            found[f.column] = pa.array(places + np.int32(offset) if offset else places)
        return found

    def _numbers(self, estimates: Array, variances: Array | None) -> list[Any]:
        """The columns of `RESERVED`; null where a query is not estimable or no standard error holds."""
        import pyarrow as pa

        if variances is None or self._width is None:
            return [pa.array(estimates), *[pa.nulls(estimates.size, pa.float64())] * 3]
        error = np.sqrt(variances)
        half, unknown = self._width.quantile * error, np.isinf(error)
        columns = (estimates, error, estimates - half, estimates + half)
        return [pa.array(values, mask=unknown if unknown.any() else None) for values in columns]


def cells_table(attributes: Sequence[str], labels: Sequence[Sequence[str]], array: Array, std_error: Array) -> pa.Table:
    """The cells of a marginal as rows, in C order.

    Args:
      attributes: the axes, which are the label columns.
      labels: per axis, those of its cells.
      array: the estimates.
      std_error: of each; NaN, and null in the table, where none holds.
    """
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for axis, (name, texts) in enumerate(zip(attributes, labels, strict=True)):
        places = pa.array(_along(array.shape, axis, 0, array.size))
        columns[label_column(name)] = pa.DictionaryArray.from_arrays(places, pa.array(texts, pa.string()))
    error = std_error.reshape(-1)
    columns |= {"estimate": array.reshape(-1), "std_error": pa.array(error, mask=np.isnan(error))}
    return pa.table(columns)


def label_column(column: str) -> str:
    """The name of a label column; attributes with the name of a result column get a suffix."""
    return f"{column} (label)" if column in RESERVED else column


def _joined(batches: Sequence[Any]) -> Any:
    import pyarrow as pa

    if len(batches) == 1:
        return batches[0]
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def _along(shape: tuple[int, ...], axis: int, start: int, stop: int) -> Any:
    """Positions along an axis of the entries ``start..stop-1`` of an array in C order."""
    steps = np.arange(start, stop) // math.prod(shape[axis + 1 :])
    return (steps % shape[axis]).astype(np.int32)


_places = lru_cache(maxsize=32)(_along)
"""The same for the batches of all products of a shape."""


@lru_cache(maxsize=4)
def _nulls(count: int) -> Any:
    import pyarrow as pa

    return pa.nulls(count, pa.int32())
