"""Projections of factors on subsets of their attributes, and their Grams.

Formulas (QuerySmasher, arXiv 2604.00868, section 6.2, with general centring weights u): on axis i the identity
splits as I = 1 u' + (I - 1 u') acting on query vectors. A projected query keeps the second part on kept axes
(it is centred) and the first on the others (it is contracted with u).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qcompile.lattice.gram import ExchangeableGram, Gram
from qcompile.lattice.ordered_grams import OrderedGram, has_closed_gram
from qcompile.queries.factors.base import Factor, Key, OneAttribute, row_blocks
from qcompile.support.arrays import Array, cells, require_memory

PROJECTED = 4
"""Arrays as large as the projected queries that live at once while they are made."""

ZERO = 1e-12
"""Projected entries below this share of a factor's largest entry are rounding error."""


def centre(x: Array, u: Array, axis: int) -> Array:
    """Subtract the u-weighted mean of queries along an axis: ``x (I - u 1')`` for rows x."""
    mean = np.tensordot(x, u, axes=(axis, 0))
    return np.asarray(x - np.expand_dims(mean, axis))


def lift(x: Array, u: Array, axis: int) -> Array:
    """The adjoint of `centre`, on data: ``x - u sum(x)`` along an axis."""
    shape = [1] * x.ndim
    shape[axis] = -1
    return np.asarray(x - u.reshape(shape) * x.sum(axis=axis, keepdims=True))


@dataclass(frozen=True, eq=False)
class Projection:
    """A factor's queries projected on some of its axes, without materialising them.

    Attributes:
      factor: the queries.
      kept: per axis of the factor, whether it is kept (centred) or contracted.
      u: centring weights per axis of the factor.
    """

    factor: Factor
    kept: tuple[bool, ...]
    u: tuple[Array, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the kept axes, in the factor's order."""
        return tuple(n for n, k in zip(self.factor.shape, self.kept, strict=True) if k)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the kept axes, in the factor's order."""
        return tuple(n for n, k in zip(self.factor.names, self.kept, strict=True) if k)

    def lifted(self, x: Array) -> Array:
        """The array on all axes whose product with a query is the projected query's product with ``x``.

        Args:
          x: shape ``(*shape, *batch)``.

        Returns:
          Shape ``(*factor.shape, *batch)``.
        """
        for axis, (kept, u) in enumerate(zip(self.kept, self.u, strict=True)):
            x = lift(x, u, axis) if kept else np.moveaxis(np.multiply.outer(u, x), 0, axis)
        return x

    def apply(self, x: Array) -> Array:
        """Answers of the projected queries: ``(*shape, *batch)`` to ``(count, *batch)``."""
        return self.factor.apply(self.lifted(x))

    def quadratic(self, root: Array) -> Array:
        """``q' M q`` per projected query, ``M = root root'``; root of shape ``(*shape, r)``."""
        return self.factor.quadratic(self.lifted(root))

    @cached_property
    def matrix(self) -> Array:
        """The projected queries, shape ``(count, *shape)``; entries that are rounding error are set to 0."""
        what = f"the projection of {self.factor!r} on {', '.join(self.names) or 'no attribute'}"
        require_memory(what, PROJECTED * self.factor.count * cells(self.shape), "use fewer thresholds or bins")
        x = self.factor.contract([None if k else u for k, u in zip(self.kept, self.u, strict=True)])
        for axis, u in enumerate(u for k, u in zip(self.kept, self.u, strict=True) if k):
            x = centre(x, u, axis + 1)
        return np.where(np.abs(x) <= ZERO * self.factor.magnitude, 0.0, x)

    def gram(self) -> Gram | float | None:
        """The Gram on the kept axes; a number when none is kept; None where it is structurally zero."""
        if isinstance(self.factor, OneAttribute):
            return self._one_attribute_gram(self.factor)
        x = self.matrix.reshape(self.factor.count, -1)
        if not x.any():
            return None
        if not any(self.kept):
            return float((x**2).sum())
        return Gram.of_rows(self.key, self._canonical(x))

    def _one_attribute_gram(self, factor: OneAttribute) -> Gram | float | None:
        (u,), (kept,) = self.u, self.kept
        if kept and factor.size == 1 and u.any():  # a centred axis of one cell is always 0, an uncentred one is not
            return None
        entries = factor.exchangeable_gram
        if kept and entries is not None and (is_uniform(u) or not u.any()):
            return ExchangeableGram.centred(self.key, factor.size, *entries, uniform=bool(u.any()))
        if kept and is_uniform(u) and has_closed_gram(factor):
            return OrderedGram(self.key, factor)
        if kept:
            factor.require_gram()
        mean = factor.gram_times(u)
        overall = float(u @ mean)
        if not kept:
            return overall
        gram = factor.gram()
        for rows in row_blocks(factor.size):
            gram[rows] -= (mean[rows, None] + mean) - overall  # symmetric to the last bit
        return Gram(self.key, (factor.size,), gram)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The factor's axes in canonical order: its own, and where axes can be exchanged by what is done to them."""
        f = self.factor
        slots = [(f.roles[i], f.shape[a]) for i, a in enumerate(f.axis_order)]
        done = [(self.kept[a], u_key(self.u[a])) for a in f.axis_order]
        order = list(f.axis_order)
        for slot in set(slots):
            where = [i for i, s in enumerate(slots) if s == slot]
            for i, j in zip(where, sorted(where, key=done.__getitem__), strict=True):
                order[i] = f.axis_order[j]
        return tuple(order)

    @cached_property
    def key(self) -> Key:
        """Identity of the numbers: the factor, the kept axes and the centring weights."""
        return (*self.factor.key, tuple((self.kept[a], u_key(self.u[a])) for a in self.order))

    @property
    def kept_order(self) -> tuple[int, ...]:
        """The kept axes of the factor in canonical order: the axes of `gram`."""
        return tuple(a for a in self.order if self.kept[a])

    def _canonical(self, x: Array) -> Array:
        """Rows of queries with their kept axes in canonical order."""
        position = {a: i for i, a in enumerate(sorted(self.kept_order))}
        return x.reshape(-1, *self.shape).transpose(0, *(position[a] + 1 for a in self.kept_order))


def u_key(u: Array) -> str:
    """Identity of centring weights; empty for uniform ones, the common case."""
    if is_uniform(u):
        return ""
    return u.tobytes().hex() if u.strides != (0,) else float(u[0]).hex()


def is_uniform(u: Array) -> bool:
    """True if the weights are all 1/n."""
    return bool(u[0] != 0 and (u.strides == (0,) or (u == u[0]).all()))


WRITTEN_OUT = 2**22
"""Values of an attribute up to which equal weights are an array of as many numbers."""


def equal_weights(size: int, weight: float) -> Array:
    """The same weight for every value; of very many values, which no query can ask about, one number stands for all."""
    return np.full(size, weight) if size <= WRITTEN_OUT else np.broadcast_to(weight, (size,))


def zero_weights(size: int) -> Array:
    """The weights of an axis whose queries are kept as they are: subtracting a mean weighted by 0 changes nothing."""
    return equal_weights(size, 0.0)
