"""Exact solutions of single groups and of sums, each solved once per plan however many nodes contain it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Self

from qcompile.errors import QCompileError, SizeError
from qcompile.lattice.lattice import Problem
from qcompile.solvers.bases.fourier import Fourier
from qcompile.solvers.bases.residual import Residual
from qcompile.solvers.bounds.lower_bound import lower_bound
from qcompile.solvers.closed_forms import closed_form, has_closed_form
from qcompile.solvers.composite.cosine import FINEST, LongPrefix
from qcompile.solvers.composite.kronecker import Factored, factorise, group_problem, solve_factored
from qcompile.solvers.composite.sawtooth import Sawtooth
from qcompile.solvers.exact import optimal
from qcompile.solvers.exact.optimal import Optimal
from qcompile.solvers.route import Bound, Job, Route, RouteOptions, solve_total
from qcompile.solvers.solution import Solution
from qcompile.support.arrays import bytes_text
from qcompile.support.memory import memory_limit

BLOCK_GAP = 1e-5
"""Tolerance of the steps of an outer iteration."""


class Shared:
    """The solutions and bounds that the routes of one plan remember."""

    def __init__(self) -> None:
        self._solutions: dict[Hashable, Solution] = {}
        self._prepared: dict[Hashable, Solution] = {}
        self._bounds: dict[Hashable, float] = {}

    def solve(self, route: Route, problem: Problem, gap: float) -> Solution:
        """The solution by a route with some gap; every problem takes the same route at a gap.

        One that was prepared and is certified to the gap is not solved again.
        """
        prepared = self._prepared.get(problem.key)
        if prepared is not None and prepared.gap <= gap:
            return prepared
        key = problem.key, gap
        if key not in self._solutions:
            self._solutions[key] = route.solve(problem)
        return self._solutions[key]

    def group(self, problem: Problem, gap: float) -> Solution:
        """The solution of one group alone."""
        return self.solve(SingleGroup(gap), problem, gap)

    def prepare(self, route: Route, problem: Problem, gap: float) -> None:
        """Solve a problem before all others, whose solutions then do not depend on the order of the threads."""
        self._prepared[problem.key] = self.solve(route, problem, gap)

    def bound(self, key: Hashable, compute: Callable[[], float]) -> float:
        """A bound, computed once."""
        if key not in self._bounds:
            self._bounds[key] = compute()
        return self._bounds[key]

    def lower_bound(self, problem: Problem) -> float:
        """The lower bound that takes no optimisation."""
        return self.bound(problem.key, partial(lower_bound, problem))


@dataclass(frozen=True, eq=False)
class BetterBasis(Route):
    """The better of the two bases; for a prefix, a circulant and one query beside it.

    Attributes:
      bound: the lower bound that the solution carries.
    """

    name: ClassVar[str] = "better basis"
    needs_uniform: ClassVar[bool] = True

    bound: Bound = lower_bound

    def why_not(self, problem: Problem) -> str | None:
        """A reason where some axis is not centred uniformly: the bytes that an optimum would need."""
        if problem.uniform:
            return None
        need = 8 * optimal.COPIES * problem.cells**2
        return (
            f"the optimal strategy of a node of {problem.cells:,} cells needs {bytes_text(float(need))} of memory and "
            f"hours, the limit is {optimal.DENSE_CELLS:,} cells ({bytes_text(memory_limit())}); use uniform centring, "
            "for which there are bases of any size, or fewer or coarser cells"
        )

    def refusal(self, reason: str) -> QCompileError:
        """The reason is the message."""
        return SizeError(reason)

    def solve(self, problem: Problem) -> Solution:
        """The basis of smaller loss.

        Raises:
          SizeError: neither is possible, or it does not fit in memory.
        """
        self.require(problem)
        if not problem.shape:
            return solve_total(problem)
        bound = self.bound(problem)
        sawtooth, fourier, residual = Sawtooth(lambda _: bound), Fourier(lambda _: bound), Residual(lambda _: bound)
        if sawtooth.why_not(problem) is None:
            return sawtooth.solve(problem)
        possible = [basis for basis in (fourier, residual) if basis.has_room(problem)] or [fourier]
        return min(possible, key=lambda basis: basis.loss(problem)).solve(problem)


@dataclass(frozen=True, eq=False)
class SingleGroup(Route):
    """One group alone: in closed form, exactly, a long prefix nearly so; past all of these by the better basis.

    Attributes:
      gap: relative tolerance of the certified gap, where an exact route fits.
    """

    name: ClassVar[str] = "single group"

    gap: float

    def why_not(self, problem: Problem) -> str | None:
        """A reason where even the bases are not possible."""
        if has_closed_form(problem) or Optimal(self.gap).why_not(problem) is None:
            return None
        return BetterBasis().why_not(problem)

    def refusal(self, reason: str) -> QCompileError:
        """The error of the last resort."""
        return BetterBasis().refusal(reason)

    def solve(self, problem: Problem) -> Solution:
        """By the first route that fits."""
        closed = closed_form(problem)
        if closed is not None:
            return closed
        routes: list[Route] = [LongPrefix(self.gap), Optimal(self.gap)]
        if self.gap < FINEST:
            routes.reverse()
        chosen = next((r for r in routes if r.why_not(problem) is None), BetterBasis())
        return chosen.solve(problem)


@dataclass(frozen=True, eq=False)
class Factors(Route):
    """The optimum of a problem, factor by factor; a single group may fall back to a basis, with the gap it has.

    Attributes:
      gap: relative tolerance of the certified gap of the whole.
      shared: remembers the factors.
    """

    name: ClassVar[str] = "Kronecker"

    gap: float = 1e-3
    shared: Shared = field(default_factory=Shared)

    def why_not(self, problem: Problem) -> str | None:
        """A reason where a factor is too large."""
        return self.sum_reason(problem) or self.group_reason(problem)

    def sum_reason(self, problem: Problem) -> str | None:
        """The reason against the part of a problem that is no single group."""
        factors = factorise(problem)
        part = problem if factors is None else factors.rest
        return None if part is None else Optimal(self.gap).why_not(part)

    def group_reason(self, problem: Problem) -> str | None:
        """The reason against one of the groups; with uniform centring a basis takes any of them."""
        factors = None if problem.uniform else factorise(problem)
        parts = [] if factors is None else [group_problem(g.gram, problem.uniform) for g in factors.groups]
        return next((reason for p in parts if (reason := SingleGroup(self.gap).why_not(p))), None)

    def is_slow(self, problem: Problem) -> bool:
        """True if the route takes so long that approximations should be tried first."""
        factors, exact = factorise(problem), Optimal(self.gap)
        part = problem if factors is None else factors.rest
        return part is not None and exact.why_not(part) is None and exact.is_slow(part)

    def label(self, problem: Problem) -> str:
        """The name of what is done to a problem with or without factors."""
        return Optimal.name if factorise(problem) is None else self.name

    def solve(self, problem: Problem) -> Solution:
        """The product of the factors' optima.

        Raises:
          SizeError: a factor is too large.
        """
        factors = factorise(problem)
        if factors is None:
            return Optimal(self.gap).solve(problem)
        reason = self.sum_reason(problem)
        if reason is not None:
            raise self.refusal(reason)
        share = self._share(factors)
        rest = Optimal(share)
        return solve_factored(
            problem,
            factors,
            lambda p: self.shared.group(p, share),
            lambda p: self.shared.solve(rest, p, share),
        )

    def jobs(self, problem: Problem) -> list[Job]:
        """The factors of a problem as separate pieces of work."""
        factors = factorise(problem)
        if factors is None or has_closed_form(problem):
            return []
        share = self._share(factors)
        parts = [group_problem(g.gram, problem.uniform) for g in factors.groups]
        jobs = [Job(p.key, share, partial(self.shared.prepare, SingleGroup(share), p, share), p.cells) for p in parts]
        rest, exact = factors.rest, Optimal(share)
        if rest is not None and exact.why_not(rest) is None and not exact.is_slow(rest):
            jobs.append(Job(rest.key, share, partial(self.shared.prepare, exact, rest, share), rest.cells))
        return jobs

    def _share(self, factors: Factored) -> float:
        """The tolerance of each factor so that the product of ``1 + gap`` is within the whole's."""
        count = len(factors.groups) + (factors.rest is not None)
        return self.gap if count == 1 else float((1 + self.gap) ** (1 / count) - 1)


