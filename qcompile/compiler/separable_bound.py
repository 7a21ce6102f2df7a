"""A lower bound of every matrix mechanism's error on domains of any size, from eigenproblems of single factors.

For weights mu on the cells of the whole domain, D = diag(mu), and W all queries stacked, the optimal loss is at least

    S(mu)^2,    S(mu) = tr (D^1/2 W'W D^1/2)^1/2 = max { <W D^1/2, Z> : Z'Z <= I },

the duality of nuclear and spectral norm (mathematics of one node, on the whole domain). Take mu a product of weights
mu_i per attribute and d_i = mu_i^1/2, a unit vector. The projections E_A = kron of (I - d_i d_i') over i in A and of
d_i d_i' elsewhere commute and sum to I. With U_F the polar factor of W_F D^1/2 for each product F of factors,
the choice Z_F = U_F sum_A c_FA E_A is feasible when sum_F c_FA^2 <= 1 for every A, and with the best such c

    S(mu) >= sum_A ( sum_F w_F prod_{f in F} tau_f(A)^2 )^1/2,    tau_f(A) = tr E_A (D^1/2 W_f'W_f D^1/2)^1/2,

where tau_f(A) only depends on which of its own attributes A has, and is 0 when A has an attribute outside F. Nothing
larger than one factor is ever decomposed. The bound is the optimum for one product of factors on one attribute each at
their own optimal mu_i, and for marginals and circular ranges alone at the uniform mu.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from qcompile.queries.factors import Factor, Marginal
from qcompile.queries.workload import Product, Workload
from qcompile.solvers.exact.certificate import DualProblem, Incumbent, RootBlock, evaluate
from qcompile.solvers.exact.fixed_point import fixed_point
from qcompile.support.arrays import Array, IntArray, cells

PIECES = 200_000
"""Pairs of a product and a subset of its attributes that are gone through: about a second."""

WORK = 5e8
"""Multiplications of one round of the factors' eigenvalues: a third of a second."""

MIXTURES = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
"""Shares of the one-axis optimum in mu that are tried; the rest is uniform."""

STEPS = 30
"""Fixed-point iterations towards the one-axis optimum: any mu proves a bound, so it need not be exact."""

FAINT = 1e-5
"""Singular values below this share of the largest are left out: they could only add rounding error."""

Kind: TypeAlias = tuple[Hashable, ...]
"""The kind of an attribute, on which its weights mu depend: its size and the factors that touch it."""


def too_large(workload: Workload) -> str | None:
    """The reason why the bound would take too long, or None."""
    pieces = sum(_pieces(f.factors, f.choose) for f in workload.families)
    if pieces > PIECES:
        return f"{pieces:,} pairs of a product and a subset of its attributes, limit {PIECES:,}"
    work = sum(map(_work, _distinct(workload).values()))
    return f"the factors need {work:.1g} multiplications, limit {WORK:.1g}" if work > WORK else None


@dataclass(frozen=True, eq=False)
class Separable:
    """A proven bound and the weights that prove it.

    Attributes:
      bound: of the loss, weighted and at cost 1.
      mu: weights of every attribute's values, in schema order.
    """

    bound: float
    mu: tuple[Array, ...]


def separable_bound(workload: Workload) -> Separable:
    """The largest bound over mixtures of uniform weights and one-axis optima."""
    pieces, kinds = _Pieces.of(workload), _kinds(workload)
    optima = {kind: _one_axis_optimum(uses) for kind, uses in pieces.uses.items()}
    bounds = []
    for share in MIXTURES:
        mu = {kind: (1 - share) / len(optimum) + share * optimum for kind, optimum in optima.items()}
        weights = [mu.get(kinds[a.name], np.full(a.size, 1 / a.size)) for a in workload.schema]
        bounds.append(Separable(pieces.bound(mu), tuple(weights)))
    return max(bounds, key=lambda s: s.bound)


def _pieces(factors: Sequence[Factor], choose: tuple[int, int] | None) -> int:
    if choose is None:
        return int(2 ** sum(len(f.shape) for f in factors))
    return sum(math.comb(len(factors), k) * 2**k for k in range(choose[0], choose[1] + 1))


