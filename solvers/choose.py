"""The choice of a solver for each class, with the reasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from qcompile.errors import OptionError, SizeError, did_you_mean
from qcompile.factors.base import Key
from qcompile.lattice import Problem
from qcompile.solvers import exact, fourier, residual
from qcompile.solvers.kronecker import Factored, factored, solve_factored
from qcompile.solvers.solution import Solution
from qcompile.strategy import KroneckerStrategy

SOLVERS = ("auto", "exact", "rp", "wff")

Route = tuple[str, str | None, Callable[[], Solution]]
"""Its name, the reason against it or None, and how to take it."""


class Solver:
    """Solves the classes of one plan; remembers what it solved for single groups.

    Attributes:
      name: one of `SOLVERS`.
      gap: relative tolerance of each class's certified gap.
    """

    def __init__(self, name: str, gap: float) -> None:
        if name not in SOLVERS:
            raise OptionError(f"no solver is called {name!r}; {did_you_mean(name, SOLVERS)}")
        if not 0 < gap < 1:
            raise OptionError(f"gap must be between 0 and 1 (1e-3 means 0.1 %), got {gap!r}")
        self.name, self.gap = name, gap
        self._groups: dict[tuple[Key, float], Solution] = {}

    def solve(self, problem: Problem) -> Solution:
        """A strategy for one class.

        Raises:
          SizeError: ``solver="exact"`` and no exact route fits in memory.
          OptionError: ``"rp"`` or ``"wff"`` where centring is not uniform.
        """
        if not problem.shape:  # the total: its count is the only thing to measure
            return Solution(KroneckerStrategy((), ()), problem.trace, problem.trace, "closed form, total")
        routes: dict[str, Callable[[Problem], Solution]] = {
            "auto": self._auto,
            "exact": self._exact,
            "rp": lambda p: _basis(p, "rp"),
            "wff": lambda p: _basis(p, "wff"),
        }
        return routes[self.name](problem)

    def _auto(self, problem: Problem) -> Solution:
        refused: list[tuple[str, str]] = []
        for label, reason, route in self._routes(problem):
            if reason is None:
                return replace(route(), refused=tuple(refused))
            refused.append((label, reason))
        return replace(self._best_basis(problem), refused=tuple(refused))

    def _routes(self, problem: Problem) -> list[Route]:
        """The routes of certified quality, cheapest first."""
        split = factored(problem)
        not_marginal = None if residual.is_exact(problem) else "the Gram is not permutation-invariant"
        shared = fourier.is_exact(problem) and len(problem.terms) > 1
        not_circulant = None if shared else "the Gram is not a sum of circulant products"
        return [
            ("residual basis", not_marginal, lambda: residual.solve_residual(problem)),
            ("Fourier basis", not_circulant, lambda: fourier.solve_fourier(problem)),
            *([] if split is None else [("Kronecker", self._why_not(split), lambda: self._factored(problem, split))]),
            ("optimal", exact.why_not(problem), lambda: exact.solve_exact(problem, self.gap)),
        ]

    def _exact(self, problem: Problem) -> Solution:
        split = factored(problem)
        if split is not None and self._why_not(split) is None:
            return self._factored(problem, split)
        reason = exact.why_not(problem)
        if reason is not None:
            raise SizeError(f"no exact solver fits this node: {reason}; use solver='auto', or fewer or coarser cells")
        return exact.solve_exact(problem, self.gap)

    def _why_not(self, split: Factored) -> str | None:
        return None if split.rest is None else exact.why_not(split.rest)

    def _factored(self, problem: Problem, split: Factored) -> Solution:
        factors = len(split.groups) + (split.rest is not None)
        share = self.gap / factors  # gaps of the factors add up, to first order
        return solve_factored(problem, split, lambda p: self._group(p, share), lambda p: exact.solve_exact(p, share))

    def _group(self, problem: Problem, gap: float) -> Solution:
        """One group alone, solved once per plan: every node of a product workload shares its axes' solutions."""
        key = problem.terms[0].groups[0].gram.key
        if (key, gap) not in self._groups:
            self._groups[key, gap] = self._solve_group(problem, gap)
        return self._groups[key, gap]

    def _solve_group(self, problem: Problem, gap: float) -> Solution:
        if residual.is_exact(problem):
            return residual.solve_residual(problem)
        if fourier.is_exact(problem):
            return fourier.solve_fourier(problem)
        reason = exact.why_not(problem)
        return self._best_basis(problem) if reason else exact.solve_exact(problem, gap)

    def _best_basis(self, problem: Problem) -> Solution:
        """Past every exact route: the better of the two bases, with its honest gap."""
        if not problem.uniform:
            raise SizeError(f"a node of {problem.cells} cells is too large for exact solvers; use uniform centring")
        return min((residual.solve_residual(problem), fourier.solve_fourier(problem)), key=lambda s: s.loss)


def _basis(problem: Problem, name: str) -> Solution:
    module = residual if name == "rp" else fourier
    reason = module.why_not(problem)
    if reason is not None:
        raise OptionError(f"solver={name!r} {reason}; use solver='exact' or 'auto'")
    return residual.solve_residual(problem) if name == "rp" else fourier.solve_fourier(problem)


def solve(
    problems: tuple[Problem, ...],
    name: str = "auto",
    gap: float = 1e-3,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Solution, ...]:
    """Solve every class of a lattice.

    Args:
      problems: the classes.
      name: "auto", "exact", "rp" (ResidualPlanner) or "wff" (Weighted Fourier Factorization).
      gap: the relative gap each class must certify, where its route can.
      progress: called after every class with the number done and of all.

    Raises:
      OptionError: an unknown solver or a gap outside (0, 1).
    """
    solver = Solver(name, gap)
    solutions = []
    for p in problems:
        solutions.append(solver.solve(p))
        progress(len(solutions), len(problems))
    return tuple(solutions)
