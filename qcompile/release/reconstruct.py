"""From noisy measurements to residual estimates and marginals.

t_A = V_A^+ B_A' y_A on every node; the marginal on S is the sum over A in S of t_A, lifted with (I - u 1') on the axes
in A and multiplied by u on the others. The sum is done axis by axis, so that every partial sum is used once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from qcompile.arrays import Array
from qcompile.lattice import Lattice, Node
from qcompile.projection import lift

Residual = Callable[[int], Array | None]
"""The residual estimate of a node by position, axes in schema order; None where nothing was measured."""


def marginal(closure: Lattice, residual: Residual, node: Node, batch: tuple[int, ...] = ()) -> Array:
    """The marginal estimate on a node, axes in schema order.

    Args:
      closure: gives the centring weights.
      residual: t_A per node, shape ``(*sizes, *batch)``.
      node: the attributes wanted.
      batch: trailing axes of every residual.
    """
    total = _combine(closure, residual, node, 0, ())
    return np.zeros((*closure.shape(node), *batch)) if total is None else total


def _combine(closure: Lattice, residual: Residual, node: Node, axis: int, kept: tuple[int, ...]) -> Array | None:
    """The sum over all subsets that agree with ``kept`` on the first ``axis`` attributes; axes of the rest in full."""
    if axis == len(node):
        index = closure.index.get(kept)
        return None if index is None else residual(index)
    u, place = closure.centring[node[axis]], len(kept)
    without = _combine(closure, residual, node, axis + 1, kept)
    within = _combine(closure, residual, node, axis + 1, (*kept, node[axis]))
    if within is not None:
        within = lift(within, u, place)
    if without is None:
        return within
    spread = np.moveaxis(np.multiply.outer(u, without), 0, place)
    return spread if within is None else within + spread


def in_schema_order(t: Array, order: Sequence[int]) -> Array:
    """Undo the class's axis order; trailing batch axes stay."""
    back = [list(order).index(i) for i in range(len(order))]
    return t.transpose(*back, *range(len(order), t.ndim))
