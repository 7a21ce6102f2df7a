"""The registry of solvers, and all classes of a plan solved with one of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial

from qcompile.errors import InternalError
from qcompile.lattice.lattice import Problem
from qcompile.solvers.auto import Auto
from qcompile.solvers.bases.fourier import Fourier
from qcompile.solvers.bases.residual import Residual
from qcompile.solvers.bases.residual_planner_plus import ResidualPlannerPlus
from qcompile.solvers.exact.conic import Conic
from qcompile.solvers.route import Job, Route
from qcompile.solvers.shared import Exact
from qcompile.solvers.solution import Solution
from qcompile.support.options import one_of
from qcompile.support.threads import in_order


def registry(*routes: type[Route]) -> dict[str, type[Route]]:
    """Routes by their values of the option ``solver``.

    Raises:
      InternalError: a route has no such value, or two have the same.
    """
    registered: dict[str, type[Route]] = {}
    for route in routes:
        if route.option is None or route.option in registered:
            raise InternalError(f"{route.__name__} needs a solver name of its own, not {route.option!r}")
        registered[route.option] = route
    return registered


SOLVERS = registry(Auto, Exact, Residual, Fourier, Conic, ResidualPlannerPlus)
"""All values of the option ``solver`` with their routes, in the order in which people read them."""


def solver_class(name: str) -> type[Route]:
    """The route of a value of the option ``solver``.

    Raises:
      OptionError: there is none; names the alternatives.
    """
    return SOLVERS[one_of("solver", name, tuple(SOLVERS))]


def solve(
    problems: Sequence[Problem],
    route: Route | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    workers: int | None = None,
) -> tuple[Solution, ...]:
    """Solve every class of a lattice.

    Args:
      problems: the classes.
      route: how; `Auto` where None. It remembers the parts that classes share.
      progress: called after every class with (done, total).
      workers: threads; one per processor where None. The result does not depend on it.

    Raises:
      QCompileError: the route cannot take some problem; see its `Route.refusal`.
      OptionError: a number of workers below 1.
    """
    route = Auto() if route is None else route
    workers = 1 if route.one_thread else workers
    _solve_shared(route, problems, workers)
    solutions = []
    effort = sum(_unshared_cells(p) ** 2 for p in problems)
    for s in in_order([partial(route.solve, p) for p in problems], effort, workers):
        solutions.append(s)
        progress(len(solutions), len(problems))
    return tuple(solutions)


def _solve_shared(route: Route, problems: Sequence[Problem], workers: int | None) -> None:
    """Solve the parts that several classes may share, each once: to the smallest gap that any of them needs."""
    jobs: dict[Hashable, Job] = {}
    for job in (job for p in problems for job in route.jobs(p)):
        if job.key not in jobs or job.gap < jobs[job.key].gap:
            jobs[job.key] = job
    for _ in in_order([job.run for job in jobs.values()], sum(job.cells**2 for job in jobs.values()), workers):
        pass


def _unshared_cells(problem: Problem) -> int:
    """Cells of the sum that is left to do for a class; a product's factors are solved by then."""
    return 0 if len(problem.terms) == 1 else problem.cells
