"""Sums of Kronecker terms too large to be dense: V restricted to Kronecker products, one axis optimised at a time.

With the other axes fixed, axis i is a problem of its own, with Gram ``sum_k c_k G_ki prod_{j != i} tr(G_kj V_j^+)``.
Every step is an exact minimisation, so the loss never rises. A group that spans axes which are optimised apart (an
affine family beside a product of prefixes) is contracted with the covariances of its other axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from qcompile.lattice.gram import Gram
from qcompile.lattice.lattice import Group, Problem, Term
from qcompile.solvers.composite.kronecker import product
from qcompile.solvers.route import Bound, Route
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
    """State of the iteration.

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
            inside = [_renumber(g, axes) for g in term.groups if set(g.axes) <= set(axes)]
            if c != b and inside:
                value *= self._trace(c, inside)
        apart = [g for g in term.groups if self._is_cut(g) and not set(g.axes) & set(self.blocks[b])]
        return value * math.prod(self._cut_trace(g) for g in apart)

    def _cut_trace(self, group: Group) -> float:
        return float((self._contract(group, group.axes[0]) * self._covariance(group.axes[0])).sum())

    def _trace(self, c: int, groups: Sequence[Group]) -> float:
        strategy = self.strategies[c]
        return math.prod(g.gram.trace for g in groups) if strategy is None else strategy.trace(groups)

    def _is_cut(self, group: Group) -> bool:
        return not any(set(group.axes) <= set(axes) for axes in self.blocks)

    def _on_block(self, group: Group, axes: Axes) -> Group:
        if set(group.axes) <= set(axes):
            return _renumber(group, axes)
        matrix = self._contract(group, axes[0])  # groups are cut only where every axis is a block of its own
        return Group((0,), Gram(("contracted", digest(matrix)), (len(matrix),), (matrix + matrix.T) / 2))

    def _contract(self, group: Group, axis: int) -> Array:
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


@dataclass(frozen=True, eq=False)
class Alternating(Route):
    """The best Kronecker product that alternating minimisation finds.

    Attributes:
      block: solves the problem of one block of axes.
      exact: axes that some group spans stay in one block where this route can take them.
      gap: relative tolerance of the loss; the iteration ends well below it.
      bound: the lower bound that the solution carries.
      least_axes: fewest axes for which the route is taken.
    """

    name: ClassVar[str] = "alternating Kronecker"

    block: Route
    exact: Route
    gap: float
    bound: Bound
    least_axes: int = 2

    def why_not(self, problem: Problem) -> str | None:
        """A reason where there is nothing to alternate between."""
        if len(problem.terms) == 1:
            return "a single term, whose factors are solved alone"
        return "a single axis" if len(problem.shape) < self.least_axes else None

    def solve(self, problem: Problem) -> Solution:
        """A sum of terms, one block of axes after another."""
        self.require(problem)
        state = State(problem, _blocks(problem, self.exact), [])
        strategy = product(problem.shape, _alternate(state, self.block, self.gap), state.blocks)
        # The loss of the product itself, not the one that the last step claimed.
        loss = sum(t.weighted * strategy.trace(t.groups) for t in problem.terms)
        bound = min(self.bound(problem), loss)
        return Solution(strategy, loss, bound, f"{self.name}, {len(state.blocks)} factors")


def _alternate(state: State, block: Route, gap: float) -> list[Strategy]:
    """Sweep over the blocks until a whole sweep hardly improves the loss; the strategies of the best sweep."""
    state.strategies = [None] * len(state.blocks)
    loss, taken = math.inf, list(state.strategies)
    for _ in range(SWEEPS):
        for b in range(len(state.blocks)):
            solved = block.solve(state.conditional(b))
            state.update(b, solved.strategy)
        if solved.loss < loss:
            taken = list(state.strategies)
        if solved.loss > loss * (1 - SETTLED * gap):
            break
        loss = solved.loss
    return [s for s in taken if s is not None]


def _blocks(problem: Problem, exact: Route) -> list[Axes]:
    """The finest blocks of axes that no group cuts; single axes where a block is the whole problem or too large."""
    components = _components(problem)
    if len(components) == 1:
        return [(a,) for a in components[0]]
    state = State(problem, components, [None] * len(components))
    fits = [len(axes) == 1 or exact.why_not(state.conditional(b)) is None for b, axes in enumerate(components)]
    parts = [[axes] if whole else [(a,) for a in axes] for axes, whole in zip(components, fits, strict=True)]
    return [part for block in parts for part in block]


def _components(problem: Problem) -> list[Axes]:
    """The finest common coarsening of the groups of all terms."""
    label = list(range(len(problem.shape)))
    for g in (g for t in problem.terms for g in t.groups):
        merged = {label[a] for a in g.axes}
        label = [min(merged) if x in merged else x for x in label]
    return [tuple(a for a, x in enumerate(label) if x == part) for part in sorted(set(label))]


def _renumber(group: Group, axes: Axes) -> Group:
    return Group(tuple(axes.index(a) for a in group.axes), group.gram)
