"""The optimum of centred prefixes applied to vectors: ``V = R' K^-1/2 R`` by tridiagonal systems, one a pole.

K is the covariance of a Brownian bridge of increments mu, with the tridiagonal inverse T, and d d' beside it (see
`ladder`). A few digits are enough where it is used, to find directions: what is measured has its own loss.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from qcompile.solvers.exact.root_quadrature import RootQuadrature, root_quadrature
from qcompile.support.arrays import Array

ACCURACY = 1e-3
"""Relative error of the quadrature."""


class BridgeRoot:
    """V of centred prefixes at mu, up to its scale, for uniform centring.

    Args:
      mu: weights > 0 of sum 1, ``(n,)``.
    """

    def __init__(self, mu: Array) -> None:
        self.mu = mu
        self.apart = np.cumsum(mu - 1 / len(mu))[:-1, None]

    def apply(self, x: Array) -> Array:
        """``V x``: ``(n, k)`` to the same."""
        sums = np.cumsum(x - x.mean(axis=0), axis=0)[:-1]
        root = np.zeros_like(sums)
        for weight, factor in zip(self._rule.weights, self._factors, strict=True):
            root += weight * self._resolvent(sums, factor)
        above = np.cumsum(root[::-1], axis=0)[::-1]
        spread = np.concatenate([above, np.zeros((1, x.shape[1]))])
        return np.asarray(spread - spread.mean(axis=0))

    @cached_property
    def _rule(self) -> RootQuadrature:
        total = np.cumsum(self.mu)[:-1]
        least = 0.5 / float((1 / self.mu[:-1] + 1 / self.mu[1:]).max())
        largest = float((np.abs(total * (1 - total)) + self.apart[:, 0] ** 2).sum())
        return root_quadrature(min(least, largest / 2), largest, ACCURACY)

    @cached_property
    def _factors(self) -> list[tuple[Array, Array, Array]]:
        """Per pole t the factors of ``I + t T``, and d solved."""
        from scipy.linalg.lapack import dpttrf

        factors = []
        for t in self._rule.poles:
            d, e, _ = dpttrf(1 + t * (1 / self.mu[:-1] + 1 / self.mu[1:]), -t / self.mu[1:-1])
            factors.append((d, e, self._plain(self.apart, d, e)))
        return factors

    def _plain(self, x: Array, d: Array, e: Array) -> Array:
        """``(T^-1 + t)^-1 x = T (I + t T)^-1 x``."""
        from scipy.linalg.lapack import dpttrs

        y: Any = dpttrs(d, e, x)[0]
        jumps = np.diff(y, axis=0, prepend=0.0, append=0.0) / self.mu[:, None]
        return np.asarray(-np.diff(jumps, axis=0))

    def _resolvent(self, x: Array, factor: tuple[Array, Array, Array]) -> Array:
        """``(T^-1 + d d' + t)^-1 x``."""
        d, e, solved = factor
        y = self._plain(x, d, e)
        return np.asarray(y - solved * ((self.apart * y).sum(axis=0) / (1 + (self.apart * solved).sum())))
