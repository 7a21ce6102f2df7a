"""Some queries of a factor, named by their labels, as a factor of their own.

Whatever is computed from a product then costs what the chosen queries cost, not what the whole factor would.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from functools import cached_property

import numpy as np

from qcompile.errors import OptionError, did_you_mean
from qcompile.queries.factors import Factor
from qcompile.queries.factors.base import CHUNK, Dense, Key, OneAttribute
from qcompile.queries.schema import CategoryDomain
from qcompile.support.arrays import Array, IntArray, cells, digest, require_memory


class Chosen(Dense):
    """The queries of a factor at some places, held as rows of its matrix.

    Args:
      factor: the queries to choose from.
      places: which, ascending.
      labels: the labels of these.
    """

    kind = "chosen"

    def __init__(self, factor: Factor, places: IntArray, labels: Sequence[str]) -> None:
        super().__init__(factor.attributes, rows_of(factor, places))
        self._column, self._labels, self._magnitude = factor.column, list(labels), factor.magnitude

    @cached_property
    def key(self) -> Key:
        """Shape and contents."""
        return (self.kind, self.shape, digest(self._matrix))

    @property
    def magnitude(self) -> float:
        """The magnitude of the whole factor, so that rounding errors are compared with the same scale."""
        return self._magnitude

    @property
    def column(self) -> str:
        """The column of the whole factor."""
        return self._column

    def labels(self, start: int = 0, stop: int | None = None) -> list[str]:
        """The labels of the chosen queries."""
        return self._labels[start:stop]


def with_labels(column: str, factors: Sequence[Factor], wanted: Collection[str]) -> list[Factor | None]:
    """The queries of some factors whose label is one of those wanted, in query order.

    Args:
      column: the label column, for messages.
      factors: those with this column.
      wanted: the labels.

    Returns:
      Per factor: itself where all its labels are wanted, None where none is.

    Raises:
      OptionError: none of the factors has a label; with a suggestion.
    """
    labels = [f.labels() for f in factors]
    known = dict.fromkeys(itertools.chain.from_iterable(labels))
    for label in wanted:
        if label not in known:
            hint = "; ".join([*_outside(factors), did_you_mean(label, known)])
            raise OptionError(f"no row has the label {label!r} in column {column!r}; {hint}")
    return [_chosen(f, texts, wanted) for f, texts in zip(factors, labels, strict=True)]


def _outside(factors: Sequence[Factor]) -> list[str]:
    """Where the values outside of a column of numbers are counted."""
    factor = factors[0]
    if not isinstance(factor, OneAttribute) or isinstance(factor.attribute.domain, CategoryDomain):
        return []
    return [factor.attribute.outside_text()]


def _chosen(factor: Factor, labels: Sequence[str], wanted: Collection[str]) -> Factor | None:
    places = [i for i, label in enumerate(labels) if label in wanted]
    if len(places) == len(labels):
        return factor
    return Chosen(factor, np.array(places, dtype=np.int64), [labels[i] for i in places]) if places else None


def rows_of(factor: Factor, places: IntArray) -> Array:
    """Some rows of a factor's matrix, ``(len(places), *shape)``, made without the others.

    Raises:
      SizeError: they do not fit into memory.
    """
    n, k = cells(factor.shape), len(places)
    require_memory(f"a choice of {k:,} queries of {factor!r}", k * n, "choose fewer labels at a time")
    rows = np.empty((k, n))
    # Row by row from unit vectors of queries, or column by column from unit vectors of cells: whichever are fewer.
    size = min(k, n)
    step = max(1, CHUNK // max(factor.count, n))
    for start in range(0, size, step):
        some = np.arange(start, min(start + step, size))
        if k <= n:
            rows[some] = factor.adjoint(_units(factor.count, places[some])).reshape(n, -1).T
        else:
            rows[:, some] = factor.apply(_units(n, some).reshape(*factor.shape, -1))[places]
    return rows


def _units(size: int, places: IntArray) -> Array:
    """Unit vectors as columns, ``(size, len(places))``."""
    found = np.zeros((size, len(places)))
    found[places, np.arange(len(places))] = 1
    return found
