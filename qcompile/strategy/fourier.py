"""Circulant strategies: B is a cyclic convolution on all axes, so that everything is a fast Fourier transform.

Source: Weighted Fourier Factorizations (arXiv 2512.21499). B = sum_k sqrt(h_k) f_k f_k^* is real and symmetric since
h_k = h_-k. The mechanism's B is the circulant of the doubles in `kernel`, an exact real matrix.

An interval of L of n cells has |f_k^* q|^2 = sin^2(pi k L / n) / (n sin^2(pi k / n)), wherever it starts: so the
variances of interval queries depend on their lengths alone, and those of all lengths are one Fourier transform. Arcs
around a cell that they leave out follow from the same numbers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from qcompile.lattice.lattice import Group
from qcompile.lattice.projection import is_uniform
from qcompile.queries.factors.base import CHUNK, OneAttribute
from qcompile.queries.factors.circular import Circular
from qcompile.strategy import pair_distance as pairs
from qcompile.strategy.base import EPS, Block, ExactEntries, Strategy, column_bound
from qcompile.strategy.differing_axes import Distances, by_difference, certain_distances, is_simple, same_distance
from qcompile.strategy.exact_products import as_fraction, contract, convolve
from qcompile.support.arrays import Array, IntArray, cells, require_memory

ZERO_FREQUENCY = 1e-12
"""Frequencies of B below this share of the largest are not measured."""

FEW_ROWS = 64
"""Exact entries that are computed one by one: each takes a pass over the cells, the convolution about 50 of them."""

SMALLER = "ask for a smaller family, or use bins"


class FourierStrategy(Strategy):
    """B[i, j] = kernel[(i - j) mod shape], one row and one column per cell.

    Attributes:
      kernel: shape `shape`, symmetric under negation of the index.
    """

    def __init__(self, kernel: Array) -> None:
        self.kernel = kernel
        self.shape = tuple(kernel.shape)

    @cached_property
    def _axes(self) -> tuple[int, ...]:
        return tuple(range(len(self.shape)))

    @cached_property
    def eigenvalues(self) -> Array:
        """The weights of B, per frequency; 0 where nothing is measured."""
        values = np.fft.fftn(self.kernel).real
        return np.where(np.abs(values) > ZERO_FREQUENCY * np.abs(values).max(), values, 0.0)

    @cached_property
    def _inverse(self) -> Array:
        safe = np.where(self.eigenvalues == 0, 1.0, self.eigenvalues)
        return np.where(self.eigenvalues == 0, 0.0, 1 / safe)

    @property
    def rows(self) -> int:
        """One per cell."""
        return cells(self.shape)

    @property
    def rank(self) -> int:
        """Number of frequencies measured."""
        return int(np.count_nonzero(self.eigenvalues))

    def _filter(self, x: Array, values: npt.NDArray[Any]) -> Array:
        batch = x.ndim - len(self.shape)
        waves = np.fft.fftn(x, axes=self._axes) * values.reshape(*values.shape, *[1] * batch)
        return np.asarray(np.fft.ifftn(waves, axes=self._axes).real)

    def apply(self, x: Array) -> Array:
        """A cyclic convolution; see `Strategy.apply`."""
        return self._filter(x, np.fft.fftn(self.kernel)).reshape(-1, *x.shape[len(self.shape) :])

    def adjoint(self, y: Array) -> Array:
        """B is symmetric."""
        return self._filter(y.reshape(*self.shape, *y.shape[1:]), np.fft.fftn(self.kernel).conj())

    def solve(self, y: Array) -> Array:
        """Divide by the eigenvalues."""
        return self._filter(y.reshape(*self.shape, *y.shape[1:]), self._inverse)

    def represent(self, q: Array) -> Array:
        """Divide by the eigenvalues; B is symmetric."""
        return self._filter(q, self._inverse).reshape(-1, *q.shape[len(self.shape) :])

    @cached_property
    def sensitivity_squared(self) -> Fraction:
        """All columns hold the same numbers."""
        return column_bound(self.kernel.reshape(-1, 1))

    @cached_property
    def pair_sensitivity_squared(self) -> Fraction:
        """``2 (v[0] - min v)`` with v the autocorrelation of the kernel: V is the circulant of v."""
        if bool((self.kernel == self.kernel.flat[0]).all()):
            return Fraction(0)
        v = self._autocorrelation
        return pairs.certain(float(2 * (v.flat[0] - v.min())), float(self.sensitivity_squared), self.operations)

    @cached_property
    def distances(self) -> Distances:
        """``2 (v[0] - v[d])`` for cells that differ by d: the smallest v with d other than 0 on some axes."""
        largest, axes = self.pair_sensitivity_squared, len(self.shape)
        if is_simple(axes, largest):
            return same_distance(axes, largest)
        v = self._autocorrelation
        values = by_difference(2 * (v.flat[0] - v)).tolist()
        return certain_distances(values, largest, float(self.sensitivity_squared), self.operations)

    @cached_property
    def _autocorrelation(self) -> Array:
        return np.asarray(np.fft.ifftn(np.abs(np.fft.fftn(self.kernel)) ** 2).real)

    @cached_property
    def operations(self) -> int:
        """The error of an entry of V is below this many units of 2^-52, relative to the largest entry.

        With t the error of a transform, the squared spectrum errs by ``2 t |k|^2 n`` in the 1-norm, hence v by
        ``2 t |k|^2`` in every entry; the transform back adds ``t |v|`` in the 2-norm.
        """
        v = self._autocorrelation
        transform = sum(transform_error(n) for n in self.shape)
        return math.ceil(transform / EPS * (2 + float(np.sqrt((v * v).sum())) / float(v.flat[0]))) + 8

    def column_norms(self) -> Array:
        """``V[j, j]`` for every cell, shape `shape`: the same for all."""
        return np.full(self.shape, float((self.kernel * self.kernel).sum()))

    def gram_rows(self, where: IntArray, first: int) -> Array:
        """Rows of V at flat cells, columns from ``first``: ``(k,)`` to ``(k, cells - first)``."""
        return np.stack([_circulant_row(self._autocorrelation, int(i)).ravel()[first:] for i in where])

    def rounding_error(self, x: Array) -> float:
        """Three transforms, each with a relative 2-norm error below `transform_error`.

        The errors of x and of the result pass through B, whose norm is its largest eigenvalue; that of the kernel is an
        error of any one eigenvalue, which only the 2-norm of all of them bounds.
        """
        transform = sum(transform_error(n) for n in self.shape)
        spectrum = np.abs(np.fft.fftn(self.kernel))
        largest, norm = float(spectrum.max()), float(np.sqrt((spectrum**2).sum()))
        return transform * (2 * largest + norm) * float(np.sqrt((x * x).sum()))

    def exact_entries(self, x: IntArray) -> ExactEntries:
        """A few rows one by one; for many the whole convolution, once."""
        whole = functools.cache(lambda: convolve(self.kernel, x))

        def entries(rows: IntArray) -> list[Fraction]:
            if len(rows) <= FEW_ROWS:
                return [self._exact_entry(int(row), x) for row in rows]
            product, exponent = whole()
            return [as_fraction(v, exponent) for v in product.ravel()[rows]]

        return entries

    def _exact_entry(self, row: int, x: IntArray) -> Fraction:
        product, exponent = contract(_circulant_row(self.kernel, row).ravel(), x.reshape(-1, 1))
        return as_fraction(product[0], exponent)

    def factors(self, order: Sequence[int]) -> tuple[Array, ...]:
        """The circulant, written out."""
        require_memory("the matrix of a node", self.rows**2, "inspect a smaller node")
        matrix = np.stack([_circulant_row(self.kernel, i) for i in range(self.rows)])
        d = len(self.shape)
        return (
            (matrix.reshape(-1, *self.shape).transpose(0, *(i + 1 for i in order)).reshape(self.rows, -1),) if d else ()
        )

    def trace(self, groups: Sequence[Group]) -> float:
        """Sum over frequencies of the groups' spectra divided by h."""
        value = self._inverse**2
        for g in groups:
            shape = [1] * len(self.shape)
            for a in g.axes:
                shape[a] = self.shape[a]
            spectrum = g.gram.spectrum.transpose(np.argsort(g.axes))
            value = value * spectrum.reshape(shape)
        return float(value.sum())

    def variances(self, blocks: Sequence[Block]) -> list[Array]:
        """Contract 1/h with every block's power spectrum; those of intervals are looked up by length."""
        require_memory("the variances of a family", math.prod(b.count for b in blocks), SMALLER)
        value = self._by_length(blocks)
        for axis, b in enumerate(blocks):
            factor = _intervals(b)
            value = value if factor is None else value.take(factor.lengths() - 1, axis)
        return [value]

    def errors(self, blocks: Sequence[Block]) -> tuple[float, float]:
        """The errors of intervals, from the number of queries of each length; see `Strategy.errors`."""
        value = total = self._by_length(blocks)
        for axis, b in enumerate(blocks):
            factor = _intervals(b)
            counts = np.ones(b.count, dtype=np.int64) if factor is None else factor.length_counts()
            total = np.tensordot(counts, total, axes=(0, 0))
            value = value.compress(counts > 0, axis)
        return float(total), float(value.max())

    def _by_length(self, blocks: Sequence[Block]) -> Array:
        """Variances with one axis per block: its queries, or for intervals the lengths 1..n."""
        value = (self._inverse**2).transpose([a for b in blocks for a in b.axes])
        value = value.reshape([cells(b.projection.shape) for b in blocks])
        for axis, b in enumerate(blocks):
            if _intervals(b) is not None or _gapped(b) is not None:
                value = _interval_variances(value, axis)
        for axis, b in enumerate(blocks):
            arcs = _gapped(b)
            if arcs is not None:
                value = _gapped_variances(arcs, value, axis)
            elif _intervals(b) is None:
                value = _contracted(b, value, axis)
        return value


