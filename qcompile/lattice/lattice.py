"""The downward closure of a workload: its nodes, their Grams as sums of Kronecker terms, and their classes.

The arrays are what the compiler works with; the networkx graph is a view of them, built when first asked for.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from qcompile.lattice.gram import Gram
from qcompile.lattice.projection import is_uniform, u_key
from qcompile.queries.factors import Whole
from qcompile.queries.schema import Schema
from qcompile.queries.workload import Product
from qcompile.support.arrays import Array, IntArray, cells
from qcompile.support.text import plural

if TYPE_CHECKING:
    import networkx as nx

Node: TypeAlias = tuple[int, ...]
"""A subset of the attributes: their positions in the schema, ascending."""


@dataclass(frozen=True, eq=False)
class Group:
    """One Kronecker factor of a term: a Gram on some axes of the node.

    Attributes:
      axes: positions among the node's axes, in the order of the Gram's own axes.
      gram: the matrix.
    """

    axes: tuple[int, ...]
    gram: Gram


@dataclass(frozen=True, eq=False)
class Term:
    """A Kronecker product of Grams, with its coefficient in the weighted and in the unweighted total."""

    groups: tuple[Group, ...]
    weighted: float
    unweighted: float

    @property
    def trace(self) -> float:
        """Trace of the Kronecker product, without coefficient."""
        return float(np.prod([g.gram.trace for g in self.groups]))


@dataclass(frozen=True, eq=False)
class LabelledAxis:
    """An axis whose attribute has a strategy of its own.

    Attributes:
      attribute: its name, on the first node of the class.
      label: of the strategy; axes with other labels are never taken for equal.
      centring: the weights u, ``(size,)``.
    """

    attribute: str
    label: str
    centring: Array


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """The numeric problem that all nodes of a class share: G = sum of Kronecker terms on cells of `shape`.

    Attributes:
      shape: axis sizes in the class's canonical axis order.
      terms: the Gram, weighted.
      uniform: True if every axis has uniform centring weights.
      axes: per axis its attribute and label, where the user gave strategies; else empty.
      oblique: the identity of the matrix that is measured, where it was chosen with the lattice; else empty.
    """

    shape: tuple[int, ...]
    terms: tuple[Term, ...]
    uniform: bool
    axes: tuple[LabelledAxis, ...] = ()
    oblique: str = ""

    def __repr__(self) -> str:
        return f"<Problem: shape {self.shape}, {plural(len(self.terms), 'term')}>"

    @property
    def cells(self) -> int:
        """Number of cells."""
        return cells(self.shape)

    @cached_property
    def key(self) -> Hashable:
        """Equal for problems with equal solutions."""
        labels = tuple((a.label, u_key(a.centring)) for a in self.axes)
        terms = tuple((tuple((g.axes, g.gram.key) for g in t.groups), t.weighted) for t in self.terms)
        return self.shape, self.uniform, labels, terms, self.oblique

    @property
    def trace(self) -> float:
        """Trace of the weighted Gram."""
        return float(sum(t.weighted * t.trace for t in self.terms))


@dataclass(frozen=True, eq=False, repr=False)
class Lattice:
    """All nodes of the closure, and after them the blocks: families that are measured unsplit.

    A block behaves like a lattice of its own with a single node on all its attributes, whose axes are not centred.
    `source` gives that view of it, and whatever works on a lattice then works on a block.

    Attributes:
      schema: gives names and sizes to positions.
      centring: the weights u of each attribute, in schema order; 0 on the axes of a block.
      nodes: sorted by size, then position; then one per block.
      class_of: per node, the index of its class; -1 where the Gram is structurally zero.
      orders: per node, the node axis at each canonical position of its class.
      classes: the distinct problems.
      blocks: the names of the families of each block.
      only: the position of the block that this is a view of; None for the closure.
    """

    schema: Schema
    centring: tuple[Array, ...]
    nodes: tuple[Node, ...]
    class_of: IntArray
    orders: tuple[tuple[int, ...], ...]
    classes: tuple[Problem, ...]
    blocks: tuple[tuple[str, ...], ...] = ()
    only: int | None = None

    @cached_property
    def index(self) -> dict[Node, int]:
        """Position of each node of the closure, or of the only block."""
        if self.only is not None:
            return {self.nodes[self.only]: self.only}
        return {node: i for i, node in enumerate(self.nodes[: self.first_block])}

    @cached_property
    def maximal(self) -> tuple[int, ...]:
        """Positions of the nodes of the closure that no other one contains."""
        closure = self.nodes[: self.first_block]
        held = {below for node in closure for below in lower_covers(node)}
        return tuple(i for i, node in enumerate(closure) if node not in held)

    @property
    def first_block(self) -> int:
        """Position of the first block: the number of nodes of the closure."""
        return len(self.nodes) - len(self.blocks)

    @cached_property
    def sources(self) -> tuple[Lattice, ...]:
        """The views that answer queries: the closure, where it measures anything, and each block."""
        views = [self._view(self.first_block + i) for i in range(len(self.blocks))]
        return (self, *views) if self.first_block else tuple(views)

    def _view(self, position: int) -> Lattice:
        centring = [np.zeros(len(u)) if i in self.nodes[position] else u for i, u in enumerate(self.centring)]
        return replace(self, centring=tuple(centring), only=position)

    def source(self, family: str) -> Lattice:
        """The view that answers a family: its own block, else the closure."""
        for i, names in enumerate(self.blocks):
            if family in names:
                return self.sources[i - len(self.blocks)]
        return self

    def covering(self, product: Product) -> Product:
        """A product as this source holds it: on a block, the attributes it does not mention are summed over."""
        if self.only is None:
            return product
        others = [self.schema.attributes[i] for i in self.nodes[self.only]]
        return Product((*product.factors, *(Whole(a) for a in others if a.name not in product.names)))

    def title(self, position: int) -> str:
        """A node's or block's name, unique in the lattice."""
        names = repr(self.names(self.nodes[position]))
        return names if position < self.first_block else f"block {position - self.first_block + 1} on {names}"

    def __repr__(self) -> str:
        nodes, blocks = plural(self.first_block, "node"), plural(len(self.blocks), "block")
        return f"<Lattice: {nodes}, {blocks}, {plural(len(self.classes), 'class', 'classes')}>"

    @cached_property
    def members(self) -> IntArray:
        """Number of nodes in each class."""
        return np.bincount(self.class_of[self.class_of >= 0], minlength=len(self.classes)).astype(np.int64)

    def node_of(self, names: Iterable[str]) -> Node:
        """The node of some attributes, whatever their order; it need not be in the closure."""
        return tuple(sorted(self.schema.positions[name] for name in names))

    def names(self, node: Node) -> tuple[str, ...]:
        """The attribute names of a node."""
        return tuple(self.schema.attributes[i].name for i in node)

    def shape(self, node: Node) -> tuple[int, ...]:
        """The sizes of a node's axes in schema order."""
        return tuple(self.schema.attributes[i].size for i in node)

    def uniform(self, node: Node) -> bool:
        """True if all axes of a node are centred uniformly."""
        return all(is_uniform(self.centring[i]) for i in node)

    def graph(self) -> nx.DiGraph[tuple[str, ...]]:
        """The closure as a graph on names, with an edge to each node from those it covers; blocks have no edges."""
        import networkx as nx

        graph: nx.DiGraph[tuple[str, ...]] = nx.DiGraph()
        for i, node in enumerate(self.nodes):
            block = i >= self.first_block
            key, names = self.key(i), self.names(node)
            graph.add_node(key, attributes=names, cells=cells(self.shape(node)), block=block)
            if not block:
                graph.add_edges_from((self.names(below), key) for below in lower_covers(node))
        return graph

    def key(self, position: int) -> tuple[str, ...]:
        """A node of `graph`: its attributes' names; for a block, its number in front of them."""
        names = self.names(self.nodes[position])
        return names if position < self.first_block else (f"block {position - self.first_block + 1}", *names)


def lower_covers(node: Sequence[int]) -> list[Node]:
    """The nodes one attribute smaller."""
    return [tuple(node[:i]) + tuple(node[i + 1 :]) for i in range(len(node))]


def subsets(node: Sequence[int]) -> list[Node]:
    """All subsets of a node, the empty one first."""
    nodes: list[Node] = [()]
    for a in node:
        nodes += [(*s, a) for s in nodes]
    return nodes


def below(closure: Lattice, node: Node) -> list[int]:
    """Positions of all subsets of a node of the closure; none where the node is only a block's."""
    if node not in closure.index:
        return []
    return [closure.index[s] for s in subsets(node)]
