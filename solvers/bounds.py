"""Lower bounds of the optimal loss that need no optimisation.

L is superadditive (the error of a sum is at least the sum of the errors one would get for each term alone), and
multiplies over Kronecker factors; each factor has the SVD bound (Li et al. 2015), S(uniform)^2 = (tr G^1/2)^2 / n.
"""

from __future__ import annotations

import math

import numpy as np

from qcompile.lattice import Problem, Term
from qcompile.projection import Gram
from qcompile.solvers.roots import dense_gram, has_spectrum

EPS = float(np.finfo(np.float64).eps)

DENSE_CELLS = 1024
"""Cells up to which the SVD bound of the whole Gram is computed: a second at most."""


def lower_bound(problem: Problem) -> float:
    """The better of the superadditive bound and, for small nodes, the SVD bound of the sum."""
    bound = sum(t.weighted * term_bound(t) for t in problem.terms)
    if len(problem.terms) > 1 and problem.cells <= DENSE_CELLS:
        values = np.linalg.eigvalsh(dense_gram(problem))
        values -= 2 * problem.cells * EPS * values[-1]  # rounding errors: the root of one alone would be 1e-8
        bound = max(bound, float(np.sqrt(np.maximum(values, 0)).sum()) ** 2 / problem.cells)
    return bound * (1 - 1e-12)


def term_bound(term: Term) -> float:
    """Product of the groups' SVD bounds."""
    return math.prod(svd_bound(g.gram) for g in term.groups)


def svd_bound(gram: Gram) -> float:
    """``(tr G^1/2)^2 / n``; 0, which proves nothing, where the spectrum would take too long."""
    if not has_spectrum(gram):
        return 0.0
    return float(np.linalg.svd(gram.root, compute_uv=False).sum()) ** 2 / gram.cells