def _circulant_row(kernel: Array, row: int) -> Array:
    """Entries kernel[(i - j) mod n] over j."""
    index = np.unravel_index(row, kernel.shape)
    picks = [(int(i) - np.arange(n)) % n for i, n in zip(index, kernel.shape, strict=True)]
    return kernel[np.ix_(*picks)]


def transform_error(n: int) -> float:
    """A bound of the relative 2-norm error of a transform of length n.

    Stages of small radix: 8 log2(n) eps (Higham 2002, theorem 24.2), taken four times. A prime factor p is summed
    directly or by three padded transforms: each output errs by at most p eps times the 1-norm of its p inputs, hence
    p^1.5 eps in the 2-norm, taken twice.
    """
    return EPS * (32 * math.log2(max(2, n)) + 2 * math.pow(_largest_prime(n), 1.5))


def _largest_prime(n: int) -> int:
    largest, p = 1, 2
    while p * p <= n:
        while n % p == 0:
            n, largest = n // p, p
        p += 1
    return max(largest, n)


def _intervals(block: Block) -> OneAttribute | None:
    """The block's factor, where its queries are intervals and centring takes nothing but their zero frequency."""
    factor = block.projection.factor
    if isinstance(factor, OneAttribute) and factor.contiguous and is_uniform(block.projection.u[0]):
        return factor
    return None


