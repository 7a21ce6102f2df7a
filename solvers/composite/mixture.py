"""Mixtures V = sum_k alpha_k V_k of the terms' own optima, with the best weights.

Each term of a sum is a Kronecker product, so its optimum is that of its groups. One of them, or the best Kronecker
product for all terms of high rank together, spans every cell; the others are of low rank, so that V^+ follows from the
Woodbury identity. In these coordinates the loss of any alpha costs the cube of the low rank, whatever the cells: with
W = V_0^+, X = W C', U = C W C', H = X' G X, D the alpha of each low row and
E = D^1/2 (alpha_0 + D^1/2 U D^1/2)^-1 D^1/2,

    f(alpha) = tr(G V^+) = (tr(G W) - tr(E H)) / alpha_0,
    df/dalpha_k = -sum over the rows i of term k of Q_ii,    Q = (I - E U)' H (I - E U) / alpha_0^2,

and df/dalpha_0 follows because f is homogeneous of degree -1. f is convex in alpha, and the normalisation
``sum_k alpha_k V_k[j, j] <= 1`` is linear; the few cells where it binds are found by cutting planes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qcompile.errors import IntegrityError
from qcompile.lattice.lattice import Group, Problem, Term
from qcompile.solvers.bounds.roots import term_rank
from qcompile.solvers.composite.kronecker import written_out
from qcompile.solvers.route import Bound, Route, RouteFailed
from qcompile.solvers.solution import Solution
from qcompile.strategy import FourierStrategy, KroneckerStrategy, MixtureStrategy
from qcompile.strategy.mixture import Plain
from qcompile.support.arrays import Array, IntArray

LOW_RANK = 1500
"""Rows of all low-rank terms together: a second for each loss."""

LOW_ENTRIES = 2**26
"""Entries of their matrix on all cells (512 MB)."""

SMALLEST_SHARE = 1e-6
"""Every term keeps some weight, or its queries would leave the span."""

CUTS = 20
"""Rounds of adding the cell that violates the normalisation most."""


@dataclass(frozen=True, eq=False)
class RankedTerms:
    """The terms of a problem by rank.

    Attributes:
      high: terms that one Kronecker product is to serve.
      low: terms that get a strategy of their own each.
    """

    high: tuple[Term, ...]
    low: tuple[Term, ...]


def rank_terms(problem: Problem) -> RankedTerms:
    """Terms in falling order of rank while the rest is too large; one at least is high."""
    ranks = [term_rank(t) for t in problem.terms]
    order = sorted(range(len(ranks)), key=lambda k: (-ranks[k], k))
    high = 1
    while high < len(order) and not _is_low(problem, [ranks[k] for k in order[high:]]):
        high += 1
    return RankedTerms(
        tuple(problem.terms[k] for k in order[:high]),
        tuple(problem.terms[k] for k in order[high:]),
    )


def _is_low(problem: Problem, ranks: Sequence[int]) -> bool:
    total = sum(ranks)
    return total <= LOW_RANK and 2 * max(ranks) <= problem.cells and total * problem.cells <= LOW_ENTRIES


@dataclass(frozen=True, eq=False)
class Mixture(Route):
    """The best mixture of the terms' own optima.

    Attributes:
      high: solves a single term of high rank.
      sums: solves several terms of high rank together, by one Kronecker product.
      low: solves a term of low rank.
      bound: the lower bound that the solution carries.
    """

    name: ClassVar[str] = "mixture"

    high: Route
    sums: Route
    low: Route
    bound: Bound

    def why_not(self, problem: Problem) -> str | None:
        """A reason where no term is of low rank beside others."""
        if len(problem.terms) == 1:
            return "a single term, whose factors are solved alone"
        return None if rank_terms(problem).low else f"no term is of rank at most {LOW_RANK} beside another"

    def solve(self, problem: Problem) -> Solution:
        """A sum with at least one term of low rank.

        Raises:
          RouteFailed: the terms of high rank do not span the others' queries.
        """
        self.require(problem)
        kernels, bound = self.kernels(problem), self.bound(problem)
        try:
            return best_mixture(problem, kernels, bound, f"mixture of {len(kernels)} strategies")
        except IntegrityError:
            raise RouteFailed("no term spans the queries of all others") from None

    def kernels(self, problem: Problem) -> list[KroneckerStrategy]:
        """The strategies to be mixed: one for the terms of high rank, then one per term of low rank."""
        ranked = rank_terms(problem)
        high = self.high if len(ranked.high) == 1 else self.sums
        solved = [
            high.solve(_alone(problem, ranked.high)),
            *(self.low.solve(_alone(problem, (t,))) for t in ranked.low),
        ]
        return [written_out(s.strategy) for s in solved]


def best_mixture(problem: Problem, strategies: Sequence[Plain], bound: float, label: str) -> Solution:
    """The best weights for given strategies, the first of which spans the rows of the others.

    Args:
      problem: the node.
      strategies: unweighted.
      bound: a lower bound of the problem's loss.
      label: the route, for people.

    Raises:
      IntegrityError: the first strategy does not span the others' rows.
    """
    alpha = _Model.of(problem, MixtureStrategy(strategies)).optimise()
    mixed = MixtureStrategy([_scale(s, math.sqrt(a)) for s, a in zip(strategies, alpha, strict=True)])
    loss = sum(t.weighted * mixed.trace(t.groups) for t in problem.terms) * float(mixed.column_norms().max())
    return Solution(mixed, loss, min(bound, loss), label)


def _alone(problem: Problem, terms: tuple[Term, ...]) -> Problem:
    return Problem(problem.shape, terms, problem.uniform)


def _scale(strategy: Plain, factor: float) -> Plain:
    if isinstance(strategy, FourierStrategy):
        return FourierStrategy(factor * strategy.kernel)
    first, *others = strategy.parts
    return KroneckerStrategy(strategy.shape, [first.scaled(factor), *others])


@dataclass(frozen=True, eq=False)
class _Model:
    """The loss as a function of alpha, in the coordinates of the low-rank rows.

    Attributes:
      base: tr(G W).
      inner: U, ``(r, r)``.
      gram: H, ``(r, r)``.
      term: the position in alpha of each low row, ``(r,)``, from 1.
      norms: ``V_k[j, j]`` per strategy and cell, ``(terms, cells)``.
    """

    base: float
    inner: Array
    gram: Array
    term: IntArray
    norms: Array

    @staticmethod
    def of(problem: Problem, stack: MixtureStrategy) -> _Model:
        """From unweighted strategies."""
        columns, solved = stack.low_rows
        r, d = columns.shape[-1], len(problem.shape)
        gram = np.zeros((r, r))
        for t in problem.terms:
            gram += t.weighted * np.tensordot(solved, _apply_gram(t.groups, solved), (range(d), range(d)))
        inner = np.tensordot(columns, solved, (range(d), range(d)))
        return _Model(
            sum(t.weighted * stack.base.trace(t.groups) for t in problem.terms),
            (inner + inner.T) / 2,
            (gram + gram.T) / 2,
            np.repeat(np.arange(1, len(stack.terms)), [t.rows for t in stack.terms[1:]]),
            np.stack([t.column_norms().ravel() for t in stack.terms]),
        )

    def loss(self, alpha: Array) -> tuple[float, Array]:
        """The error f and its gradient."""
        rows = self.term
        root = np.sqrt(alpha[rows])
        middle = root[:, None] * np.linalg.inv(alpha[0] * np.eye(len(root)) + root[:, None] * self.inner * root) * root
        value = (self.base - float((middle * self.gram).sum())) / alpha[0]
        rest = np.eye(len(root)) - middle @ self.inner
        falls = ((self.gram @ rest) * rest).sum(axis=0) / alpha[0] ** 2
        gradient: Array = -np.bincount(rows, falls, minlength=len(alpha)).astype(np.float64)
        gradient[0] = (-value - float(alpha[1:] @ gradient[1:])) / alpha[0]
        return value, gradient

    def optimise(self) -> Array:
        """The best alpha, scaled so that the largest V[j, j] is 1."""
        alpha = np.full(len(self.norms), 1 / len(self.norms))
        cells = {int((alpha @ self.norms).argmax())}
        for _ in range(CUTS):
            alpha = self._within(alpha, self.norms[:, sorted(cells)])
            norms = alpha @ self.norms
            if norms.max() <= 1 + 1e-9:
                break
            cells.add(int(norms.argmax()))
        return np.asarray(alpha / (alpha @ self.norms).max())

    def _within(self, start: Array, norms: Array) -> Array:
        """The best alpha with ``alpha @ norms <= 1``: the logarithm of f by sequential quadratic programming."""
        from scipy.optimize import LinearConstraint, minimize

        def logarithm(alpha: Array) -> tuple[float, Array]:
            value, gradient = self.loss(alpha)
            return math.log(value), np.asarray(gradient / value, dtype=np.float64)

        optimum = minimize(
            logarithm,
            start / max(1.0, float((start @ norms).max())),
            jac=True,
            method="SLSQP",
            bounds=[(SMALLEST_SHARE, None)] * len(start),
            constraints=[LinearConstraint(norms.T, -np.inf, 1.0)],
            options={"ftol": 1e-10, "maxiter": 200},
        )
        return np.asarray(np.maximum(optimum.x, SMALLEST_SHARE))


def _apply_gram(groups: Sequence[Group], x: Array) -> Array:
    """``G x`` for the Kronecker product G of groups, ``(*shape, r)``."""
    for g in groups:
        x = g.gram.apply(x, g.axes)
    return x
