"""The largest ``|B (e_i - e_j)|^2`` over all pairs of cells: a node's squared sensitivity when one row is replaced.

With V = B' B a pair contributes ``V_ii + V_jj - 2 V_ij``. Small nodes are searched pair by pair. For a Kronecker
product the three numbers of a pair are products of those of the parts, ``(A, C, G) = (prod a_i, prod a_j, prod g_ij)``,
and ``A + C - 2 G`` is the sum over the entries of [[A, -G], [-G, C]]. A part's pair X is dominated by its pair Y where
``Y - X`` is positive semidefinite as a 2 x 2 matrix [[a_i, g], [g, a_j]]: the entrywise product with whatever the other
parts contribute, itself a Gram matrix, stays so (Schur), and the whole only grows. Dominated pairs are dropped, and
numbers are rounded up (which dominates, too) until few enough are left: an upper bound, exact where none was rounded.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from qcompile.support.arrays import Array, BoolArray, IntArray

SEARCHED = 4096
"""Cells of a Kronecker product up to which all pairs are looked at."""

KEPT = 2048
"""Pairs of a part, and of the parts so far, that are carried on; combining two sets takes their product."""

RIVALS = 64
"""Strongest pairs of a part that every other is compared with."""

FINEST = 2.0**-44
"""Relative step of the first rounding up, well below what solvers leave undecided."""

_ROWS = 2**22

GramRows = Callable[[IntArray, int], Array]
"""Rows of V at some cells, from a column on: ``(k,)`` flat indices and the first column to ``(k, cells - first)``."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of cells of one part: ``a_i``, ``a_j`` and ``g_ij``, each of shape ``(k,)``."""

    first: Array
    second: Array
    inner: Array

    @property
    def distances(self) -> Array:
        """``a_i + a_j - 2 g_ij``."""
        return np.asarray(self.first + self.second - 2 * self.inner)

    def where(self, mask: BoolArray | IntArray) -> Pairs:
        """Some of them."""
        return Pairs(self.first[mask], self.second[mask], self.inner[mask])


