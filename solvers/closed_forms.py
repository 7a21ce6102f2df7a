"""Problems whose optimum is known in closed form."""

from __future__ import annotations

import math

import numpy as np

from qcompile.lattice.lattice import Problem
from qcompile.solvers.bases import fourier, residual
from qcompile.solvers.bounds.spectra import gram_rank
from qcompile.solvers.solution import Solution
from qcompile.strategy import KroneckerStrategy, Part

WRITTEN_OUT = 2048
"""Sizes of an axis up to which its residual basis is held as a matrix; beyond, as a convolution."""


def closed_form(problem: Problem) -> Solution | None:
    """The optimum where it is known: a total, marginals, circulants, a single query; else None."""
    if not problem.shape:  # the total: its count is the only thing to measure
        return Solution(KroneckerStrategy((), ()), problem.trace, problem.trace, "closed form, total")
    if residual.is_exact(problem) and max(problem.shape) <= WRITTEN_OUT:
        return residual.solve_residual(problem)
    # A product of circulants is smaller as a product of its axes' solutions.
    single = len(problem.terms) == 1 and len(problem.terms[0].groups) > 1
    if not single and fourier.is_exact(problem):
        return fourier.solve_fourier(problem)
    return solve_single_query(problem)


def solve_single_query(problem: Problem) -> Solution | None:
    """A Gram ``qq'`` of rank 1: measure q, ``V = qq' / max q_j^2``, loss ``max q_j^2``; None for higher ranks."""
    if len(problem.terms) > 1 or any(gram_rank(g.gram) != 1 for g in problem.terms[0].groups):
        return None
    (term,) = problem.terms
    queries = [g.gram.root for g in term.groups]
    peaks = [float(np.abs(q).max()) for q in queries]
    parts = [Part(g.axes, g.gram.shape, q / peak) for g, q, peak in zip(term.groups, queries, peaks, strict=True)]
    loss = term.weighted * math.prod(peaks) ** 2
    return Solution(KroneckerStrategy(problem.shape, parts), loss, loss, "closed form, one query")
