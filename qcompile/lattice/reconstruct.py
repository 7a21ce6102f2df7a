"""From residual estimates to marginals.

t_A = V_A^+ B_A' y_A on every node; the marginal on S is the sum over A in S of t_A, lifted with (I - u 1') on the axes
in A and multiplied by u on the others (mathematics of QuerySmasher, arXiv 2604.00868, section 6, for any centring u).
The sum is done axis by axis, so that every partial sum is used once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from qcompile.lattice.lattice import Lattice, Node
from qcompile.lattice.projection import is_uniform, lift
from qcompile.support.arrays import Array

Residual = Callable[[int], Array | None]
"""The lifted residual estimate of a node by position, axes in schema order; None, counted as 0, where there is none."""


def marginal(closure: Lattice, residual: Residual, node: Node, batch: tuple[int, ...] = ()) -> Array:
    """The marginal estimate on a node, axes in schema order.

    Args:
      closure: gives the centring weights.
      residual: t_A per node, lifted, shape ``(*sizes, *batch)``.
      node: the attributes wanted.
      batch: trailing axes of every residual.

    Returns:
      A new array, shape ``(*sizes, *batch)``.
    """
    total = np.zeros((*closure.shape(node), *batch))
    add_marginal(total, closure, residual, node)
    return total


def add_marginal(total: Array, closure: Lattice, residual: Residual, node: Node) -> None:
    """Add a marginal's estimate to an array of its shape; what residuals say nothing of is not touched.

    Args:
      total: written over.
      closure: see `marginal`.
      residual: see `marginal`.
      node: see `marginal`.
    """
    estimate = _combine(closure, residual, node, 0, ())
    if estimate is not None:
        total += estimate


def lift_residual(closure: Lattice, t: Array, node: Node) -> Array:
    """``(I - u 1')`` on every axis of a node: what is left sums to 0 along each of them.

    Args:
      closure: gives the centring weights.
      t: an array on the node, axes in schema order; trailing batch axes stay.
      node: the attributes.
    """
    for axis, a in enumerate(node):
        t = lift(t, closure.centring[a], axis)
    return t


def _combine(closure: Lattice, residual: Residual, node: Node, axis: int, kept: tuple[int, ...]) -> Array | None:
    """The sum over all subsets that agree with ``kept`` on the first ``axis`` attributes.

    Axes that all parts are constant along have length 1.
    """
    if axis == len(node):
        index = closure.index.get(kept)
        return None if index is None else residual(index)
    without = _combine(closure, residual, node, axis + 1, kept)
    within = _combine(closure, residual, node, axis + 1, (*kept, node[axis]))
    if without is None:
        return within
    spread = _spread(without, closure.centring[node[axis]], len(kept))
    return spread if within is None else within + spread


def _spread(x: Array, u: Array, place: int) -> Array:
    """A new axis with weights u; of length 1 where they are all the same."""
    if is_uniform(u):
        return np.expand_dims(x * u[0], place)
    return np.moveaxis(np.multiply.outer(u, x), 0, place)


def in_schema_order(t: Array, order: Sequence[int]) -> Array:
    """Undo the class's axis order; trailing batch axes stay."""
    back = [list(order).index(i) for i in range(len(order))]
    return t.transpose(*back, *range(len(order), t.ndim))
