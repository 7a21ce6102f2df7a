"""The dual bound of a Kronecker term plus terms of low rank, at weights that are a product over the axes.

S(mu) is a lower bound of sqrt(L) for any mu. Where mu is the product of the groups' own optimal weights, the Kronecker
term's K = R D R' is a Kronecker product too, with eigenvalues Lambda known on a grid, and a sum of low rank F' F adds

    N N',    N' = F R^+ K^1/2    in the eigenbasis of K,

to it. The trace of the root follows without any decomposition of that size from

    tr (Lambda + N N')^1/2 - tr Lambda^1/2 = (1 / 2 pi) int_0^inf t^-1/2 log det(I + N' (Lambda + t)^-1 N) dt,

whose integrand in log t is analytic in a strip of half-width pi: the trapezoidal rule with step h errs by about
exp(-2 pi^2 / h) of it, and whatever the cut tails would have added is positive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from qcompile.lattice.gram import Gram
from qcompile.lattice.lattice import Group, Problem, Term
from qcompile.solvers.bounds.roots import term_rank, term_root
from qcompile.support.arrays import Array, along, outer
from qcompile.support.memory import has_room

STEP = 1.25
"""Step of the trapezoidal rule: a relative error of 1.4e-7."""

ALLOWANCE = 1e-5
"""Share of the integral that is given up for the errors of quadrature and arithmetic."""

TAIL = 16.0
"""Distance by which the integral exceeds the logarithms of the eigenvalues: exp(-8) of it is cut."""

MOST_WORK = 2e12
"""Multiplications up to which the bound is computed: about two minutes."""

COPIES = 6
"""Arrays as large as the low-rank rows that live at once."""

SPAN_TOLERANCE = 1e-8
"""Relative distance of a low-rank row from the span of the Kronecker term."""


def product_bound(problem: Problem, high: Term, low: Sequence[Term], weights: Callable[[Gram], Array]) -> float:
    """``S(mu)^2`` at the product of the groups' optimal weights; 0, which proves nothing, where it is out of reach.

    Args:
      problem: the node.
      high: its Kronecker term of full rank.
      low: all its other terms.
      weights: the optimal mu of a group alone, ``(cells,)``.
    """
    rank = sum(term_rank(t) for t in low)
    if rank**2 * problem.cells * 60 > MOST_WORK or not has_room(8 * COPIES * rank * problem.cells):
        return 0.0
    rows = np.concatenate([math.sqrt(t.weighted) * term_root(t, problem.shape) for t in low])
    axes = [_Axis(g, weights(g.gram)) for g in high.groups]
    narrow = _on_groups(rows, problem.shape, high.groups)
    if _distance(narrow, axes) > SPAN_TOLERANCE:
        return 0.0
    for i, axis in enumerate(axes):
        narrow = along(axis.to_eigenbasis, narrow, i + 1)
    eigenvalues = high.weighted * outer([a.eigenvalues for a in axes]).ravel()
    value = float(np.sqrt(eigenvalues).sum()) + _added_trace(eigenvalues, narrow.reshape(len(rows), -1))
    return value**2


class _Axis:
    """One group of the Kronecker term: ``K = R D R' = Q diag(l) Q'``.

    Attributes:
      eigenvalues: l.
      to_eigenbasis: ``l^1/2 Q' R^+'``, ``(rank, cells)``.
      projector: on the row space of R, ``(cells, cells)``.
    """

    def __init__(self, group: Group, mu: Array) -> None:
        root = group.gram.root
        values, vectors = np.linalg.eigh((root * mu) @ root.T)
        inverse = np.linalg.pinv(root)
        self.eigenvalues = np.maximum(values, 0.0)
        self.to_eigenbasis = np.sqrt(self.eigenvalues)[:, None] * (vectors.T @ inverse.T)
        self.projector = inverse @ root


def _on_groups(rows: Array, shape: Sequence[int], groups: Sequence[Group]) -> Array:
    """Rows with one axis per group."""
    order = [a + 1 for g in groups for a in g.axes]
    moved = rows.reshape(-1, *shape).transpose(0, *order)
    return moved.reshape(-1, *(g.gram.cells for g in groups))


def _distance(rows: Array, axes: Sequence[_Axis]) -> float:
    inside = rows
    for i, axis in enumerate(axes):
        inside = along(axis.projector, inside, i + 1)
    return float(np.abs(inside - rows).max() / np.abs(rows).max())


def _added_trace(eigenvalues: Array, rows: Array) -> float:
    """``tr (Lambda + N N')^1/2 - tr Lambda^1/2`` from below, for N' in `rows`."""
    positive = eigenvalues > 1e-13 * eigenvalues.max()
    values, rows = eigenvalues[positive], rows[:, positive]
    largest = math.log(float(values.max()) + float((rows**2).sum()))
    points = np.arange(math.log(float(values.min())) - TAIL, largest + TAIL, STEP)
    total = sum(math.exp(u / 2) * _log_determinant(values + math.exp(u), rows) for u in points.tolist())
    return (1 - ALLOWANCE) * STEP * total / (2 * math.pi)


def _log_determinant(values: Array, rows: Array) -> float:
    """``log det(I + N' diag(1 / values) N)``."""
    scaled = rows / np.sqrt(values)
    matrix = scaled @ scaled.T
    matrix[np.diag_indices_from(matrix)] += 1
    return float(2 * np.log(np.diag(np.linalg.cholesky(matrix))).sum())
