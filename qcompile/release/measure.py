"""Noisy measurements of all nodes: the only module that joins exact counts with randomness.

What is measured (matrices, scales, order of rows) is fixed by plan and budget before any data is read. With the
default noise a node's mechanism is ``y = g round((B x + sigma Z) / g)`` over the reals, implemented exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from qcompile.allocation import Scale
from qcompile.arrays import IntArray
from qcompile.data.counts import ExactCounts
from qcompile.lattice import Lattice, Node, subsets
from qcompile.plan import Plan
from qcompile.privacy.opendp_noise import enlarged_sigma, opendp_gaussian
from qcompile.privacy.rounded import rounded_gaussian
from qcompile.privacy.source import ByteSource, SeededSource, SystemSource
from qcompile.strategy import Strategy

Values = npt.NDArray[Any]
"""A node's measurements: int64 multiples of its grid with rounded noise, doubles otherwise."""

NOISES = ("rounded", "opendp", "none")


class Noise(Protocol):
    """Adds noise to one node."""

    def __call__(self, strategy: Strategy, x: IntArray, scale: Scale, node: str) -> Values:
        """Measurements of counts ``x`` (axes in the strategy's order) on the node of that name."""


def measure(
    plan: Plan, counts: ExactCounts, scales: tuple[Scale, ...], noise: Noise, progress: Callable[[int, int], None]
) -> tuple[Values, ...]:
    """Measure every node with a non-zero Gram.

    Args:
      plan: what to measure.
      counts: the exact contingency tables.
      scales: one per class.
      noise: how.
      progress: called after every node with the number done and of all.

    Returns:
      One array per node of the lattice; empty for those that are not measured.
    """
    closure = plan.closure
    values: list[Values] = [np.zeros(0) for _ in closure.nodes]
    total = int((closure.class_of >= 0).sum())
    for done, (index, table) in enumerate(node_tables(plan, counts), start=1):
        c = int(closure.class_of[index])
        x = table.transpose(closure.orders[index])
        values[index] = noise(plan.strategies[c], x, scales[c], closure.title(index))
        progress(done, total)
    return tuple(values)


def node_tables(plan: Plan, counts: ExactCounts) -> Iterator[tuple[int, IntArray]]:
    """Every measured node and block with its exact marginal, counting each view once.

    A node is summed out of the first view, smallest first, that covers it.
    """
    closure, done = plan.closure, set[int]()
    blocks = range(closure.first_block, len(closure.nodes))
    for view in plan.tables:
        node = tuple(closure.schema.positions[n] for n in view)
        inside = [*below(closure, node), *(i for i in blocks if closure.nodes[i] == node)]
        new = [i for i in inside if i not in done and closure.class_of[i] >= 0]
        if new:
            table = counts.table(view)
            for i in new:
                gone = tuple(axis for axis, a in enumerate(node) if a not in closure.nodes[i])
                yield i, np.asarray(table.sum(axis=gone, dtype=np.int64))
        done.update(new)


def below(closure: Lattice, node: Node) -> list[int]:
    """Positions of all subsets of a node of the closure; none where the node is only a block's."""
    if node not in closure.index:
        return []
    return [closure.index[s] for s in subsets(node)]


def rounded(sources: Callable[[str], ByteSource]) -> Noise:
    """The exactly rounded Gaussian.

    Args:
      sources: the random source of each node, by its name.
    """

    def add(strategy: Strategy, x: IntArray, scale: Scale, node: str) -> Values:
        grid = scale.grid
        floats = x.astype(np.float64)
        scaled = strategy.apply(floats) / grid  # exact: the grid is a power of two
        error = strategy.rounding_error(floats) / grid

        def exact(row: int) -> Fraction:
            return strategy.exact_entry(row, x) / Fraction(grid)

        return rounded_gaussian(scaled, error, scale.sigma / grid, exact, sources(node))

    return add


def opendp(strategy: Strategy, x: IntArray, scale: Scale, node: str) -> Values:
    """OpenDP's Gaussian on floats: slow, the cross-check."""
    values = strategy.apply(x.astype(np.float64))
    noisy, _ = opendp_gaussian(values, scale.sigma, _sensitivity_squared(scale), scale.cost / 2)
    return noisy


def delivered_scales(kind: str, scales: tuple[Scale, ...]) -> tuple[Scale, ...]:
    """The scales that a kind of noise really has: OpenDP's are a little larger and not rounded to a grid."""
    if kind != "opendp":
        return scales
    return tuple(
        replace(s, sigma=enlarged_sigma(s.sigma, _sensitivity_squared(s), s.cost / 2), grid=0.0) for s in scales
    )


def _sensitivity_squared(scale: Scale) -> Fraction:
    return scale.cost * Fraction(scale.sigma) ** 2


def none(strategy: Strategy, x: IntArray, scale: Scale, node: str) -> Values:
    """No noise: for tests."""
    return strategy.apply(x.astype(np.float64))


def make_noise(kind: str, test_seed: int | None) -> Noise:
    """The noise called ``kind``; rounded noise from the operating system, or from a seed that is NOT PRIVATE."""
    if kind == "none":
        return none
    if kind == "opendp":
        return opendp
    if test_seed is None:
        return rounded(lambda node: SystemSource())
    return rounded(lambda node: SeededSource(test_seed, node))
