"""Weighted Fourier Factorization (arXiv 2512.21499). Exact where the Gram is invariant under cyclic shifts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qcompile.lattice.lattice import Problem, Term
from qcompile.solvers.bases.basis import Basis
from qcompile.solvers.bounds.spectra import is_circulant
from qcompile.solvers.route import solve_total
from qcompile.solvers.solution import Solution
from qcompile.strategy import FourierStrategy
from qcompile.support.arrays import Array

COPIES = 8
"""Arrays as large as the node that live at once."""


@dataclass(frozen=True, eq=False)
class Fourier(Basis):
    """``V = sum_k h_k f_k f_k*`` with the characters f_k, ``h_k`` proportional to ``sqrt(c_k)``."""

    name: ClassVar[str] = "Fourier basis"
    option: ClassVar[str | None] = "wff"

    def numbers(self, problem: Problem) -> int:
        """The spectrum in its stages, and the complex transform."""
        return COPIES * problem.cells

    def is_exact(self, problem: Problem) -> bool:
        """True if every Gram is circulant."""
        return problem.uniform and all(is_circulant(g.gram) for t in problem.terms for g in t.groups)

    def loss(self, problem: Problem) -> float:
        """``(sum_k sqrt(c_k))^2 / n``.

        Raises:
          SizeError: the spectrum does not fit in memory.
        """
        self.require_room(problem)
        return float(np.sqrt(spectrum(problem)).sum()) ** 2 / problem.cells

    def solve(self, problem: Problem) -> Solution:
        """The basis, in closed form where it is optimal."""
        self.require(problem)
        if not problem.shape:
            return solve_total(problem)
        self.require_room(problem)
        root = np.sqrt(spectrum(problem))
        total, n = float(root.sum()), problem.cells
        strategy = FourierStrategy(np.ascontiguousarray(np.fft.ifftn(np.sqrt(n * root / total)).real))
        loss = total**2 / n
        if self.is_exact(problem):
            return Solution(strategy, loss, loss, f"closed form, {self.name}")
        return Solution(strategy, loss, self.bound(problem), self.name)


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
