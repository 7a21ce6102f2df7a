"""Noisy measurements of all nodes: the only module that joins exact counts with randomness.

What is measured (matrices, scales, order of rows) is fixed by plan and budget before any data is read. With the
default noise a node's mechanism is ``y = g round((B x + sigma Z) / g)`` over the reals, implemented exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np

from qcompile.allocation import Scale, root_up
from qcompile.arrays import IntArray
from qcompile.data.counts import ExactCounts
from qcompile.errors import BudgetError
from qcompile.lattice import Lattice, Node, subsets
from qcompile.parallel import in_order
from qcompile.plan import Plan
from qcompile.privacy.opendp_noise import enlarged_sigma, opendp_gaussian
from qcompile.privacy.rounded import rounded_gaussian
from qcompile.privacy.source import ByteSource, SeededSource, SystemSource
from qcompile.release.stored import Values
from qcompile.strategy import Strategy

Names: TypeAlias = tuple[str, ...]

NOISES = ("rounded", "opendp", "none")

LARGEST_STEPS = 2.0**62
"""Grid steps of an exact answer, at most."""

STEPS_A_DRAW = 16
"""What a draw takes, in the steps that decide whether several threads are worth starting."""


class Noise(Protocol):
    """Adds noise to one node."""

    def __call__(self, strategy: Strategy, x: IntArray, scale: Scale, node: str) -> Values:
        """Measurements of counts ``x`` (axes in the strategy's order) on the node of that name."""


def measure(
    plan: Plan,
    counts: ExactCounts,
    scales: tuple[Scale, ...],
    noise: Noise,
    workers: int | None = None,
    done: Container[int] = (),
) -> Iterator[tuple[int, Values]]:
    """Measure every node with a non-zero Gram, several views at a time; in memory that does not grow with their number.

    Args:
      plan: what to measure.
      counts: the exact contingency tables.
      scales: one per class.
      noise: how; it must be safe to call from several threads.
      workers: threads; one per processor where None. What is measured does not depend on it.
      done: nodes that were measured before and are left out.

    Yields:
      Nodes by position, each with its measurements; in an order that suits the counts.
    """
    closure, nodes_of = plan.closure, assigned(plan, done)

    def view(names: Names, table: Callable[[], IntArray]) -> list[tuple[int, Values]]:
        return [(i, one(i, x)) for i, x in node_tables(closure, names, table(), nodes_of[names])]

    def one(index: int, table: IntArray) -> Values:
        c = int(closure.class_of[index])
        x = table.transpose(closure.orders[index])
        return noise(plan.strategies[c], x, scales[c], closure.title(index))

    jobs = (partial(view, names, table) for names, table in counts.tables(list(nodes_of)))
    for measured in in_order(jobs, STEPS_A_DRAW * draws(plan, scales), workers):
        yield from measured


def collected(measured: Iterable[tuple[int, Values]], nodes: int) -> tuple[Values, ...]:
    """Measurements by node; empty for nodes that are not measured."""
    values: list[Values] = [np.zeros(0)] * nodes
    for index, found in measured:
        values[index] = found
    return tuple(values)


def require_range(strategies: Sequence[Strategy], scales: Sequence[Scale], total: int) -> None:
    """Refuse, before anything is spent, measurements that might not fit into 64 bits of grid steps.

    An entry of B x is at most ``total max_j |B e_j|``; the noise adds less than 2^20 steps. It takes a budget that
    protects nobody, or a table past all tables, to be refused.

    Args:
      strategies: B per class.
      scales: the least noise of each class.
      total: number of rows.

    Raises:
      BudgetError: one might not fit.
    """
    for strategy, scale in zip(strategies, scales, strict=True):
        if total * root_up(strategy.sensitivity_squared) / scale.grid >= LARGEST_STEPS:
            raise BudgetError(
                f"measurements of this many rows at a noise scale of {scale.sigma:.2g} counts do not fit into 64 bits; "
                "choose a smaller budget"
            )


def draws(plan: Plan, scales: tuple[Scale, ...]) -> int:
    """How many Gaussian numbers a run draws."""
    members = plan.closure.members.tolist()
    noisy = zip(members, plan.strategies, scales, strict=True)
    return sum(m * s.rows for m, s, scale in noisy if scale.sigma > 0)


def assigned(plan: Plan, done: Container[int] = ()) -> dict[Names, list[int]]:
    """The views whose exact counts are needed, each with the nodes and blocks that are measured from it.

    A node is summed out of the first view, smallest first, that covers it.
    """
    closure, taken = plan.closure, set[int]()
    found: dict[Names, list[int]] = {}
    blocks: dict[Node, list[int]] = {}
    for i in range(closure.first_block, len(closure.nodes)):
        blocks.setdefault(closure.nodes[i], []).append(i)
    for view in plan.tables:
        node = tuple(closure.schema.positions[n] for n in view)
        inside = [*below(closure, node), *blocks.get(node, [])]
        new = [i for i in inside if i not in taken and closure.class_of[i] >= 0 and i not in done]
        if new:
            found[view] = new
        taken.update(new)
    return found


def node_tables(closure: Lattice, view: Names, table: IntArray, nodes: Iterable[int]) -> Iterator[tuple[int, IntArray]]:
    """Some nodes below a view with their exact marginals, axes in schema order, out of the view's table."""
    attributes = [closure.schema.positions[n] for n in view]
    for i in nodes:
        gone = tuple(axis for axis, a in enumerate(attributes) if a not in closure.nodes[i])
        yield i, np.asarray(table.sum(axis=gone, dtype=np.int64))


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
        if scale.sigma == 0:  # no neighbouring table changes it: public
            return np.rint(scaled).astype(np.int64)
        error = strategy.rounding_error(floats) / grid

        def exact(row: int) -> Fraction:
            return strategy.exact_entry(row, x) / Fraction(grid)

        return rounded_gaussian(scaled, error, scale.sigma / grid, exact, sources(node))

    return add


def opendp(strategy: Strategy, x: IntArray, scale: Scale, node: str) -> Values:
    """OpenDP's Gaussian on floats: slow, the cross-check."""
    values = strategy.apply(x.astype(np.float64))
    if scale.sigma == 0:
        return values
    noisy, _ = opendp_gaussian(values, scale.sigma, _sensitivity_squared(scale), scale.cost / 2)
    return noisy


def delivered_scales(kind: str, scales: tuple[Scale, ...]) -> tuple[Scale, ...]:
    """The scales that a kind of noise really has: OpenDP's are a little larger and not rounded to a grid."""
    if kind != "opendp":
        return scales
    return tuple(_enlarged(s) if s.sigma > 0 else s for s in scales)


def _enlarged(scale: Scale) -> Scale:
    sigma = enlarged_sigma(scale.sigma, _sensitivity_squared(scale), scale.cost / 2)
    return replace(scale, sigma=sigma, grid=0.0)


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
    return rounded(lambda node: SeededSource(int(test_seed), node))
