"""A primal-dual interior-point method for the weights mu: few, dearer iterations to full precision.

In masses x = sizes * mu the problem is to maximise the concave S(x) on the simplex. Its gradient is v / 2 and, with
K = U diag(l) U', Y = U' R, its Hessian is

    -(1/2) sum over a, c of Y_aj Y_cj Y_ak Y_ck / (sqrt(l_a) sqrt(l_c) (sqrt(l_a) + sqrt(l_c))),

the derivative of K^-1/2 in the eigenbasis of K. The optimality conditions nu - v_j / 2 = z_j >= 0, x_j z_j = 0 are
followed along x_j z_j = tau. Where many cells are slack the fixed point needs hundreds of iterations to a gap of 1e-5
(affine and abs on 50 x 50 cells); this needs fifteen, and three more to 1e-9.
"""

from __future__ import annotations

import math

import numpy as np

from qcompile.queries.factors.base import CHUNK
from qcompile.solvers.exact.certificate import DualPoint, DualProblem, Incumbent, evaluate
from qcompile.support.arrays import Array
from qcompile.support.memory import memory_limit, used_memory

SHRINK = 0.1
"""Factor by which an iteration aims to reduce tau."""

FACTORED_ORBITS = 4096
"""Orbits up to which the Hessian is made and factored: 128 MB, a second or two."""

COPIES = 6
"""Square matrices that a step holds at once."""

BOUNDARY = 0.95
"""Share of the way to the boundary that a step may go."""


def work(problem: DualProblem) -> float:
    """Multiplications of one Hessian: pairs of eigenvectors times pairs of columns."""
    return float(sum(b.root.shape[0] ** 2 / 2 * b.root.shape[1] ** 2 for b in problem.blocks))


def most_orbits() -> int:
    """Orbits whose Hessian fits in memory, and is factored in seconds."""
    room = max(0, memory_limit() - used_memory())
    return min(FACTORED_ORBITS, math.isqrt(room // (8 * COPIES)))


def interior_point(
    problem: DualProblem, start: DualPoint, best: Incumbent, gap: float, iterations: int = 60
) -> DualPoint:
    """Iterate until the certified gap is at most ``gap`` or double precision is exhausted.

    Args:
      problem: the blocks.
      start: a point with positive weights.
      best: updated with every point.
      gap: relative, of the squared error.
      iterations: the most Hessians.

    Returns:
      The last point.
    """
    point = start
    x, gradient = problem.sizes * point.mu, point.variances / 2
    nu = float(gradient.max())
    z = np.maximum(nu - gradient, 1e-3 * nu)
    for _ in range(iterations):
        if best.gap <= gap:
            break
        tau = SHRINK * float(x @ z) / len(x)
        try:
            dx, dnu = _newton(curvature(problem, point) + np.diag(z / x), gradient - nu + tau / x)
        except np.linalg.LinAlgError:  # the weights have come so near to 0 that rounding errors dominate
            break
        dz = (tau - z * dx) / x - z
        primal, dual = _longest(x, dx), _longest(z, dz)
        x, z, nu = x + primal * dx, z + dual * dz, nu + dual * dnu
        x /= x.sum()
        point = evaluate(problem, x / problem.sizes)
        gradient = point.variances / 2
        if not best.add(point) and tau < 1e-15 * nu:
            break
    return point


def curvature(problem: DualProblem, point: DualPoint) -> Array:
    """Minus the Hessian of S in the masses, ``(orbits, orbits)``, positive semidefinite."""
    n = len(problem.sizes)
    total = np.zeros((n, n))
    for b, (values, vectors) in zip(problem.blocks, point.eigen, strict=True):
        y, root = vectors.T @ b.root, np.sqrt(values)
        first, second = np.triu_indices(len(values))
        pairs = root[first] * root[second] * (root[first] + root[second]) * np.where(first == second, 1.0, 0.5)
        where = np.ix_(b.orbits, b.orbits)
        step = max(1, CHUNK // y.shape[1])
        for i in range(0, len(first), step):
            part = slice(i, i + step)
            products = y[first[part]] * y[second[part]] / np.sqrt(pairs[part])[:, None]
            total[where] += products.T @ products
    return np.asarray(0.5 * total / np.multiply.outer(problem.sizes, problem.sizes))


def _newton(matrix: Array, right: Array) -> tuple[Array, float]:
    """Solve ``matrix dx + dnu 1 = right``, ``sum(dx) = 0``."""
    from scipy.linalg import cho_factor, cho_solve

    factor = cho_factor(matrix)
    a, ones = cho_solve(factor, right), cho_solve(factor, np.ones(len(right)))
    dnu = float(a.sum() / ones.sum())
    return a - dnu * ones, dnu


def _longest(value: Array, step: Array) -> float:
    """The step length that keeps ``value`` positive."""
    ratio = float((-step / value).max())
    return min(1.0, BOUNDARY / ratio) if ratio > 0 else 1.0
