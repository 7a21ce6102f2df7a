"""The ResidualPlanner basis (arXiv 2305.08175): centre every axis. Exact where the Gram is permutation-invariant."""

from __future__ import annotations

import math

import numpy as np

from qcompile.lattice import Problem
from qcompile.solvers.bounds import lower_bound
from qcompile.solvers.solution import Solution
from qcompile.strategy import KroneckerStrategy, Part


def why_not(problem: Problem) -> str | None:
    """The reason this route cannot be taken, or None."""
    return None if problem.uniform else "needs uniform centring on every axis"


def is_exact(problem: Problem) -> bool:
    """Whether every Gram is a multiple of I - 11'/n, so that the basis is optimal."""
    return problem.uniform and all(g.gram.is_exchangeable for t in problem.terms for g in t.groups)


def solve_residual(problem: Problem) -> Solution:
    """``B = kron (I - 11'/n) / sqrt((n-1)/n)``; loss ``tr(G) prod (n-1)/n``."""
    shares = [(n - 1) / n for n in problem.shape]
    parts = [
        Part((i,), (n,), (np.eye(n) - 1 / n) / math.sqrt(share))
        for i, (n, share) in enumerate(zip(problem.shape, shares, strict=True))
    ]
    loss = problem.trace * math.prod(shares)
    bound = loss if is_exact(problem) else lower_bound(problem)
    label = "closed form, residual basis" if is_exact(problem) else "residual basis"
    return Solution(KroneckerStrategy(problem.shape, parts), loss, bound, label)
