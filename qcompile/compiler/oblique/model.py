"""The total error of oblique designs as data: maximal nodes, the nodes below them, and how these depend on each other.

Rows of a maximal node ("top") are ``R = Q - rho Low``: Q its queries as they are, combined so that their own parts are
orthogonal, Low a basis of functions of fewer attributes. What a query leaves to lower nodes has coordinates rho there.
With the plain decomposition's rho the rows are centred; rho = 0 would measure the queries unsplit.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from qcompile.lattice.decompose import symbolic
from qcompile.lattice.lattice import Group, Lattice, Node, Term
from qcompile.lattice.oblique import lower_subsets, part_on, written_out
from qcompile.lattice.projection import is_uniform, u_key
from qcompile.lattice.symbolic_grams import Splitter, Sums
from qcompile.queries.workload import Product, Workload
from qcompile.solvers.bounds.roots import term_matrix
from qcompile.solvers.exact.symmetry import Symmetry, find_symmetry
from qcompile.support.arrays import Array, IntArray, cells

SPAN = 1e-9
"""Singular values below this share of the largest count as zero."""

ALIKE = 1e-8
"""Relative difference up to which queries are taken to be unchanged by an exchange of axes."""

SMALLEST = 1e-300
"""Keeps a division by an empty Gram's trace finite."""

ENTRIES = 2**24
"""Numbers of a node's queries, written out, up to which it may be oblique."""

WORK = 2e8
"""Multiplications of an iteration on one node, rank^2 cells, up to which it may be oblique."""

OVERHEAD = 2e5
"""Multiplications that take as long as the rest of an iteration."""

LOWER_CELLS = 1000
"""Cells of the largest node below an oblique one: its Gram is a dense matrix."""

EXCHANGES = 24
"""Orders of exchangeable axes up to which all are averaged over."""

Place = tuple[int, tuple[int, ...]]
"""A top by number, and some of its axes, of exchangeable ones the first."""


@dataclass(frozen=True, eq=False)
class Exchange:
    """What an exchange of axes does to a top: to its rows, and to the coordinates of what they leave."""

    rows: Array
    low: Array


@dataclass(frozen=True, eq=False)
class Top:
    """Maximal nodes that measure the same matrix.

    Attributes:
      members: the attributes at each canonical axis of each node.
      shape: of the axes.
      queries: Q, ``(k, cells)``.
      own: Q centred on every axis; its Gram is the node's.
      kept: the proper subsets of the axes.
      bases: per subset its functions, orthonormal, ``(r, cells of the subset)``.
      low: those on all cells, subset after subset, ``(q, cells)``.
      plain: rho of the plain decomposition, ``(k, q)``.
      rest: Gram of what queries without an own part leave, ``(q, q)``.
      first: of each axis the first one that it can be exchanged with.
      exchanges: of exchangeable axes, all but the one that changes nothing.
      symmetry: of the cells.
      characters: per block of the symmetry the combinations of rows that belong to it, ``(k, rows)``.
    """

    members: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]
    queries: Array
    own: Array
    kept: tuple[tuple[int, ...], ...]
    bases: tuple[Array, ...]
    low: Array
    plain: Array
    rest: Array
    first: tuple[int, ...]
    exchanges: tuple[Exchange, ...]
    symmetry: Symmetry
    characters: tuple[Array, ...]

    def part(self, subset: int) -> slice:
        """Where a subset's functions are among the columns of rho."""
        start = sum(len(b) for b in self.bases[:subset])
        return slice(start, start + len(self.bases[subset]))

    def subsets_at(self, axes: tuple[int, ...]) -> list[int]:
        """The subsets that exchanges make of some axes."""
        return [i for i, kept in enumerate(self.kept) if self.representative(kept) == axes]

    def representative(self, axes: Sequence[int]) -> tuple[int, ...]:
        """Some axes, each as the first that it can be exchanged with."""
        return tuple(sorted(self.first[a] for a in axes))

    def symmetric(self, rho: Array) -> Array:
        """The mean over all exchanges of axes."""
        if not self.exchanges:
            return rho
        return np.asarray((rho + sum(e.rows.T @ rho @ e.low for e in self.exchanges)) / (1 + len(self.exchanges)))


