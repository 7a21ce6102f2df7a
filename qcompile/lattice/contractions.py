"""Contractions of Grams and queries that derivatives by centring weights are made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qcompile.lattice.gram import Gram
from qcompile.lattice.lattice import Group, Term
from qcompile.lattice.projection import Projection, centre
from qcompile.queries.factors.base import OneAttribute
from qcompile.support.arrays import Array


def gram_in_order(number: int, p: Projection, order: Sequence[int]) -> Gram:
    """A projection's Gram with its axes in the order of the symbolic sums, which the weights here do not decide."""
    if isinstance(p.factor, OneAttribute):
        gram = p.gram()
        assert isinstance(gram, Gram)
        return gram
    place = sorted(order)
    rows = p.matrix.reshape(p.factor.count, *p.shape)
    return Gram.of_rows((number,), rows.transpose(0, *(place.index(a) + 1 for a in order)))


def in_factor_order(p: Projection, slope: Array, kept_order: Sequence[int]) -> Array:
    """A matrix on a Gram's axes as one on the projection's, which come in the factor's own order."""
    order = np.argsort(kept_order).tolist()
    shape = [p.factor.shape[a] for a in kept_order]
    moved = slope.reshape((*shape, *shape)).transpose((*order, *(len(order) + i for i in order)))
    return moved.reshape(slope.shape)


def open_axis(p: Projection, axis: int) -> Array:
    """A projection's queries with one contracted axis left open: ``(count, kept cells, size of the axis)``."""
    x = p.factor.contract([None if k or i == axis else u for i, (k, u) in enumerate(zip(p.kept, p.u, strict=True))])
    open_axes = [i for i, k in enumerate(p.kept) if k or i == axis]
    for place, i in enumerate(open_axes):
        if i != axis:
            x = centre(x, p.u[i], place + 1)
    x = np.moveaxis(x, 1 + open_axes.index(axis), -1)
    return np.asarray(x.reshape(x.shape[0], -1, x.shape[-1]))


def partial_traces(matrix: Array, shape: tuple[int, ...], term: Term) -> tuple[float, list[Array]]:
    """``tr(G matrix)`` for a Kronecker term G, and its derivative by each group's Gram."""
    d = len(shape)
    tensor = matrix.reshape(*shape, *shape)
    derivatives = []
    for g in term.groups:
        x, axes = tensor, list(range(d))
        for other in term.groups:
            if other is not g:
                x, axes = _traced(x, axes, other)
        order = [axes.index(a) for a in g.axes]
        derivatives.append(x.transpose(*order, *(len(axes) + i for i in order)).reshape(g.gram.cells, g.gram.cells))
    return float((derivatives[0] * term.groups[0].gram.matrix).sum()), derivatives


def _traced(x: Array, axes: list[int], group: Group) -> tuple[Array, list[int]]:
    """Contract a group's row and column axes with its Gram."""
    places = [axes.index(a) for a in group.axes]
    gram = group.gram.matrix.reshape(*group.gram.shape, *group.gram.shape)
    columns = [len(axes) + i for i in places]
    return np.tensordot(x, gram, axes=([*places, *columns], range(gram.ndim))), [a for a in axes if a not in group.axes]
