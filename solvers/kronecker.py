"""Problems that are one Kronecker product: the optimum is the product of the factors' optima.

If ``G_i = V_i D_i V_i`` with ``diag V_i = 1`` on each axis, the same holds of the products, and this is the
optimality condition; losses and bounds multiply.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from qcompile.lattice import Group, Problem, Term
from qcompile.solvers.solution import Solution
from qcompile.strategy import KroneckerStrategy, Part, Strategy


def why_not(problem: Problem) -> str | None:
    """The reason this route cannot be taken, or None."""
    return None if len(problem.terms) == 1 else f"the Gram is a sum of {len(problem.terms)} Kronecker products"


def solve_kronecker(problem: Problem, solve_group: Callable[[Problem], Solution]) -> Solution:
    """Solve each group alone and multiply.

    Args:
      problem: with a single term.
      solve_group: solver of a problem with one group on all its axes.
    """
    (term,) = problem.terms
    solved = [solve_group(group_problem(g, problem.uniform)) for g in term.groups]
    parts = [p for g, s in zip(term.groups, solved, strict=True) for p in _parts(g, s.strategy)]
    return Solution(
        KroneckerStrategy(problem.shape, parts),
        term.weighted * math.prod(s.loss for s in solved),
        term.weighted * math.prod(s.bound for s in solved),
        _label([s.solver for s in solved]),
    )


def _parts(group: Group, strategy: Strategy) -> list[Part]:
    """A group's strategy on the axes of the node."""
    if isinstance(strategy, KroneckerStrategy):
        return [Part(tuple(group.axes[a] for a in p.axes), p.shape, p.matrix) for p in strategy.parts]
    return [Part(group.axes, group.gram.shape, strategy.factors(range(len(group.axes)))[0])]


def _label(solvers: list[str]) -> str:
    """The only solver, or the kinds of solvers that the factors took."""
    if len(solvers) == 1:
        return solvers[0]
    return f"Kronecker of {', '.join(sorted({s.split(',')[0] for s in solvers}))}"


def group_problem(group: Group, uniform: bool) -> Problem:
    """One group as a problem of its own, at weight 1."""
    axes = tuple(range(len(group.axes)))
    return Problem(group.gram.shape, (Term((Group(axes, group.gram),), 1.0, 1.0),), uniform)