def _distinct(workload: Workload) -> dict[Kind, Factor]:
    """One factor of every key: equal keys have equal numbers."""
    return {(*f.key, f.axis_order): f for family in workload.families for f in family.factors}


def _work(factor: Factor) -> int:
    size = cells(factor.shape)
    return size if isinstance(factor, Marginal) else min(factor.count, size) ** 2 * size


@dataclass(frozen=True, eq=False)
class _Use:
    """A factor with its root R, R'R = W'W, and the kinds of its axes."""

    factor: Factor
    kinds: tuple[Kind, ...]

    @cached_property
    def root(self) -> Array:
        """``(rows, *shape)``."""
        if self.factor.count <= cells(self.factor.shape):
            return np.asarray(self.factor.contract([None] * len(self.factor.shape)))
        values, vectors = np.linalg.eigh(self.factor.gram())
        return np.asarray((np.sqrt(np.maximum(values, 0))[:, None] * vectors.T).reshape(-1, *self.factor.shape))

    def taus(self, mu: Mapping[Kind, Array]) -> Array:
        """``tau_f`` of every subset of the axes, subsets as `_masks` lists them."""
        if isinstance(self.factor, Marginal):  # D^1/2 I D^1/2 is its own eigendecomposition, at any size
            (weights,) = (mu[kind] for kind in self.kinds)
            return np.array([(weights**1.5).sum(), (weights**0.5 - weights**1.5).sum()])
        d = [np.sqrt(mu[kind]) for kind in self.kinds]
        x = self.root
        for axis, v in enumerate(d):
            x = x * v.reshape([-1 if i == axis + 1 else 1 for i in range(x.ndim)])
        flat = x.reshape(len(x), -1)
        values, left = np.linalg.eigh(flat @ flat.T)
        kept = values > FAINT**2 * max(values[-1], 0.0)  # none where every query is 0
        # s_k v_k v_k' with s_k v_k = flat' left_k: the square of its projection over s_k.
        vectors = (left[:, kept].T @ flat).reshape(-1, *self.factor.shape)
        parts = [_project(vectors, mask, d) for mask in _masks(self.factor)]
        squares = [(p**2).sum(axis=tuple(range(1, p.ndim))) for p in parts]
        return np.array([float(q @ values[kept] ** -0.5) for q in squares])


def _masks(factor: Factor) -> Iterator[tuple[bool, ...]]:
    return itertools.product((False, True), repeat=len(factor.shape))