@dataclass(frozen=True, eq=False)
class Lower:
    """Nodes below that share a problem.

    Attributes:
      node: the first of them.
      members: their number.
      basis: of their queries, orthonormal rows, ``(r, cells)``.
      gram: of the queries that no top answers, in that basis.
      joint: for a single attribute whose centre is free, the Gram of the same in (1, basis); None elsewhere.
      uses: how many tops of each kind lie above a node, and at which axes.
    """

    node: Node
    members: int
    basis: Array
    gram: Array
    joint: Array | None
    uses: Mapping[Place, int]


@dataclass(frozen=True, eq=False)
class Model:
    """All that the total error of an oblique design depends on.

    Attributes:
      tops: the maximal nodes that may be oblique.
      lowers: the nodes below them; those that no top touches are left out.
      constant: sum of the squares of the queries that the total answers whatever is chosen.
      centre_of: per top and subset the number of the lower class whose centre moves its total; -1 for none.
    """

    tops: tuple[Top, ...]
    lowers: tuple[Lower, ...]
    constant: float
    centre_of: tuple[tuple[int, ...], ...]


def build(workload: Workload, weights: tuple[Array, ...], blocks: Sequence[Sequence[str]], limit: float) -> Model:
    """The model of a workload.

    Args:
      workload: the families.
      weights: centring of every attribute, from which the plain decomposition follows.
      blocks: families that are measured unsplit.
      limit: multiplications of an iteration on all tops together.
    """
    return _Builder(workload, weights, blocks, limit).model()


