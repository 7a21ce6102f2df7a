"""The total error as a function of the centring weights, with its gradient.

A plan's error at unit cost is the square of sum over nodes of sqrt(L_A(u)). The symbolic sums of `split` say how every
node's Gram depends on u: only the numbers behind Grams and scalars change. Values go forwards from the weights to the
classes' losses, derivatives backwards; those of a loss come from its own solution (`solvers.envelope`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from qcompile.lattice.contractions import gram_in_order, in_factor_order, open_axis, partial_traces
from qcompile.lattice.decompose import symbolic
from qcompile.lattice.gram import Gram
from qcompile.lattice.lattice import Group, Problem, Term
from qcompile.lattice.projection import Projection
from qcompile.lattice.symbolic_grams import Polynomial, Splitter
from qcompile.queries.factors.base import OneAttribute
from qcompile.queries.workload import Workload
from qcompile.solvers.bounds.roots import dense_gram, dense_root, span_gram
from qcompile.solvers.composite.kronecker import factorise
from qcompile.solvers.exact.envelope import Envelope, envelope
from qcompile.support.arrays import Array, cells

DENSE_CELLS = 600
"""Cells up to which a sum of several terms is solved as a whole; beyond, only its lower bound would be quick."""

SMALLEST = 1e-300
"""Keeps the logarithm finite where weights leave nothing to measure."""

WORK = 5e8
"""Multiplications of one step on a group of axes, rank^2 cells; nodes with dearer groups are left out."""

GAP, LOOSE_GAP, LOOSE_WORK = 1e-7, 5e-4, 1e8
"""Certified gap of the solutions inside, which a line search must hardly see; looser where a step is dear."""


@dataclass(frozen=True, eq=False)
class _Class:
    """The nodes of one class, by the axes and symbolic terms of their first member."""

    number: int
    members: int
    shape: tuple[int, ...]
    attributes: tuple[int, ...]
    terms: tuple[tuple[tuple[tuple[int, tuple[int, ...]], ...], Polynomial], ...]


class TotalError:
    """The logarithm of sum_A sqrt(L_A) as a function of the free weights, with its gradient.

    Attributes:
      sizes: length of each free weight vector.
      bounded: names of the attributes of nodes that enter by their lower bound only, or not at all.
      bounded_cells: cells of the largest such node; 0 where there is none.
    """

    def __init__(
        self, workload: Workload, roles: Sequence[tuple[str, ...]], blocks: Sequence[Sequence[str]] = ()
    ) -> None:
        self._schema = workload.schema
        self._role = {workload.schema.positions[n]: r for r, names in enumerate(roles) for n in names}
        self.sizes = [workload.schema[names[0]].size for names in roles]
        # Weights in general position, one vector per role: nodes then share a class only if they do for all weights.
        weights = self._weights([_generic(n, r) for r, n in enumerate(self.sizes)])
        self._splitter, classes = _structure(workload, weights, blocks)
        self._classes = [c for c in classes if _affordable(c, self._splitter)]
        self._starts: dict[object, Array] = {}
        self._constant: dict[int, Envelope] = {}
        bounded = [c for c in classes if c not in self._classes or not _known(c, self._splitter)]
        self.bounded = {workload.schema.names[i] for c in bounded for i in c.attributes}
        self.bounded_cells = max((cells(c.shape) for c in bounded), default=0)

    def __call__(self, free: Sequence[Array]) -> tuple[float, list[Array]]:
        """The value, and the gradient per role; each is determined up to a constant."""
        at = _At(self._splitter, self._weights(free), self._classes, self._starts, self._constant, set(self._role))
        value, slopes = at.total()
        gradients = [np.zeros(n) for n in self.sizes]
        for attribute, slope in slopes.items():
            if attribute in self._role:
                gradients[self._role[attribute]] += slope
        return value, gradients

    def _weights(self, free: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(
            free[self._role[i]] if i in self._role else np.full(a.size, 1 / a.size) for i, a in enumerate(self._schema)
        )


def _generic(size: int, role: int) -> Array:
    u = 1 + 0.3 * np.sin((1 + np.arange(size)) * (1.7 + 0.37 * role))
    return np.asarray(u / u.sum())


def _structure(
    workload: Workload, weights: tuple[Array, ...], blocks: Sequence[Sequence[str]]
) -> tuple[Splitter, list[_Class]]:
    lattice, splitter = symbolic(workload, weights, blocks)
    members = np.bincount(lattice.class_of[: lattice.first_block][lattice.class_of[: lattice.first_block] >= 0])
    first: dict[int, int] = {}
    for position in range(lattice.first_block):
        first.setdefault(int(lattice.class_of[position]), position)
    classes = []
    for c, position in first.items():
        if c >= 0:
            node = lattice.nodes[position]
            place = {attribute: i for i, attribute in enumerate(node)}
            terms = tuple(
                (tuple((g, tuple(place[a] for _, a in slots)) for g, slots in groups), polynomial)
                for groups, polynomial in splitter.sums[node].items()
            )
            classes.append(_Class(c, int(members[c]), lattice.shape(node), node, terms))
    return splitter, classes


def _affordable(c: _Class, splitter: Splitter) -> bool:
    return all(_work(splitter.grams[g]) <= WORK for groups, _ in c.terms for g, _ in groups)


def _known(c: _Class, splitter: Splitter) -> bool:
    """True if a class's loss is found exactly: it is small, or its terms' own optima give it."""
    terms = tuple(Term(tuple(Group(axes, splitter.grams[g]) for g, axes in groups), 1.0, 1.0) for groups, _ in c.terms)
    return cells(c.shape) <= DENSE_CELLS or _is_product(Problem(c.shape, terms, False))


def _is_product(problem: Problem) -> bool:
    """True if all terms are proportional: then the optimum of their sum is the sum of their optima."""
    split = factorise(problem)
    return len(problem.terms) == 1 or (split is not None and split.rest is None)


def _work(gram: Gram) -> float:
    """Multiplications of one iteration on a group alone."""
    return float(gram.rank_bound**2 * gram.cells)


@dataclass
class _At:
    """Everything at one choice of the weights: values forwards, derivatives backwards."""

    splitter: Splitter
    weights: tuple[Array, ...]
    classes: list[_Class]
    starts: dict[object, Array]
    constant: dict[int, Envelope]
    free: set[int]
    slopes: dict[int, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.projections = [self._here(p) for p in self.splitter.projections]
        self.contracted = [self._here(p) for p in self.splitter.contracted]
        self.orders = [p.kept_order for p in self.splitter.projections]
        used = sorted({g for c in self.classes for groups, _ in c.terms for g, _ in groups})
        self.grams = {g: gram_in_order(g, self.projections[g], self.orders[g]) for g in used}
        self.scalars = [float(v) if isinstance(v, float) else 0.0 for v in (p.gram() for p in self.contracted)]
        self.solved: dict[int, Envelope] = {}
        self.loss_slopes = np.zeros(len(self.projections))
        self.gram_slopes: dict[int, Array] = {}
        self.scalar_slopes = np.zeros(len(self.scalars))

    def _here(self, p: Projection) -> Projection:
        positions = [self.splitter.schema.positions[n] for n in p.factor.names]
        return Projection(p.factor, p.kept, tuple(self.weights[i] for i in positions))

    def total(self) -> tuple[float, dict[int, Array]]:
        """Log sum_A sqrt(L_A) and its gradient per attribute."""
        parts = [self._class(c) for c in self.classes]
        total = sum(c.members * math.sqrt(loss) for c, (loss, _) in zip(self.classes, parts, strict=True))
        for c, (loss, back) in zip(self.classes, parts, strict=True):
            if loss > 0:  # where these very weights leave nothing to measure the root has a kink, no slope
                back(c.members / (2 * math.sqrt(loss) * (total + SMALLEST)))
        self._grams_back()
        self._scalars_back()
        return math.log(total + SMALLEST), self.slopes

    def _class(self, c: _Class) -> tuple[float, Callable[[float], None]]:
        """A class's loss, and how its slope is passed on."""
        c = replace(c, terms=tuple(t for t in c.terms if all(self.grams[g].trace > 0 for g, _ in t[0])))
        if not c.terms:
            return 0.0, lambda slope: None
        coefficients = [self._coefficient(p) for _, p in c.terms]
        problem = Problem(
            c.shape,
            tuple(
                Term(tuple(Group(axes, self.grams[g]) for g, axes in groups), w, w)
                for (groups, _), w in zip(c.terms, coefficients, strict=True)
            ),
            False,
        )
        if not c.shape or problem.cells > DENSE_CELLS or _is_product(problem):
            return self._superadditive(c, coefficients)
        return self._dense(c, problem)

    def _superadditive(self, c: _Class, coefficients: list[float]) -> tuple[float, Callable[[float], None]]:
        """Sum of the terms' own optima: exact where there is one term or all are proportional, else a lower bound."""
        losses = [[self._solve(g).loss for g, _ in groups] for groups, _ in c.terms]
        products = [math.prod(ls) for ls in losses]

        def back(slope: float) -> None:
            self._coefficients_back(c, [slope * p for p in products])
            for (groups, _), w, p, ls in zip(c.terms, coefficients, products, losses, strict=True):
                for (g, axes), loss in zip(groups, ls, strict=True):
                    self.loss_slopes[g] += slope * w * p / loss
                    self._axes_of(c, g, axes, slope * w * p / loss)

        return sum(w * p for w, p in zip(coefficients, products, strict=True)), back

    def _axes_of(self, c: _Class, g: int, axes: tuple[int, ...], slope: float) -> None:
        for i, axis in enumerate(axes):
            self._add(c.attributes[axis], slope * self._solve(g).axis_gradient(i))

    def _dense(self, c: _Class, problem: Problem) -> tuple[float, Callable[[float], None]]:
        """A small sum of several terms, solved as a whole."""
        root = dense_root(dense_gram(problem), span_gram(problem))
        key = ("dense", c.number)
        optimum = envelope(root, problem.shape, self.starts.get(key), GAP)
        self.starts[key] = optimum.mu

        def back(slope: float) -> None:
            for axis, attribute in enumerate(c.attributes):
                self._add(attribute, slope * optimum.axis_gradient(axis))
            inverse = slope * optimum.gram_gradient
            partial = [partial_traces(inverse, problem.shape, t) for t in problem.terms]
            self._coefficients_back(c, [value for value, _ in partial])
            for (groups, _), t, (_, matrices) in zip(c.terms, problem.terms, partial, strict=True):
                for (g, _), m in zip(groups, matrices, strict=True):
                    self.gram_slopes[g] = self.gram_slopes.get(g, 0.0) + t.weighted * m

        return optimum.loss, back

    def _solve(self, g: int) -> Envelope:
        """One Gram alone."""
        if g in self.constant:
            return self.constant[g]
        if g not in self.solved:
            gram = self.grams[g]
            gap = GAP if _work(gram) <= LOOSE_WORK else LOOSE_GAP
            self.solved[g] = envelope(gram.root, gram.shape, self.starts.get(g), gap)
            self.starts[g] = self.solved[g].mu
            if not any(
                self._attribute(self.projections[g], i) in self.free for i in range(len(self.projections[g].kept))
            ):
                self.constant[g] = self.solved[g]  # no free weight has a part in it
        return self.solved[g]

    def _coefficient(self, polynomial: Polynomial) -> float:
        return sum(w * math.prod(self.scalars[i] for i in monomial) for monomial, (w, _) in polynomial.items())

    def _coefficients_back(self, c: _Class, slopes: Sequence[float]) -> None:
        for (_, polynomial), slope in zip(c.terms, slopes, strict=True):
            for monomial, (w, _) in polynomial.items():
                for k, i in enumerate(monomial):
                    others = math.prod(self.scalars[j] for n, j in enumerate(monomial) if n != k)
                    self.scalar_slopes[i] += slope * w * others

    def _grams_back(self) -> None:
        """From Grams to the weights of the axes that were contracted on the way to them."""
        for g in self.grams:
            p = self.projections[g]
            if all(p.kept):
                continue
            slope = self.gram_slopes.get(g, 0.0)
            if self.loss_slopes[g]:
                slope = slope + self.loss_slopes[g] * self._solve(g).gram_gradient
            if np.any(slope):
                self._contracted_back(p, in_factor_order(p, np.asarray(slope), self.orders[g]))

    def _scalars_back(self) -> None:
        for slope, p in zip(self.scalar_slopes, self.contracted, strict=True):
            if isinstance(p.factor, OneAttribute):
                self._add(self._attribute(p, 0), slope * 2 * p.factor.gram_times(p.u[0]))
            else:
                self._contracted_back(p, np.full((1, 1), slope))

    def _contracted_back(self, p: Projection, slope: Array) -> None:
        """2 sum over queries of (q with the axis open)' slope q, for every contracted axis."""
        queries = p.matrix.reshape(p.factor.count, -1) @ slope
        for axis, kept in enumerate(p.kept):
            if not kept:
                slopes = 2 * np.tensordot(queries, open_axis(p, axis), axes=([0, 1], [0, 1]))
                self._add(self._attribute(p, axis), slopes)

    def _attribute(self, p: Projection, axis: int) -> int:
        return self.splitter.schema.positions[p.factor.names[axis]]

    def _add(self, attribute: int, slope: Array) -> None:
        self.slopes[attribute] = self.slopes.get(attribute, 0.0) + slope
