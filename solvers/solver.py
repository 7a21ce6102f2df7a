"""The solvers by name, and all classes of a plan solved with one of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

from qcompile.errors import OptionError, SizeError
from qcompile.lattice.lattice import Problem
from qcompile.solvers.auto import Auto
from qcompile.solvers.bases import fourier, residual
from qcompile.solvers.closed_forms import closed_form
from qcompile.solvers.exact import conic
from qcompile.solvers.shared import Shared
from qcompile.solvers.solution import Solution
from qcompile.support.options import one_of, share
from qcompile.support.threads import in_order

SOLVERS = ("auto", "exact", "rp", "wff", "conic")


class Solver:
    """Solves the classes of one plan; remembers what it solved for single groups and for sums that nodes share.

    Attributes:
      name: one of `SOLVERS`.
      gap: relative tolerance of each class's certified gap.
      shared: the solutions of factors.
    """

    def __init__(self, name: str, gap: float) -> None:
        self.name, self.gap, self.shared = (
            one_of("solver", name, SOLVERS),
            share("gap", gap, "1e-3 means 0.1 %"),
            Shared(),
        )

    def solve(self, problem: Problem) -> Solution:
        """A strategy for one class.

        Raises:
          SizeError: ``solver="exact"`` and no exact route fits in memory; or no route at all does.
          OptionError: ``"rp"`` or ``"wff"`` where centring is not uniform.
        """
        if not problem.shape:
            closed = closed_form(problem)
            assert closed is not None
            return closed
        routes: dict[str, Callable[[Problem], Solution]] = {
            "auto": lambda p: Auto(p, self.shared, self.gap).solve(),
            "exact": self._exact,
            "rp": lambda p: _basis(p, "rp"),
            "wff": lambda p: _basis(p, "wff"),
            "conic": lambda p: conic.solve_conic(p, self.gap),
        }
        return routes[self.name](problem)

    def prepare(self, problems: tuple[Problem, ...], workers: int | None) -> None:
        """Solve what several classes may share, once."""
        jobs: dict[Hashable, tuple[Callable[[], Solution], int]] = {}
        if self.name in ("auto", "exact"):
            for p in problems:
                jobs |= {key: (job, part.cells) for key, job, part in self.shared.jobs(p, self.gap)}
        for _ in in_order([job for job, _ in jobs.values()], sum(n**2 for _, n in jobs.values()), workers):
            pass

    def _exact(self, problem: Problem) -> Solution:
        closed = closed_form(problem)
        if closed is not None:
            return closed
        reason = self.shared.why_not(problem)
        if reason is not None:
            raise SizeError(f"no exact solver fits this node: {reason}; use solver='auto', or fewer or coarser cells")
        return self.shared.solve(problem, self.gap)


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
    workers: int | None = None,
) -> tuple[Solution, ...]:
    """Solve every class of a lattice.

    Args:
      problems: the classes.
      name: "auto", "exact", "rp" (ResidualPlanner), "wff" (Weighted Fourier Factorization) or "conic" (CVXPY).
      gap: the relative gap each class must certify, where its route can.
      progress: called after every class with the number done and of all.
      workers: threads; one per processor where None. The result does not depend on it.

    Raises:
      OptionError: an unknown solver, a gap outside (0, 1), or a number of workers below 1.
    """
    solver = Solver(name, gap)
    workers = 1 if name == "conic" else workers  # CVXPY keeps state of its own
    solver.prepare(problems, workers)
    solutions = []
    effort = sum(_unshared_cells(p) ** 2 for p in problems)
    for s in in_order([partial(solver.solve, p) for p in problems], effort, workers):
        solutions.append(s)
        progress(len(solutions), len(problems))
    return tuple(solutions)


def _unshared_cells(problem: Problem) -> int:
    """Cells of the sum that is left to do for a class; a product's factors are solved by then."""
    return 0 if len(problem.terms) == 1 else problem.cells
