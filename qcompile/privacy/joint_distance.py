"""How far apart all measurements of a plan together can be on two tables, when rows are replaced.

A row in cell i of the whole domain is replaced by one in cell j. If the two cells differ in the set D of attributes, a
node on the attributes A sees two cells that differ in exactly D & A, so that the squared distances add up to at most

    sum_A c_A(D & A) / sigma_A^2,    c_A(S) = max |B_A (e_i - e_j)|^2 over cells of A that differ in exactly S,

and the cost is the largest of these sums over all D: less than the sum of the nodes' own maxima, which no single pair
of rows attains. The sum is at its largest where one row is replaced by one, also where a unit has k rows: with M all
matrices stacked, each divided by its sigma, ``|M (h - h')|^2`` is convex in the histograms h and h' of at most k rows,
so that the extreme points 0 and k e_i attain its maximum, k^2 times that of one row. Where rows may leave the counts
``|M k e_i|^2`` is among them: at most k^2 times the sum of the largest ``|B_A e_i|^2 / sigma_A^2`` of each node.

Attributes that can be swapped without changing any sum are told apart by their number alone; where the sets are still
too many, some attributes are left `free`: each node then takes the worst over them by itself, an upper bound.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from qcompile.lattice.lattice import Lattice
from qcompile.strategy import Strategy
from qcompile.strategy.differing_axes import MOST_AXES, Distances
from qcompile.support.arrays import Array, BoolArray, IntArray

SETS = 2**14
"""Sets of attributes that are told apart, at most."""

ENTRIES = 2**25
"""Numbers of all sets and classes together, at most."""

STEPS = 2**27
"""Numbers of all sets and nodes together, at most: some seconds."""

GRAIN = 36
"""Distances are rounded up to so many bits, so that rounding errors do not tell equal attributes apart."""

NEAR = 1e-12
"""Sums so near to the largest, relative, are compared exactly: their rounding errors are below it."""

COMPARED = 64
"""Sums that are compared exactly, at most."""


@dataclass(frozen=True, eq=False)
class JointDistance:
    """The sums of all sets of attributes, as functions of the nodes' precisions 1/sigma^2.

    Attributes:
      distances: per class c_A(S) by set of canonical axes, and last the largest ``|B e_i|^2``.
      counts: per class how many of its nodes take each of these numbers, ``(sums, numbers)``.
      differing: the sets D, ``(sums, attributes)``; the last is empty where it stands for a row that leaves the counts.
      free: attributes over which every node takes its own worst case, ``(attributes,)``.
      groups: equal for attributes that can be swapped; each free attribute has its own, ``(attributes,)``.
      may_leave: whether the last sum is that of a row that leaves.
    """

    distances: tuple[Distances, ...]
    counts: tuple[IntArray, ...]
    differing: BoolArray
    free: BoolArray
    groups: IntArray
    may_leave: bool

    @cached_property
    def matrix(self) -> Array:
        """The sums at precision 1 of each class, ``(sums, classes)``."""
        tables = [np.array([float(d) for d in table]) for table in self.distances]
        return np.stack([n @ table for n, table in zip(self.counts, tables, strict=True)], axis=1)

    def largest(self, precisions: Sequence[Fraction]) -> Fraction:
        """An upper bound of the largest sum, for exact precisions of the classes; tight unless very many are equal.

        All numbers are positive, so that the relative error of a sum in double precision is at most that of its terms
        and of its additions together, below `NEAR` for less than a thousand of them; more are allowed for.
        """
        unit = max(precisions)  # in double precision nothing overflows
        values = self.matrix @ np.array([float(x / unit) for x in precisions])
        slack = NEAR * (1 + sum(n.shape[1] for n in self.counts) / 1000)
        near = np.flatnonzero(values >= values.max() * (1 - 2 * slack))
        if len(near) > COMPARED:
            return unit * Fraction(float(values.max())) * (1 + Fraction(slack))
        return max(self._sum(int(row), precisions) for row in near)

    def _sum(self, row: int, precisions: Sequence[Fraction]) -> Fraction:
        total = Fraction(0)
        for counts, distances, x in zip(self.counts, self.distances, precisions, strict=True):
            used = np.flatnonzero(counts[row])
            total += x * sum((int(counts[row, s]) * distances[s] for s in used), Fraction(0))
        return total

    @staticmethod
    def of(closure: Lattice, strategies: Sequence[Strategy], may_leave: bool) -> JointDistance:
        """The sums of a plan's nodes and blocks.

        Args:
          closure: the nodes, with their classes.
          strategies: one per class.
          may_leave: whether a row can leave the counts, or come into them.
        """
        nodes = _nodes(closure)
        tables = [(*map(_coarse, s.distances), s.sensitivity_squared) for s in strategies]
        differing, free, groups = _sets(closure, nodes, [np.array([float(d) for d in t[:-1]]) for t in tables])
        counts = [np.zeros((len(differing) + may_leave, len(t)), dtype=np.int64) for t in tables]
        lines = np.arange(len(differing))
        for c, attributes in nodes:  # one number per set, so that no place is added to twice
            counts[c][lines, _numbers(tables[c], attributes, differing, free)] += 1
            counts[c][len(differing) :, -1] += 1
        if may_leave:
            differing = np.vstack([differing, np.zeros(differing.shape[1], dtype=bool)])
        return JointDistance(tuple(tables), tuple(counts), differing, free, groups, may_leave)


Nodes = list[tuple[int, tuple[int, ...]]]
"""The class of each measured node, and its attributes in canonical order."""


def _nodes(closure: Lattice) -> Nodes:
    measured = zip(closure.class_of.tolist(), closure.nodes, closure.orders, strict=True)
    return [(c, tuple(node[i] for i in order)) for c, node, order in measured if c >= 0]


def _coarse(value: Fraction) -> Fraction:
    """Rounded up to `GRAIN` bits."""
    if not value:
        return value
    unit = Fraction(2) ** (math.frexp(float(value))[1] - GRAIN)
    return math.ceil(value / unit) * unit


def _numbers(table: Distances, attributes: Sequence[int], differing: BoolArray, free: BoolArray) -> IntArray:
    """For each set D the place of the number that a node takes from its class's table."""
    sets = np.zeros(len(differing), dtype=np.int64)
    if len(attributes) > MOST_AXES:
        return np.asarray((differing[:, list(attributes)] | free[list(attributes)]).any(axis=1), dtype=np.int64)
    for axis, a in enumerate(attributes):
        sets |= differing[:, a].astype(np.int64) << axis
    return _worst(table, [axis for axis, a in enumerate(attributes) if free[a]])[sets]


