"""Strategies of one long ordered axis: a filter in the cosine basis, weighted by cell, with a few directions corrected.

With u = 1/n, on n cells,

    B = (I + X diag(e) X') H diag(g) (I - u 1'),     H_ij = k(i-j) + k(i+j+1),

k an even function of period 2n: H is the cyclic convolution with k of what is reflected at both ends, symmetric, and
diagonal in the cosine basis (DCT-II). The optimum for centred prefixes is the Gram's square root between weights of the
cells; its bulk is such a filter, and what differs near the two ends are few directions X. All of B's numbers are
doubles (and 1/n), so that B is an exact matrix; products, estimates and variances take time n log n, memory n.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np

from qcompile.errors import IntegrityError
from qcompile.lattice.lattice import Group
from qcompile.lattice.ordered_grams import is_centred_prefix
from qcompile.lattice.projection import is_uniform
from qcompile.queries.factors import Marginal, Prefix
from qcompile.strategy import pair_distance as pairs
from qcompile.strategy.base import EPS, Block, ExactEntries, Strategy
from qcompile.strategy.causal_sums import prefix_quadratics
from qcompile.strategy.differing_axes import Distances, same_distance
from qcompile.strategy.exact_products import as_fraction, as_integers, convolve
from qcompile.strategy.fourier import transform_error
from qcompile.support.arrays import Array, IntArray, require_memory

ZERO_FREQUENCY = 1e-12
"""Share of the largest frequency of H below which one would not be measured: such a filter is refused."""

SUM = 1e-9
"""Sum of a direction, or of the filter, up to which it counts as 0, relative to its size."""

SEARCHED = 2**13
"""Cells up to which all pairs of columns are compared: seconds. Beyond, their distance is bounded from above."""


class CosineStrategy(Strategy):
    """B as above; rows are cells.

    Attributes:
      half: k(0), ..., k(n), ``(n + 1,)``.
      weights: g > 0, ``(n,)``.
      directions: X, ``(n, r)``.
      gains: e, ``(r,)``; 1 + e is how much B is stretched along a direction, where these are orthonormal.

    Raises:
      IntegrityError: the arrays do not fit together, or B is not of rank n - 1.
    """

    def __init__(self, half: Array, weights: Array, directions: Array, gains: Array) -> None:
        n = len(weights) if weights.ndim == 1 else 0
        if n < 2 or half.shape != (n + 1,) or directions.shape != (n, len(gains)) or gains.ndim != 1:
            raise IntegrityError("a cosine strategy needs a filter, weights and directions of one axis")
        self.half, self.weights = np.ascontiguousarray(half), np.ascontiguousarray(weights)
        self.directions, self.gains = np.ascontiguousarray(directions), np.ascontiguousarray(gains)
        self.shape = (n,)
        if not (np.abs(gains) > 0).all() or not (gains > -1).all():
            raise IntegrityError("a cosine strategy stretches its directions by factors > 0 other than 1")
        if not (np.abs(directions.sum(axis=0)) <= SUM * np.abs(directions).sum(axis=0)).all():
            raise IntegrityError("the directions of a cosine strategy sum to 0, as everything does that it measures")
        levels = np.abs(self.eigenvalues)
        largest, least = levels.max(), levels[1:].min()
        if not (levels[0] <= SUM * largest and least > ZERO_FREQUENCY * largest and weights.min() > 0):
            raise IntegrityError("a cosine strategy measures every frequency but the constant one, with weights > 0")

    @property
    def rows(self) -> int:
        """One per cell."""
        return self.shape[0]

    @property
    def rank(self) -> int:
        """All but the total."""
        return self.rows - 1

    @cached_property
    def kernel(self) -> Array:
        """K at 0..2n-1."""
        return np.concatenate([self.half, self.half[1:-1][::-1]])

    @cached_property
    def eigenvalues(self) -> Array:
        """H's in the cosine basis, by frequency 0..n-1."""
        return np.asarray(np.fft.rfft(self.kernel).real[:-1])

    def _filter(self, x: Array) -> Array:
        """``H x``, by transforms of length 2n: ``(n, k)`` to the same."""
        waves = np.fft.rfft(np.concatenate([x, x[::-1]]), axis=0) * np.fft.rfft(self.kernel).real[:, None]
        return np.asarray(np.fft.irfft(waves, 2 * self.rows, axis=0)[: self.rows])

    def _unfilter(self, x: Array) -> Array:
        """``H^+ x``."""
        from scipy.fft import dct, idct

        waves: Array = dct(x, axis=0)
        waves[0] = 0.0
        waves[1:] /= self.eigenvalues[1:, None]
        result: Array = idct(waves, axis=0)
        return result

    def _stretch(self, x: Array) -> Array:
        """``(I + X diag(e) X') x``."""
        return np.asarray(x + self.directions @ (self.gains[:, None] * (self.directions.T @ x)))

    @cached_property
    def _release(self) -> Array:
        """``diag(1/e) + X'X``, inverted: ``(I + X diag(e) X')^-1 = I - X (this) X'``."""
        inverse = np.linalg.inv(np.diag(1 / self.gains) + self.directions.T @ self.directions)
        return np.asarray(inverse, dtype=np.float64)

    def _unstretch(self, x: Array) -> Array:
        return np.asarray(x - self.directions @ (self._release @ (self.directions.T @ x)))

    @cached_property
    def _shares(self) -> Array:
        """1/g, ``(n, 1)``."""
        return 1 / self.weights[:, None]

    def apply(self, x: Array) -> Array:
        """Centre, weigh, filter, stretch; see `Strategy.apply`."""
        flat = x.reshape(self.rows, -1)
        weighed = self.weights[:, None] * (flat - flat.sum(axis=0) / self.rows)
        return self._stretch(self._filter(weighed)).reshape(x.shape)

    def adjoint(self, y: Array) -> Array:
        """The same in the other order; see `Strategy.adjoint`."""
        weighed = self.weights[:, None] * self._filter(self._stretch(y.reshape(self.rows, -1)))
        return np.asarray(weighed - weighed.mean(axis=0)).reshape(y.shape)

    def solve(self, y: Array) -> Array:
        """Undo each step; what the filter leaves open, a constant, is what makes the estimate sum to 0."""
        weighed = self._unfilter(self._unstretch(y.reshape(self.rows, -1)))
        weighed -= (self._shares * weighed).sum(axis=0) / self._shares.sum()
        return (self._shares * weighed).reshape(y.shape)

    def represent(self, q: Array) -> Array:
        """The adjoint of `solve`; see `Strategy.represent`."""
        return self._unstretch(self._unfilter(self._settled(q.reshape(self.rows, -1)))).reshape(q.shape)

    def _settled(self, q: Array) -> Array:
        """A query on what is filtered, ``(n, k)``: it does not see constants."""
        share = self._shares * q
        return np.asarray(share - self._shares * share.sum(axis=0) / self._shares.sum())

    def root(self) -> Array:
        """L with ``L L' = V^+``, ``(n, n)``.

        Raises:
          SizeError: it does not fit in memory.
        """
        require_memory("the covariance of a long axis", 6 * self.rows**2, "ask for prefixes, or for fewer queries")
        return self.solve(np.eye(self.rows))

    @cached_property
    def _covariance(self) -> Array:
        """P with ``(H^+)^2_ij = p(i-j) + p(i+j+1)``, at 0..2n-1."""
        inverse = np.zeros(self.rows + 1)
        inverse[1:-1] = 1 / self.eigenvalues[1:] ** 2
        return np.asarray(np.fft.irfft(inverse, 2 * self.rows))

    @cached_property
    def _corrections(self) -> tuple[Array, Array]:
        """``H^+ X`` and F, with ``(I + X diag(e) X')^-2 = I + X F X'``."""
        s = self._release
        return self._unfilter(self.directions), s @ (self.directions.T @ self.directions) @ s - 2 * s

    def _corrected(self, plain: Array, shares: Array) -> Array:
        """Variances from those of the filter alone, and the queries' products with ``H^+ X``, ``(k, r)``."""
        return np.asarray(np.maximum(plain + ((shares @ self._corrections[1]) * shares).sum(axis=1), 0.0))

    @cached_property
    def prefix_variances(self) -> Array:
        """The variance at unit noise of the centred prefix of each length 1..n, ``(n,)``; that of all cells is 0."""
        share = self._shares[:, 0]
        total = share.sum()
        below = np.cumsum(share) / total
        seen = np.cumsum(share * self._unfilter(self._unfilter(self._shares))[:, 0])
        plain = prefix_quadratics(share, self._covariance) - 2 * below * seen + below**2 * seen[-1]
        sums = np.cumsum(self._shares * self._corrections[0], axis=0)
        found = self._corrected(plain, sums - below[:, None] * sums[-1])
        found[-1] = 0.0
        return found

    @cached_property
    def cell_variances(self) -> Array:
        """The variance at unit noise of each centred cell, ``(n,)``."""
        p, share = self._covariance, self._shares[:, 0]
        total = share.sum()
        seen = self._unfilter(self._unfilter(self._shares))[:, 0]
        plain = p[0] + p[1 : 2 * self.rows : 2] - 2 * seen / total + (share @ seen) / total**2
        rows = self._corrections[0]
        return self._corrected(share**2 * plain, share[:, None] * (rows - (share @ rows) / total))

    def variances(self, blocks: Sequence[Block]) -> list[Array]:
        """Prefixes and cells in closed form; other queries one by one, in pieces. See `Strategy.variances`."""
        (block,) = blocks
        p = block.projection
        closed = is_uniform(p.u[0]) and len(p.u) == 1
        if closed and isinstance(p.factor, Prefix):
            return [self.prefix_variances[p.factor.lengths() - 1]]
        if closed and isinstance(p.factor, Marginal):
            return [self.cell_variances]
        return [p.quadratic(self.root())]

    def trace(self, groups: Sequence[Group]) -> float:
        """The sum of the prefixes' variances; of other queries by the covariance written out."""
        (group,) = groups
        if is_centred_prefix(group.gram):
            return float(self.prefix_variances.sum())
        root = self.root()
        return float((root * group.gram.apply(root, (0,))).sum())

    @cached_property
    def _norms(self) -> tuple[Array, float]:
        """``|T e_j|^2 g_j^2`` with T = (I + X diag(e) X') H, ``(n,)``, and a bound on their errors.

        The autocorrelation m errs as that of a circulant (`FourierStrategy.operations`), twice; the rest by what
        `_filter` does to X, and by products of n or r numbers.
        """
        seen, gram = self._low_gram
        plain = self._filter_gram[0] + self._filter_gram[1 : 2 * self.rows : 2]
        low = ((seen @ gram) * seen).sum(axis=1)
        size = np.sqrt((self.directions**2).sum(axis=0))
        bound = np.diag(2 * np.abs(self.gains)) + np.multiply.outer(self.gains * size, self.gains * size)
        most, off = np.abs(seen).max(axis=0, initial=0.0), self._filter_error * size
        rounding = 4 * EPS * (self.rows + 8) * float((most + off) @ np.abs(bound) @ (most + off))
        moved = float(off @ np.abs(bound) @ (2 * most + off))
        energy, spread = float((self.kernel**2).sum()), float(np.linalg.norm(self._filter_gram))
        correlated = 2 * self._transform * (2 * energy + spread)
        error = correlated + moved + rounding + 8 * EPS * float(np.abs(plain).max())
        return (plain + low) * self.weights**2, error * float(self.weights.max()) ** 2

    @cached_property
    def _filter_gram(self) -> Array:
        """M with ``H^2_ij = m(i-j) + m(i+j+1)``, at 0..2n-1: the autocorrelation of k."""
        return np.asarray(np.fft.irfft(np.abs(np.fft.rfft(self.kernel)) ** 2, 2 * self.rows))

    @cached_property
    def _transform(self) -> float:
        """The relative error of a transform in the 2-norm."""
        return transform_error(2 * self.rows)

    @cached_property
    def _filter_error(self) -> float:
        """The error of ``H x`` in the 2-norm is below this many times that of x: see `FourierStrategy.rounding_error`.

        What is reflected has a norm sqrt(2) times as large.
        """
        spectrum = np.abs(np.fft.fft(self.kernel))
        norm = 2 * float(spectrum.max()) + float(np.sqrt((spectrum**2).sum()))
        return 1.01 * math.sqrt(2) * self._transform * norm

    @cached_property
    def _filter_norm(self) -> float:
        """A bound of the 2-norm of H."""
        return 1.01 * float(np.abs(np.fft.rfft(self.kernel)).max())

    @cached_property
    def _stretch_norm(self) -> float:
        """A bound of the 2-norm of ``I + X diag(e) X'``, and of its absolute values."""
        return 1.01 * (1 + float(np.abs(self.gains) @ (self.directions**2).sum(axis=0)))

    @property
    def _stretch_error(self) -> float:
        """The error of `_stretch` in the 2-norm is below this many times that of what is stretched."""
        return 2 * EPS * (self.rows + len(self.gains) + 4) * self._stretch_norm

    def _error(self, norm: float, error: float) -> float:
        """The error in the 2-norm of stretching and filtering a vector of a norm that has an error itself."""
        filtered = self._filter_error * norm + self._filter_norm * error
        return self._stretch_norm * filtered + self._stretch_error * (self._filter_norm * (norm + error) + filtered)

    def column_norms(self) -> Array:
        """``V[j, j]`` for every cell, in double precision."""
        return self._column_norms[0]

    @cached_property
    def _column_norms(self) -> tuple[Array, float]:
        """``V[j, j] = |T (g_j e_j - g / n)|^2``, and a bound on their errors."""
        n, g = self.rows, self.weights
        norms, error = self._norms
        mean = (g / n)[:, None]
        image = self._stretch(self._filter(mean))
        back = self._filter(self._stretch(image))[:, 0]
        energy = float((image**2).sum())
        length = float(np.sqrt((mean**2).sum()))
        first = self._error(length, EPS * length)
        size = math.sqrt(energy) + first
        stretched = self._stretch_norm * first + self._stretch_error * size
        second = self._filter_norm * stretched + self._filter_error * (self._stretch_norm * size + stretched)
        largest = float(g.max())
        crossed = 2 * largest * second + 4 * EPS * largest * float(np.abs(back).max())
        squared = first * (2 * size + first) + EPS * (n + 2) * energy
        slack = 8 * EPS * (float(norms.max()) + energy)
        return norms - 2 * g * back + energy, error + crossed + squared + slack

    @cached_property
    def sensitivity_squared(self) -> Fraction:
        """The largest column norm and the bound of its error, which is below 1e-9 of it up to 10^6 cells."""
        norms, error = self._column_norms
        return Fraction(float(norms.max())) + Fraction(error)

    @cached_property
    def pair_sensitivity_squared(self) -> Fraction:
        """``|T (g_i e_i - g_j e_j)|^2``: every pair, or past `SEARCHED` cells the worst of each part."""
        norms, error = self._norms
        value = self._searched_distance(norms) if self.rows <= SEARCHED else self._bounded_distance(norms)
        return Fraction(max(value, 0.0)) + Fraction(4 * error) + Fraction(32 * EPS * float(norms.max()))

    @property
    def distances(self) -> Distances:
        """Of one axis: two cells are the same, or they differ."""
        return same_distance(1, self.pair_sensitivity_squared)

    def _searched_distance(self, norms: Array) -> float:
        return pairs.largest_distance(norms, lambda where, first: self._weighed_gram(where)[:, first:])

    def _weighed_gram(self, where: IntArray) -> Array:
        """Rows of ``diag(g) T'T diag(g)``: ``(k,)`` to ``(k, n)``."""
        at = np.arange(self.rows)
        m = self._filter_gram
        rows = m[np.abs(where[:, None] - at)] + m[where[:, None] + at + 1]
        seen, gram = self._low_gram
        rows += (seen[where] @ gram) @ seen.T
        return np.asarray(rows * self.weights[where, None] * self.weights)

    @cached_property
    def _low_gram(self) -> tuple[Array, Array]:
        """Y and E with ``T'T = H^2 + Y E Y'``."""
        e, x = self.gains, self.directions
        return self._filter(x), np.diag(2 * e) + (e[:, None] * (x.T @ x)) * e

    def _bounded_distance(self, norms: Array) -> float:
        """Twice the largest norm, and the most that the inner products can add: each part's at its worst."""
        seen, gram = self._low_gram
        low = float(np.abs(seen).max(axis=0, initial=0.0) @ np.abs(gram) @ np.abs(seen).max(axis=0, initial=0.0))
        least = -2 * min(0.0, float(self._filter_gram.min())) + low
        return 2 * float(norms.max()) + 2 * float(self.weights.max()) ** 2 * least

    def rounding_error(self, x: Array) -> float:
        """Centring and weighing round three times; then transforms and products, each in the 2-norm."""
        total = float(x.sum())
        weighed = self.weights * (x + total / self.rows)
        norm = 1.01 * float(np.sqrt((weighed * weighed).sum()))
        return self._error(norm, 4 * EPS * norm)

    def exact_entries(self, x: IntArray) -> ExactEntries:
        """All entries of ``H diag(g) (n I - 11') x`` by one convolution, once; see `Strategy.exact_entries`."""
        filtered = functools.cache(lambda: self._exact_filtered(x))

        def entries(rows: IntArray) -> list[Fraction]:
            values, shares, unit = filtered()
            found = [Fraction(values[i]) for i in rows]
            for direction, share in zip(self.directions.T, shares, strict=True):
                found = [v + Fraction(float(direction[i])) * share for v, i in zip(found, rows, strict=True)]
            return [v * unit for v in found]

        return entries

    def _exact_filtered(self, x: IntArray) -> tuple[list[int], list[Fraction], Fraction]:
        """``H diag(g) (n I - 11') x`` as integers, ``diag(e) X'`` times these, and the unit of both in ``B x``."""
        numbers, shift = as_integers(self.weights)
        total, n = int(x.sum()), self.rows
        weighed = [w * (n * c - total) for w, c in zip(numbers, x.tolist(), strict=True)]
        product, exponent = convolve(self.kernel, np.array(weighed + weighed[::-1], dtype=object))
        values = [int(v) for v in product[:n]]
        shares = []
        for direction, gain in zip(self.directions.T, self.gains, strict=True):
            numbers, power = as_integers(direction)
            inner = sum(a * b for a, b in zip(numbers, values, strict=True))
            shares.append(Fraction(float(gain)) * as_fraction(inner, power))
        return values, shares, as_fraction(1, exponent + shift) / n

    def factors(self, order: Sequence[int]) -> tuple[Array, ...]:
        """B, written out."""
        require_memory("the matrix of a node", 6 * self.rows**2, "inspect a smaller node")
        return (self.apply(np.eye(self.rows)),)

    def independent_rows(self) -> Array:
        """A matrix of full row rank with the same V, ``(n - 1, n)``: B's rows in the cosine basis, none constant.

        Raises:
          SizeError: it does not fit in memory.
        """
        from scipy.fft import dct

        (matrix,) = self.factors((0,))
        return np.asarray(dct(matrix, axis=0, norm="ortho")[1:])
