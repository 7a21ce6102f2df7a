"""Projections of factors on subsets of their attributes, and their Grams.

Formulas (QuerySmasher, arXiv 2604.00868, section 6.2, with general centring weights u): on axis i the identity
splits as I = 1 u' + (I - 1 u') acting on query vectors. A projected query keeps the second part on kept axes
(it is centred) and the first on the others (it is contracted with u).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qcompile.arrays import Array, along, cells
from qcompile.factors.base import Factor, Key, OneAttribute, row_blocks

ZERO = 1e-12
"""Projected entries below this share of a factor's largest entry are rounding error."""

RANK_TOLERANCE = 1e-10
"""Singular values below this share of the largest count as zero; decided per factor, before weighting."""


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
        """What the numbers depend on: the factor, the kept axes and the centring weights."""
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
    return "" if is_uniform(u) else u.tobytes().hex()


def is_uniform(u: Array) -> bool:
    """Whether the weights are all 1/n."""
    return bool(u[0] != 0 and (u == u[0]).all())


def uncentred(size: int) -> Array:
    """The weights of an axis whose queries are kept as they are: subtracting a mean weighted by 0 changes nothing."""
    return np.zeros(size)


class Gram:
    """``W' W`` of projected queries W on a group of axes, as a matrix or as rows.

    Attributes:
      key: what its numbers depend on.
      shape: the group's axis sizes.
    """

    def __init__(
        self, key: Key, shape: tuple[int, ...], matrix: Array | None = None, rows: Array | None = None
    ) -> None:
        self.key, self.shape = key, shape
        self._matrix, self._rows = matrix, rows

    @staticmethod
    def of_rows(key: Key, x: Array) -> Gram:
        """From queries ``(count, *shape)``, held as rows while that is smaller than the square matrix."""
        shape = x.shape[1:]
        flat = x.reshape(x.shape[0], cells(shape))
        if flat.shape[0] < flat.shape[1]:
            return Gram(key, shape, rows=flat)
        return Gram(key, shape, matrix=flat.T @ flat)

    @property
    def cells(self) -> int:
        """Number of cells of the group."""
        return cells(self.shape)

    @property
    def rows(self) -> Array | None:
        """Queries ``(count, cells)`` where the Gram is held that way."""
        return self._rows

    @cached_property
    def matrix(self) -> Array:
        """The matrix, ``(cells, cells)``."""
        if self._matrix is not None:
            return self._matrix
        assert self._rows is not None
        return self._rows.T @ self._rows

    @cached_property
    def trace(self) -> float:
        """Sum of the squared norms of the projected queries."""
        return float(np.trace(self._matrix)) if self._matrix is not None else float((self.root_rows**2).sum())

    @property
    def root_rows(self) -> Array:
        """Some R with ``R' R`` the Gram, of whatever rank."""
        return self._rows if self._rows is not None else self.root

    @cached_property
    def root(self) -> Array:
        """R of full row rank with ``R' R`` the Gram: shape ``(rank, cells)``."""
        if self._rows is not None:
            _, s, vt = np.linalg.svd(self._rows, full_matrices=False)
            keep = s > RANK_TOLERANCE * s[0]
            return np.ascontiguousarray(s[keep, None] * vt[keep])
        values, vectors = np.linalg.eigh(self.matrix)
        keep = values > RANK_TOLERANCE**2 * values[-1]
        keep &= values > 64 * np.finfo(float).eps * values[-1]  # below this an eigenvalue is rounding error
        return np.ascontiguousarray(np.sqrt(values[keep])[:, None] * vectors[:, keep].T)

    @property
    def rank(self) -> int:
        """Number of linearly independent projected queries."""
        return int(self.root.shape[0])

    @property
    def rank_bound(self) -> int:
        """An upper bound of `rank` that needs no decomposition."""
        return self.cells if self._rows is None else min(self._rows.shape[0], self.cells)

    def apply(self, x: Array, axes: Sequence[int]) -> Array:
        """Multiply the Gram into the given axes of ``x``, which have the group's shape."""
        if len(axes) == 1:
            return along(self.matrix, x, axes[0])
        moved = np.moveaxis(x, axes, range(len(axes)))
        flat = moved.reshape(self.cells, -1)
        product = self._rows.T @ (self._rows @ flat) if self._rows is not None else self.matrix @ flat
        return np.moveaxis(product.reshape(moved.shape), range(len(axes)), axes)

    @cached_property
    def spectrum(self) -> Array:
        """``f_k* G f_k`` for every frequency k of the unitary Fourier basis, shape `shape`."""
        if self._rows is not None or len(self.shape) > 1:
            waves = np.fft.fftn(self.root_rows.reshape(-1, *self.shape), axes=range(1, len(self.shape) + 1))
            return np.asarray((waves.real**2 + waves.imag**2).sum(axis=0) / self.cells)
        n, lags = self.cells, np.zeros(self.cells)
        for i, row in enumerate(self.matrix):
            lags[: n - i] += row[i:]
            lags[n - i :] += row[:i]
        return np.maximum(np.fft.fft(lags).real / n, 0.0)

    @cached_property
    def is_exchangeable(self) -> bool:
        """Whether every permutation of the cells leaves it unchanged: a multiple of I - 11'/n."""
        if len(self.shape) > 1 or self.cells == 1:
            return False
        value = self.trace / (self.cells - 1)
        return self.is_diagonal_plus(value, -value / self.cells)

    def is_diagonal_plus(self, diagonal: float, everywhere: float) -> bool:
        """Whether the matrix is ``diagonal I + everywhere 11'``, up to rounding errors."""
        for rows in row_blocks(self.cells):
            rest = self.matrix[rows] - everywhere
            rest[np.arange(len(rest)), np.arange(rows.start, rows.stop)] -= diagonal
            if not np.abs(rest).max() <= 1e-12 * self.trace:
                return False
        return True

    @cached_property
    def is_circulant(self) -> bool:
        """Whether cyclic shifts of the only axis leave it unchanged."""
        if len(self.shape) > 1:
            return False
        m = self.matrix
        tolerance = 1e-12 * max(float(m.max()), -float(m.min()))
        for rows in row_blocks(self.cells):
            shifted = np.roll(m[np.arange(rows.start, rows.stop) - 1], 1, axis=1)
            if not np.abs(shifted - m[rows]).max() <= tolerance:
                return False
        return True
