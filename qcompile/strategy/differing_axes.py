"""The largest ``|B (e_i - e_j)|^2`` by the axes in which the cells i and j differ: one number for each set of axes.

A set of axes is a number whose bit a stands for axis a. What differs in no axis is one cell, at distance 0; a set with
an axis of a single cell holds no pair, and 0 stands for it, too. Small nodes are searched pair by pair. Of a large
Kronecker product every part has one or two pairs that dominate all that differ in a set of its axes, see
`pair_distance`: an upper bound, exact where the columns of each part have one norm, as those of optimal strategies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

import numpy as np

from qcompile.strategy.pair_distance import Pairs, certain, largest_product_distance
from qcompile.support.arrays import Array, IntArray, cells

MOST_AXES = 8
"""Axes up to which all their sets are told apart; of more axes one number stands for all sets but the empty one."""

SEARCHED = 4096
"""Cells up to which all pairs are looked at."""

Distances = tuple[Fraction, ...]
"""By set of axes: ``2^axes`` numbers, or two past `MOST_AXES`, for the empty set and for all others."""

_ENTRIES = 2**21
"""Numbers of a piece of V; there are a few arrays of that size at once."""


def is_simple(axes: int, largest: Fraction) -> bool:
    """True where the largest distance says it all, or where sets of axes are too many to be told apart."""
    return not largest or not 1 < axes <= MOST_AXES


def same_distance(axes: int, largest: Fraction) -> Distances:
    """Upper bounds where nothing else is known than the largest distance of all."""
    count = 2**axes if axes <= MOST_AXES else 2
    return (Fraction(0), *[largest] * (count - 1))


def search(shape: Sequence[int], diagonal: Array, rows: Callable[[IntArray], Array]) -> Array:
    """All pairs of cells, in double precision: ``(2^axes,)``, minus infinity where there is no pair.

    Args:
      shape: axis sizes.
      diagonal: ``V_jj``, ``(cells,)``.
      rows: whole rows of V at flat cells, ``(k,)`` to ``(k, cells)``.
    """
    count, found = cells(shape), np.full(2 ** len(shape), -np.inf)
    step = max(1, _ENTRIES // count)
    for start in range(0, count, step):
        piece = np.arange(start, min(start + step, count))
        distances = diagonal[piece, None] + diagonal - 2 * rows(piece)
        found = np.maximum(found, _split(distances, shape, np.unravel_index(piece, tuple(shape))))
    return found


def _split(distances: Array, shape: Sequence[int], at: Sequence[IntArray]) -> Array:
    """The maximum by set of axes of some cells' distances, ``(k, cells)``; at: their index on each axis."""
    lines = np.arange(len(distances))
    state: Array = distances.reshape(len(lines), 1, -1)  # cell, set of the axes so far, the axes that follow
    for n, own in zip(shape, at, strict=True):
        state = state.reshape(len(lines), state.shape[1], n, -1)
        same = state[lines, :, own].copy()
        state[lines, :, own] = -np.inf
        state = np.concatenate([same, state.max(axis=2)], axis=1)
    return np.asarray(state[:, :, 0].max(axis=0))


def by_difference(values: Array) -> Array:
    """The maximum by set of axes of numbers per difference of two cells, ``shape``: ``(2^axes,)``, as of `search`."""
    state: Array = values.reshape(1, -1)
    for n in values.shape:
        state = state.reshape(len(state), n, -1)
        others = state[:, 1:].max(axis=1, initial=-np.inf)
        state = np.concatenate([state[:, 0], others])
    return np.asarray(state[:, 0])


def of_product(axes: int, parts: Sequence[tuple[Sequence[int], Callable[[int], Pairs | None]]]) -> Array:
    """A Kronecker product, in double precision: ``(2^axes,)``, as of `search`.

    Args:
      axes: number of them.
      parts: per part its axes, and its dominating pairs that differ in a set of these; None where there are none.
    """
    sets = [[_on(differing, own) for differing in range(2**axes)] for own, _ in parts]
    pairs = [{s: of(s) for s in set(own)} for own, (_, of) in zip(sets, parts, strict=True)]
    return np.array([_largest([p[s] for p, s in zip(pairs, on, strict=True)]) for on in zip(*sets, strict=True)])


def _largest(pairs: Sequence[Pairs | None]) -> float:
    present = [p for p in pairs if p is not None]
    if len(present) < len(pairs):
        return -np.inf
    return largest_product_distance(present)


def _on(differing: int, axes: Sequence[int]) -> int:
    """A set of axes as a set of positions in a list of some of them."""
    return sum((differing >> a & 1) << i for i, a in enumerate(axes))


def certain_distances(values: Iterable[float], largest: Fraction, norm: float, operations: int) -> Distances:
    """Upper bounds of distances computed in double precision, see `pair_distance.certain`.

    Args:
      values: by set of axes, minus infinity where there is no pair.
      largest: an upper bound of all distances.
      norm: the largest squared column norm.
      operations: that an entry of V passes through, at most.
    """
    _, *others = values
    return Fraction(0), *(min(largest, certain(v, norm, operations)) if v > -np.inf else Fraction(0) for v in others)


def sums(terms: Sequence[Distances], largest: Fraction) -> Distances:
    """Upper bounds of a stack of strategies: the sums of theirs."""
    return tuple(min(largest, sum(t, Fraction(0))) for t in zip(*terms, strict=True))
