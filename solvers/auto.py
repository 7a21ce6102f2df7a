"""``solver="auto"``: routes from the cheapest to the dearest, until one is certified within the tolerance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Self

import numpy as np

from qcompile.errors import QCompileError, SizeError
from qcompile.lattice.gram import Gram
from qcompile.lattice.lattice import Problem
from qcompile.solvers.attempts import Attempts
from qcompile.solvers.bases.basis import Basis
from qcompile.solvers.bases.fourier import Fourier
from qcompile.solvers.bases.residual import Residual
from qcompile.solvers.bounds.dual import product_bound
from qcompile.solvers.bounds.lower_bound import lower_bound, svd_bound
from qcompile.solvers.bounds.spectra import is_circulant
from qcompile.solvers.closed_forms import closed_form, has_closed_form
from qcompile.solvers.composite.alternating import Alternating
from qcompile.solvers.composite.kronecker import factorise, group_problem
from qcompile.solvers.composite.mixture import Mixture, rank_terms
from qcompile.solvers.exact.optimal import solve_with_weights
from qcompile.solvers.route import Bound, Job, Route, RouteFailed, RouteOptions
from qcompile.solvers.shared import BetterBasis, Factors, Shared, Step, no_bound
from qcompile.solvers.solution import Solution
from qcompile.support.arrays import Array, bytes_text

BOUNDED_CELLS = 256
"""Cells up to which a group is solved only to have a better lower bound than its SVD: a second at most."""

WEIGHED_CELLS = 1024
"""Cells of a group up to which its optimal weights are found for the dual bound: a few seconds."""

COARSE = 5e-3
"""Tolerance of the low-rank terms of a mixture, whose own optima are a start and not the goal."""


@dataclass(frozen=True, eq=False)
class Auto(Route):
    """The first route that is certified within the tolerance, else the best of all.

    Attributes:
      gap: relative tolerance of the certified gap.
      shared: remembers single groups, sums and bounds.
    """

    name: ClassVar[str] = "automatic choice"
    option: ClassVar[str | None] = "auto"

    gap: float = 1e-3
    shared: Shared = field(default_factory=Shared)

    @classmethod
    def of(cls, options: RouteOptions) -> Self:
        """With the gap."""
        return cls(options.gap)

    def why_not(self, problem: Problem) -> str | None:
        """A reason where no route fits in memory."""
        reason = BetterBasis().why_not(problem)
        if reason is None or has_closed_form(problem):
            return None
        group_reason = self._factors.group_reason(problem)
        if group_reason is not None:
            return group_reason
        return None if any(r.why_not(problem) is None for r in self.routes(problem)) else reason

    def refusal(self, reason: str) -> QCompileError:
        """The error of the last resort."""
        return BetterBasis().refusal(reason)

    def solve(self, problem: Problem) -> Solution:
        """Walk the routes.

        Raises:
          SizeError: no route fits in memory.
        """
        closed = closed_form(problem) or self._closed_product(problem)
        if closed is not None:
            return closed
        reason = self._factors.group_reason(problem)
        if reason is not None:
            raise self.refusal(reason)
        # Without a basis to certify the bound can wait until an approximation needs it.
        attempts = Attempts(self.gap, self.shared.lower_bound(problem) if problem.uniform else 0.0)
        for route in self.routes(problem):
            _attempt(route, problem, attempts)
            if attempts.certified:
                break
        return _best(problem, attempts)

    def jobs(self, problem: Problem) -> list[Job]:
        """The factors, unless a basis of the whole is certified: their optima would not be used."""
        return [] if self._has_basis(problem) else self._factors.jobs(problem)

    def _has_basis(self, problem: Problem) -> bool:
        """True if one of the bases is certified within the tolerance."""
        if not problem.uniform or has_closed_form(problem):
            return False
        attempts = Attempts(self.gap, self.shared.lower_bound(problem))
        bases = (Residual(), Fourier())
        return any(b.why_not(problem) is None and _basis_reason(b, problem, attempts) is None for b in bases)

    def routes(self, problem: Problem) -> Iterator[Route]:
        """The routes in the order in which they are tried."""
        yield Residual(self.shared.lower_bound)
        yield Fourier(self.shared.lower_bound)
        slow = self._factors.is_slow(problem)
        if not slow:
            yield self._factors
        yield self.mixture
        yield self.alternating(self._better_bound)
        if slow:
            yield self._factors

    @property
    def _factors(self) -> Factors:
        return Factors(self.gap, self.shared)

    @property
    def mixture(self) -> Mixture:
        """Mixtures of products; the terms of low rank are solved roughly."""
        low = Factors(max(self.gap, COARSE), self.shared)
        return Mixture(self._factors, self.alternating(no_bound, least_axes=1), low, self._mixture_bound)

    def alternating(self, bound: Bound, least_axes: int = 2) -> Alternating:
        """Alternating minimisation with a bound for its solutions."""
        return Alternating(Step(self.shared), self._factors, self.gap, bound, least_axes)

    def _closed_product(self, problem: Problem) -> Solution | None:
        """A Kronecker product of closed forms: smaller than a basis of the whole, and as exact."""
        factors = factorise(problem)
        if factors is None or factors.rest is not None:
            return None
        parts = [group_problem(g.gram, problem.uniform) for g in factors.groups]
        if not all(has_closed_form(p) for p in parts):
            return None
        try:
            return self._factors.solve(problem)
        except SizeError:  # a circulant is too large to be written out: a basis of the whole is not
            return None

    def _better_bound(self, problem: Problem) -> float:
        """The lower bound with small groups at their optimum."""
        return self.shared.bound((problem.key, self.gap), partial(self._solved_bound, problem))

    def _solved_bound(self, problem: Problem) -> float:
        group_bound = partial(self._group_bound, uniform=problem.uniform)
        return max(self.shared.lower_bound(problem), lower_bound(problem, group_bound))

    def _group_bound(self, gram: Gram, uniform: bool) -> float:
        low = gram.rows is not None and 4 * len(gram.rows) <= gram.cells
        if gram.cells > BOUNDED_CELLS and not low:
            return svd_bound(gram)
        gap = max(self.gap, COARSE) if low else self.gap
        return self.shared.group(group_problem(gram, uniform), gap).bound

    def _mixture_bound(self, problem: Problem) -> float:
        """The better bound, or the dual bound of a product beside terms of low rank."""
        ranked, bound = rank_terms(problem), self._better_bound(problem)
        if len(ranked.high) == 1 and all(g.gram.cells <= WEIGHED_CELLS for g in ranked.high[0].groups):
            weights = partial(self._weights, uniform=problem.uniform)
            bound = max(bound, product_bound(problem, ranked.high[0], ranked.low, weights))
        return bound

    def _weights(self, gram: Gram, uniform: bool) -> Array:
        """The optimal mu of a group."""
        if is_circulant(gram):
            return np.full(gram.cells, 1 / gram.cells)
        return solve_with_weights(group_problem(gram, uniform), self.gap)[1]


def _attempt(route: Route, problem: Problem, attempts: Attempts) -> None:
    """Take a route, or note the reason against it."""
    label = route.label(problem)
    reason = route.why_not(problem) or _basis_reason(route, problem, attempts)
    if reason is not None:
        attempts.refuse(label, reason)
        return
    try:
        attempts.add(label, route.solve(problem))
    except (RouteFailed, SizeError) as e:
        attempts.refuse(label, str(e))


def _basis_reason(route: Route, problem: Problem, attempts: Attempts) -> str | None:
    """The reason against a basis that does not fit, or whose loss the bound does not certify; it is not built."""
    if not isinstance(route, Basis):
        return None
    if not route.has_room(problem):
        return f"it needs {bytes_text(8 * route.numbers(problem))} of memory"
    loss = route.loss(problem)
    return None if attempts.certifies(loss) else attempts.reason(loss)


def _best(problem: Problem, attempts: Attempts) -> Solution:
    """The best attempt, or a basis where that is better or nothing else was possible."""
    fallback = BetterBasis(lambda _: attempts.bound)
    if not attempts.certified and problem.uniform:
        bases = [basis for basis in (Residual(), Fourier()) if basis.has_room(problem)]
        least = min((basis.loss(problem) for basis in bases), default=math.inf)
        if attempts.best is None or least < attempts.best.loss:
            return attempts.result(fallback.solve(problem))
    if attempts.best is None:
        return fallback.solve(problem)  # refuses, with the reason
    return attempts.result(attempts.best)
