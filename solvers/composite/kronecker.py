"""Problems with Kronecker factors: each is solved alone, and the optimum is the product of their optima.

If ``G_i = V_i D_i V_i`` with ``diag V_i = 1`` on each factor, the same holds of the products, and this is the
optimality condition; losses and bounds multiply. A factor is a group of axes on which all terms have proportional
Grams; what is left after all factors are split off is a sum of terms on the other axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from qcompile.lattice.gram import Gram
from qcompile.lattice.lattice import Group, Problem, Term
from qcompile.solvers.solution import Solution
from qcompile.strategy import CosineStrategy, KroneckerStrategy, MatrixPart, Part, Strategy
from qcompile.support.arrays import require_memory

WRITTEN_COPIES = 3
"""Square matrices that live at once while a circulant is written out."""

COMPARED_CELLS = 512
"""Grams up to this size are compared by their numbers when their keys differ."""


@dataclass(frozen=True, eq=False)
class Factored:
    """A problem as a product.

    Attributes:
      groups: the Kronecker factors.
      rest: the sum on the other axes, None where there is none left.
      axes: the problem's axes that `rest` lives on, in its order.
      weight: scalar factor.
    """

    groups: tuple[Group, ...]
    rest: Problem | None
    axes: tuple[int, ...]
    weight: float


def factorise(problem: Problem) -> Factored | None:
    """The problem's Kronecker factors; None where there are none."""
    first = problem.terms[0]
    groups = tuple(g for g in first.groups if all(_ratio(t, g) is not None for t in problem.terms))
    taken = {a for g in groups for a in g.axes}
    axes = tuple(a for a in range(len(problem.shape)) if a not in taken)
    if not groups:
        return None
    weights = [t.weighted * math.prod(_ratio(t, g) or 0.0 for g in groups) for t in problem.terms]
    if not axes:
        return Factored(groups, None, (), sum(weights))
    terms = [_without(t, taken, axes, w) for t, w in zip(problem.terms, weights, strict=True)]
    rest = Problem(tuple(problem.shape[a] for a in axes), tuple(terms), problem.uniform)
    return Factored(groups, rest, axes, 1.0)


def _ratio(term: Term, group: Group) -> float | None:
    """The factor by which a term's Gram on the same axes exceeds the group's; None where they are not proportional."""
    for g in term.groups:
        if g.axes == group.axes and _proportional(g.gram, group.gram):
            return g.gram.trace / group.gram.trace
    return None


def _proportional(a: Gram, b: Gram) -> bool:
    if a.key == b.key:
        return True
    if a.shape != b.shape or a.cells > COMPARED_CELLS:
        return False
    x, y = a.matrix / a.trace, b.matrix / b.trace
    return bool(np.abs(x - y).max() <= 1e-13 * np.abs(x).max())


def _without(term: Term, taken: set[int], axes: Sequence[int], weight: float) -> Term:
    place = {a: i for i, a in enumerate(axes)}
    kept = [Group(tuple(place[a] for a in g.axes), g.gram) for g in term.groups if not taken & set(g.axes)]
    return Term(tuple(kept), weight, weight)


def solve_factored(
    problem: Problem,
    split: Factored,
    solve_group: Callable[[Problem], Solution],
    solve_rest: Callable[[Problem], Solution],
) -> Solution:
    """Solve each factor alone and multiply.

    Args:
      problem: the whole.
      split: its factors.
      solve_group: solver of a problem with one group on all its axes.
      solve_rest: solver of the remaining sum.
    """
    solved = [solve_group(group_problem(g.gram, problem.uniform)) for g in split.groups]
    where = [g.axes for g in split.groups]
    if split.rest is not None:
        solved.append(solve_rest(split.rest))
        where.append(split.axes)
    return Solution(
        product(problem.shape, [s.strategy for s in solved], where),
        split.weight * math.prod(s.loss for s in solved),
        split.weight * math.prod(s.bound for s in solved),
        _label([s.solver for s in solved]),
    )


def product(shape: tuple[int, ...], strategies: Sequence[Strategy], where: Sequence[tuple[int, ...]]) -> Strategy:
    """The Kronecker product of strategies, each on its axes of the node."""
    if list(where) == [tuple(range(len(shape)))]:
        return strategies[0]  # a single factor keeps its form, a circulant its transform
    parts = [p for s, axes in zip(strategies, where, strict=True) for p in _move_parts(s, axes)]
    return KroneckerStrategy(shape, parts)


def written_out(strategy: Strategy) -> KroneckerStrategy:
    """A strategy as a Kronecker product of matrices on the same axes."""
    return KroneckerStrategy(strategy.shape, _move_parts(strategy, range(len(strategy.shape))))


def _move_parts(strategy: Strategy, axes: Sequence[int]) -> list[Part]:
    """A strategy's matrices on some axes of a larger problem; a circulant is written out."""
    if isinstance(strategy, KroneckerStrategy):
        return [p.moved([axes[a] for a in p.axes]) for p in strategy.parts]
    require_memory("a circulant, written out", WRITTEN_COPIES * strategy.rows**2, "use solver='wff' or coarser cells")
    if isinstance(strategy, CosineStrategy):
        return [MatrixPart(tuple(axes), strategy.shape, strategy.independent_rows())]
    (matrix,) = strategy.factors(range(len(axes)))
    return [MatrixPart(tuple(axes), strategy.shape, matrix)]


def _label(solvers: list[str]) -> str:
    """The only solver, or the kinds of solvers that the factors took."""
    if len(solvers) == 1:
        return solvers[0]
    return f"Kronecker of {', '.join(sorted({s.split(',')[0] for s in solvers}))}"


def group_problem(gram: Gram, uniform: bool) -> Problem:
    """One Gram as a problem of its own, at weight 1."""
    axes = tuple(range(len(gram.shape)))
    return Problem(gram.shape, (Term((Group(axes, gram),), 1.0, 1.0),), uniform)
