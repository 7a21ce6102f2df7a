"""The routes of ``solver="auto"``, from the cheapest to the dearest, for one problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from types import ModuleType

import numpy as np

from qcompile.lattice.gram import Gram
from qcompile.lattice.lattice import Problem
from qcompile.solvers.attempts import Trial
from qcompile.solvers.bases import fourier, residual
from qcompile.solvers.bounds.dual import product_bound
from qcompile.solvers.bounds.lower_bound import lower_bound, svd_bound
from qcompile.solvers.bounds.spectra import is_circulant
from qcompile.solvers.closed_forms import closed_form
from qcompile.solvers.composite import alternating, mixture
from qcompile.solvers.composite.kronecker import factored, group_problem
from qcompile.solvers.exact import exact
from qcompile.solvers.shared import Shared, best_basis
from qcompile.solvers.solution import Solution
from qcompile.support.arrays import Array

BOUNDED_CELLS = 256
"""Cells up to which a group is solved only to have a better lower bound than its SVD: a second at most."""

WEIGHED_CELLS = 1024
"""Cells of a group up to which its optimal weights are found for the dual bound: a few seconds."""

COARSE = 5e-3
"""Tolerance of the low-rank terms of a mixture, whose own optima are a start and not the goal."""

Route = tuple[str, str | None, Callable[[], Solution | str]]
"""Its name, the reason against it or None, and how to take it, which may find another reason."""


class Auto:
    """The choice for one problem.

    Attributes:
      problem: the node.
      shared: solves single groups and sums that nodes share.
      gap: relative tolerance of the certified gap.
    """

    def __init__(self, problem: Problem, shared: Shared, gap: float) -> None:
        self.problem, self.shared, self.gap = problem, shared, gap

    def solve(self) -> Solution:
        """The first route that is certified within the tolerance, else the best of all.

        Raises:
          SizeError: no route fits in memory.
        """
        closed = closed_form(self.problem) or self._closed_product()
        if closed is not None:
            return closed
        # Without a basis to certify the bound can wait until an approximation needs it.
        trial = Trial(self.gap, self._bound if self.problem.uniform else 0.0)
        for label, reason, route in self._routes(trial):
            found = reason or route()
            if isinstance(found, str):
                trial.refuse(label, found)
            else:
                trial.add(label, found)
            if trial.certified:
                break
        return self._best(trial)

    def _closed_product(self) -> Solution | None:
        """A Kronecker product of closed forms: smaller than a basis of the whole, and as exact."""
        split = factored(self.problem)
        if split is None or split.rest is not None:
            return None
        parts = [group_problem(g.gram, self.problem.uniform) for g in split.groups]
        return None if any(closed_form(p) is None for p in parts) else self.shared.solve(self.problem, self.gap)

    def _best(self, trial: Trial) -> Solution:
        if not trial.certified and self.problem.uniform:
            losses = [residual.loss(self.problem), fourier.loss(self.problem)]
            if trial.best is None or min(losses) < trial.best.loss:
                return trial.result(best_basis(self.problem, trial.bound))
        if trial.best is None:
            return best_basis(self.problem, trial.bound)  # refuses, with the reason
        return trial.result(trial.best)

    def _routes(self, trial: Trial) -> Iterator[Route]:
        """Names, reasons and ways, each found out only when the one before it was not good enough."""
        yield "residual basis", self._far(residual, trial), lambda: residual.solve_residual(self.problem, self._bound)
        yield "Fourier basis", self._far(fourier, trial), lambda: fourier.solve_fourier(self.problem, self._bound)
        slow = self.shared.is_slow(self.problem)
        if not slow:
            yield self._exact_route()
        yield "mixture", mixture.why_not(self.problem), self._mixture
        yield "alternating Kronecker", alternating.why_not(self.problem), self._alternating
        if slow:
            yield self._exact_route()

    def _far(self, basis: ModuleType, trial: Trial) -> str | None:
        """The reason against one of the two bases, without building its strategy."""
        reason: str | None = basis.why_not(self.problem)
        loss = 0.0 if reason else float(basis.loss(self.problem))
        return reason or (None if trial.within(loss) else trial.reason(loss))

    def _exact_route(self) -> Route:
        label = "optimal" if factored(self.problem) is None else "Kronecker"
        return label, self.shared.why_not(self.problem), lambda: self.shared.solve(self.problem, self.gap)

    @cached_property
    def _bound(self) -> float:
        """A lower bound that takes no optimisation."""
        return lower_bound(self.problem)

    @cached_property
    def _better_bound(self) -> float:
        """The lower bound with small groups at their optimum."""
        return max(self._bound, lower_bound(self.problem, self._group_bound))

    def _group_bound(self, gram: Gram) -> float:
        low = gram.rows is not None and 4 * len(gram.rows) <= gram.cells
        if gram.cells > BOUNDED_CELLS and not low:
            return svd_bound(gram)
        gap = max(self.gap, COARSE) if low else self.gap
        return self.shared.group(group_problem(gram, self.problem.uniform), gap).bound

    def _mixture(self) -> Solution | str:
        found = mixture.split(self.problem)
        bound = self._better_bound
        if len(found.high) == 1 and all(g.gram.cells <= WEIGHED_CELLS for g in found.high[0].groups):
            bound = max(bound, product_bound(self.problem, found.high[0], found.low, self._weights))
        return mixture.solve_mixture(self.problem, self.high, self.low, bound)

    def _weights(self, gram: Gram) -> Array:
        """The optimal mu of a group."""
        if is_circulant(gram):
            return np.full(gram.cells, 1 / gram.cells)
        return exact.solve_with_weights(group_problem(gram, self.problem.uniform), self.gap)[1]

    def low(self, problem: Problem) -> Solution:
        """The optimum of a single term, roughly."""
        return self.shared.solve(problem, max(self.gap, COARSE))

    def high(self, problem: Problem) -> Solution:
        """One Kronecker product for the terms of high rank."""
        if len(problem.terms) == 1:
            return self.shared.solve(problem, self.gap)
        return self._alternate(problem, 0.0)

    def _alternating(self) -> Solution:
        return self._alternate(self.problem, self._better_bound)

    def _alternate(self, problem: Problem, bound: float) -> Solution:
        return alternating.solve_alternating(problem, self.shared.block, self.shared.why_not, self.gap, bound)