def largest_distance(diagonal: Array, rows: GramRows) -> float:
    """``max V_ii + V_jj - 2 V_ij`` in double precision, given V_jj; a few rows of V at a time, upper half."""
    count, largest = len(diagonal), 0.0
    step = max(1, _ROWS // count)
    for start in range(0, count, step):
        piece = np.arange(start, min(start + step, count))
        distances = diagonal[piece, None] + diagonal[start:] - 2 * rows(piece, start)
        largest = max(largest, float(distances.max()))
    return largest


def largest_product_distance(parts: Sequence[Pairs]) -> float:
    """An upper bound of `largest_distance` of a Kronecker product, given pairs of its parts; in double precision."""
    *others, last = parts
    pairs = functools.reduce(lambda a, b: _reduce(_product(a, b)), others)
    return float(_product(pairs, last).distances.max())


def certain(value: float, largest_norm: float, operations: int) -> Fraction:
    """An upper bound of a distance that was computed from Gram entries.

    Args:
      value: as computed.
      largest_norm: the largest squared column norm, which bounds every ``|V_ij|`` and, by Cauchy and Schwarz, the sum
        of the absolute values of the products that make it.
      operations: additions and multiplications that an entry of V passes through, at most.
    """
    return Fraction(max(value, 0.0)) + Fraction(largest_norm) * Fraction(4 * operations + 8, 2**52)


def dominating_pairs(matrix: Array) -> Pairs:
    """Pairs that dominate all pairs of a part's columns: two for each combination of rounded norms."""
    norms = (matrix * matrix).sum(axis=0)
    order = np.argsort(norms, kind="stable")
    rounded = _few_levels([norms[order]])[0]
    starts = np.flatnonzero(np.diff(rounded, prepend=-1.0))
    level = np.searchsorted(starts, np.arange(len(order)), side="right") - 1
    low, high = _extreme_products(matrix[:, order], starts, level)
    first, second = (np.tile(v.ravel(), 2) for v in np.meshgrid(rounded[starts], rounded[starts], indexing="ij"))
    return Pairs(first, second, np.concatenate([low.ravel(), high.ravel()]))


def equal_pair(norm: float) -> Pairs:
    """The pair that dominates every column with itself: the largest norm."""
    return Pairs(*np.full((3, 1), norm))


def different_pairs(matrix: Array, norm: float) -> Pairs:
    """Two pairs that dominate every two different columns: the largest norm, and both extremes of inner products."""
    count, low, high = matrix.shape[1], math.inf, -math.inf
    step = max(1, _ROWS // count)
    for start in range(0, count - 1, step):
        piece = np.arange(start, min(start + step, count - 1))
        gram = matrix[:, piece].T @ matrix[:, start + 1 :]
        later = piece[:, None] < np.arange(start + 1, count)
        low = min(low, float(gram.min(initial=math.inf, where=later)))
        high = max(high, float(gram.max(initial=-math.inf, where=later)))
    return Pairs(np.full(2, norm), np.full(2, norm), np.array([low, high]))


def _extreme_products(matrix: Array, starts: IntArray, level: IntArray) -> tuple[Array, Array]:
    """The smallest and the largest inner product of columns of each two levels, ``(levels, levels)``.

    Args:
      matrix: ``(rows, cells)``, columns sorted by level.
      starts: the first column of each level.
      level: of each column.
    """
    count = matrix.shape[1]
    low = np.full((len(starts), len(starts)), np.inf)
    high = -low
    step = max(1, _ROWS // count)
    for start in range(0, count, step):
        piece = slice(start, start + step)
        gram = matrix[:, piece].T @ matrix
        np.minimum.at(low, level[piece], np.minimum.reduceat(gram, starts, axis=1))
        np.maximum.at(high, level[piece], np.maximum.reduceat(gram, starts, axis=1))
    return low, high


def _product(one: Pairs, two: Pairs) -> Pairs:
    """The pairs of the Kronecker product of two parts."""
    return Pairs(*(np.multiply.outer(a, b).ravel() for a, b in zip(_parts(one), _parts(two), strict=True)))


def _parts(pairs: Pairs) -> tuple[Array, Array, Array]:
    return pairs.first, pairs.second, pairs.inner


def _reduce(pairs: Pairs) -> Pairs:
    """Few pairs that dominate all of them."""
    pairs = _drop_dominated(pairs)
    first, second = _few_levels([pairs.first, pairs.second])
    return _extremes(first, second, pairs.inner)


def _few_levels(norms: Sequence[Array]) -> list[Array]:
    """Norms rounded up to so few values that two pairs for each combination are few enough."""
    distinct = [np.unique(n) for n in norms]
    step = FINEST * float(distinct[0][-1])
    while 2 * math.prod(len(np.unique(_rounded_up(n, step))) for n in distinct) ** (2 // len(norms)) > KEPT:
        step *= 2
    return [_rounded_up(n, step) for n in norms]


def _drop_dominated(pairs: Pairs) -> Pairs:
    """Without those that one of the strongest pairs dominates."""
    kept = np.ones(len(pairs.inner), dtype=bool)
    for i in np.argsort(pairs.distances)[: -RIVALS - 1 : -1]:
        if kept[i]:
            first, second, inner = (v[i] - v for v in _parts(pairs))
            dominated = (first >= 0) & (second >= 0) & (first * second >= inner**2)
            dominated[i] = False
            kept &= ~dominated
    return pairs.where(kept)


def _rounded_up(values: Array, step: float) -> Array:
    return np.asarray(np.ceil(values / step) * step) if step > 0 else values


def _extremes(first: Array, second: Array, inner: Array) -> Pairs:
    """Keep, of pairs with equal norms, the smallest and the largest inner product: all others lie between."""
    order = np.lexsort((inner, second, first))
    first, second, inner = first[order], second[order], inner[order]
    change = (np.diff(first) != 0) | (np.diff(second) != 0)
    ends = np.concatenate([[True], change]) | np.concatenate([change, [True]])
    return Pairs(first[ends], second[ends], inner[ends])
