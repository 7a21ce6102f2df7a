"""Weighted Fourier Factorization (arXiv 2512.21499). Exact where the Gram is invariant under cyclic shifts."""

from __future__ import annotations

import numpy as np

from qcompile.lattice.lattice import Problem, Term
from qcompile.solvers.bounds.lower_bound import lower_bound
from qcompile.solvers.bounds.spectra import is_circulant
from qcompile.solvers.solution import Solution
from qcompile.strategy import FourierStrategy
from qcompile.support.arrays import Array


def why_not(problem: Problem) -> str | None:
    """The reason this route cannot be taken, or None."""
    return None if problem.uniform else "needs uniform centring on every axis"


def is_exact(problem: Problem) -> bool:
    """Whether every Gram is circulant, so that the basis is optimal."""
    return problem.uniform and all(is_circulant(g.gram) for t in problem.terms for g in t.groups)


def loss(problem: Problem) -> float:
    """The basis's error, ``(sum_k sqrt(c_k))^2 / n``, without building anything."""
    return float(np.sqrt(spectrum(problem)).sum()) ** 2 / problem.cells


def solve_fourier(problem: Problem, bound: float | None = None) -> Solution:
    """``V = sum_k h_k f_k f_k*``, ``h_k`` proportional to ``sqrt(c_k)``.

    Args:
      problem: the node.
      bound: a lower bound of its loss where one is known already.
    """
    root = np.sqrt(spectrum(problem))
    total, n = float(root.sum()), problem.cells
    strategy = FourierStrategy(np.ascontiguousarray(np.fft.ifftn(np.sqrt(n * root / total)).real))
    found = total**2 / n
    if is_exact(problem):
        return Solution(strategy, found, found, "closed form, Fourier basis")
    return Solution(strategy, found, lower_bound(problem) if bound is None else bound, "Fourier basis")


def spectrum(problem: Problem) -> Array:
    """``c_k = f_k* G f_k``, zero where any frequency is zero (the queries are centred), shape `problem.shape`."""
    total = np.zeros(problem.shape)
    for t in problem.terms:
        total += t.weighted * _term_spectrum(t, problem.shape)
    for axis in range(total.ndim):
        np.moveaxis(total, axis, 0)[0] = 0.0
    mirrored = np.roll(np.flip(total), [1] * total.ndim, axis=tuple(range(total.ndim)))
    return np.asarray((total + mirrored) / 2)  # c_k = c_-k, exactly, so that the kernel is real


def _term_spectrum(term: Term, shape: tuple[int, ...]) -> Array:
    value: Array = np.ones(shape)
    for g in term.groups:
        where = [shape[a] if a in g.axes else 1 for a in range(len(shape))]
        value = value * g.gram.spectrum.transpose(np.argsort(g.axes)).reshape(where)
    return value
