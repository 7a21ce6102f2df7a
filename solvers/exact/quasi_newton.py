"""A quasi-Newton method for the weights mu: many cheap steps towards a precise S where a Hessian is too dear.

S is concave and homogeneous of degree 1/2, so that ``log S(x) - log(sum x) / 2`` needs no constraint on the sum; what
is left are the bounds x >= 0, and L-BFGS-B finds by itself which of them hold. Where cells compete the multiplicative
fixed point moves weight between them slowly: at equal cost S comes ten times nearer to its maximum here (affine on
100 x 100 cells).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qcompile.solvers.exact.certificate import DualPoint, DualProblem, evaluate
from qcompile.support.arrays import Array

STEPS = 60
"""Most iterations."""

TOLERANCE = 1e-8
"""Relative growth of S below which they end."""

MEMORY = 20
"""Pairs of steps and gradients that are kept."""


def quasi_newton(problem: DualProblem, start: Array) -> DualPoint:
    """The point of the largest S that is found.

    Args:
      problem: the blocks.
      start: weights > 0 up to a factor.
    """
    from scipy.optimize import minimize

    seen: list[DualPoint] = []

    def objective(x: Array) -> tuple[float, Array]:
        total = float(problem.sizes @ x)
        point = evaluate(problem, x / total)
        if not seen or point.value > seen[0].value:
            seen[:] = [point]
        gradient = problem.sizes * (1 - point.variances / point.value) / (2 * total)
        return -scale * np.log(point.value), scale * gradient

    scale = float(problem.sizes.sum())  # the first step is as long as the gradient: about as large as the weights
    options: Any = {"maxiter": STEPS, "ftol": TOLERANCE, "gtol": 0.0, "maxcor": MEMORY}
    bounds = [(0.0, None)] * len(start)
    minimize(objective, start / start.mean(), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return seen[0]
