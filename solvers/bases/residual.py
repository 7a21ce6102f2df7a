"""The ResidualPlanner basis (arXiv 2305.08175): centre every axis. Exact where the Gram is permutation-invariant."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from qcompile.lattice.lattice import Problem
from qcompile.solvers.bases.basis import Basis
from qcompile.solvers.bounds.spectra import is_exchangeable
from qcompile.solvers.route import solve_total
from qcompile.solvers.solution import Solution
from qcompile.strategy import KroneckerStrategy, ResidualPart


@dataclass(frozen=True, eq=False)
class Residual(Basis):
    """``B = kron (I - 11'/n) / sqrt((n-1)/n)``."""

    name: ClassVar[str] = "residual basis"
    option: ClassVar[str | None] = "rp"

    def numbers(self, problem: Problem) -> int:
        """None: it is not written out."""
        return 0

    def is_exact(self, problem: Problem) -> bool:
        """True if every Gram is a multiple of I - 11'/n."""
        return problem.uniform and all(is_exchangeable(g.gram) for t in problem.terms for g in t.groups)

    def loss(self, problem: Problem) -> float:
        """``tr(G) prod (n-1)/n``."""
        return problem.trace * math.prod((n - 1) / n for n in problem.shape)

    def solve(self, problem: Problem) -> Solution:
        """The basis, in closed form where it is optimal."""
        self.require(problem)
        if not problem.shape:
            return solve_total(problem)
        self.require_room(problem)
        loss, strategy = self.loss(problem), residual_strategy(problem.shape)
        if self.is_exact(problem):
            return Solution(strategy, loss, loss, f"closed form, {self.name}")
        return Solution(strategy, loss, self.bound(problem), self.name)


def residual_strategy(shape: tuple[int, ...]) -> KroneckerStrategy:
    """The residual basis of a node of some shape, at unit cost."""
    return KroneckerStrategy(shape, [ResidualPart((i,), (n,)) for i, n in enumerate(shape)])
