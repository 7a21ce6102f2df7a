"""The optimum of a node with a power mean in place of the largest column: smooth in what the columns depend on.

min over V of ``sqrt(tr(V^-1) mean(v^p)^(1/p))`` with ``v = diag(R' V R)`` is the largest S(mu) over weights whose
q-norm is that of even weights, 1/p + 1/q = 1. At the optimum mu is proportional to ``v^(p-1)``; the multiplicative
fixed point goes there where part of each step is taken back towards the last weights.
"""

from __future__ import annotations

import numpy as np

from qcompile.solvers.exact.certificate import DualPoint, DualProblem, evaluate
from qcompile.support.arrays import Array

STEP = 2.0
"""Exponent of a step on the variances; 1 once a step was too long."""

FEWEST, MOST, WORK = 30, 200, 3e8
"""Iterations at most, and the multiplications (rank^2 cells each) that may be more than the fewest."""

ENOUGH = 1e-8
"""Relative progress of S at which they end; the next solution starts here."""

TINY = 1e-200


def smoothed(problem: DualProblem, start: Array | None, power: float) -> DualPoint:
    """The certificate near the optimum; its value is S and its weights are S's derivatives by squared columns.

    Args:
      problem: the columns.
      start: weights per orbit, from an earlier solution; uniform where None.
      power: p, above 1.
    """
    point = evaluate(problem, _normalised(problem, problem.uniform() if start is None else start, power))
    step = STEP
    for _ in range(_iterations(problem)):
        following = evaluate(problem, _next(problem, point, power, step))
        if following.value < point.value * (1 - 1e-12) and step > 1:
            step = 1.0
            continue
        progress, point = abs(following.value / point.value - 1), following
        if progress < ENOUGH:
            break
    return point


def _iterations(problem: DualProblem) -> int:
    work = sum(float(b.root.shape[0]) ** 2 * b.root.shape[1] for b in problem.blocks)
    return int(min(MOST, max(FEWEST, WORK / work)))


def _next(problem: DualProblem, point: DualPoint, power: float, step: float) -> Array:
    share = min(1.0, step / (power - 1))
    logs = (1 - share) * np.log(np.maximum(point.mu, TINY))
    logs += share * (power - 1) * np.log(np.maximum(point.variances, TINY) / point.value)
    return _normalised(problem, np.exp(logs - logs.max()), power)


def _normalised(problem: DualProblem, mu: Array, power: float) -> Array:
    """Weights with the q-norm of even weights that sum to 1."""
    q, n = power / (power - 1), problem.sizes.sum()
    return np.asarray(mu / (n * (problem.sizes @ mu**q / n) ** (1 / q)))
