"""Square roots of matrices as sums of resolvents: ``A^1/2 = A sum_k c_k (A + t_k)^-1`` for spectra in an interval.

The trapezoidal rule after a conformal map by Jacobi's elliptic functions; the error falls by the same factor with each
pole, and the number of poles grows with the logarithm of the condition number only. A relative error of 1e-8 takes 18
poles at a condition number of 10^6 and 28 at 10^11.

Source: Hale, Higham, Trefethen 2008, Computing A^alpha, log(A), and related matrix functions by contour integrals,
method 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from qcompile.support.arrays import Array

SAMPLES_PER_POLE = 64
"""Points between two poles at which the quadrature is compared with the root: its error is smooth between them, and a
tenth more than the largest found covers what lies between two points."""

FEWEST, MOST = 4, 80
"""Poles."""


@dataclass(frozen=True, eq=False)
class RootQuadrature:
    """The quadrature for one interval.

    Attributes:
      poles: t > 0, ``(k,)``.
      weights: c > 0, ``(k,)``.
      excess: the largest relative excess over the root at any positive number, in the interval or outside of it.
    """

    poles: Array
    weights: Array
    excess: float


def root_quadrature(least: float, largest: float, error: float) -> RootQuadrature:
    """The quadrature for spectra in ``[least, largest]``.

    Args:
      least: > 0.
      largest: > least.
      error: relative error wanted, of every root.
    """
    spread = math.log(largest / least)
    count = max(FEWEST, math.ceil((spread + 3) * -math.log(error) / (2 * math.pi**2)))
    while True:
        poles, weights = _method_three(least, largest, min(count, MOST))
        excess = _excess(poles, weights)
        if excess <= error or count >= MOST:
            return RootQuadrature(poles, weights, excess)
        count += 1


def _method_three(least: float, largest: float, count: int) -> tuple[Array, Array]:
    """Poles and weights from the trapezoidal rule on a quarter period; the upper half mirrors the lower one."""
    share = math.sqrt(least / largest)
    sn, cn, dn, period = _jacobi((np.arange(count) + 0.5) / count, share)
    lower = np.arange(count) < (count + 1) // 2
    above, weights = (sn / cn) ** 2, dn / cn**2
    mirrored = 1 / (above * share**2)[::-1], (dn / (share * sn**2))[::-1]
    scale = 2 * period * math.sqrt(least) / (math.pi * count)
    return least * np.where(lower, above, mirrored[0]), scale * np.where(lower, weights, mirrored[1])


def _jacobi(shares: Array, complement: float) -> tuple[Array, Array, Array, float]:
    """sn, cn and dn at shares of the quarter period, and the period, from the complementary modulus itself.

    By the arithmetic-geometric mean (Abramowitz, Stegun 16.4): moduli as near to 1 as here lose their digits.
    """
    means, gaps = [1.0], [math.sqrt(1 - complement**2)]
    other = complement
    while gaps[-1] > 1e-12 * means[-1]:  # the next would be its square
        a, b = means[-1], other
        means.append((a + b) / 2)
        gaps.append((a - b) / 2)
        other = math.sqrt(a * b)
    period = math.pi / (2 * means[-1])
    angles = [2.0 ** (len(means) - 1) * means[-1] * shares * period]
    for a, c in zip(means[:0:-1], gaps[:0:-1], strict=True):
        angles.append((angles[-1] + np.arcsin(c / a * np.sin(angles[-1]))) / 2)
    sn, cn = np.sin(angles[-1]), np.cos(angles[-1])
    return sn, cn, np.asarray(cn / np.cos(angles[-2] - angles[-1])), period


def _excess(poles: Array, weights: Array) -> float:
    """The largest ``sum_k c_k x / (x + t_k) / x^1/2 - 1``; it falls to -1 towards 0 and infinity."""
    ends = math.log(poles.min()) - 2, math.log(poles.max()) + 2
    x = np.exp(np.linspace(*ends, SAMPLES_PER_POLE * len(poles)))
    ratio = np.sqrt(x) * (weights / np.add.outer(x, poles)).sum(axis=1)
    return max(0.0, float(ratio.max()) - 1) * 1.1 + 1e-15 * len(poles)
