"""Noisy measurements of all nodes: the only module that joins exact counts with noise.

Matrices, scales and the order of rows are fixed by plan and budget before any data is read. With the default noise a
node's mechanism is ``y = g round((B x + sigma Z) / g)`` over the reals, implemented exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from qcompile.data.engines.counts import ExactCounts
from qcompile.errors import BudgetError
from qcompile.lattice.lattice import Lattice, Node, below
from qcompile.plan.plan import Plan
from qcompile.privacy.noise.scale import Scale, root_up
from qcompile.queries.schema import Names
from qcompile.release.values import NodeValues
from qcompile.run.randomness import Noise
from qcompile.strategy import Strategy
from qcompile.support.arrays import IntArray, marginalise
from qcompile.support.threads import in_order

LARGEST_STEPS = 2.0**62
"""The largest number of grid steps of an exact answer."""

STEPS_A_DRAW = 16
"""Steps of a draw, in the unit that decides whether several threads are worth starting."""


def measure(
    plan: Plan,
    counts: ExactCounts,
    scales: tuple[Scale, ...],
    noise: Noise,
    workers: int | None = None,
    done: Container[int] = (),
) -> Iterator[tuple[int, NodeValues]]:
    """Measure every node with a non-zero Gram, several views at a time; in memory that does not grow with their number.

    Args:
      plan: what to measure.
      counts: the exact contingency tables.
      scales: one per class.
      noise: adds the noise; it must be safe to call from several threads.
      workers: threads; one per processor where None. The measurements do not depend on it.
      done: nodes that were measured before; they are left out.

    Yields:
      Nodes by position, each with its measurements; in an order that suits the counts.
    """
    closure, nodes_of = plan.closure, assign_nodes(plan, done)

    def view(names: Names, table: Callable[[], IntArray]) -> list[tuple[int, NodeValues]]:
        return [(i, measure_node(i, x)) for i, x in node_tables(closure, names, table(), nodes_of[names])]

    def measure_node(index: int, table: IntArray) -> NodeValues:
        c = int(closure.class_of[index])
        x = table.transpose(closure.orders[index])
        return noise(plan.strategies[c], x, scales[c], closure.title(index))

    jobs = (partial(view, names, table) for names, table in counts.tables(list(nodes_of)))
    for measured in in_order(jobs, STEPS_A_DRAW * draws(plan, scales), workers):
        yield from measured


def collect(measured: Iterable[tuple[int, NodeValues]], nodes: int) -> tuple[NodeValues, ...]:
    """Measurements by node; empty for nodes that are not measured."""
    values: list[NodeValues] = [np.zeros(0)] * nodes
    for index, numbers in measured:
        values[index] = numbers
    return tuple(values)


def require_range(strategies: Sequence[Strategy], scales: Sequence[Scale], total: int) -> None:
    """Refuse, before anything is spent, measurements that might not fit into 64 bits of grid steps.

    An entry of B x is at most ``total max_j |B e_j|``; the noise adds less than 2^20 steps. It takes a budget that
    protects nobody, or a table past all tables, to be refused: for 2^40 rows, a scale below 2^-13 counts of a row.

    Args:
      strategies: B per class.
      scales: the least noise of each class.
      total: the largest number of rows.

    Raises:
      BudgetError: one might not fit.
    """
    for strategy, scale in zip(strategies, scales, strict=True):
        if total * root_up(strategy.sensitivity_squared) / scale.grid >= LARGEST_STEPS:
            raise BudgetError(
                f"measurements at a noise scale of {scale.sigma:.2g} counts may not fit into 64 bits; choose a smaller "
                "budget"
            )


def draws(plan: Plan, scales: tuple[Scale, ...]) -> int:
    """The number of Gaussian numbers that a run draws."""
    members = plan.closure.members.tolist()
    noisy = zip(members, plan.strategies, scales, strict=True)
    return sum(m * s.rows for m, s, scale in noisy if scale.sigma > 0)


def assign_nodes(plan: Plan, done: Container[int] = ()) -> dict[Names, list[int]]:
    """The views whose exact counts are needed, each with the nodes and blocks that are measured from it.

    A node is summed out of the first view, smallest first, that covers it.
    """
    closure, taken = plan.closure, set[int]()
    nodes_of: dict[Names, list[int]] = {}
    blocks: dict[Node, list[int]] = {}
    for i in range(closure.first_block, len(closure.nodes)):
        blocks.setdefault(closure.nodes[i], []).append(i)
    for view in plan.tables:
        node = closure.node_of(view)
        inside = [*below(closure, node), *blocks.get(node, [])]
        new = [i for i in inside if i not in taken and closure.class_of[i] >= 0 and i not in done]
        if new:
            nodes_of[view] = new
        taken.update(new)
    return nodes_of


def node_tables(closure: Lattice, view: Names, table: IntArray, nodes: Iterable[int]) -> Iterator[tuple[int, IntArray]]:
    """Some nodes below a view with their exact marginals, axes in schema order, out of the view's table."""
    attributes = closure.node_of(view)
    for i in nodes:
        yield i, marginalise(table, attributes, closure.nodes[i])
