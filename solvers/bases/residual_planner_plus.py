"""ResidualPlanner+ (arXiv 2305.08175): every attribute brings a strategy matrix of its own.

On axis i with strategy W_i (one row per strategy query) and centring weights u_i, the centred strategy is
``C_i = W_i (I - u_i 1')``: every row q becomes ``q - (q . u_i) 1'``. The node measures the Kronecker product of the
``C_i / sqrt(max_j (C_i' C_i)_jj)``, which has unit cost. Identity on every axis is the residual basis. The loss is
exact; the bound is the one that needs no optimisation (`bounds`), so that the gap says what other strategies may save.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from qcompile.errors import OptionError, SizeError, did_you_mean
from qcompile.lattice.gram import RANK_TOLERANCE
from qcompile.lattice.lattice import Problem, Term
from qcompile.lattice.projection import centre
from qcompile.solvers.bounds.lower_bound import lower_bound
from qcompile.solvers.solution import Solution
from qcompile.strategy import KroneckerStrategy, Part
from qcompile.support.arrays import Array, require_memory

DEFAULT_STRATEGY = "identity"
"""What an attribute takes that was given no strategy: the residual basis of its axis."""

PLUS_CELLS = 4096
"""Cells of one axis up to which its strategy is brought to full row rank: about a minute."""

SPAN_TOLERANCE = 1e-7
"""Share of a Gram's norm outside the span of a strategy that is rounding error: roots are known to about 1e-8."""


def solve_plus(
    problem: Problem, matrices: Sequence[Array], weights: Sequence[Array], names: Sequence[str] = ()
) -> Solution:
    """The product of given strategies.

    Args:
      problem: the node's Gram.
      matrices: a strategy per axis, in the problem's axis order: ``(queries, axis size)``.
      weights: the centring weights u per axis, ``(axis size,)``.
      names: what to call the strategies, per axis; only in texts.

    Raises:
      OptionError: a matrix that does not fit its axis, or whose span does not hold the node's queries.
      SizeError: an axis of more than `PLUS_CELLS` cells.
    """
    labels = tuple(names) or tuple("given" for _ in problem.shape)
    described = [f"strategy {label!r} of axis {i + 1} ({n} cells)" for i, (label, n) in _axes(labels, problem.shape)]
    parts = []
    for i, (w, u, n) in enumerate(zip(matrices, weights, problem.shape, strict=True)):
        _check_matrix(w, n, described[i])
        rows = residual_rows(w, u)
        _check_span(problem, i, rows, described[i])
        parts.append(Part((i,), (n,), rows))
    strategy = KroneckerStrategy(problem.shape, parts)
    loss = sum(t.weighted * strategy.trace(t.groups) for t in problem.terms)
    label = f"RP+ ({', '.join(labels)})" if labels else "RP+"
    return Solution(strategy, loss, lower_bound(problem), label)


def _axes(labels: Sequence[str], shape: Sequence[int]) -> enumerate[tuple[str, int]]:
    return enumerate(zip(labels, shape, strict=True))


def residual_rows(matrix: Array, u: Array) -> Array:
    """A strategy of one axis, centred, at unit cost, with orthogonal rows as many as its rank: ``(rank, cells)``.

    The only cell of an axis of size 1 has nothing to be centred on and is measured as it is. A strategy of constant
    queries leaves nothing, ``(0, cells)``.
    """
    if matrix.shape[1] == 1:
        return np.ones((1, 1))
    scaled = matrix / (np.abs(matrix).max() or 1.0)
    _, s, vt = np.linalg.svd(centre(scaled, u, 1), full_matrices=False)
    kept = s > RANK_TOLERANCE * np.linalg.norm(scaled)  # before centring: constant queries leave rounding errors
    rows = s[kept, None] * vt[kept]
    return np.asarray(rows / np.sqrt((rows * rows).sum(axis=0).max())) if len(rows) else rows


def _check_matrix(matrix: Array, size: int, what: str) -> None:
    if size > PLUS_CELLS:
        raise SizeError(f"{what} is too large for RP+, whose limit is {PLUS_CELLS} cells on an axis; use solver='auto'")
    if matrix.ndim != 2 or matrix.shape[1] != size or not len(matrix):
        raise OptionError(f"{what} has shape {matrix.shape}; it needs one row per query and {size} columns")
    if not np.isfinite(matrix).all():
        raise OptionError(f"{what} has entries that are not finite; replace them by numbers")


def _check_span(problem: Problem, axis: int, rows: Array, what: str) -> None:
    """Refuse a strategy that some query of the node is not a combination of, read along one axis.

    The row space of a Kronecker product is the intersection of those of its factors, each whole on the other axes.
    """
    basis = rows / np.linalg.norm(rows, axis=1, keepdims=True)  # rows are orthogonal
    missed = max(_outside(t, axis, basis) for t in problem.terms)
    if missed > SPAN_TOLERANCE:
        raise OptionError(
            f"{what} cannot answer every query: its rank after centring is {len(rows)} of {rows.shape[1] - 1}, "
            f"and {missed:.1%} of the queries' norm lies outside its span; add rows to it, or use 'identity'"
        )


def _outside(term: Term, axis: int, basis: Array) -> float:
    """The share of a term's norm that an orthonormal basis of rows leaves on one axis."""
    (group,) = (g for g in term.groups if axis in g.axes)
    rows = group.gram.root_rows.reshape(-1, *group.gram.shape)
    x = np.moveaxis(rows, group.axes.index(axis) + 1, -1)
    return float(np.linalg.norm(x - (x @ basis.T) @ basis) / np.linalg.norm(x))


def named_strategy(name: str, size: int) -> Array:
    """A strategy matrix by name, ``(queries, size)``; not centred.

    Args:
      name: one of `STRATEGIES`.
      size: the number of cells, at least 1.

    Raises:
      OptionError: an unknown name or a size below 1.
      SizeError: a matrix past the memory limit.
    """
    if name not in _MAKERS:
        raise OptionError(f"no strategy is called {name!r}; {did_you_mean(name, STRATEGIES)}")
    if size < 1:
        raise OptionError(f"a strategy needs at least one cell, got {size}")
    require_memory(f"the strategy {name!r} of {size} cells", 2 * size * size, "use fewer or coarser cells")
    return _MAKERS[name](size)


def _halves(size: int) -> list[tuple[int, int, int]]:
    """The inner nodes of the binary tree over the cells: (start, middle, stop), the left half never the smaller."""
    found, waiting = [], [(0, size)]
    while waiting:
        start, stop = waiting.pop()
        if stop - start > 1:
            middle = (start + stop + 1) // 2
            found.append((start, middle, stop))
            waiting += [(middle, stop), (start, middle)]
    return found


def _haar(size: int) -> Array:
    """The total, and left half less right half at every inner node: orthogonal where size is a power of two."""
    rows = np.zeros((size, size))
    rows[0] = 1
    for row, (start, middle, stop) in zip(rows[1:], _halves(size), strict=True):
        row[start:middle] = 1
        row[middle:stop] = -1
    return rows


def _hierarchical(size: int) -> Array:
    """The sum of the cells below every node of the tree, leaves and root included; all of equal weight."""
    inner = np.zeros((size - 1, size))
    for row, (start, _, stop) in zip(inner, _halves(size), strict=True):
        row[start:stop] = 1
    return np.concatenate([inner, np.eye(size)])


_MAKERS: Mapping[str, Callable[[int], Array]] = {
    "identity": np.eye,
    "prefix": np.tri,
    "haar": _haar,
    "hierarchical": _hierarchical,
}

STRATEGIES = tuple(_MAKERS)
"""Names that `named_strategy` knows."""
