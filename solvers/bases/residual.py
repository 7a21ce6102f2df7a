"""The ResidualPlanner basis (arXiv 2305.08175): centre every axis. Exact where the Gram is permutation-invariant."""

from __future__ import annotations

import math

import numpy as np

from qcompile.lattice.lattice import Problem
from qcompile.solvers.bounds.lower_bound import lower_bound
from qcompile.solvers.bounds.spectra import is_exchangeable
from qcompile.solvers.solution import Solution
from qcompile.strategy import KroneckerStrategy, Part


def why_not(problem: Problem) -> str | None:
    """The reason this route cannot be taken, or None."""
    return None if problem.uniform else "needs uniform centring on every axis"


def is_exact(problem: Problem) -> bool:
    """Whether every Gram is a multiple of I - 11'/n, so that the basis is optimal."""
    return problem.uniform and all(is_exchangeable(g.gram) for t in problem.terms for g in t.groups)


def loss(problem: Problem) -> float:
    """The basis's error, ``tr(G) prod (n-1)/n``, without building anything."""
    return problem.trace * math.prod((n - 1) / n for n in problem.shape)


def solve_residual(problem: Problem, bound: float | None = None) -> Solution:
    """``B = kron (I - 11'/n) / sqrt((n-1)/n)``.

    Args:
      problem: the node.
      bound: a lower bound of its loss where one is known already.
    """
    parts = [Part((i,), (n,), (np.eye(n) - 1 / n) / math.sqrt((n - 1) / n)) for i, n in enumerate(problem.shape)]
    found = loss(problem)
    if is_exact(problem):
        return Solution(KroneckerStrategy(problem.shape, parts), found, found, "closed form, residual basis")
    proven = lower_bound(problem) if bound is None else bound
    return Solution(KroneckerStrategy(problem.shape, parts), found, proven, "residual basis")
