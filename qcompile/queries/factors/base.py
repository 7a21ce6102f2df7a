"""The interface of factors: a set of query vectors on a few attributes, implicit where it has structure.

Notation (mathematics of the compiler): a factor on attributes T is a matrix W, one row per query, one column
per cell of the product of T's domains. Nothing here ever needs W itself, only what it does to arrays.

A factor's projection on a subset A of T contracts the axes in T minus A with the centring weights u and
subtracts the u-weighted mean on the axes in A (QuerySmasher, arXiv 2604.00868, section 6.2, for uniform u).
"""

from __future__ import annotations

import abc
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from typing import ClassVar, TypeAlias

import numpy as np

from qcompile.errors import IntegrityError
from qcompile.queries.schema import Attribute
from qcompile.support.arrays import Array, IntArray, cells, require_memory

Key: TypeAlias = tuple[Hashable, ...]

CHUNK = 2**24
"""Numbers that a temporary array may hold (128 MB) before work is done in pieces."""

ROWS = 2**20
"""Numbers in a piece of a square matrix that is worked on in place (8 MB): it stays in the processor's cache."""

COPIES = 2
"""Square matrices of one attribute that exist at once: its Gram is made, centred and examined in place, and another
factor's Gram, or a strategy, stands beside it."""

ANSWERS = 5
"""Arrays as large as its result that an interval factor holds while it is applied: ends, differences, the result."""


GRAM_REMEDY = "use bins, a few thousand at most, or raise the limit (--max-memory, max_memory=...)"


class Factor(abc.ABC):
    """A set of queries on one or a few attributes.

    Attributes:
      attributes: the axes, in the factor's own order; arrays given to its methods follow it.
    """

    attributes: tuple[Attribute, ...]
    kind: ClassVar[str]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The attribute names, in the factor's order."""
        return tuple(a.name for a in self.attributes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The attribute sizes, in the factor's order."""
        return tuple(a.size for a in self.attributes)

    @property
    @abc.abstractmethod
    def count(self) -> int:
        """Number of queries, known before anything is built."""

    @property
    @abc.abstractmethod
    def key(self) -> Key:
        """The identity of the factor's numbers; attribute names are not part of it."""

    @property
    def axis_order(self) -> tuple[int, ...]:
        """The order of axes in which `key` and `roles` are stated."""
        return tuple(range(len(self.attributes)))

    @property
    def roles(self) -> tuple[Hashable, ...]:
        """One value per axis, in `axis_order`; axes with equal role and size may be exchanged freely."""
        return self.axis_order

    @property
    def magnitude(self) -> float:
        """The largest absolute entry of W, the scale against which rounding errors are judged."""
        return 1.0

    @property
    def column(self) -> str:
        """The label column of this factor in a table of answers."""
        return self.names[0]

    @abc.abstractmethod
    def labels(self, start: int = 0, stop: int | None = None) -> list[str]:
        """The texts of the queries ``start..stop-1``, in query order."""

    @abc.abstractmethod
    def apply(self, x: Array) -> Array:
        """Answers ``W x``: ``(*shape, *batch)`` to ``(count, *batch)``."""

    @abc.abstractmethod
    def adjoint(self, y: Array) -> Array:
        """``W' y``: ``(count, *batch)`` to ``(*shape, *batch)``."""

    @abc.abstractmethod
    def contract(self, weights: Sequence[Array | None]) -> Array:
        """The queries with some axes summed out: ``(count, *kept shape)``.

        Args:
          weights: per axis, None to keep it or a vector of its size to contract it with.
        """

    def gram(self) -> Array:
        """``W' W``, shape ``(cells, cells)``, in closed form where there is one."""
        flat = self.contract([None] * len(self.shape)).reshape(self.count, cells(self.shape))
        return flat.T @ flat

    def quadratic(self, root: Array) -> Array:
        """``q' M q`` for every query q, where ``M = root root'``.

        Args:
          root: shape ``(*shape, r)``.

        Returns:
          Shape ``(count,)``.
        """
        rank = root.shape[-1]
        step = max(1, CHUNK // max(1, self.count))
        total = np.zeros(self.count)
        for start in range(0, rank, step):
            answers = self.apply(root[..., start : start + step])
            total += np.einsum("ij,ij->i", answers, answers)
        return total

    @property
    def _identity(self) -> tuple[object, ...]:
        """`key` speaks of axes in `axis_order`: 2 a + b and a + 2 b have the same key, and are not equal."""
        return self.kind, self.attributes, self.axis_order, self.key

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Factor):
            return NotImplemented
        return self._identity == other._identity

    def __hash__(self) -> int:
        return hash((self.kind, self.names, self.axis_order, self.key))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.names)}; {self.count} queries)"


