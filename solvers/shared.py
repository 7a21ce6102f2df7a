"""Exact solutions of single groups and of sums, each solved once per plan however many nodes contain it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

from qcompile.errors import SizeError
from qcompile.lattice.lattice import Problem
from qcompile.solvers.bases import fourier, residual
from qcompile.solvers.bounds.lower_bound import lower_bound
from qcompile.solvers.closed_forms import closed_form
from qcompile.solvers.composite.kronecker import factored, group_problem, solve_factored
from qcompile.solvers.composite.sawtooth import solve_sawtooth
from qcompile.solvers.exact import exact
from qcompile.solvers.solution import Solution
from qcompile.support.arrays import DEFAULT_MEMORY, bytes_text, require_memory

Job = tuple[Hashable, Callable[[], Solution], Problem]
"""What identifies a piece of work, how to do it, and the problem it solves."""


class Shared:
    """Solves problems as products of their Kronecker factors and remembers the factors."""

    def __init__(self) -> None:
        self._solved: dict[Hashable, Solution] = {}

    def why_not(self, problem: Problem) -> str | None:
        """The reason why no exact route is open, or None; a single group may fall back to a basis."""
        split = factored(problem)
        if split is None:
            return exact.why_not(problem)
        return None if split.rest is None else exact.why_not(split.rest)

    def is_slow(self, problem: Problem) -> bool:
        """Whether the exact route takes long enough to try approximations first."""
        split = factored(problem)
        part = problem if split is None else split.rest
        return part is not None and exact.why_not(part) is None and exact.is_slow(part)

    def solve(self, problem: Problem, gap: float) -> Solution:
        """The optimum of a problem, factor by factor; a single group may fall back to a basis, with its honest gap."""
        split = factored(problem)
        if split is None:
            return exact.solve_exact(problem, gap)
        share = _share(gap, len(split.groups) + (split.rest is not None))
        return solve_factored(problem, split, lambda p: self.group(p, share), lambda p: self._sum(p, share))

    def jobs(self, problem: Problem, gap: float) -> list[Job]:
        """The factors of a problem as separate pieces of work."""
        split = factored(problem)
        if split is None or closed_form(problem) is not None:
            return []
        share = _share(gap, len(split.groups) + (split.rest is not None))
        parts = [group_problem(g.gram, problem.uniform) for g in split.groups]
        jobs: list[Job] = [((p.key, share), partial(self.group, p, share), p) for p in parts]
        rest = split.rest
        if rest is not None and exact.why_not(rest) is None and not exact.is_slow(rest):
            jobs.append(((rest.key, share), partial(self._sum, rest, share), rest))
        return jobs

    def group(self, problem: Problem, gap: float) -> Solution:
        """One group alone: in closed form, exactly, or past every exact route by the better of the two bases."""
        return self._remembered(problem, gap, _solve_group)

    def _sum(self, problem: Problem, gap: float) -> Solution:
        return self._remembered(problem, gap, exact.solve_exact)

    def block(self, problem: Problem) -> Solution:
        """A problem that is solved once only, to the precision that an outer iteration needs."""
        closed = closed_form(problem)
        if closed is not None:
            return closed
        reason = self.why_not(problem)
        return best_basis(problem, 0.0) if reason else self.solve(problem, BLOCK_GAP)

    def _remembered(self, problem: Problem, gap: float, solve: Callable[[Problem, float], Solution]) -> Solution:
        key = problem.key, gap
        if key not in self._solved:
            self._solved[key] = solve(problem, gap)
        return self._solved[key]


BLOCK_GAP = 1e-5
"""Tolerance of the steps of an outer iteration."""


def _solve_group(problem: Problem, gap: float) -> Solution:
    closed = closed_form(problem)
    if closed is not None:
        return closed
    return best_basis(problem, None) if exact.why_not(problem) else exact.solve_exact(problem, gap)


def best_basis(problem: Problem, bound: float | None) -> Solution:
    """Past every exact route: the better of the two bases, with its honest gap; for a prefix, one query beside them.

    Args:
      problem: the node.
      bound: a lower bound of its loss where one is known already.

    Raises:
      SizeError: neither is possible, or it does not fit in memory.
    """
    if not problem.uniform:
        need = 8 * exact.COPIES * problem.cells**2
        raise SizeError(
            f"the optimal strategy of a node of {problem.cells:,} cells needs {bytes_text(float(need))} of memory and "
            f"hours, the limit is {exact.DENSE_CELLS:,} cells ({bytes_text(DEFAULT_MEMORY)}); use uniform centring, "
            "for which there are bases of any size, or fewer or coarser cells"
        )
    proven = lower_bound(problem) if bound is None else bound
    sawtooth = solve_sawtooth(problem, proven)
    if sawtooth is not None:
        return sawtooth
    if fourier.loss(problem) <= residual.loss(problem):
        return fourier.solve_fourier(problem, proven)
    require_memory("the residual basis of a node", 3 * max(problem.shape) ** 2, "use fewer or coarser cells")
    return residual.solve_residual(problem, proven)


def _share(gap: float, factors: int) -> float:
    """The tolerance of each factor so that the product of ``1 + gap`` is within the whole's."""
    return gap if factors == 1 else float((1 + gap) ** (1 / factors) - 1)
