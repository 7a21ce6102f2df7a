"""Sums of Kronecker terms too large to be dense: V restricted to Kronecker products, one axis optimised at a time.

With the other axes fixed, axis i is a problem of its own, with Gram ``sum_k c_k G_ki prod_{j != i} tr(G_kj V_j^+)``.
Every step is an exact minimisation, so the loss never rises. A group that spans axes which are optimised apart (an
affine family beside a product of prefixes) is contracted with the covariances of its other axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from qcompile.lattice.gram import Gram
from qcompile.lattice.lattice import Group, Problem, Term
from qcompile.solvers.composite.kronecker import product
from qcompile.solvers.solution import Solution
from qcompile.strategy import Strategy
from qcompile.support.arrays import Array, digest

SWEEPS = 30
"""Rounds over all axes; two or three are enough for terms alike, ten for very different ones."""

SETTLED = 0.05
"""Share of the tolerance below which the improvement of a whole sweep ends the iteration."""

Axes = tuple[int, ...]


@dataclass(eq=False)
class State:
    """Where the iteration stands.

    Attributes:
      problem: the whole.
      blocks: axes that are optimised together.
      strategies: one per block, None before its first turn (V is then taken to be the identity).
      covariances: V^+ per block, where one was needed.
    """

    problem: Problem
    blocks: list[Axes]
    strategies: list[Strategy | None]
    covariances: dict[int, Array] = field(default_factory=dict)

    def conditional(self, b: int) -> Problem:
        """The problem of block b while all others are fixed."""
        axes = self.blocks[b]
        terms = []
        for t in self.problem.terms:
            weight = t.weighted * self._others(t, b)
            own = [self._on_block(g, axes) for g in t.groups if set(g.axes) & set(axes)]
            terms.append(Term(tuple(own), weight, weight))
        return Problem(tuple(self.problem.shape[a] for a in axes), tuple(terms), self.problem.uniform)

    def _others(self, term: Term, b: int) -> float:
        """``prod tr(G V^+)`` over everything that does not touch block b."""
        value = 1.0
        for c, axes in enumerate(self.blocks):
            inside = [_renumbered(g, axes) for g in term.groups if set(g.axes) <= set(axes)]
            if c != b and inside:
                value *= self._trace(c, inside)
        apart = [g for g in term.groups if self._is_cut(g) and not set(g.axes) & set(self.blocks[b])]
        return value * math.prod(self._cut_trace(g) for g in apart)

    def _cut_trace(self, group: Group) -> float:
        return float((self._contracted(group, group.axes[0]) * self._covariance(group.axes[0])).sum())

    def _trace(self, c: int, groups: Sequence[Group]) -> float:
        strategy = self.strategies[c]
        return math.prod(g.gram.trace for g in groups) if strategy is None else strategy.trace(groups)

    def _is_cut(self, group: Group) -> bool:
        return not any(set(group.axes) <= set(axes) for axes in self.blocks)

    def _on_block(self, group: Group, axes: Axes) -> Group:
        if set(group.axes) <= set(axes):
            return _renumbered(group, axes)
        matrix = self._contracted(group, axes[0])  # groups are cut only where every axis is a block of its own
        return Group((0,), Gram(("contracted", digest(matrix)), (len(matrix),), (matrix + matrix.T) / 2))

    def _contracted(self, group: Group, axis: int) -> Array:
        """The partial trace of ``G (I x V^+)`` over all axes of a group but one, ``(n, n)``."""
        gram, kept, d = group.gram, group.axes.index(axis), len(group.axes)
        others = [i for i in range(d) if i != kept]
        if gram.rows is not None:
            rows = moved = gram.rows.reshape(-1, *gram.shape)
            for i in others:
                moved = np.moveaxis(np.tensordot(moved, self._covariance(group.axes[i]), (i + 1, 0)), -1, i + 1)
            summed = [0, *(i + 1 for i in others)]
            return np.asarray(np.tensordot(rows, moved, (summed, summed)))
        tensor = gram.matrix.reshape(*gram.shape, *gram.shape)
        for i in reversed(others):
            half = tensor.ndim // 2
            tensor = np.tensordot(tensor, self._covariance(group.axes[i]), ((i, half + i), (0, 1)))
        return tensor

    def _covariance(self, axis: int) -> Array:
        """V^+ of an axis that is a block of its own."""
        b = self.blocks.index((axis,))
        if b not in self.covariances:
            strategy, identity = self.strategies[b], np.eye(self.problem.shape[axis])
            self.covariances[b] = identity if strategy is None else strategy.solve(strategy.represent(identity))
        return self.covariances[b]

    def update(self, b: int, strategy: Strategy) -> None:
        """Take a block's new strategy."""
        self.strategies[b] = strategy
        self.covariances.pop(b, None)


def why_not(problem: Problem) -> str | None:
    """The reason this route cannot be taken, or None."""
    if len(problem.terms) == 1:
        return "a single term, whose factors are solved alone"
    return "a single axis" if len(problem.shape) == 1 else None


def solve_alternating(
    problem: Problem,
    solve_block: Callable[[Problem], Solution],
    cannot: Callable[[Problem], str | None],
    gap: float,
    bound: float,
) -> Solution:
    """The best Kronecker product found.

    Args:
      problem: a sum of terms on at least two axes.
      solve_block: solver of the problem of one block of axes.
      cannot: the reason why that solver cannot take such a problem, or None.
      gap: relative tolerance of the loss; the iteration ends well below it.
      bound: a lower bound of the problem's loss.
    """
    state = State(problem, _blocks(problem, cannot), [])
    state.strategies = [None] * len(state.blocks)
    loss, taken = math.inf, list(state.strategies)
    for _ in range(SWEEPS):
        for b in range(len(state.blocks)):
            solved = solve_block(state.conditional(b))
            state.update(b, solved.strategy)
        if solved.loss < loss:
            taken = list(state.strategies)
        if solved.loss > loss * (1 - SETTLED * gap):
            loss = min(loss, solved.loss)
            break
        loss = solved.loss
    strategies = [s for s in taken if s is not None]
    strategy = product(problem.shape, strategies, state.blocks)
    loss = sum(t.weighted * strategy.trace(t.groups) for t in problem.terms)  # not what the last step claimed
    return Solution(strategy, loss, min(bound, loss), f"alternating Kronecker, {len(state.blocks)} factors")


def _blocks(problem: Problem, cannot: Callable[[Problem], str | None]) -> list[Axes]:
    """The finest axes that no group cuts; apart where together they would be the whole problem or too large."""
    found = _components(problem)
    if len(found) == 1:
        return [(a,) for a in found[0]]
    state = State(problem, found, [None] * len(found))
    whole = [len(axes) == 1 or cannot(state.conditional(b)) is None for b, axes in enumerate(found)]
    return [
        part for axes, fits in zip(found, whole, strict=True) for part in ([axes] if fits else [(a,) for a in axes])
    ]


def _components(problem: Problem) -> list[Axes]:
    """The finest common coarsening of the groups of all terms."""
    label = list(range(len(problem.shape)))
    for g in (g for t in problem.terms for g in t.groups):
        merged = {label[a] for a in g.axes}
        label = [min(merged) if x in merged else x for x in label]
    return [tuple(a for a, x in enumerate(label) if x == found) for found in sorted(set(label))]


def _renumbered(group: Group, axes: Axes) -> Group:
    return Group(tuple(axes.index(a) for a in group.axes), group.gram)
