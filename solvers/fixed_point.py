"""The certified fixed point for the optimal strategy of one Gram.

For G = R' R (R of full row rank r) and weights mu on the cells, D = diag(mu), K = R D R':

    S(mu) = tr K^1/2,    v_j = r_j' K^-1/2 r_j,    V = R' K^-1/2 R / max_j v_j.

L(G) = max over mu of S(mu)^2, so S^2 is a lower bound for any mu, while V is feasible with error S max_j v_j. One
eigendecomposition therefore gives a strategy, a bound and the gap max_j v_j / S - 1. The iteration
mu_j <- mu_j (v_j / S)^p is the multiplicative algorithm for Kiefer's phi_p optimal designs (Yu 2010), monotone for
p = 1; larger steps are tried first and taken back when S falls. Problem: QuerySmasher (arXiv 2604.00868), eq. 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qcompile.arrays import Array, IntArray

FASTEST = 3.0
"""Largest exponent: 4 was seen to cycle."""

MAX_ITERATIONS = 5000

POLISHED = 1e-8
"""The gap that small problems aim at, whatever was asked."""


@dataclass(frozen=True, eq=False)
class RootBlock:
    """One invariant subspace of a symmetric problem; a problem without symmetry is a single block.

    Attributes:
      root: R restricted to the subspace, ``(rank, orbits in the block)``.
      orbits: which orbit of cells each column belongs to.
    """

    root: Array
    orbits: IntArray


@dataclass(frozen=True, eq=False)
class Point:
    """The certificate at one mu.

    Attributes:
      value: S(mu).
      variances: v per orbit.
      eigen: per block, eigenvalues (ascending) and eigenvectors of K.
    """

    value: float
    variances: Array
    eigen: tuple[tuple[Array, Array], ...]

    @property
    def peak(self) -> float:
        """The largest v."""
        return float(self.variances.max())

    @property
    def loss(self) -> float:
        """Error of the feasible V."""
        return self.value * self.peak

    @property
    def bound(self) -> float:
        """The lower bound S^2, less its own rounding error."""
        return self.value**2 * (1 - 1e-13)


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """The best point and the best bound seen.

    Attributes:
      point: with the smallest loss.
      bound: the largest lower bound, of any point.
    """

    point: Point
    bound: float


def evaluate(blocks: Sequence[RootBlock], sizes: Array, mu: Array) -> Point:
    """S, v and the eigendecompositions at ``mu``.

    Args:
      blocks: the problem.
      sizes: number of cells per orbit.
      mu: weight of one cell of each orbit; ``sizes @ mu`` is 1.
    """
    value, v, eigen = 0.0, np.zeros(len(sizes)), []
    for b in blocks:
        values, vectors = np.linalg.eigh((b.root * mu[b.orbits]) @ b.root.T)
        values = np.maximum(values, np.finfo(float).eps * values[-1])
        projected = vectors.T @ b.root
        projected *= projected
        np.add.at(v, b.orbits, (1 / np.sqrt(values)) @ projected)
        value += float(np.sqrt(values).sum())
        eigen.append((values, vectors))
    return Point(value, v / sizes, tuple(eigen))


def solve_blocks(blocks: Sequence[RootBlock], sizes: Array, gap: float, polish: int = 0) -> FixedPoint:
    """Iterate from uniform mu until the certified gap is at most ``gap`` or no progress is possible.

    Args:
      blocks: the problem; with no symmetry one block whose orbits are the cells.
      sizes: number of cells per orbit, shape ``(orbits,)``.
      gap: relative, of the squared error.
      polish: up to this many iterations go on to `POLISHED` when the gap is reached sooner.
    """
    mu = np.full(len(sizes), 1 / sizes.sum())
    point = evaluate(blocks, sizes, mu)
    best, bound, exponent, stalled = point, point.bound, FASTEST, 0
    for iteration in range(MAX_ITERATIONS):
        wanted = min(gap, POLISHED) if iteration < polish else gap
        if best.loss <= bound * (1 + wanted) or stalled > 20:
            break
        trial = mu * (point.variances / point.value) ** exponent
        trial /= sizes @ trial
        following = evaluate(blocks, sizes, trial)
        if following.value < point.value and exponent > 1:
            exponent = 1.0  # the step was too long: back to the monotone one, from the same point
            continue
        stalled = stalled + 1 if following.bound <= bound and following.loss >= best.loss else 0
        mu, point, exponent = trial, following, min(FASTEST, exponent + 0.5)
        bound = max(bound, point.bound)
        best = min(best, point, key=lambda p: p.loss)
    return FixedPoint(best, bound)


def strategy_rows(block: RootBlock, eigen: tuple[Array, Array], peak: float) -> Array:
    """``K^-1/4 R / sqrt(peak)``, rotated to the eigenbasis: the rows of B for one block."""
    values, vectors = eigen
    return np.asarray((values**-0.25)[:, None] * (vectors.T @ block.root) / np.sqrt(peak))
