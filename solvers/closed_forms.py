"""Problems whose optimum is known in closed form."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from qcompile.lattice.lattice import Problem
from qcompile.solvers.bases.fourier import Fourier
from qcompile.solvers.bases.residual import Residual
from qcompile.solvers.bounds.spectra import gram_rank
from qcompile.solvers.route import Route, solve_total
from qcompile.solvers.solution import Solution
from qcompile.strategy import KroneckerStrategy, MatrixPart


class TotalCount(Route):
    """The node without axes."""

    name: ClassVar[str] = "total"

    def why_not(self, problem: Problem) -> str | None:
        """A reason where there are axes."""
        return "it has axes" if problem.shape else None

    def solve(self, problem: Problem) -> Solution:
        """Its count."""
        self.require(problem)
        return solve_total(problem)


class SingleQuery(Route):
    """A Gram ``qq'`` of rank 1: measure q, ``V = qq' / max q_j^2``, loss ``max q_j^2``."""

    name: ClassVar[str] = "one query"

    def why_not(self, problem: Problem) -> str | None:
        """A reason for higher ranks."""
        single = len(problem.terms) == 1 and all(gram_rank(g.gram) == 1 for g in problem.terms[0].groups)
        return None if single else "more than one query"

    def solve(self, problem: Problem) -> Solution:
        """The query, scaled to unit cost."""
        self.require(problem)
        (term,) = problem.terms
        queries = [g.gram.root for g in term.groups]
        peaks = [float(np.abs(q).max()) for q in queries]
        parts = [
            MatrixPart(g.axes, g.gram.shape, q / peak) for g, q, peak in zip(term.groups, queries, peaks, strict=True)
        ]
        loss = term.weighted * math.prod(peaks) ** 2
        return Solution(KroneckerStrategy(problem.shape, parts), loss, loss, f"closed form, {self.name}")


def _form(problem: Problem) -> Route | None:
    if not problem.shape:
        return TotalCount()
    if Residual().is_exact(problem):
        return Residual()
    # A product of circulants is smaller as a product of its axes' solutions.
    product = len(problem.terms) == 1 and len(problem.terms[0].groups) > 1
    if not product and Fourier().is_exact(problem):
        return Fourier()
    return None if SingleQuery().why_not(problem) else SingleQuery()


def closed_form(problem: Problem) -> Solution | None:
    """The optimum where it is known in closed form, else None."""
    form = _form(problem)
    return None if form is None else form.solve(problem)


def has_closed_form(problem: Problem) -> bool:
    """True if the optimum is known in closed form."""
    return _form(problem) is not None
