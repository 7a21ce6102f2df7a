"""Mixtures: structured strategies stacked, one of full rank and others of low rank beside it.

B = [B_0; B_1; ...], so that V = V_0 + C' C with C = [B_1; ...] of r rows. The rows of C lie in the row space of B_0, on
which, with W = V_0^+ (a Kronecker product or a circulant) and U = C W C', the Woodbury identity gives

    V^+ = W - W C' (I + U)^-1 C W.

Nothing is ever as large as the square of the number of cells.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np

from qcompile.errors import IntegrityError
from qcompile.lattice.lattice import Group
from qcompile.queries.factors.base import CHUNK
from qcompile.strategy import differing_axes
from qcompile.strategy import pair_distance as pairs
from qcompile.strategy.base import Block, ExactEntries, Strategy
from qcompile.strategy.differing_axes import Distances, certain_distances, is_simple, same_distance, sums
from qcompile.strategy.fourier import FourierStrategy
from qcompile.strategy.kronecker import KroneckerStrategy
from qcompile.support.arrays import Array, IntArray, cells, require_memory

Plain: TypeAlias = KroneckerStrategy | FourierStrategy
"""A term of a mixture."""

SEARCHED = 2**14
"""Cells up to which all pairs of columns are compared: seconds."""

SPAN_TOLERANCE = 1e-7
"""Relative distance of the low-rank rows from the row space of the first term; rounding leaves 1e-10 of it."""


class MixtureStrategy(Strategy):
    """B is a stack of Kronecker products or circulants; rows in the order of the terms.

    Attributes:
      terms: the first spans the rows of all others; the weights of the mixture are part of the matrices.
    """

    def __init__(self, terms: Sequence[Plain]) -> None:
        self.terms = tuple(terms)
        if len(self.terms) < 2 or len({t.shape for t in self.terms}) != 1:
            shapes = [t.shape for t in self.terms]
            raise IntegrityError(f"a mixture needs at least two strategies on the same axes, got shapes {shapes}")
        self.shape = self.terms[0].shape

    @property
    def base(self) -> Plain:
        """The term of full rank."""
        return self.terms[0]

    @property
    def rows(self) -> int:
        """Sum of the terms' rows."""
        return sum(t.rows for t in self.terms)

    @property
    def rank(self) -> int:
        """The value of the first term."""
        return self.base.rank

    def apply(self, x: Array) -> Array:
        """Term after term; see `Strategy.apply`."""
        return np.concatenate([t.apply(x) for t in self.terms])

    def adjoint(self, y: Array) -> Array:
        """Sum of the terms' adjoints; see `Strategy.adjoint`."""
        starts = np.cumsum([0] + [t.rows for t in self.terms])
        return sum_of(t.adjoint(y[a:b]) for t, a, b in zip(self.terms, starts[:-1], starts[1:], strict=True))

    def solve(self, y: Array) -> Array:
        """``V^+ B' y`` by Woodbury; see `Strategy.solve`."""
        return self._inverse(self.adjoint(y))

    def represent(self, q: Array) -> Array:
        """``B V^+ q``; see `Strategy.represent`."""
        return self.apply(self._inverse(q))

    def _inverse(self, q: Array) -> Array:
        """``V^+ q``: ``(*shape, *batch)`` to the same."""
        d = len(self.shape)
        root = self._root
        shares = np.tensordot(root, q, axes=(range(d), range(d)))  # (I + U)^-1/2 C W q
        return np.asarray(self.base.solve(self.base.represent(q)) - np.tensordot(root, shares, axes=1).reshape(q.shape))

    @cached_property
    def _root(self) -> Array:
        """``W C' (I + U)^-1/2`` by Cholesky: what the low-rank terms take off the covariance, ``(*shape, r)``."""
        from scipy.linalg import cholesky, solve_triangular

        columns, solved = self.low_rows
        n, r = cells(self.shape), columns.shape[-1]
        u = columns.reshape(n, r).T @ solved.reshape(n, r)
        factor = cholesky(np.eye(r) + (u + u.T) / 2, lower=True)
        root = solve_triangular(factor, solved.reshape(n, r).T, lower=True).T
        return np.ascontiguousarray(root).reshape(*self.shape, r)

    @property
    def low_rows(self) -> tuple[Array, Array]:
        """``C'`` and ``W C'``, both ``(*shape, r)``.

        Raises:
          IntegrityError: a row of C is not in the row space of the first term.
          SizeError: they do not fit in memory.
        """
        columns = self._low_columns()
        solved = self.base.solve(self.base.represent(columns))
        self._check_span(columns, solved)
        return columns, solved

    def _low_columns(self) -> Array:
        """C' of the low-rank terms, ``(*shape, r)``."""
        r = self.rows - self.base.rows
        remedy = "use solver='rp' or 'wff' for this workload"
        require_memory("the low-rank part of a mixture", 4 * r * cells(self.shape), remedy)
        return np.concatenate([t.adjoint(np.eye(t.rows)) for t in self.terms[1:]], axis=-1)

    def _check_span(self, columns: Array, solved: Array) -> None:
        """Woodbury holds on the row space of the first term only.

        Raises:
          IntegrityError: rows of another term leave it.
        """
        away = float(np.abs(self.base.adjoint(self.base.apply(solved)) - columns).max())
        if away > SPAN_TOLERANCE * float(np.abs(columns).max()):
            raise IntegrityError("a mixture's first strategy must span the rows of all others; compile the plan again")

    @cached_property
    def sensitivity_squared(self) -> Fraction:
        """The largest sum over the terms of the squared column norms, which are outer products of the parts' norms.

        All numbers are positive, so relative errors only add up: one unit of 2^-53 for each of the additions and
        multiplications that an entry passes through, taken twice.
        """
        norms = self.column_norms()
        operations = max(_operations(t) for t in self.terms) + len(self.terms)
        return Fraction(float(norms.max(initial=0.0))) * (1 + Fraction(operations, 2**52))

    def column_norms(self) -> Array:
        """``V[j, j]`` for every cell, shape `shape`, in double precision."""
        return sum_of(t.column_norms() for t in self.terms)

    @cached_property
    def pair_sensitivity_squared(self) -> Fraction:
        """Every pair of cells; past `SEARCHED` of them the sum of the terms' largest distances."""
        count = cells(self.shape)
        if count > SEARCHED or all(t.pair_sensitivity_squared == 0 for t in self.terms):
            return sum((t.pair_sensitivity_squared for t in self.terms), Fraction(0))
        value = pairs.largest_distance(
            self.column_norms().ravel(), lambda where, first: sum_of(t.gram_rows(where, first) for t in self.terms)
        )
        operations = sum(t.operations for t in self.terms) + len(self.terms)
        return pairs.certain(value, float(self.sensitivity_squared), operations)

    @cached_property
    def distances(self) -> Distances:
        """Every pair of cells; past `differing_axes.SEARCHED` of them the sums of the terms' distances."""
        largest, axes = self.pair_sensitivity_squared, len(self.shape)
        if is_simple(axes, largest):
            return same_distance(axes, largest)
        if cells(self.shape) > differing_axes.SEARCHED:
            return sums([t.distances for t in self.terms], largest)
        rows = partial(_rows_of_sum, self.terms)
        values = differing_axes.search(self.shape, self.column_norms().ravel(), rows).tolist()
        operations = sum(t.operations for t in self.terms) + len(self.terms)
        return certain_distances(values, largest, float(self.sensitivity_squared), operations)

    def rounding_error(self, x: Array) -> float:
        """The value of the worst term."""
        return max(t.rounding_error(x) for t in self.terms)

    def rounding_errors(self, x: Array) -> Array:
        """Term after term; see `Strategy.rounding_errors`."""
        return np.concatenate([t.rounding_errors(x) for t in self.terms])

    def exact_entries(self, x: IntArray) -> ExactEntries:
        """Each row from the term that it belongs to; see `Strategy.exact_entries`."""
        terms = [t.exact_entries(x) for t in self.terms]
        starts = np.cumsum([0] + [t.rows for t in self.terms])

        def entries(rows: IntArray) -> list[Fraction]:
            owners = np.searchsorted(starts, rows, side="right") - 1
            result = np.empty(len(rows), dtype=object)
            for i in np.unique(owners):
                result[owners == i] = terms[i](rows[owners == i] - starts[i])
            return list(result)

        return entries

    def factors(self, order: Sequence[int]) -> tuple[Array, ...]:
        """The stack, written out."""
        require_memory("the matrix of a node", 2 * self.rows * cells(self.shape), "inspect a smaller node")
        return (np.concatenate([_written_out(t.factors(order)) for t in self.terms]),)

    def trace(self, groups: Sequence[Group]) -> float:
        """``tr(G W)`` less what the low-rank terms take off."""
        root = self._root
        product = root
        for g in groups:
            product = g.gram.apply(product, g.axes)
        return self.base.trace(groups) - float((root * product).sum())

    def variances(self, blocks: Sequence[Block]) -> list[Array]:
        """The errors of the first term minus the gains of the low-rank terms: one array for all queries."""
        counts = [b.count for b in blocks]
        require_memory("the variances of a family", 2 * math.prod(counts), "ask for fewer queries at once")
        total: Array = np.ones(counts)
        for v in self.base.variances(blocks):
            total = total * v
        return [np.maximum(total - self._reductions(blocks, counts), 0.0)]

    def _reductions(self, blocks: Sequence[Block], counts: Sequence[int]) -> Array:
        """``|(I + U)^-1/2 C W q|^2`` for every query, the blocks applied to the root a few columns at a time."""
        total: Array = np.zeros(counts)
        order = [a for b in blocks for a in b.axes]
        widest = math.prod(max(b.count, cells(b.projection.shape)) for b in blocks)
        step = max(1, CHUNK // max(1, widest))
        for start in range(0, self._root.shape[-1], step):
            x = self._root[..., start : start + step].transpose(*order, len(order))
            for b in blocks:  # each consumes its leading axes and puts its queries last
                x = np.moveaxis(b.projection.apply(x), 0, -1)
            total += (x**2).sum(axis=0)
        return total


def sum_of(arrays: Iterable[Array]) -> Array:
    """Their entrywise sum."""
    return functools.reduce(np.add, arrays)


def _rows_of_sum(terms: Sequence[Plain], where: IntArray) -> Array:
    """Rows of V."""
    return sum_of(t.gram_rows(where, 0) for t in terms)


def _operations(strategy: Plain) -> int:
    """Additions and multiplications that an entry of `column_norms` passes through, at most."""
    return strategy.rows + 2 if isinstance(strategy, FourierStrategy) else strategy.operations


def _written_out(factors: Sequence[Array]) -> Array:
    """The Kronecker product of matrices."""
    result: Array = np.ones((1, 1))
    for f in factors:
        result = np.multiply.outer(result, f).swapaxes(1, 2).reshape(len(result) * len(f), -1)
    return result
