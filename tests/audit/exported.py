"""What neighbouring tables can differ by, from the matrices that a plan exports for auditors and nothing else.

Every difference of tables is written out, every matrix laid out on the whole domain; the pair of tables that is
farthest apart is then measured again in rational arithmetic, so that "never more than declared" has no tolerance.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from qcompile.api import Plan
from qcompile.plan.plan import Measurement
from qcompile.privacy.budget import Budget
from qcompile.queries.schema import Schema
from qcompile.support.arrays import Array, IntArray
from tests.conformance.helpers import expand, node_matrix

TIGHT = 1e-9
"""A declared cost may exceed the true one by this much, relative."""

HISTOGRAMS = {"add-remove": 8000, "replace-one": 450}
"""Most differences that are written out; beyond it the extreme points of the same convex set."""


@dataclass(frozen=True)
class Relation:
    """Which tables are neighbours, read off a plan's terms, not off its arithmetic.

    Attributes:
      neighbours: "add-remove" or "replace-one".
      rows: of one unit, at most.
      may_leave: whether a replaced row may be followed by one that is not counted.
    """

    neighbours: str
    rows: int
    may_leave: bool

    @staticmethod
    def of(plan: Plan) -> Relation:
        """That of a plan."""
        k, drop = plan.options.contributions, any(a.policy.kind == "drop" for a in plan.workload.schema)
        return Relation(plan.options.neighbours, k, drop or k > 1)

    def histograms(self, cells: int) -> IntArray:
        """The rows that one unit may have in a table, as counts ``(histograms, cells)``.

        The squared distance is convex in each histogram, so that where there are too many, those that put all rows of
        the unit into one cell, and the empty one, attain the maximum.
        """
        least = self.rows if self.neighbours == "replace-one" and not self.may_leave else 0
        if math.comb(cells + self.rows, self.rows) <= HISTOGRAMS[self.neighbours]:
            sizes = range(least, self.rows + 1)
            chosen = [c for k in sizes for c in itertools.combinations_with_replacement(range(cells), k)]
            return np.array([np.bincount(np.array(c, dtype=np.int64), minlength=cells) for c in chosen])
        extreme = self.rows * np.eye(cells, dtype=np.int64)
        return extreme if least else np.vstack([np.zeros((1, cells), dtype=np.int64), extreme])

    def distances(self, columns: Array) -> Array:
        """``|M (x - x')|^2`` of all pairs of neighbouring tables, numbered as in `pair`.

        Args:
          columns: M, ``(rows, cells)``.
        """
        from scipy.spatial.distance import cdist

        images = self.histograms(columns.shape[1]) @ columns.T
        if self.neighbours == "add-remove":
            return np.asarray((images**2).sum(axis=1))
        return np.asarray(cdist(images, images, "sqeuclidean")).ravel()

    def pair(self, number: int, cells: int) -> tuple[IntArray, IntArray]:
        """The rows that a unit has in the one table and in the other, ``(cells,)`` each."""
        found = self.histograms(cells)
        if self.neighbours == "add-remove":
            return found[number], np.zeros(cells, dtype=np.int64)
        first, second = divmod(number, len(found))
        return found[first], found[second]


def on_domain(schema: Schema, measurement: Measurement) -> Array:
    """B of a node, a column per cell of the whole domain."""
    return expand(schema, measurement.attributes, node_matrix(measurement))


def worst_pair(plan: Plan, charge: Fraction) -> tuple[IntArray, IntArray]:
    """The neighbouring tables that all exported measurements together tell apart best; counts ``(cells,)`` each."""
    schema, relation = plan.workload.schema, Relation.of(plan)
    noisy = [m for m in plan.measurements(Budget(rho=charge)) if m.scale > 0]
    stacked = np.concatenate([on_domain(schema, m) / m.scale for m in noisy])
    return relation.pair(int(relation.distances(stacked).argmax()), stacked.shape[1])


def pair_cost(plan: Plan, charge: Fraction, pair: tuple[IntArray, IntArray]) -> Fraction:
    """What telling one pair of tables apart costs, by the exported matrices: the squared distance over the noise."""
    schema = plan.workload.schema
    noisy = [m for m in plan.measurements(Budget(rho=charge)) if m.scale]
    return sum((exact_distance(schema, m, pair[0] - pair[1]) / Fraction(m.scale) ** 2 for m in noisy), Fraction(0))


def exact_distance(schema: Schema, measurement: Measurement, change: IntArray) -> Fraction:
    """``|B (x - x')|^2`` in rational arithmetic: every double in the exported factors is a rational number.

    Args:
      schema: of the whole domain.
      measurement: gives B.
      change: x - x' on the whole domain, ``(cells,)``.
    """
    inside = change.reshape(schema.shape(schema.names))
    gone = tuple(i for i, n in enumerate(schema.names) if n not in measurement.attributes)
    moved = inside.sum(axis=gone).ravel()
    factors = [f.astype(object) for f in measurement.factors]
    total: list[Fraction] = []
    for cell in np.flatnonzero(moved):
        places = np.unravel_index(cell, [f.shape[1] for f in factors])
        columns = [[Fraction(v) for v in f[:, int(p)]] for f, p in zip(factors, places, strict=True)]
        column = functools.reduce(_kron, columns, [Fraction(int(moved[cell]))])
        total = [a + b for a, b in zip(total, column, strict=True)] if total else column
    return sum((v * v for v in total), Fraction(0))


def _kron(left: Sequence[Fraction], right: Sequence[Fraction]) -> list[Fraction]:
    return [a * b for a in left for b in right]


def check_costs(plan: Plan, charge: Fraction, note: object = "") -> None:
    """Every node costs what it declares and all together what is charged, over all pairs of neighbouring tables.

    Args:
      plan: what would be measured.
      charge: rho, exactly.
      note: goes into the message of a failure.
    """
    measured = list(plan.measurements(Budget(rho=charge)))
    _check_nodes(plan, measured, note)
    schema, relation = plan.workload.schema, Relation.of(plan)
    joint, true = np.zeros(()), list[Fraction]()
    for m in measured:
        distances = relation.distances(on_domain(schema, m))
        true.append(_check_node(schema, relation, m, distances, note))
        if m.scale:
            joint = joint + distances / m.scale**2
    together = pair_cost(plan, charge, relation.pair(int(joint.argmax()), math.prod(schema.shape(schema.names))))
    assert together <= 2 * charge, f"all together cost {float(together)!r}, charged {float(2 * charge)!r}: {note}"
    declared = sum(float(m.cost) for m in measured) if plan.precisions is None else cost_by_sets(plan, measured)
    error = f"declared {declared!r}, charged {float(2 * charge)!r}: {note}"
    assert 1 - TIGHT <= declared / float(2 * charge) <= 1 + 1e-12, error
    for m, cost in zip(measured, true, strict=True):
        text = f"costs only {float(cost)!r}, declared {float(m.cost)!r}, node {m.attributes}: {note}"
        assert float(m.cost) * (1 - TIGHT) <= cost, text


def cost_by_sets(plan: Plan, measured: Sequence[Measurement]) -> float:
    """What a plan is charged where rows are replaced: for the worst set of attributes that a pair of rows differs in.

    Every node takes its own worst pair of cells that differ in those of the set's attributes that it has; all pairs and
    all sets are written out. Where rows may leave the counts the sum of the nodes' longest columns is among the costs.
    """
    schema, relation = plan.workload.schema, Relation.of(plan)
    names, largest = schema.names, 0.0
    noisy = [m for m in measured if m.scale > 0]
    tables = [_largest_by_set(schema, m) for m in noisy]
    for size in range(1, len(names) + 1):
        for differing in itertools.combinations(names, size):
            costs = [
                t.get(frozenset(differing) & frozenset(m.attributes), 0.0) for t, m in zip(tables, noisy, strict=True)
            ]
            largest = max(largest, sum(costs))
    if relation.may_leave:
        largest = max(largest, sum(float((node_matrix(m) ** 2).sum(axis=0).max()) / m.scale**2 for m in noisy))
    return largest * relation.rows**2


def _largest_by_set(schema: Schema, m: Measurement) -> dict[frozenset[str], float]:
    """The largest squared distance of two columns over the noise, by the attributes in which their cells differ."""
    scaled = node_matrix(m) / m.scale
    places = list(np.ndindex(schema.shape(m.attributes)))
    found: dict[frozenset[str], float] = {}
    for (i, p), (j, q) in itertools.combinations(enumerate(places), 2):
        differing = frozenset(n for n, a, b in zip(m.attributes, p, q, strict=True) if a != b)
        distance = float(((scaled[:, i] - scaled[:, j]) ** 2).sum())
        found[differing] = max(found.get(differing, 0.0), distance)
    return found


def _check_nodes(plan: Plan, measured: list[Measurement], note: object) -> None:
    """Every node with something to measure once, and no other."""
    positions = [i for i, c in enumerate(plan.closure.class_of.tolist()) if c >= 0]
    assert len(measured) == len(positions), f"{len(measured)} measurements of {len(positions)} nodes: {note}"
    nodes = [m.attributes for i, m in zip(positions, measured, strict=True) if i < plan.closure.first_block]
    assert len(set(nodes)) == len(nodes), f"a node is measured twice: {note}"


def _check_node(schema: Schema, relation: Relation, m: Measurement, distances: Array, note: object) -> Fraction:
    """The true cost of a node, never above the declared one; its grid is as it should be."""
    where = f"node {m.attributes}: {note}"
    first, second = relation.pair(int(distances.argmax()), math.prod(schema.shape(schema.names)))
    true = exact_distance(schema, m, first - second)
    if m.scale == 0:
        assert true == m.cost == 0, f"released exactly, though it differs by {float(true)!r} between tables, {where}"
        return Fraction(0)
    cost = true / Fraction(m.scale) ** 2
    assert cost <= m.cost, f"costs {float(cost)!r}, declared {float(m.cost)!r}, {where}"
    assert math.frexp(m.grid)[0] == 0.5, f"the grid {m.grid!r} is no power of two, {where}"
    assert 256 <= m.scale / m.grid < 512, f"{m.scale / m.grid!r} grid steps in sigma, {where}"
    return cost


def check_same(plan: Plan, other: Plan, charge: Fraction, note: object = "") -> None:
    """Two plans measure the same to the last bit: one was saved and read."""
    pairs = zip(plan.measurements(Budget(rho=charge)), other.measurements(Budget(rho=charge)), strict=True)
    for m, n in pairs:
        assert (m.attributes, m.scale, m.grid, m.cost) == (n.attributes, n.scale, n.grid, n.cost), f"changed: {note}"
        for f, g in zip(m.factors, n.factors, strict=True):
            np.testing.assert_array_equal(f, g, err_msg=str(note))
