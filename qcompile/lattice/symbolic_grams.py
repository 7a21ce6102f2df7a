"""Products split over the subsets of their attributes: every node's Gram as a symbolic sum.

A term is a tuple of numbered Grams on groups of axes. Its coefficient is a polynomial: per monomial, the numbered
scalars of the factors that keep no axis, and the sum of the weights of the products with these scalars. So the sums
depend on the centring weights only through the numbers behind the Grams and scalars.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from qcompile.lattice.gram import Gram
from qcompile.lattice.lattice import Node
from qcompile.lattice.oblique import LEFT, Oblique, lower_subsets, part_on, written_out
from qcompile.lattice.projection import Projection, u_key
from qcompile.queries.factors import Factor
from qcompile.queries.factors.base import Key
from qcompile.queries.schema import Schema
from qcompile.support.arrays import Array, digest

GroupKey: TypeAlias = tuple[int, tuple[tuple[Hashable, int], ...]]
"""A Gram's number and its axes: pairs of role and attribute, sorted where roles are equal."""

Monomial: TypeAlias = tuple[int, ...]
"""Numbers of scalars, ascending, with repetition."""

Polynomial: TypeAlias = dict[Monomial, list[float]]
"""Per monomial the sum of the products' weights, and their number."""

SAME = 1e-9
"""Grams of what oblique nodes leave that differ by less, relative to their trace, are those of exchanged axes."""

Sums: TypeAlias = dict[tuple[GroupKey, ...], Polynomial]


@dataclass(frozen=True, eq=False)
class Share:
    """The contribution of one factor to one subset of its attributes.

    Attributes:
      node: the kept attributes.
      scalar: number of the scalar, where none is kept.
      group: the Gram with its axes, where some are kept.
      zero: True if it is structurally zero.
    """

    node: Node
    scalar: int | None = None
    group: GroupKey | None = None
    zero: bool = False


