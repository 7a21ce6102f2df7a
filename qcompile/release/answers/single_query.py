"""Any single query in the span of what was measured, answered from the measurements themselves."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from qcompile.errors import NotEstimableError
from qcompile.lattice.lattice import Lattice, Node
from qcompile.lattice.oblique import LEFT, lower_subsets, part_on, written_out
from qcompile.lattice.projection import Projection
from qcompile.lattice.reconstruct import in_schema_order
from qcompile.queries.workload import Product
from qcompile.strategy import Strategy
from qcompile.strategy.variances import oblique_top
from qcompile.support.arrays import Array, outer, require_memory

SPAN_TOLERANCE = 1e-7
"""A projected query whose part outside the span is larger, relative to itself, is not estimable."""


@dataclass(frozen=True, eq=False)
class Coefficients:
    """The contribution of one node's measurements to an answer.

    Attributes:
      node: position in the lattice.
      weights: one per measurement.
    """

    node: int
    weights: Array


def coefficients(closure: Lattice, strategies: Sequence[Strategy], product: Product) -> Iterator[Coefficients]:
    """The combination of measurements that answers the only query of a product.

    Args:
      closure: the lattice, or the view of a block.
      strategies: one per class.
      product: of a single query.

    Raises:
      NotEstimableError: the query lies outside the span.
      SizeError: the query touches too many cells.
    """
    held = closure.covering(product)
    top = oblique_top(closure, strategies, held)
    parts = projected(closure, held) if top is None else _left_below(closure, strategies, held, top)
    for node, query in parts:
        index = closure.index.get(node, -1)
        c = -1 if index < 0 else int(closure.class_of[index])
        if not query.any():
            continue
        if c < 0:
            raise not_estimable(closure, node, "this combination of attributes was not measured")
        order = closure.orders[index]
        yield Coefficients(index, _represented(strategies[c], query.transpose(order), closure, node))


def _represented(strategy: Strategy, query: Array, closure: Lattice, node: Node) -> Array:
    if outside_span(strategy, query):
        raise not_estimable(closure, node, "the workload measured only some combinations of its cells")
    return strategy.represent(query)


def outside_span(strategy: Strategy, query: Array) -> bool:
    """True if a query, or any of several along a last axis, is no combination of a strategy's rows."""
    missing = strategy.own.adjoint(strategy.represent(query)) - query
    return bool(np.abs(missing).max() > SPAN_TOLERANCE * np.abs(query).max())


def _left_below(
    closure: Lattice, strategies: Sequence[Strategy], product: Product, top: int
) -> Iterator[tuple[Node, Array]]:
    """As `projected`, with what the measurements of an oblique node leave to the nodes below it."""
    node, order, strategy = closure.nodes[top], closure.orders[top], strategies[int(closure.class_of[top])]
    (query,) = written_out(product.factors, closure.names(node))
    weights = [closure.centring[a] for a in node]
    own = part_on(query[None], weights, range(len(node)))[0]
    yield node, own
    taken = strategy.adjoint(_represented(strategy, own.transpose(order), closure, node))
    left = query - in_schema_order(taken, order)
    for kept in lower_subsets(len(node)):
        part = part_on(left[None], weights, kept)[0]
        negligible = np.abs(part).max() <= LEFT * np.abs(query).max()
        yield tuple(node[a] for a in kept), np.zeros(part.shape) if negligible else part


def projected(closure: Lattice, product: Product) -> Iterator[tuple[Node, Array]]:
    """The query's part on each subset of its attributes, axes in schema order."""
    positions = closure.schema.positions
    for kept in itertools.product(*(itertools.product((False, True), repeat=len(f.shape)) for f in product.factors)):
        parts, axes = [], []
        for f, mask in zip(product.factors, kept, strict=True):
            projection = Projection(f, mask, tuple(closure.centring[positions[n]] for n in f.names))
            parts.append(projection.matrix[0])
            axes += [positions[n] for n in projection.names]
        size = int(np.prod([p.size for p in parts], dtype=object))
        require_memory("this query", size, "ask about fewer attributes at once")
        node = tuple(sorted(axes))
        yield node, outer(parts).transpose([axes.index(a) for a in node])


def not_estimable(closure: Lattice, node: Node, reason: str) -> NotEstimableError:
    """The refusal, with a next step."""
    names = " x ".join(closure.names(node)) or "the total"
    return NotEstimableError(
        f"not estimable: the query depends on {names}, and {reason}; add a family with these attributes to the workload"
    )
