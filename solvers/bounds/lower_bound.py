"""Lower bounds of the optimal loss that need no optimisation.

L is superadditive (the error of a sum is at least the sum of the errors one would get for each term alone) and
multiplies over Kronecker factors; each factor has the SVD bound (Li et al. 2015), S(uniform)^2 = (tr G^1/2)^2 / n, or a
better one once it is solved. Where the terms commute axis by axis, the eigenvalues of the sum lie on the grid of the
terms' eigenvalues, and the SVD bound of the whole sum is there without any matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from qcompile.lattice.gram import Gram
from qcompile.lattice.lattice import Group, Problem, Term
from qcompile.solvers.bounds.roots import dense_gram
from qcompile.solvers.bounds.spectra import shared_eigenvalues, singular_values
from qcompile.support.arrays import Array

EPS = float(np.finfo(np.float64).eps)

DENSE_CELLS = 1024
"""Cells up to which the SVD bound of the whole Gram is computed: a second at most."""

GRID_ENTRIES = 2**25
"""Eigenvalues of a commuting sum up to which they are all computed (256 MB)."""

ROUNDING = 1e-12
"""Relative allowance for the rounding errors of a bound's own arithmetic."""


def svd_bound(gram: Gram) -> float:
    """``(tr G^1/2)^2 / n``; 0, which proves nothing, where the spectrum would take too long."""
    values = singular_values(gram)
    return 0.0 if values is None else float(values.sum()) ** 2 / gram.cells


def lower_bound(problem: Problem, group_bound: Callable[[Gram], float] = svd_bound) -> float:
    """The best of the superadditive bound, that of commuting terms and, for small nodes, the SVD bound of the sum.

    Args:
      problem: the node.
      group_bound: a lower bound of the loss of one group alone; a solved group has a better one than its SVD.
    """
    bounds = [superadditive_bound(problem, group_bound)]
    if len(problem.terms) > 1:
        bounds.append(commuting_bound(problem))
        if problem.cells <= DENSE_CELLS:
            bounds.append(dense_bound(problem))
    return max(bounds) * (1 - ROUNDING)


def superadditive_bound(problem: Problem, group_bound: Callable[[Gram], float] = svd_bound) -> float:
    """``sum_k c_k prod_i L(G_ki)``, with lower bounds for L."""
    return sum(t.weighted * math.prod(group_bound(g.gram) for g in t.groups) for t in problem.terms)


def dense_bound(problem: Problem) -> float:
    """The SVD bound of the whole Gram written out, less what rounding errors of its eigenvalues may have added."""
    values = np.linalg.eigvalsh(dense_gram(problem))
    values -= 2 * problem.cells * EPS * values[-1]  # the root of one rounding error alone would be 1e-8
    return float(np.sqrt(np.maximum(values, 0)).sum()) ** 2 / problem.cells


def commuting_bound(problem: Problem) -> float:
    """The SVD bound of the sum where its terms commute axis by axis; 0, which proves nothing, elsewhere."""
    axes = _common_axes(problem.terms)
    if axes is None:
        return 0.0
    size, tables = 1, []
    for block in axes:
        values = shared_eigenvalues([_group(t, block).gram for t in problem.terms])
        if values is None or size * len(values[0]) > GRID_ENTRIES:
            return 0.0
        size *= len(values[0])
        tables.append(values)
    return _grid_root_sum(problem.terms, tables) ** 2 / problem.cells


def _common_axes(terms: Sequence[Term]) -> list[tuple[int, ...]] | None:
    """The groups' axes, where all terms have the same ones; None elsewhere."""
    first = [g.axes for g in terms[0].groups]
    return first if all({g.axes for g in t.groups} == set(first) for t in terms) else None


def _group(term: Term, axes: tuple[int, ...]) -> Group:
    return next(g for g in term.groups if g.axes == axes)


def _grid_root_sum(terms: Sequence[Term], tables: Sequence[Sequence[Array]]) -> float:
    """``tr G^1/2`` from the eigenvalues of each term on each block of axes."""
    total: Array = np.zeros([len(t[0]) for t in tables])
    for k, term in enumerate(terms):
        value: Array = np.asarray(term.weighted)
        for table in tables:
            value = np.multiply.outer(value, table[k])
        total += value
    # Eigenvalues that are nothing but rounding error would add their roots, 1e-8 each.
    total[total < 64 * total.ndim * EPS * total.max()] = 0.0
    return float(np.sqrt(total, out=total).sum())
