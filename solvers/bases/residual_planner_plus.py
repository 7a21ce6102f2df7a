"""ResidualPlanner+ (arXiv 2305.08175): every attribute brings a strategy matrix of its own.

On axis i with strategy W_i (one row per strategy query) and centring weights u_i, the centred strategy is
``C_i = W_i (I - u_i 1')``: every row q becomes ``q - (q . u_i) 1'``. The node measures the Kronecker product of the
``C_i / sqrt(max_j (C_i' C_i)_jj)``, which has unit cost. Identity on every axis is the residual basis. The loss is
exact; the bound is the one that needs no optimisation (`bounds`), so that the gap says what other strategies may save.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from qcompile.errors import OptionError, QCompileError, SizeError
from qcompile.lattice.gram import RANK_TOLERANCE
from qcompile.lattice.lattice import Problem, Term
from qcompile.lattice.projection import centre
from qcompile.solvers.attribute_strategies import AttributeStrategy
from qcompile.solvers.bounds.lower_bound import lower_bound
from qcompile.solvers.route import Route, RouteOptions
from qcompile.solvers.solution import Solution
from qcompile.strategy import KroneckerStrategy, MatrixPart
from qcompile.support.arrays import Array

PLUS_CELLS = 4096
"""Cells of one axis up to which its strategy is brought to full row rank: about a minute."""

SPAN_TOLERANCE = 1e-7
"""Share of a Gram's norm outside the span of a strategy that is rounding error: roots are known to about 1e-8."""


NO_STRATEGIES = "no strategies belong to its axes"


@dataclass(frozen=True, eq=False)
class ResidualPlannerPlus(Route):
    """The product of the strategies that the user chose for the attributes of a node.

    Attributes:
      strategies: per attribute name.
    """

    name: ClassVar[str] = "RP+"
    option: ClassVar[str | None] = "rp+"
    splits_only: ClassVar[bool] = True
    takes_strategies: ClassVar[bool] = True

    strategies: Mapping[str, AttributeStrategy] = field(default_factory=dict)

    @classmethod
    def of(cls, options: RouteOptions) -> Self:
        """With the user's strategies."""
        return cls(options.strategies)

    def why_not(self, problem: Problem) -> str | None:
        """A reason where a strategy is too large or does not span the queries."""
        if self._is_without_strategies(problem):
            return NO_STRATEGIES
        try:
            self._solve(problem)
        except (OptionError, SizeError) as e:
            return str(e)
        return None

    def refusal(self, reason: str) -> QCompileError:
        """The error of a node without strategies."""
        return OptionError(f"solver={self.option!r} cannot measure this node: {reason}; use solver='auto'")

    def solve(self, problem: Problem) -> Solution:
        """The product of the strategies on the axes.

        Raises:
          OptionError: a strategy does not span the node's queries; names the attributes of its axes.
          SizeError: an axis is too large.
        """
        if self._is_without_strategies(problem):
            raise self.refusal(NO_STRATEGIES)
        return self._solve(problem)

    def _is_without_strategies(self, problem: Problem) -> bool:
        return len(problem.axes) != len(problem.shape) or any(a.attribute not in self.strategies for a in problem.axes)

    def _solve(self, problem: Problem) -> Solution:
        chosen = [self.strategies[a.attribute] for a in problem.axes]
        weights = [a.centring for a in problem.axes]
        try:
            return solve_plus(problem, [s.matrix for s in chosen], weights, [s.label for s in chosen])
        except OptionError as e:
            names = ", ".join(a.attribute for a in problem.axes)
            raise OptionError(f"on the node of {names} (its axes, in this order): {e}") from e


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
        parts.append(MatrixPart((i,), (n,), rows))
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
