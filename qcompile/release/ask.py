"""Any single query in the span of what was measured, answered from the measurements themselves."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from qcompile.arrays import Array, outer, require_memory
from qcompile.errors import NotEstimableError
from qcompile.lattice import Lattice, Node
from qcompile.plan import Plan
from qcompile.projection import Projection
from qcompile.strategy import Strategy
from qcompile.workload import Product

SPAN_TOLERANCE = 1e-7
"""A projected query whose part outside the span is larger, relative to itself, is not estimable."""


@dataclass(frozen=True, eq=False)
class Coefficients:
    """How one node's measurements enter an answer.

    Attributes:
      node: position in the lattice.
      weights: one per measurement.
    """

    node: int
    weights: Array


def coefficients(plan: Plan, product: Product) -> Iterator[Coefficients]:
    """The combination of measurements that answers the only query of a product.

    Raises:
      NotEstimableError: the query lies outside the span.
      SizeError: the query touches too many cells.
    """
    closure = plan.closure
    for node, query in projected(closure, product):
        index = closure.index.get(node, -1)
        c = -1 if index < 0 else int(closure.class_of[index])
        if not query.any():
            continue
        if c < 0:
            raise not_estimable(closure, node, "this combination of attributes was not measured")
        order = closure.orders[index]
        yield Coefficients(index, _represented(plan.strategies[c], query.transpose(order), closure, node))


def _represented(strategy: Strategy, query: Array, closure: Lattice, node: Node) -> Array:
    weights = strategy.represent(query)
    missing = strategy.adjoint(weights) - query
    if np.abs(missing).max() > SPAN_TOLERANCE * np.abs(query).max():
        raise not_estimable(closure, node, "the workload measured only some combinations of its cells")
    return weights


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
