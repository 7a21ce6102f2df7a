"""From families to the closure lattice: every product split over the subsets of its attributes.

A node's Gram is the sum, over the products that reach it, of weight times the Kronecker product of each factor's
projected Gram. It stays symbolic: a term is a tuple of Gram identities, and equal terms only add coefficients.
Nodes whose symbolic sums agree up to an order of the axes form a class and are solved once.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from qcompile.arrays import Array
from qcompile.errors import OptionError, did_you_mean
from qcompile.factors import Factor
from qcompile.factors.base import Key
from qcompile.lattice import Group, Lattice, Node, Problem, Term
from qcompile.projection import Gram, Projection, u_key
from qcompile.schema import Schema
from qcompile.workload import Workload

GroupKey: TypeAlias = tuple[int, tuple[tuple[Hashable, int], ...]]
"""A Gram's number and its axes: pairs of role and attribute, sorted where roles are equal."""

Coefficients: TypeAlias = dict[tuple[GroupKey, ...], list[float]]

MAX_ORDERS = 720
"""Axis orders tried to recognise equal nodes; beyond it equal nodes may be solved twice, never wrongly."""


def decompose(workload: Workload, centring: Mapping[str, Array] | None = None) -> Lattice:
    """The closure lattice of a workload.

    Args:
      workload: the families.
      centring: weights u per attribute name (shape ``(size,)``, sum 1); uniform where absent.

    Raises:
      OptionError: weights for an unknown attribute, of the wrong length, or that do not sum to 1.
      SizeError: a factor's Gram would not fit in memory.
    """
    weights = centring_weights(workload.schema, centring or {})
    splitter = _Splitter(workload.schema, weights)
    for family in workload.families:
        for product in family.products():
            splitter.add(product.factors, family.weight)
    nodes = tuple(sorted(splitter.sums, key=lambda node: (len(node), node)))
    classifier = _Classifier(workload.schema, weights, splitter.grams)
    placed = [classifier.place(node, splitter.sums[node]) for node in nodes]
    return Lattice(
        schema=workload.schema,
        centring=weights,
        nodes=nodes,
        class_of=np.array([c for c, _ in placed], dtype=np.int64),
        orders=tuple(order for _, order in placed),
        classes=tuple(classifier.problems),
    )


def centring_weights(schema: Schema, given: Mapping[str, Array]) -> tuple[Array, ...]:
    """The weights u of every attribute in schema order, validated."""
    for name in given:
        if name not in schema:
            raise OptionError(f"centring weights for unknown attribute {name!r}; {did_you_mean(name, schema.names)}")
    return tuple(_weights(a.name, a.size, given.get(a.name)) for a in schema)


def _weights(name: str, size: int, given: Array | None) -> Array:
    if given is None:
        return np.full(size, 1.0 / size)
    u = np.array(given, dtype=np.float64)
    if u.shape != (size,) or not np.isfinite(u).all() or not abs(u.sum() - 1) <= 1e-9:
        raise OptionError(f"the centring weights of {name!r} must be {size} finite numbers that sum to 1")
    # Scaled once: weights that come back from a file must keep their bits.
    return u if abs(u.sum() - 1) <= size * np.finfo(float).eps else np.asarray(u / u.sum())


@dataclass
class _Splitter:
    """Accumulates the symbolic Gram of every node."""

    schema: Schema
    weights: tuple[Array, ...]
    grams: list[Gram] = field(default_factory=list)
    sums: dict[Node, Coefficients] = field(default_factory=lambda: defaultdict(dict))
    _numbers: dict[Key, int] = field(default_factory=dict)
    _tables: dict[int, list[tuple[Node, float, GroupKey | None]]] = field(default_factory=dict)
    _keep: list[Factor] = field(default_factory=list)  # keeps ids in _tables alive

    def add(self, factors: tuple[Factor, ...], weight: float) -> None:
        """Add one product's share to every subset of its attributes."""
        for combination in itertools.product(*(self._table(f) for f in factors)):
            node: Node = tuple(sorted(i for axes, _, _ in combination for i in axes))
            coefficient = 1.0
            for _, c, _ in combination:
                coefficient *= c
            terms = self.sums[node]  # the node exists even where its Gram is zero
            if coefficient == 0.0:
                continue
            groups = sorted((g for _, _, g in combination if g is not None), key=lambda g: min(i for _, i in g[1]))
            entry = terms.setdefault(tuple(groups), [0.0, 0.0])
            entry[0] += weight * coefficient
            entry[1] += coefficient

    def _table(self, factor: Factor) -> list[tuple[Node, float, GroupKey | None]]:
        """All projections of a factor: kept attributes, coefficient, group."""
        if id(factor) not in self._tables:
            masks = itertools.product((False, True), repeat=len(factor.shape))
            self._tables[id(factor)] = [self._project(factor, kept) for kept in masks]
            self._keep.append(factor)
        return self._tables[id(factor)]

    def _project(self, factor: Factor, kept: tuple[bool, ...]) -> tuple[Node, float, GroupKey | None]:
        positions = [self.schema.positions[n] for n in factor.names]
        node = tuple(p for p, k in zip(positions, kept, strict=True) if k)
        u = tuple(self.weights[p] for p in positions)
        projection = Projection(factor, kept, u)
        number = self._number(projection)
        if not isinstance(number, int):
            return node, number or 0.0, None
        roles = dict(zip(projection.order, factor.roles, strict=True))
        axes = [(roles[a], positions[a]) for a in projection.kept_order]
        # Axes of equal role, size and centring can be exchanged, so their order is only noise: sort it away.
        slots = [(r, self.grams[number].shape[i], u_key(self.weights[p])) for i, (r, p) in enumerate(axes)]
        return node, 1.0, (number, _sort_within(slots, axes))

    def _number(self, projection: Projection) -> int | float | None:
        """The number of a projection's Gram; a float when no axis is kept; None when it is zero."""
        key = projection.key
        if key in self._numbers:
            return self._numbers[key]
        gram = projection.gram()
        if isinstance(gram, Gram):
            self._numbers[key] = len(self.grams)
            self.grams.append(gram)
            return self._numbers[key]
        return gram


