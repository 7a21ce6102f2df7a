"""The marginals that an adaptive run chooses from: their exact counts, and how wrong the estimates of them are.

Scores are whole numbers, so that the exponential mechanism works on exactly what its sensitivity was computed for:
estimates are rounded to multiples of 2^-8 before they are compared with the counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from qcompile.arrays import Array, IntArray, cells
from qcompile.data.counts import ExactCounts
from qcompile.errors import SizeError
from qcompile.lattice import Node, subsets
from qcompile.plan import Plan

STEPS = 2**8
"""Grid steps in a count of 1."""

LARGEST_WEIGHT = 2**10
"""Weights are rounded to whole numbers of this size."""

LARGEST_TOTAL = 2**40
"""Rows up to which all sums of grid steps are exact in doubles and weighted scores fit into 64 bits."""

_LARGEST_PENALTY = 2.0**50


def candidate_nodes(plan: Plan) -> tuple[int, ...]:
    """Positions of the nodes that can be chosen: those of the closure with anything to measure but the total."""
    closure = plan.closure
    return tuple(i for i in range(1, closure.first_block) if closure.class_of[i] >= 0 and closure.nodes[i])


def overlap_weights(plan: Plan, nodes: tuple[int, ...]) -> Array:
    """AIM's weights ``w_r = sum over views s of w_s |r & s|``, one per node.

    References:
      McKenna et al. 2022, arXiv 2201.12677, section 3.
    """
    by_name: dict[str, float] = {}
    for family in plan.workload.families:
        for product in family.products():
            for name in product.names:
                by_name[name] = by_name.get(name, 0.0) + family.weight
    closure = plan.closure
    return np.array([sum(by_name[n] for n in closure.names(closure.nodes[i])) for i in nodes])


def heir_weights(plan: Plan, nodes: tuple[int, ...]) -> Array:
    """The root of the weight of all views that contain a node: with references they inherit its errors.

    Attributes by themselves are measured first, and count like the pairs that they are in. On Adult and two other
    tables at three budgets this was better than AIM's weights, than the weight itself and than equal ones.
    """
    closure, held = plan.closure, dict[Node, float]()
    for family in plan.workload.families:
        for product in family.products():
            view = tuple(sorted(closure.schema.positions[n] for n in product.names))
            for below in subsets(view):
                held[below] = held.get(below, 0.0) + family.weight
    pairs: dict[int, list[float]] = {}
    for node, weight in held.items():
        for a in node if len(node) == 2 else ():
            pairs.setdefault(a, []).append(math.sqrt(weight))
    found = [closure.nodes[i] for i in nodes]
    alone: dict[Node, float] = {(a,): sum(w) / len(w) for a, w in pairs.items()}
    return np.array([alone.get(n, math.sqrt(held[n])) for n in found])


def candidate_cells(plan: Plan) -> int:
    """Cells of all candidates' marginals together."""
    return sum(cells(plan.closure.shape(plan.closure.nodes[i])) for i in candidate_nodes(plan))


def whole_weights(plan: Plan, nodes: tuple[int, ...], inherited: bool) -> IntArray:
    """The weights of a run, scaled to whole numbers from 1 to `LARGEST_WEIGHT`.

    Args:
      plan: gives families and their weights.
      nodes: the candidates.
      inherited: `heir_weights`, instead of `overlap_weights`.
    """
    weights = heir_weights(plan, nodes) if inherited else overlap_weights(plan, nodes)
    return np.asarray(np.maximum(1, np.rint(LARGEST_WEIGHT * weights / weights.max())), dtype=np.int64)


def score_sensitivity(plan: Plan, weights: IntArray) -> int:
    """By how much any score can differ between neighbouring tables: a row moves one cell of a marginal by 1."""
    return int(weights.max()) * STEPS * plan.unit.most_rows


class Candidates:
    """Exact counts and scores of all candidates.

    Args:
      plan: what may be measured.
      counts: the exact contingency tables.
      inherited: whether larger marginals are estimated from smaller ones, see `heir_weights`.

    Raises:
      SizeError: there are more rows than scores can hold exactly.
    """

    def __init__(self, plan: Plan, counts: ExactCounts, inherited: bool) -> None:
        if counts.total > LARGEST_TOTAL:
            raise SizeError("an adaptive run takes up to 2^40 rows; use mechanism='batch'")
        self.nodes = candidate_nodes(plan)
        self.weights = whole_weights(plan, self.nodes, inherited)
        self.sensitivity = score_sensitivity(plan, self.weights)
        self._tables = dict(_tables(plan, counts))  # times STEPS, as doubles: exact
        self._errors = np.zeros(len(self.nodes), dtype=np.int64)
        self._place = {node: i for i, node in enumerate(self.nodes)}

    def __contains__(self, node: object) -> bool:
        return node in self._place

    def counts(self, node: int) -> IntArray:
        """The exact marginal on a node or the total, axes in schema order."""
        return np.asarray(self._tables[node] / STEPS, dtype=np.int64)

    def distance(self, node: int, estimate: Array) -> int:
        """The L1 distance of an estimate, rounded to the grid, to the exact counts, in grid steps."""
        off = np.multiply(estimate, STEPS)
        np.rint(off, out=off)
        off -= self._tables[node]
        return int(np.abs(off, out=off).sum())

    def note(self, node: int, distance: int) -> None:
        """Take note of how wrong a marginal's new estimate is."""
        self._errors[self._place[node]] = distance

    def scores(self, penalties: Mapping[int, float]) -> IntArray:
        """The score of every candidate, in grid steps, one per entry of `nodes`.

        Args:
          penalties: by node, the error that its noise would have, in counts.
        """
        expected = np.array([min(penalties[n] * STEPS, _LARGEST_PENALTY) for n in self.nodes])
        return np.asarray(self.weights * (self._errors - np.rint(expected).astype(np.int64)))


def expected_noise(sigma: float, cell_count: int, spread: float) -> float:
    """Expected L1 norm of Gaussian noise on a marginal, ``sqrt(2/pi) sigma`` per cell, times the basis's spread."""
    return math.sqrt(2 / math.pi) * sigma * spread * cell_count


def _tables(plan: Plan, counts: ExactCounts) -> list[tuple[int, Array]]:
    """Every node of the closure with its exact marginal in grid steps, each view counted once."""
    closure, done = plan.closure, dict[int, Array]()
    for view in sorted(plan.tables, key=len, reverse=True):
        node: Node = tuple(closure.schema.positions[n] for n in view)
        new = [i for i in (closure.index[s] for s in subsets(node)) if i not in done]
        if not new:
            continue
        table = counts.table(view)
        for i in new:
            gone = tuple(axis for axis, a in enumerate(node) if a not in closure.nodes[i])
            done[i] = table.sum(axis=gone, dtype=np.int64) * float(STEPS)
    return list(done.items())
