"""Conditional ResidualPlanner by CVXPY and Clarabel: the independent route, as AIM+GReM (arXiv 2602.05674) takes it.

With the weights w and breakpoints b of `qcompile.adaptive.conditional_planner` and ``z = (prior + q) / w``, the level
at which a node ends, the program is

    min sum w / z   over   z >= b, sum w (z - b) = 1.

No node rises above ``most = min(b + 1 / w)``, where a single one takes all. So a breakpoint far above it can as well be
a few times that high, and divided by ``most`` all levels are near 1, whatever the units were.

Weights and breakpoints are parameters of a program that CVXPY compiles once for each number of nodes; a call only fills
them in. What comes back is made non-negative with sum 1: the budget is spent exactly, whatever the solver did.
"""

from __future__ import annotations

import functools
import threading
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from qcompile.adaptive.conditional_planner import LEAST_SHARE, allocate
from qcompile.errors import InternalError
from qcompile.solvers.exact.conic import outcome
from qcompile.support.arrays import Array

TOLERANCE = 1e-8
"""Of the duality gap and of feasibility, as in the paper: shares are then right to about its root."""

HIGHEST = 4.0
"""Breakpoints are lowered to this multiple of ``most``. At 1 the multiplier of a node that stays dry could be zero."""

_LOCK = threading.Lock()
# A compiled program holds the parameters of one call.


def allocate_conic(prior: Array, cost: Array, loss: Array, budget: float, least_share: float = LEAST_SHARE) -> Array:
    """The precisions of `qcompile.adaptive.conditional_planner.allocate`, with every problem solved by Clarabel.

    Raises:
      InternalError: as there, or Clarabel found nothing.
    """
    return allocate(prior, cost, loss, budget, least_share, filling=conic_filling)


def conic_filling(weights: Array, breakpoints: Array, tolerance: float = TOLERANCE) -> Array:
    """The optimal shares by Clarabel.

    Args:
      weights: w in (0, 1], one per node.
      breakpoints: b >= 0, finite, one per node.
      tolerance: relative, of the error.

    Returns:
      Shares of the budget, >= 0, of sum 1.

    Raises:
      InternalError: Clarabel found nothing.
    """
    most = (breakpoints + 1 / weights).min()
    floor = np.minimum(breakpoints / most, HIGHEST)
    with _LOCK:
        rise = _program(len(weights)).rise(weights / weights.sum(), floor, 1 / (weights.sum() * most), tolerance)
    amounts = weights * np.maximum(rise, 0)
    if not amounts.sum() > 0:
        raise InternalError("Clarabel spent none of the round's budget; use the exact allocation")
    return np.asarray(amounts / amounts.sum())


@dataclass(frozen=True, eq=False)
class _Program:
    """``min weights @ (1 / z)`` over ``z >= floor``, ``weights @ z == total``, as CVXPY's objects."""

    problem: Any
    weights: Any
    floor: Any
    total: Any
    z: Any

    def rise(self, weights: Array, floor: Array, amount: float, tolerance: float) -> Array:
        """``z - floor`` at the optimum where ``weights @ (z - floor)`` is the amount."""
        self.weights.value, self.floor.value = weights, floor
        self.total.value = float(weights @ floor) + amount
        settings = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), tolerance)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about accuracy, which the status tells
            self.problem.solve(solver="CLARABEL", max_threads=1, **settings)
        if self.z.value is None or outcome(self.problem.status) == "failed":
            raise InternalError(f"Clarabel found no allocation ({self.problem.status}); use the exact one")
        return np.asarray(self.z.value - floor)


@functools.lru_cache(maxsize=64)
def _program(nodes: int) -> _Program:
    """The program for a number of nodes; its parameters enter so that CVXPY need not compile it again (DPP)."""
    import cvxpy as cp

    weights, floor = (cp.Parameter(nodes, nonneg=True) for _ in range(2))
    total = cp.Parameter(nonneg=True)
    z = cp.Variable(nodes)
    constraints = [z >= floor, weights @ z == total]
    return _Program(cp.Problem(cp.Minimize(weights @ cp.inv_pos(z)), constraints), weights, floor, total, z)