@dataclass
class Splitter:
    """Accumulates the symbolic Gram of every node.

    Attributes:
      schema: of the workload.
      weights: the centring weights u of each attribute, in schema order.
      grams: by number.
      scalars: by number, sums of squares of fully contracted queries.
      projections: what each Gram is the Gram of, by its number.
      contracted: what each scalar belongs to, by its number.
      sums: per node its terms; empty where the Gram is zero.
    """

    schema: Schema
    weights: tuple[Array, ...]
    grams: list[Gram] = field(default_factory=list)
    scalars: list[float] = field(default_factory=list)
    projections: list[Projection] = field(default_factory=list)
    contracted: list[Projection] = field(default_factory=list)
    sums: dict[Node, Sums] = field(default_factory=lambda: defaultdict(dict))
    _numbers: dict[Key, tuple[int | None, int | None]] = field(default_factory=dict)
    _tables: dict[int, list[Share]] = field(default_factory=dict)
    _keep: list[Factor] = field(default_factory=list)  # keeps ids in _tables alive
    _leftovers: dict[Hashable, dict[tuple[int, ...], tuple[int | None, int | None]]] = field(default_factory=dict)
    _left_grams: list[int] = field(default_factory=list)

    def add(self, factors: tuple[Factor, ...], weight: float) -> None:
        """Add one product's share to every subset of its attributes."""
        for shares in itertools.product(*(self._table(f) for f in factors)):
            terms = self.sums[tuple(sorted([i for s in shares for i in s.node]))]  # exists even where the Gram is zero
            if any(s.zero for s in shares):
                continue
            monomial = tuple(sorted([s.scalar for s in shares if s.scalar is not None]))
            _count(terms.setdefault(_sorted_groups(shares), {}), monomial, weight)

    def add_oblique(self, factors: tuple[Factor, ...], weight: float, oblique: Oblique, order: tuple[int, ...]) -> None:
        """Add one product's share to an oblique node, and what it leaves to the nodes below.

        Args:
          factors: of a product on all attributes of the node.
          weight: of the product.
          oblique: what the node measures.
          order: the attribute at each canonical axis.
        """
        whole = self.whole(factors)
        if whole is None:  # the node knows nothing of it
            return self.add(factors, weight)
        _count(self.sums[tuple(sorted(order))].setdefault(whole, {}), (), weight)
        for node, share in self._left(factors, oblique, order):
            terms = self.sums[node]
            if share.group is not None:
                _count(terms.setdefault((share.group,), {}), (), weight)
            elif share.scalar is not None:
                _count(terms.setdefault((), {}), (share.scalar,), weight)

    def _left(
        self, factors: tuple[Factor, ...], oblique: Oblique, order: tuple[int, ...]
    ) -> Iterator[tuple[Node, Share]]:
        """What a product leaves to each node below an oblique one."""
        places = {self.schema.names[a]: i for i, a in enumerate(order)}
        canonical = sorted(
            (tuple(places[f.names[a]] for a in f.axis_order), f.key) for f in factors
        )  # no two start alike
        key = (oblique.identity, tuple(canonical), tuple(u_key(self.weights[a]) for a in order))
        if key not in self._leftovers:
            self._leftovers[key] = self._number_left(factors, oblique, order)
        for kept, (gram, scalar) in self._leftovers[key].items():
            group = None if gram is None else (gram, tuple((i, order[a]) for i, a in enumerate(kept)))
            node = tuple(sorted(order[a] for a in kept))
            yield node, Share(node, scalar=scalar, group=group, zero=gram is None and scalar is None)

    def _number_left(
        self, factors: tuple[Factor, ...], oblique: Oblique, order: tuple[int, ...]
    ) -> dict[tuple[int, ...], tuple[int | None, int | None]]:
        """Per subset of the axes the number of the Gram of what is left, or of its scalar on the empty one."""
        weights = [self.weights[a] for a in order]
        queries = written_out(factors, [self.schema.names[a] for a in order])
        left, found = oblique.leftover(queries, weights), dict[tuple[int, ...], tuple[int | None, int | None]]()
        for kept in lower_subsets(len(order)):
            part = part_on(left, weights, kept)
            if np.abs(part).max() <= LEFT * np.abs(queries).max():
                found[kept] = None, None
            elif kept:
                found[kept] = self._number_gram(part), None
            else:
                found[kept] = None, len(self.scalars)
                self.scalars.append(float((part**2).sum()))
        return found

    def _number_gram(self, part: Array) -> int:
        """The number of the Gram of queries; that of an equal one where there is one, as on exchangeable axes."""
        gram = Gram.of_rows(("left over", digest(part)), part)
        for number in self._left_grams:
            other = self.grams[number]
            if other.shape == gram.shape and np.abs(other.matrix - gram.matrix).max() <= SAME * gram.trace:
                return number
        self._left_grams.append(len(self.grams))
        self.grams.append(gram)
        return self._left_grams[-1]

    def whole(self, factors: tuple[Factor, ...]) -> tuple[GroupKey, ...] | None:
        """The Grams of a product that keeps all its axes, on a node or an unsplit block; None for nothing."""
        shares = [self._share(f, (True,) * len(f.shape)) for f in factors]
        if any(s.zero for s in shares):
            return None
        return _sorted_groups(shares)

    def value(self, polynomial: Polynomial) -> tuple[float, float]:
        """A term's coefficient, weighted and unweighted."""
        weighted = unweighted = 0.0
        for monomial, (weight, count) in polynomial.items():
            product = 1.0
            for number in monomial:
                product *= self.scalars[number]
            weighted += weight * product
            unweighted += count * product
        return weighted, unweighted

    def _table(self, factor: Factor) -> list[Share]:
        """A factor's shares of all subsets of its attributes."""
        if id(factor) not in self._tables:
            masks = itertools.product((False, True), repeat=len(factor.shape))
            self._tables[id(factor)] = [self._share(factor, kept) for kept in masks]
            self._keep.append(factor)
        return self._tables[id(factor)]

    def _share(self, factor: Factor, kept: tuple[bool, ...]) -> Share:
        positions = [self.schema.positions[n] for n in factor.names]
        node = tuple(p for p, k in zip(positions, kept, strict=True) if k)
        projection = Projection(factor, kept, tuple(self.weights[p] for p in positions))
        gram, scalar = self._number(projection)
        if gram is None:
            return Share(node, scalar=scalar, zero=scalar is None)
        roles = dict(zip(projection.order, factor.roles, strict=True))
        axes = [(roles[a], positions[a]) for a in projection.kept_order]
        # Axes of equal role, size and centring can be exchanged, so their order is only noise: sort it away.
        slots = [(r, self.grams[gram].shape[i], u_key(self.weights[p])) for i, (r, p) in enumerate(axes)]
        return Share(node, group=(gram, sort_within(slots, axes)))

    def _number(self, projection: Projection) -> tuple[int | None, int | None]:
        """The number of a projection's Gram, or of its scalar where no axis is kept; neither where it is zero."""
        key = projection.key
        if key not in self._numbers:
            gram = projection.gram()
            self._numbers[key] = (None, None)
            if isinstance(gram, Gram):
                self._numbers[key] = len(self.grams), None
                self.grams.append(gram)
                self.projections.append(projection)
            elif gram:
                self._numbers[key] = None, len(self.scalars)
                self.scalars.append(gram)
                self.contracted.append(projection)
        return self._numbers[key]


def _count(polynomial: Polynomial, monomial: Monomial, weight: float) -> None:
    """Count one product of some weight."""
    entry = polynomial.setdefault(monomial, [0.0, 0])
    entry[0] += weight
    entry[1] += 1


def _sorted_groups(shares: Sequence[Share]) -> tuple[GroupKey, ...]:
    """The Grams by their first attributes."""
    # An attribute is in one group alone, so that no two groups compare equal by it.
    kept = sorted([(min(s.node), s.group) for s in shares if s.group is not None])
    return tuple([group for _, group in kept])


def sort_within(slots: Sequence[Hashable], axes: list[tuple[Hashable, int]]) -> tuple[tuple[Hashable, int], ...]:
    """Sort the axes among the slots that are equal, leaving every other slot in place."""
    result = list(axes)
    for slot in set(slots):
        where = [i for i, s in enumerate(slots) if s == slot]
        for i, axis in zip(where, sorted((axes[i] for i in where), key=lambda a: a[1]), strict=True):
            result[i] = axis
    return tuple(result)
