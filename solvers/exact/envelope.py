"""Derivatives of the optimal loss L(G) of a node, by the envelope theorem.

With S, mu and V0 = R' K^-1/2 R at the optimum (see `certificate`), L = S^2 and

    dL/dG = S D R' K^-3/2 R D                  (V^+ within the span of G, but right for a span that turns, too),
    dL/du_i[k] = -2 S sum_j mu_j V0[j, j with k in place of j_i]    (a change of the centring of axis i).

Both follow from dL = S tr(K^-1/2 dK) with K = R D R'. For the second, dR = -W du 1' = -R du 1' on axis i, for changes
du that sum to 0 (W the queries before that axis is centred: R du = W (I - u 1') du = W du). Nothing but the solution
itself is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qcompile.solvers.exact.certificate import DualPoint, DualProblem, Incumbent, RootBlock, evaluate, restrict
from qcompile.solvers.exact.fixed_point import fixed_point
from qcompile.solvers.exact.interior_point import interior_point, work
from qcompile.solvers.exact.quasi_newton import quasi_newton
from qcompile.support.arrays import Array

ITERATIONS = 80
"""Fixed-point iterations, cheap and few on smooth problems, before the interior point takes over."""

HESSIAN_WORK = 1e9
"""Multiplications of a Hessian up to which it does."""

FIRST, ROUNDS, ACTIVE = 8, 4, 1e-3
"""For problems with few cells of weight: fixed-point iterations from even weights, rounds, and the least share of the
largest weight to count."""

SMALLEST = 1e-7
"""Elsewhere every cell starts with at least this share of the uniform weight."""


@dataclass(frozen=True, eq=False)
class Envelope:
    """An optimum with what its derivatives need.

    Attributes:
      shape: of the cells.
      root: R, of full row rank, ``(rank, cells)``.
      point: the certificate at mu.
    """

    shape: tuple[int, ...]
    root: Array
    point: DualPoint

    @property
    def mu(self) -> Array:
        """Dual weights per cell."""
        return self.point.mu

    @property
    def loss(self) -> float:
        """L."""
        return self.point.value**2

    @cached_property
    def rows(self) -> Array:
        """B with V0 = B'B, of a diagonal of about S, ``(rank, cells)``."""
        ((values, vectors),) = self.point.eigen
        return np.asarray((values**-0.25)[:, None] * (vectors.T @ self.root))

    @cached_property
    def gram_gradient(self) -> Array:
        """dL/dG, ``(cells, cells)``."""
        ((values, vectors),) = self.point.eigen
        rows = (values**-0.75)[:, None] * (vectors.T @ self.root) * self.mu
        return np.asarray(self.point.value * (rows.T @ rows))

    def axis_gradient(self, axis: int) -> Array:
        """dL/du of one axis, up to a constant: meaningful for changes that sum to 0."""
        rows = np.moveaxis(self.rows.reshape(-1, *self.shape), axis + 1, -1)
        weights = np.moveaxis(self.mu.reshape(self.shape), axis, -1)
        weighted = (rows * weights).sum(axis=-1)
        return np.asarray(-2 * self.point.value * np.tensordot(weighted, rows, axes=weighted.ndim))


def envelope(root: Array, shape: Sequence[int], start: Array | None, gap: float) -> Envelope:
    """Solve one problem.

    Args:
      root: R of full row rank with ``R' R`` the Gram, ``(rank, cells)``.
      shape: of the cells.
      start: dual weights of a similar problem, or None.
      gap: certified relative gap wanted.
    """
    n = root.shape[1]
    posed = DualProblem((RootBlock(root, np.arange(n)),), np.ones(n))
    if len(root) == 1:  # a single query: all weight on its largest entries
        return Envelope(tuple(shape), root, evaluate(posed, _largest(root[0])))
    slack = 2 * len(root) < n
    point = evaluate(posed, _start(start, n, slack))
    best = Incumbent(point)
    if slack:
        point = _few_cells(posed, point, best, gap, warm=start is not None)
    else:
        fixed_point(posed, point, best, gap, ITERATIONS)
    if best.gap > gap and work(posed) <= HESSIAN_WORK:
        cold = evaluate(posed, posed.uniform())
        interior_point(posed, cold, best, gap)
        fixed_point(posed, cold, best, gap, ITERATIONS)
    # S is what is differentiated: of two points the one with more of it is nearer to the optimum, whatever its peak.
    return Envelope(tuple(shape), root, max(best.point, point, key=lambda p: p.value))


def _few_cells(posed: DualProblem, point: DualPoint, best: Incumbent, gap: float, *, warm: bool) -> DualPoint:
    """Most cells of a problem of low rank carry no weight: the others alone are iterated on, then all are looked at.

    Returns:
      The last point.
    """
    if not warm:
        point = fixed_point(posed, point, best, gap, FIRST)
    for _ in range(ROUNDS):
        excess = point.variances / point.value - 1
        if best.gap <= gap or (point is not best.point and excess.max() <= gap):
            break
        weighty = point.mu > ACTIVE * point.mu.max()
        active = np.flatnonzero(weighty | (excess > gap))
        part = restrict(posed, active)
        inner = quasi_newton(part, np.maximum(point.mu[active], ACTIVE * point.mu.max()))
        mu = np.zeros(len(point.mu))
        mu[active] = inner.mu
        point = evaluate(posed, mu)
        best.add(point)
    return point


def _largest(query: Array) -> Array:
    """Even weights on the largest entries."""
    size = np.abs(query)
    most = (size >= (1 - 1e-9) * size.max()).astype(np.float64)
    return np.asarray(most / most.sum())


def _start(mu: Array | None, n: int, slack: bool) -> Array:
    if mu is None:
        return np.full(n, 1 / n)
    if slack:
        return np.asarray(mu / mu.sum())
    raised = np.maximum(mu, SMALLEST / n)
    return np.asarray(raised / raised.sum())
