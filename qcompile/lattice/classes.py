"""Classes of nodes that share one problem: the same pattern up to an order of the axes."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from qcompile.lattice.gram import Gram
from qcompile.lattice.lattice import Group, LabelledAxis, Node, Problem, Term
from qcompile.lattice.projection import u_key
from qcompile.lattice.symbolic_grams import GroupKey, Splitter, Sums, sort_within
from qcompile.queries.schema import Schema
from qcompile.support.arrays import Array

MAX_ORDERS = 720
"""Axis orders tried to recognise equal nodes; beyond it equal nodes may be solved twice, never wrongly."""


Axis: TypeAlias = tuple[int, str, str]
"""Size, centring and label."""


Pattern: TypeAlias = tuple[tuple[Axis, ...], tuple[tuple[tuple[GroupKey, ...], float, float], ...]]
"""A node's problem with axes named by position: per axis what it is, then the terms."""


@dataclass
class _Classifier:
    """Finds the class of each node: the same pattern up to a permutation of its axes."""

    schema: Schema
    weights: tuple[Array, ...]
    labels: tuple[str, ...]
    problems: list[Problem] = field(default_factory=list)
    _classes: dict[Pattern, int] = field(default_factory=dict)
    _oblique: dict[str, int] = field(default_factory=dict)
    _seen: dict[Pattern, tuple[int, tuple[int, ...]]] = field(default_factory=dict)

    @cached_property
    def _axes(self) -> list[Axis]:
        """The distinguishing data of each attribute's axis."""
        axes = zip(self.schema, self.weights, self.labels, strict=True)
        return [(a.size, u_key(u), label) for a, u, label in axes]

    def place(self, node: Node, splitter: Splitter, sums: Sums) -> tuple[int, tuple[int, ...]]:
        """The class of a node (-1 for a zero Gram) and the node axis at each canonical position."""
        if not sums:
            return -1, tuple(range(len(node)))
        pattern = self._pattern(node, splitter, sums)
        if pattern not in self._seen:
            order, canonical = min(
                ((o, _permute(pattern, o)) for o in _candidate_orders(pattern)), key=lambda c: _sortable(c[1])
            )
            if canonical not in self._classes:
                self._classes[canonical] = len(self.problems)
                self.problems.append(_problem(canonical, splitter.grams, self._labelled_axes(node, order)))
            self._seen[pattern] = self._classes[canonical], order
        return self._seen[pattern]

    def place_oblique(
        self, node: Node, splitter: Splitter, sums: Sums, identity: str, order: tuple[int, ...]
    ) -> tuple[int, tuple[int, ...]]:
        """The class of a node whose matrix is given, with its axes in the given order.

        Args:
          node: its attributes.
          splitter: has the Grams.
          sums: of the node.
          identity: of the matrix.
          order: the node axis at each canonical position.
        """
        if identity not in self._oblique:
            self._oblique[identity] = len(self.problems)
            problem = _problem(_permute(self._pattern(node, splitter, sums), order), splitter.grams, ())
            self.problems.append(replace(problem, oblique=identity))
        return self._oblique[identity], order

    def _labelled_axes(self, node: Node, order: Sequence[int]) -> tuple[LabelledAxis, ...]:
        """The canonical axes with their labels; empty where no axis has one."""
        attributes, at = self.schema.attributes, [node[i] for i in order]
        axes = tuple(LabelledAxis(attributes[i].name, self.labels[i], self.weights[i]) for i in at)
        return axes if any(a.label for a in axes) else ()

    def _pattern(self, node: Node, splitter: Splitter, sums: Sums) -> Pattern:
        position = {attribute: i for i, attribute in enumerate(node)}
        axes = tuple(self._axes[i] for i in node)
        terms = []
        for groups, polynomial in sums.items():
            w, v = splitter.value(polynomial)
            placed = tuple((g, tuple((r, position[i]) for r, i in slots)) for g, slots in groups)
            terms.append((placed, _round_coefficient(w), _round_coefficient(v)))
        return axes, tuple(sorted(terms, key=_sortable) if len(terms) > 1 else terms)  # the key takes its time


def _problem(pattern: Pattern, grams: Sequence[Gram], labelled: tuple[LabelledAxis, ...]) -> Problem:
    axes, terms = pattern
    return Problem(
        shape=tuple(size for size, _, _ in axes),
        uniform=all(not u for _, u, _ in axes),
        terms=tuple(
            Term(tuple(Group(tuple(p for _, p in slots), grams[g]) for g, slots in groups), w, v)
            for groups, w, v in terms
        ),
        axes=labelled,
    )


def _round_coefficient(coefficient: float) -> float:
    """Coefficients that differ only by the order of summation must give one class."""
    return float(f"{coefficient:.11e}")


def _sortable(value: object) -> str:
    return repr(value)


def _permute(pattern: Pattern, order: tuple[int, ...]) -> Pattern:
    """The pattern with the axis ``order[i]`` moved to position i."""
    axes, terms = pattern
    to = {old: new for new, old in enumerate(order)}
    moved = []
    for groups, w, v in terms:
        renamed = [(g, _sort_roles(tuple((r, to[p]) for r, p in slots), axes, order)) for g, slots in groups]
        moved.append((tuple(sorted(renamed, key=lambda g: min(p for _, p in g[1]))), w, v))
    return tuple(axes[i] for i in order), tuple(sorted(moved, key=_sortable))


def _sort_roles(
    slots: tuple[tuple[Hashable, int], ...], axes: tuple[Axis, ...], order: tuple[int, ...]
) -> tuple[tuple[Hashable, int], ...]:
    return sort_within([(r, axes[order[p]]) for r, p in slots], list(slots))


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