class OneAttribute(Factor):
    """A factor on a single attribute, each of whose queries is a set of cells: one cell, several, or all.

    Its projections follow from the n by n Gram alone.
    """

    def __init__(self, attribute: Attribute) -> None:
        self.attributes = (attribute,)

    @property
    def attribute(self) -> Attribute:
        """The only attribute."""
        return self.attributes[0]

    @property
    def size(self) -> int:
        """The attribute's number of cells."""
        return self.attributes[0].size

    @property
    def contiguous(self) -> bool:
        """Whether every query is an interval of the attribute's cells, or one of the circle of them."""
        return True

    @property
    def key(self) -> Key:
        """Kind and size say everything."""
        return (self.kind, self.size)

    @property
    def exchangeable_gram(self) -> tuple[float, float] | None:
        """``(d, e)`` where ``W' W = d I + e 11'``: such a Gram is never written out; None for other factors."""
        return None

    def contract(self, weights: Sequence[Array | None]) -> Array:
        """The full query matrix, or its product with the weights; see `Factor.contract`."""
        (w,) = weights
        what = f"the query matrix of {self!r}" if w is None else f"the projection of {self!r}"
        require_memory(what, ANSWERS * self.count * (self.size if w is None else 1), "use bins")
        return self.apply(np.eye(self.size) if w is None else w)

    @abc.abstractmethod
    def lengths(self) -> IntArray:
        """The number of cells of each query, shape ``(count,)``, in query order."""

    @abc.abstractmethod
    def length_counts(self) -> IntArray:
        """The number of queries of each length 1..n, shape ``(size,)``; never as large as `lengths`."""

    def gram_times(self, x: Array) -> Array:
        """``W' W x`` for a vector of the attribute's size, without the Gram."""
        return self.adjoint(self.apply(x))

    def gram(self) -> Array:
        """``W' W`` in closed form, a new array; refused before it is made where it is too large. See `Factor.gram`."""
        self.require_gram()
        return self._gram()

    def require_gram(self) -> None:
        """Refuse a Gram that is too large, before any array is made.

        Raises:
          SizeError: it does not fit in memory.
        """
        what = f"the Gram matrix of {self.kind}({self.attribute.name}) on {self.size:,} values"
        require_memory(what, COPIES * self.size**2, GRAM_REMEDY)

    @abc.abstractmethod
    def _gram(self) -> Array:
        """The closed form, made without a second matrix of its size."""


def row_blocks(n: int) -> Iterator[slice]:
    """The rows of an n by n matrix in pieces of at most `ROWS` numbers."""
    step = max(1, ROWS // n)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


class Dense(Factor):
    """A factor without structure: its query matrix is held as it is."""

    def __init__(self, attributes: Sequence[Attribute], matrix: Array) -> None:
        self.attributes = tuple(attributes)
        size = cells(self.shape)
        if matrix.size != matrix.shape[0] * size:
            raise IntegrityError(f"{self.kind}({', '.join(self.names)}) needs {size} columns, got shape {matrix.shape}")
        self._matrix = matrix.reshape(-1, *self.shape)

    @property
    def count(self) -> int:
        """Rows of the matrix."""
        return int(self._matrix.shape[0])

    def apply(self, x: Array) -> Array:
        """A plain matrix product; see `Factor.apply`."""
        return np.tensordot(self._matrix, x, axes=len(self.shape))

    def adjoint(self, y: Array) -> Array:
        """A plain matrix product; see `Factor.adjoint`."""
        return np.tensordot(self._matrix, y, axes=(0, 0))

    def contract(self, weights: Sequence[Array | None]) -> Array:
        """Contract axis after axis; see `Factor.contract`."""
        result: Array = self._matrix
        for axis in reversed(range(len(self.shape))):
            w = weights[axis]
            if w is not None:
                result = np.tensordot(result, w, axes=(axis + 1, 0))
        return result