def _gapped(block: Block) -> Circular | None:
    """The block's factor, where its arcs leave out a cell that stands between the last value and the first."""
    factor = block.projection.factor
    if isinstance(factor, Circular) and not factor.contiguous and is_uniform(block.projection.u[0]):
        return factor
    return None


def _interval_variances(value: Array, axis: int) -> Array:
    """``sum_k value_k |f_k^* q|^2`` for centred intervals q of the lengths 1..n, along one axis of size n.

    With 2 sin^2(x) = 1 - cos(2 x) the sum is the difference of a transform's first entry and its L-th one. The terms
    are positive and of the order of the result for every 1/h that grows with k, so that few digits cancel.
    """
    n = value.shape[axis]
    waves = np.moveaxis(value, axis, -1)
    weights = np.zeros(n)
    weights[1:] = 0.5 / (n * np.sin(np.arange(1, n) * np.pi / n) ** 2)
    transform = np.fft.rfft(waves * weights).real
    by_length = np.maximum(transform[..., :1] - transform, 0.0)
    by_length[..., 1:2] = waves[..., 1:].sum(axis=-1, keepdims=True) / n
    lengths = np.arange(1, n + 1)
    return np.moveaxis(by_length[..., np.minimum(lengths, n - lengths)], -1, axis)


def _gapped_variances(factor: Circular, value: Array, axis: int) -> Array:
    """The variances of arcs with a cells before a gap of one cell and b behind it, from those g of intervals by length.

    The arc is the interval of a + b + 1 cells less the gap's cell, whose covariances with the two sides are differences
    of g again: ``g(a+b+1) - g(a+1) + g(a) - g(b+1) + g(b) + g(1)``. An arc that ends before the gap has b = 0.
    """
    require_memory("the variances of a family", factor.count * (value.size // value.shape[axis]), SMALLER)
    padding = [(int(i == axis), 0) for i in range(value.ndim)]
    g: Array = np.pad(value, padding)  # g(0) = 0
    before, behind = factor.around_gap()
    found = g.take(before + behind + 1, axis)
    found -= g.take(before + 1, axis)
    found += g.take(before, axis)
    found -= (np.diff(g, axis=axis) - g.take([1], axis)).take(behind, axis)
    return np.maximum(found, 0.0)


def _contracted(block: Block, value: Array, axis: int) -> Array:
    """``sum_k value_k |f_k^* q|^2`` for each query q of the block, along one axis: a few queries at a time."""
    shape, n = block.projection.shape, value.shape[axis]
    moved = np.moveaxis(value, axis, 0)
    flat = moved.reshape(n, -1)
    require_memory("the variances of a family", block.count * flat.shape[1], SMALLER)
    result = np.empty((block.count, flat.shape[1]))
    step = max(1, CHUNK // (4 * n))
    for start in range(0, block.count, step):
        waves = np.fft.fftn(block.projection.matrix[start : start + step], axes=range(1, len(shape) + 1))
        result[start : start + step] = (waves.real**2 + waves.imag**2).reshape(-1, n) @ flat / n
    return np.moveaxis(result.reshape(-1, *moved.shape[1:]), 0, axis)
