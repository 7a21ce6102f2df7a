"""The optimal-strategy problem of one Gram, and the certificate that every point carries.

For G = R' R (R of full row rank r) and weights mu on the cells, D = diag(mu), K = R D R':

    S(mu) = tr K^1/2,    v_j = r_j' K^-1/2 r_j,    V = R' K^-1/2 R / max_j v_j.

L(G) = max over mu of S(mu)^2, and S is concave: S^2 is a lower bound for any mu, while V is feasible with error
S max_j v_j. One eigendecomposition therefore gives a strategy, a bound and the gap max_j v_j / S - 1. These formulas
stay defined when some mu_j are 0. Problem: QuerySmasher (arXiv 2604.00868), equation 4; optimal matrix mechanism, Yuan
et al. 2016. The dual is Kiefer's phi_p-optimal design with p = 1/2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qcompile.support.arrays import Array, IntArray

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class RootBlock:
    """One invariant subspace of a symmetric problem; a problem without symmetry is a single block.

    Attributes:
      root: R restricted to the subspace, ``(rank, columns)``, of full row rank.
      orbits: which orbit of cells each column belongs to.
    """

    root: Array
    orbits: IntArray


@dataclass(frozen=True, eq=False)
class DualProblem:
    """The dual problem: weights mu on the cells that maximise S(mu)^2.

    Attributes:
      blocks: the subspaces.
      sizes: number of cells per orbit; all 1 without symmetry.
    """

    blocks: tuple[RootBlock, ...]
    sizes: Array

    def uniform(self) -> Array:
        """The same weight on every cell."""
        return np.full(len(self.sizes), 1 / self.sizes.sum())

    def evaluate(self, mu: Array) -> DualPoint:
        """The certificate at ``mu``; see `evaluate`."""
        return evaluate(self, mu)


@dataclass(frozen=True, eq=False)
class DualPoint:
    """The certificate at one mu.

    Attributes:
      mu: weight of one cell of each orbit; ``sizes @ mu`` is 1.
      value: S(mu).
      lower: S(mu) less all that rounding errors of the eigenvalues may have added.
      variances: v per orbit.
      eigen: per block, eigenvalues (ascending) and eigenvectors of K.
    """

    mu: Array
    value: float
    lower: float
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
        """The lower bound S^2, its rounding errors taken off."""
        return self.lower**2 * (1 - 1e-13)


class Incumbent:
    """The point with the smallest loss and the largest lower bound seen on the way.

    Attributes:
      point: with the smallest loss.
      bound: of any point.
    """

    def __init__(self, point: DualPoint) -> None:
        self.point, self.bound = point, point.bound

    def add(self, point: DualPoint) -> bool:
        """Take note of a point; returns whether it improved on either."""
        better = point.loss < self.point.loss
        improved = better or point.bound > self.bound
        self.point = point if better else self.point
        self.bound = max(self.bound, point.bound)
        return improved

    @property
    def gap(self) -> float:
        """Certified relative gap of the squared error."""
        return self.point.loss / self.bound - 1


def evaluate(problem: DualProblem, mu: Array) -> DualPoint:
    """S, v and the eigendecompositions at ``mu``."""
    value, lower, v, eigen = 0.0, 0.0, np.zeros(len(problem.sizes)), []
    for b in problem.blocks:
        values, vectors = np.linalg.eigh((b.root * mu[b.orbits]) @ b.root.T)
        error = EPS * values[-1]
        # Where K is nearly singular the root of an eigenvalue's error, 1e-8, is what could invalidate the bound.
        lower += float(np.sqrt(np.maximum(values - 2 * len(values) * error, 0)).sum())
        values = np.maximum(values, error)
        projected = vectors.T @ b.root
        projected *= projected
        np.add.at(v, b.orbits, (1 / np.sqrt(values)) @ projected)
        value += float(np.sqrt(values).sum())
        eigen.append((values, vectors))
    return DualPoint(mu, value, lower, v / problem.sizes, tuple(eigen))


def strategy_rows(problem: DualProblem, point: DualPoint) -> list[Array]:
    """The rows of B, one array per block on the block's columns: ``K^-1/4 R / sqrt(peak)`` in K's eigenbasis."""
    return [
        (values**-0.25)[:, None] * (vectors.T @ b.root) / np.sqrt(point.peak)
        for b, (values, vectors) in zip(problem.blocks, point.eigen, strict=True)
    ]


def restrict(problem: DualProblem, active: Sequence[int] | IntArray) -> DualProblem:
    """The problem with weights on some orbits only."""
    place = np.full(len(problem.sizes), -1, dtype=np.int64)
    place[active] = np.arange(len(active))
    blocks = []
    for b in problem.blocks:
        kept = place[b.orbits] >= 0
        blocks.append(RootBlock(np.ascontiguousarray(b.root[:, kept]), place[b.orbits[kept]]))
    return DualProblem(tuple(blocks), problem.sizes[active])