def _project(x: Array, kept: Sequence[bool], d: Sequence[Array]) -> Array:
    """``E x`` for rows x, up to the unit vectors d of the axes that are not kept; those axes get length 1."""
    for axis, (keep, v) in enumerate(zip(kept, d, strict=True), start=1):
        along = v.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        mean = (x * along).sum(axis=axis, keepdims=True)
        x = x - mean * along if keep else mean
    return x


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Everything that does not depend on mu: which taus multiply to which piece of which node.

    Attributes:
      factors: the distinct factors.
      first: position of each factor's first tau among all taus; the last one of all is the constant 1.
      taus: per piece, the positions of its taus, padded with that of the 1: ``(pieces, width)``.
      node: per piece, the number of its node.
      weights: per piece, of its family.
    """

    factors: tuple[_Use, ...]
    taus: IntArray
    node: IntArray
    weights: Array

    @staticmethod
    def of(workload: Workload) -> _Pieces:
        """The pieces of all products of a workload."""
        collected = _Collector(workload)
        for family in workload.families:
            for product in family.products():
                collected.add(product, family.weight)
        width = max(map(len, collected.taus), default=0)
        one = sum(2 ** len(u.kinds) for u in collected.factors.values())
        padded = [(*t, *[one] * (width - len(t))) for t in collected.taus]
        return _Pieces(
            tuple(collected.factors.values()),
            np.array(padded, dtype=np.int64).reshape(len(padded), width),
            np.array(collected.nodes, dtype=np.int64),
            np.array(collected.weights),
        )

    @cached_property
    def uses(self) -> dict[Kind, list[tuple[_Use, int]]]:
        """Per kind of attribute, the factors that touch one and the axis where."""
        uses: dict[Kind, list[tuple[_Use, int]]] = {}
        for use in self.factors:
            for axis, kind in enumerate(use.kinds):
                uses.setdefault(kind, []).append((use, axis))
        return uses

    def bound(self, mu: Mapping[Kind, Array]) -> float:
        """The bound of the loss at one mu."""
        taus = np.concatenate([*(use.taus(mu) for use in self.factors), np.ones(1)])
        values = self.weights * (taus**2)[self.taus].prod(axis=1)
        total = float(np.sqrt(np.bincount(self.node, values)).sum())
        return total**2 * (1 - 1e-9)  # rounding errors of singular values are far below


class _Collector:
    """Numbers factors, taus and nodes while products are gone through."""

    def __init__(self, workload: Workload) -> None:
        self.positions = workload.schema.positions
        self.kinds = _kinds(workload)
        self.factors: dict[Kind, _Use] = {}
        self.first: dict[Kind, int] = {}
        self.numbers: dict[tuple[int, ...], int] = {}
        self.tables: dict[Factor, list[tuple[tuple[int, ...], int]]] = {}
        self.taus: list[tuple[int, ...]] = []
        self.nodes: list[int] = []
        self.weights: list[float] = []

    def add(self, product: Product, weight: float) -> None:
        """All pieces of one product."""
        for parts in itertools.product(*map(self.table, product.factors)):
            node = tuple(sorted(i for axes, _ in parts for i in axes))
            self.nodes.append(self.numbers.setdefault(node, len(self.numbers)))
            self.taus.append(tuple(tau for _, tau in parts))
            self.weights.append(weight)

    def table(self, factor: Factor) -> list[tuple[tuple[int, ...], int]]:
        """Per subset of a factor's axes: their positions in the schema and the position of its tau."""
        if factor not in self.tables:
            where = [self.positions[n] for n in factor.names]
            masks = [tuple(p for p, k in zip(where, mask, strict=True) if k) for mask in _masks(factor)]
            first = self.number(factor)
            self.tables[factor] = [(axes, first + i) for i, axes in enumerate(masks)]
        return self.tables[factor]

    def number(self, factor: Factor) -> int:
        """The position of a factor's first tau; factors with equal numbers on equal weights share them."""
        kinds = tuple(self.kinds[n] for n in factor.names)
        key = (*factor.key, factor.axis_order, kinds)
        if key not in self.factors:
            self.first[key] = sum(2 ** len(u.kinds) for u in self.factors.values())
            self.factors[key] = _Use(factor, kinds)
        return self.first[key]


def _kinds(workload: Workload) -> dict[str, Kind]:
    """The kind of every attribute."""
    touched: dict[str, set[Hashable]] = {a.name: set() for a in workload.schema}
    for family in workload.families:
        for factor in family.factors:
            for axis, name in enumerate(factor.names):
                touched[name].add((factor.key, factor.axis_order, axis))
    return {a.name: (a.size, frozenset(touched[a.name])) for a in workload.schema}


def _one_axis_optimum(uses: Sequence[tuple[_Use, int]]) -> Array:
    """The mu of the best strategy for all queries that touch one attribute, summed over their other attributes."""
    if all(isinstance(use.factor, Marginal) for use, _ in uses):
        (size,) = uses[0][0].factor.shape
        return np.full(size, 1 / size)
    total = sum(_one_axis_gram(use, axis) for use, axis in uses)
    values, vectors = np.linalg.eigh(total)
    kept = values > 1e-12 * max(values[-1], 0.0)
    if not kept.any():
        return np.full(len(values), 1 / len(values))
    root = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
    posed = DualProblem((RootBlock(root, np.arange(root.shape[1], dtype=np.int64)),), np.ones(root.shape[1]))
    start = evaluate(posed, posed.uniform())
    return fixed_point(posed, start, Incumbent(start), 1e-4, STEPS).mu


def _one_axis_gram(use: _Use, axis: int) -> Array:
    """Trace 1, so that no factor drowns another."""
    others = [None if i == axis else np.full(n, 1 / n) for i, n in enumerate(use.factor.shape)]
    rows = use.root
    for i in reversed(range(len(others))):
        w = others[i]
        if w is not None:
            rows = np.tensordot(rows, w, axes=(i + 1, 0))
    gram = rows.T @ rows
    return np.asarray(gram / max(np.trace(gram), 1e-300))