@dataclass(eq=False)
class _Builder:
    workload: Workload
    weights: tuple[Array, ...]
    blocks: Sequence[Sequence[str]]
    limit: float
    products: dict[Node, list[tuple[Product, float]]] = field(default_factory=dict)
    colours: dict[Node, int] = field(default_factory=dict)
    exchangeable: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lattice, self.splitter = symbolic(self.workload, self.weights, self.blocks)
        apart = {name for names in self.blocks for name in names}
        self.families = [f for f in self.workload.families if f.name not in apart]
        maximal = {self.lattice.nodes[i] for i in self.lattice.maximal}
        for family in self.families:
            for product in family.products():
                node = self.lattice.node_of(product.names)
                if node in maximal and len(node) > 1:
                    self.products.setdefault(node, []).append((product, family.weight))

    def model(self) -> Model:
        tops = self._tops()
        chosen = {tuple(sorted(m)) for t in tops for m in t.members}
        others = Splitter(self.workload.schema, self.weights)
        for family in self.families:
            for product in family.products():
                if self.lattice.node_of(product.names) not in chosen:
                    others.add(product.factors, family.weight)
        lowers, class_of = self._lowers(tops, chosen, others)
        centre_of = tuple(self._centres(t, lowers, class_of) for t in tops)
        free = [n for n, c in class_of.items() if lowers[c].joint is not None]
        constant = sum(others.value(p)[0] for p in others.sums.get((), {}).values())
        constant -= sum(self._own_constant(n) for n in free)
        return Model(tops, tuple(lowers), constant, centre_of)

    def _centres(self, top: Top, lowers: Sequence[Lower], class_of: Mapping[Node, int]) -> tuple[int, ...]:
        found = []
        for kept in top.kept:
            c = class_of.get((top.members[0][kept[0]],), -1) if len(kept) == 1 else -1
            found.append(c if c >= 0 and lowers[c].joint is not None else -1)
        return tuple(found)

    # Tops

    def _tops(self) -> tuple[Top, ...]:
        tops, total = list[Top](), 0.0
        for members in self._groups():
            work = self._work(tuple(sorted(members[0])))
            if total + work <= self.limit:
                tops.append(self._top(members))
                total += work
        return tuple(tops)

    def _work(self, node: Node) -> float:
        """Multiplications of an iteration, from the number of queries."""
        size, count = cells(self.lattice.shape(node)), sum(p.count for p, _ in self.products[node])
        return OVERHEAD + float(min(size, count)) ** 2 * size

    def _eligible(self, node: Node) -> bool:
        """True if a node has an own part, and its queries and the nodes below can be written out."""
        size, products = cells(self.lattice.shape(node)), self.products[node]
        count = sum(p.count for p, _ in products)
        largest = max(size // n for n in self.lattice.shape(node))
        measured = self.lattice.class_of[self.lattice.index[node]] >= 0
        small = count * size <= ENTRIES and largest <= LOWER_CELLS and self._work(node) <= min(WORK, self.limit)
        return bool(measured) and small

    def _groups(self) -> list[tuple[tuple[int, ...], ...]]:
        """Nodes of one class whose attributes play the same parts everywhere, with their axes in one order."""
        nodes = [n for n in self.products if self._eligible(n)]
        alike = {n: self._alike(n) for n in nodes}
        colour: dict[Node, int] = {(a,): self._colour(a) for n in nodes for a in n}
        while True:
            keys = {n: self._group_key(n, alike[n], colour) for n in nodes}
            parts: dict[Node, list[object]] = {a: [] for a in colour}
            for n, (key, member) in keys.items():
                for place, a in enumerate(member):
                    colours = [colour[b,] for b in member]
                    same = [p for p in range(len(member)) if alike[n][p] == alike[n][place]]
                    parts[a,].append((key, min(p for p in same if colours[p] == colour[a,])))
            refined = _number({a: (colour[a], tuple(sorted(p, key=repr))) for a, p in parts.items()})
            if len(set(refined.values())) == len(set(colour.values())):
                break
            colour = refined
        self.colours = colour
        groups: dict[object, list[tuple[int, ...]]] = {}
        for key, member in keys.values():
            groups.setdefault(key, []).append(member)
        return [tuple(g) for g in groups.values()]

    def _colour(self, attribute: int) -> int:
        index = self.lattice.index[(attribute,)]
        return int(self.lattice.class_of[index])

    def _alike(self, node: Node) -> tuple[int, ...]:
        """As `_exchangeable`, found once per class."""
        c = int(self.lattice.class_of[self.lattice.index[node]])
        if c not in self.exchangeable:
            self.exchangeable[c] = self._exchangeable(node)
        return self.exchangeable[c]

    def _exchangeable(self, node: Node) -> tuple[int, ...]:
        """Of each canonical axis the first one that its queries do not tell apart from it."""
        member = self._member(node)
        shape = self.lattice.schema.shape([self.lattice.schema.names[a] for a in member])
        first = list(range(len(member)))
        queries = self._queries(member)
        gram = queries.T @ queries if len(queries) > queries.shape[1] else None
        for a, b in itertools.combinations(range(len(member)), 2):
            same = u_key(self.weights[member[a]]) == u_key(self.weights[member[b]])
            if shape[a] == shape[b] and same and _unchanged(queries, gram, _swap(shape, a, b)):
                first[b] = first[a]
        return tuple(first)

    def _group_key(
        self, node: Node, alike: tuple[int, ...], colour: Mapping[Node, int]
    ) -> tuple[object, tuple[int, ...]]:
        member = list(self._member(node))
        for place in set(alike):
            slots = [i for i, p in enumerate(alike) if p == place]
            for slot, a in zip(slots, sorted((member[i] for i in slots), key=lambda a: (colour[a,], a)), strict=True):
                member[slot] = a
        index = self.lattice.index[node]
        return (int(self.lattice.class_of[index]), tuple(colour[a,] for a in member)), tuple(member)

    def _member(self, node: Node) -> tuple[int, ...]:
        return tuple(node[i] for i in self.lattice.orders[self.lattice.index[node]])

    def _queries(self, member: Sequence[int]) -> Array:
        """The weighted queries of a node, ``(count, cells)``, on its axes in canonical order."""
        names, node = [self.lattice.schema.names[a] for a in member], tuple(sorted(member))
        rows = [math.sqrt(w) * written_out(p.factors, names) for p, w in self.products[node]]
        return np.concatenate([r.reshape(len(r), -1) for r in rows])

    def _top(self, members: tuple[tuple[int, ...], ...]) -> Top:
        member = members[0]
        shape = tuple(self.lattice.schema.attributes[a].size for a in member)
        weights = [self.weights[a] for a in member]
        queries = self._queries(member)
        if len(queries) > queries.shape[1]:
            queries = np.asarray(np.linalg.qr(queries, mode="r"))
        everything = tuple(range(len(shape)))
        combinations, scale, _ = np.linalg.svd(_part(queries, shape, weights, everything), full_matrices=False)
        rank = int((scale > SPAN * scale[0]).sum())
        rows, rest = combinations[:, :rank].T @ queries, combinations[:, rank:].T @ queries
        kept = tuple(lower_subsets(len(shape)))
        bases, low, plain, left = [], [], [], []
        for subset in kept:
            ours, theirs = (_part(x, shape, weights, subset) for x in (rows, rest))
            basis = _row_space(np.concatenate([ours, theirs]), scale[0]) if subset else np.ones((1, 1))
            bases.append(basis)
            low.append(_spread(basis, shape, subset))
            plain.append(ours @ basis.T)
            left.append(theirs @ basis.T)
        own, all_low, rest_low = _part(rows, shape, weights, everything), np.concatenate(low), np.hstack(left)
        first = self._first(member)
        exchanges = _exchanges(shape, first, own, all_low)
        permutations = [_permutation(shape, order) for order in _orders(first)]
        symmetry = find_symmetry(shape, lambda p: any(np.array_equal(p, q) for q in permutations))
        characters = tuple(_row_space(b.restrict_rows(own).T, scale[0]).T for b in symmetry.blocks)
        return Top(
            members, shape, rows, own, kept, tuple(bases), all_low, np.hstack(plain), rest_low.T @ rest_low,
            first, exchanges, symmetry, characters,
        )  # fmt: skip

    def _first(self, member: tuple[int, ...]) -> tuple[int, ...]:
        """Exchangeable axes whose attributes play the same part everywhere."""
        alike = self._alike(tuple(sorted(member)))
        colours = [self.colours[a,] for a in member]
        first = [
            min(p for p in range(len(member)) if alike[p] == alike[i] and colours[p] == colours[i])
            for i in range(len(member))
        ]
        return tuple(first) if len(_orders(tuple(first))) <= EXCHANGES else tuple(range(len(member)))

    # Nodes below

    def _lowers(self, tops: Sequence[Top], chosen: set[Node], others: Splitter) -> tuple[list[Lower], dict[Node, int]]:
        """The classes of the nodes below the tops, and the class of each node."""
        uses: dict[Node, Counter[Place]] = {}
        for number, top in enumerate(tops):
            for member in top.members:
                for kept in top.kept[1:]:
                    node = tuple(sorted(member[a] for a in kept))
                    uses.setdefault(node, Counter())[number, top.representative(kept)] += 1
        groups: dict[object, list[Node]] = {}
        for node, above in uses.items():
            index = self.lattice.index[node]
            if self.lattice.class_of[index] >= 0:
                key = int(self.lattice.class_of[index]), tuple(sorted(above.items())), self._is_free(node, chosen)
                groups.setdefault(key, []).append(node)
        lowers = [self._lower(nodes, uses[nodes[0]], tops, chosen, others) for nodes in groups.values()]
        return lowers, {node: c for c, nodes in enumerate(groups.values()) for node in nodes}

    def _is_free(self, node: Node, chosen: set[Node]) -> bool:
        """True if an attribute's centre may be chosen anew: no node but its own and oblique ones depends on it."""
        if len(node) > 1 or not is_uniform(self.weights[node[0]]):
            return False
        closure = self.lattice.nodes[: self.lattice.first_block]
        return all(len(n) == 1 or n in chosen for n in closure if node[0] in n)

    def _lower(
        self, nodes: Sequence[Node], uses: Counter[Place], tops: Sequence[Top], chosen: set[Node], others: Splitter
    ) -> Lower:
        node = nodes[0]
        gram = _dense(others, node, others.sums.get(node, {}), self.lattice)
        span = gram / max(float(np.trace(gram)), SMALLEST)
        for number, axes in uses:
            for i in tops[number].subsets_at(axes):
                basis = tops[number].bases[i]
                span = span + basis.T @ basis / max(1, len(basis))
        values, vectors = np.linalg.eigh(span)
        basis = np.ascontiguousarray(vectors[:, values > SPAN * values[-1]].T)
        joint = self._joint(node, basis) if self._is_free(node, chosen) else None
        return Lower(node, len(nodes), basis, basis @ gram @ basis.T, joint, dict(uses))

    def _joint(self, node: Node, basis: Array) -> Array:
        """The Gram of an attribute's own families in the functions 1 and the basis."""
        n = basis.shape[1]
        coordinates = np.concatenate([np.full((1, n), 1 / n), basis - basis.mean(axis=1, keepdims=True)])
        return np.asarray(coordinates @ self._one_way(node) @ coordinates.T)

    def _own_constant(self, node: Node) -> float:
        return float(self._one_way(node).mean())

    def _one_way(self, node: Node) -> Array:
        """The Gram, not centred, of the families on one attribute."""
        n = self.lattice.shape(node)[0]
        total = np.zeros((n, n))
        for family in self.families:
            for product in family.products():
                if self.lattice.node_of(product.names) == node:
                    total += family.weight * product.factors[0].gram()
        return total


def _number(values: Mapping[Node, object]) -> dict[Node, int]:
    numbers: dict[object, int] = {}
    return {a: numbers.setdefault(v, len(numbers)) for a, v in values.items()}


def _part(queries: Array, shape: Sequence[int], weights: Sequence[Array], kept: Sequence[int]) -> Array:
    """The part of queries ``(count, cells)`` on some axes, ``(count, cells of these)``."""
    part = part_on(queries.reshape(len(queries), *shape), weights, kept)
    return part.reshape(len(queries), cells([shape[a] for a in kept]))


def _spread(basis: Array, shape: Sequence[int], kept: Sequence[int]) -> Array:
    """Functions of some axes as functions of all cells."""
    sizes = [n if a in kept else 1 for a, n in enumerate(shape)]
    spread = np.broadcast_to(basis.reshape(len(basis), *sizes), (len(basis), *shape))
    return spread.reshape(len(basis), cells(shape))


def _row_space(rows: Array, scale: float) -> Array:
    """Orthonormal rows that span the same, but for what is small beside a scale."""
    _, s, vt = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(vt[s > SPAN * scale])


def _dense(splitter: Splitter, node: Node, sums: Sums, lattice: Lattice) -> Array:
    """A node's weighted Gram as a matrix, axes in schema order."""
    shape = lattice.shape(node)
    total = np.zeros((cells(shape), cells(shape)))
    for groups, polynomial in sums.items():
        placed = tuple(Group(tuple(node.index(a) for _, a in slots), splitter.grams[g]) for g, slots in groups)
        total += splitter.value(polynomial)[0] * term_matrix(Term(placed, 1.0, 1.0), shape)
    return total


def _orders(first: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All orders of the axes that move exchangeable ones only."""
    groups = [[i for i, f in enumerate(first) if f == place] for place in dict.fromkeys(first)]
    orders = []
    for moved in itertools.product(*(itertools.permutations(g) for g in groups)):
        order = list(range(len(first)))
        for group, images in zip(groups, moved, strict=True):
            for place, image in zip(group, images, strict=True):
                order[place] = image
        orders.append(tuple(order))
    return orders


def _permutation(shape: Sequence[int], order: Sequence[int]) -> IntArray:
    """The permutation of the cells that an order of the axes is."""
    return np.arange(cells(shape)).reshape(tuple(shape)).transpose(order).ravel()


def _swap(shape: Sequence[int], a: int, b: int) -> IntArray:
    order = list(range(len(shape)))
    order[a], order[b] = b, a
    return _permutation(shape, order)


def _unchanged(queries: Array, gram: Array | None, permutation: IntArray) -> bool:
    """True if a permutation of the cells leaves the Gram of queries unchanged."""
    if gram is not None:
        return bool(np.abs(gram[np.ix_(permutation, permutation)] - gram).max() <= ALIKE * np.abs(gram).max())
    moved = queries[:, permutation]
    inner, across = queries @ queries.T, queries @ moved.T
    # |G - PGP'|^2 = 2 (|QQ'|^2 - |Q(PQ)'|^2) from the short side
    return bool((inner**2).sum() - (across**2).sum() <= ALIKE * (inner**2).sum())


def _exchanges(shape: Sequence[int], first: tuple[int, ...], own: Array, low: Array) -> tuple[Exchange, ...]:
    permutations = [_permutation(shape, order) for order in _orders(first)[1:]]
    if not permutations:
        return ()
    own_inverse, low_inverse = np.linalg.pinv(own), np.linalg.pinv(low)
    return tuple(Exchange(own[:, p] @ own_inverse, low[:, p] @ low_inverse) for p in permutations)