def _sort_within(
    slots: list[tuple[Hashable, int, str]], axes: list[tuple[Hashable, int]]
) -> tuple[tuple[Hashable, int], ...]:
    """Sort the axes among the slots that are equal, leaving every other slot in place."""
    result = list(axes)
    for slot in set(slots):
        where = [i for i, s in enumerate(slots) if s == slot]
        for i, axis in zip(where, sorted((axes[i] for i in where), key=lambda a: a[1]), strict=True):
            result[i] = axis
    return tuple(result)


Pattern: TypeAlias = tuple[tuple[tuple[int, str], ...], tuple[tuple[tuple[GroupKey, ...], float, float], ...]]
"""A node's problem with axes named by position: per axis size and centring, then the terms."""


@dataclass
class _Classifier:
    """Finds the class of each node: the same pattern up to a permutation of its axes."""

    schema: Schema
    weights: tuple[Array, ...]
    grams: list[Gram]
    problems: list[Problem] = field(default_factory=list)
    _classes: dict[Pattern, int] = field(default_factory=dict)
    _seen: dict[Pattern, tuple[int, tuple[int, ...]]] = field(default_factory=dict)

    def place(self, node: Node, sums: Coefficients) -> tuple[int, tuple[int, ...]]:
        """The class of a node (-1 for a zero Gram) and the node axis at each canonical position."""
        if not sums:
            return -1, tuple(range(len(node)))
        pattern = self._pattern(node, sums)
        if pattern not in self._seen:
            order, canonical = min(
                ((o, _permuted(pattern, o)) for o in _candidate_orders(pattern)), key=lambda c: _sortable(c[1])
            )
            if canonical not in self._classes:
                self._classes[canonical] = len(self.problems)
                self.problems.append(self._problem(canonical))
            self._seen[pattern] = self._classes[canonical], order
        return self._seen[pattern]

    def _pattern(self, node: Node, sums: Coefficients) -> Pattern:
        position = {attribute: i for i, attribute in enumerate(node)}
        axes = tuple((self.schema.attributes[i].size, u_key(self.weights[i])) for i in node)
        terms = [
            (tuple((g, tuple((r, position[i]) for r, i in slots)) for g, slots in groups), _rounded(w), _rounded(v))
            for groups, (w, v) in sums.items()
        ]
        return axes, tuple(sorted(terms, key=_sortable))

    def _problem(self, pattern: Pattern) -> Problem:
        axes, terms = pattern
        return Problem(
            shape=tuple(size for size, _ in axes),
            uniform=all(not u for _, u in axes),
            terms=tuple(
                Term(tuple(Group(tuple(p for _, p in slots), self.grams[g]) for g, slots in groups), w, v)
                for groups, w, v in terms
            ),
        )


def _rounded(coefficient: float) -> float:
    """Coefficients that differ only by the order of summation must give one class."""
    return float(f"{coefficient:.11e}")


def _sortable(value: object) -> str:
    return repr(value)


def _permuted(pattern: Pattern, order: tuple[int, ...]) -> Pattern:
    """The pattern with the axis ``order[i]`` moved to position i."""
    axes, terms = pattern
    to = {old: new for new, old in enumerate(order)}
    moved = []
    for groups, w, v in terms:
        renamed = [(g, _sort_roles(tuple((r, to[p]) for r, p in slots), axes, order)) for g, slots in groups]
        moved.append((tuple(sorted(renamed, key=lambda g: min(p for _, p in g[1]))), w, v))
    return tuple(axes[i] for i in order), tuple(sorted(moved, key=_sortable))


def _sort_roles(
    slots: tuple[tuple[Hashable, int], ...], axes: tuple[tuple[int, str], ...], order: tuple[int, ...]
) -> tuple[tuple[Hashable, int], ...]:
    return _sort_within([(r, *axes[order[p]]) for r, p in slots], list(slots))


def _candidate_orders(pattern: Pattern) -> list[tuple[int, ...]]:
    """Axis orders that sort the axes by what touches them; ties in every order, while those are few."""
    axes, terms = pattern

    def signature(i: int) -> str:
        touching = [
            (w, v, g, r, len(slots)) for groups, w, v in terms for g, slots in groups for r, p in slots if p == i
        ]
        return repr((axes[i], sorted(touching, key=repr)))

    ties = _ties(len(axes), signature)
    orders = itertools.product(*(itertools.permutations(tie) for tie in ties))
    return [tuple(itertools.chain(*o)) for o in itertools.islice(orders, MAX_ORDERS)]


def _ties(count: int, signature: Callable[[int], str]) -> list[list[int]]:
    by_signature: dict[str, list[int]] = defaultdict(list)
    for i in range(count):
        by_signature[signature(i)].append(i)
    return [by_signature[s] for s in sorted(by_signature)]