@dataclass(frozen=True, eq=False)
class Exact(Route):
    """The optimum: in closed form, or factor by factor.

    Attributes:
      gap: relative tolerance of the certified gap.
      shared: remembers the factors.
    """

    name: ClassVar[str] = "exact"
    option: ClassVar[str | None] = "exact"

    gap: float = 1e-3
    shared: Shared = field(default_factory=Shared)

    @classmethod
    def of(cls, options: RouteOptions) -> Self:
        """With the gap."""
        return cls(options.gap)

    def why_not(self, problem: Problem) -> str | None:
        """A reason where no exact route fits in memory."""
        return None if has_closed_form(problem) else self._factors.why_not(problem)

    def solve(self, problem: Problem) -> Solution:
        """The optimum.

        Raises:
          SizeError: no exact route fits in memory.
        """
        closed = closed_form(problem)
        if closed is not None:
            return closed
        reason = self._factors.sum_reason(problem)
        if reason is not None:
            raise self.refusal(reason)
        return self._factors.solve(problem)

    def jobs(self, problem: Problem) -> list[Job]:
        """The factors."""
        return self._factors.jobs(problem)

    @property
    def _factors(self) -> Factors:
        return Factors(self.gap, self.shared)


@dataclass(frozen=True, eq=False)
class Step(Route):
    """One step of an outer iteration, to the precision that it needs; nothing is remembered but the factors.

    Attributes:
      shared: remembers the factors.
    """

    name: ClassVar[str] = "step"

    shared: Shared = field(default_factory=Shared)

    def why_not(self, problem: Problem) -> str | None:
        """A reason where even the bases are not possible."""
        if has_closed_form(problem) or Factors(BLOCK_GAP, self.shared).why_not(problem) is None:
            return None
        return BetterBasis().why_not(problem)

    def refusal(self, reason: str) -> QCompileError:
        """The error of the last resort."""
        return BetterBasis().refusal(reason)

    def solve(self, problem: Problem) -> Solution:
        """By the first route that fits."""
        closed = closed_form(problem)
        if closed is not None:
            return closed
        factors = Factors(BLOCK_GAP, self.shared)
        return BetterBasis(no_bound).solve(problem) if factors.why_not(problem) else factors.solve(problem)


def no_bound(problem: Problem) -> float:
    """0, which proves nothing, for solutions whose bound is not needed."""
    return 0.0