def _worst(table: Distances, free: Sequence[int]) -> IntArray:
    """For each set of axes the same set with those free axes that make the distance largest."""
    best = np.arange(len(table) - 1, dtype=np.int64)
    for axis in free:
        best = np.array([max(best[s], best[s | 1 << axis], key=lambda i: table[i]) for s in range(len(best))])
    return best


def _sets(closure: Lattice, nodes: Nodes, tables: Sequence[Array]) -> tuple[BoolArray, BoolArray, IntArray]:
    """The sets of attributes that are told apart, the attributes that are left free, and the groups.

    Attributes of few values come first: of many values, all sets are nearly as bad.
    """
    count = len(closure.schema)
    sizes = [a.size for a in closure.schema]
    used = sorted({a for _, attributes in nodes for a in attributes if sizes[a] > 1}, key=lambda a: (sizes[a], a))
    most = min(SETS, ENTRIES // sum(len(t) + 1 for t in tables), max(1, STEPS // len(nodes)))
    chosen: list[list[int]] = []
    free, groups = np.zeros(count, dtype=bool), np.arange(count)
    for group in _exchangeable(used, nodes, tables):
        others = math.prod(len(g) + 1 for g in chosen)
        kept = group[: max(0, most // others - 1)]
        chosen.append(kept)
        groups[kept] = min(kept, default=0)
        free[group[len(kept) :]] = True
    numbers_of = [len(g) + 1 for g in chosen]
    grid = np.indices(numbers_of).reshape(len(chosen), math.prod(numbers_of))
    differing = np.zeros((grid.shape[1], count), dtype=bool)
    for numbers, group in zip(grid, chosen, strict=True):
        differing[:, group] = numbers[:, None] > np.arange(len(group))
    return differing, free, groups


def _exchangeable(used: Sequence[int], nodes: Nodes, tables: Sequence[Array]) -> list[list[int]]:
    """Groups of attributes any two of which can be swapped: the nodes and their distances stay the same.

    With (a b) and (b c) the swap (a c) is one, too, so that comparing with one attribute of a group is enough.
    """
    touching: dict[int, list[tuple[int, tuple[int, ...]]]] = {a: [] for a in used}
    for node in nodes:
        for a in node[1]:
            touching.get(a, []).append(node)
    groups: list[list[int]] = []
    for a in used:
        alike = (g for g in groups if len(touching[a]) == len(touching[g[0]]) and _swaps(a, g[0], touching, tables))
        group = next(alike, None)
        if group is None:
            groups.append([a])
        else:
            group.append(a)
    return groups


def _swaps(a: int, b: int, touching: dict[int, Nodes], tables: Sequence[Array]) -> bool:
    """True if the swap of two attributes maps the nodes that one of them is in onto themselves."""
    nodes = [*touching[a], *(n for n in touching[b] if a not in n[1])]
    swap = {a: b, b: a}
    before = Counter(_identity(c, on, tables) for c, on in nodes)
    return before == Counter(_identity(c, tuple(swap.get(i, i) for i in on), tables) for c, on in nodes)


def _identity(c: int, attributes: tuple[int, ...], tables: Sequence[Array]) -> Hashable:
    """Equal for nodes of equal class, attributes, and distances of these."""
    if len(attributes) > MOST_AXES:
        return c, frozenset(attributes)
    # Bit 0 of a set is the last axis of the table in C order.
    order = sorted(range(len(attributes)), key=lambda i: attributes[i])
    axes = [len(attributes) - 1 - i for i in reversed(order)]
    table = tables[c].reshape((2,) * len(attributes)).transpose(axes)
    return c, frozenset(attributes), table.tobytes()
