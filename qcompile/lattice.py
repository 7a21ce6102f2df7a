"""The downward closure of a workload: its nodes, their Grams as sums of Kronecker terms, and their classes.

The arrays are what the compiler works with; the networkx graph is a view of them, built when first asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from qcompile.arrays import Array, IntArray, cells
from qcompile.projection import Gram, is_uniform
from qcompile.schema import Schema

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
class Problem:
    """The numeric problem that all nodes of a class share: G = sum of Kronecker terms on cells of `shape`.

    Attributes:
      shape: axis sizes in the class's canonical axis order.
      terms: the Gram, weighted.
      uniform: whether every axis has uniform centring weights.
    """

    shape: tuple[int, ...]
    terms: tuple[Term, ...]
    uniform: bool

    @property
    def cells(self) -> int:
        """Number of cells."""
        return cells(self.shape)

    @property
    def trace(self) -> float:
        """Trace of the weighted Gram."""
        return float(sum(t.weighted * t.trace for t in self.terms))


@dataclass(frozen=True, eq=False)
class Lattice:
    """All nodes of the closure.

    Attributes:
      schema: gives names and sizes to positions.
      centring: the weights u of each attribute, in schema order.
      nodes: sorted by size, then position.
      class_of: per node, the index of its class; -1 where the Gram is structurally zero.
      orders: per node, the node axis that stands at each canonical position of its class.
      classes: the distinct problems.
    """

    schema: Schema
    centring: tuple[Array, ...]
    nodes: tuple[Node, ...]
    class_of: IntArray
    orders: tuple[tuple[int, ...], ...]
    classes: tuple[Problem, ...]

    @cached_property
    def index(self) -> dict[Node, int]:
        """Position of each node."""
        return {node: i for i, node in enumerate(self.nodes)}

    @cached_property
    def members(self) -> IntArray:
        """Number of nodes in each class."""
        return np.bincount(self.class_of[self.class_of >= 0], minlength=len(self.classes)).astype(np.int64)

    def names(self, node: Node) -> tuple[str, ...]:
        """The attribute names of a node."""
        return tuple(self.schema.attributes[i].name for i in node)

    def shape(self, node: Node) -> tuple[int, ...]:
        """The sizes of a node's axes in schema order."""
        return tuple(self.schema.attributes[i].size for i in node)

    def uniform(self, node: Node) -> bool:
        """Whether all axes of a node are centred uniformly."""
        return all(is_uniform(self.centring[i]) for i in node)

    def graph(self) -> nx.DiGraph[tuple[str, ...]]:
        """The closure as a graph on tuples of names, with an edge to each node from those it covers."""
        import networkx as nx

        graph: nx.DiGraph[tuple[str, ...]] = nx.DiGraph()
        for node in self.nodes:
            graph.add_node(self.names(node), attributes=self.names(node), cells=cells(self.shape(node)))
            graph.add_edges_from((self.names(below), self.names(node)) for below in covered(node))
        return graph


def covered(node: Sequence[int]) -> list[Node]:
    """The nodes one attribute smaller."""
    return [tuple(node[:i]) + tuple(node[i + 1 :]) for i in range(len(node))]
