"""A tree-shaped model of all attributes: its pairs, and any joint distribution it implies.

The forest is the one of maximum mutual information over the pairs that were measured (Chow, Liu 1968). Attributes are
independent given the attributes on the path between them; those without a path are independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from qcompile.support.arrays import Array

Pair = tuple[int, int]


def mutual_information(table: Array) -> float:
    """Mutual information of a non-negative table of two axes, in nats; 0 for an empty table."""
    total = table.sum()
    if total <= 0:
        return 0.0
    p = table / total
    independent = p.sum(axis=1, keepdims=True) * p.sum(axis=0, keepdims=True)
    held = p > 0
    return float((p[held] * np.log(p[held] / independent[held])).sum())


def spanning_forest(weights: Mapping[Pair, float]) -> list[Pair]:
    """The edges of the maximum spanning forest; edges without a weight above 0 are left out."""
    import networkx as nx

    graph: nx.Graph[int] = nx.Graph()
    graph.add_weighted_edges_from((a, b, w) for (a, b), w in sorted(weights.items()) if w > 0)
    return sorted((min(a, b), max(a, b)) for a, b, _ in nx.maximum_spanning_edges(graph, data=True))


def ratio(x: Array, y: Array) -> Array:
    """``x / y``, 0 where y is 0."""
    return np.divide(x, y, out=np.zeros(np.broadcast_shapes(x.shape, y.shape)), where=y > 0)


class Forest:
    """The model.

    Args:
      ones: the counts of every attribute, non-negative, each with the sum ``total``.
      edges: pairs (a, b), a < b, without a cycle.
      tables: the counts of every edge, non-negative, axes in its order.
      total: number of rows, > 0.
    """

    def __init__(
        self, ones: Sequence[Array], edges: Iterable[Pair], tables: Mapping[Pair, Array], total: float
    ) -> None:
        self._ones, self._total = ones, total
        self._conditional: dict[Pair, Array] = {}
        self._next: dict[int, list[int]] = {a: [] for a in range(len(ones))}
        for a, b in edges:
            self._join(a, b, tables[a, b])
            self._join(b, a, tables[a, b].T)

    def _join(self, a: int, b: int, table: Array) -> None:
        """The distribution of b for every value of a; that of b alone where a never has the value."""
        self._next[a].append(b)
        rows = table.sum(axis=1, keepdims=True)
        self._conditional[a, b] = np.where(rows > 0, ratio(table, rows), self._ones[b] / self._total)

    def joint(self, node: Sequence[int]) -> Array:
        """The expected counts of some attributes, axes in the order given."""
        axes, result = list[int](), np.array(self._total)
        for root in node:
            if root not in axes:  # a connected component of the forest that was not seen yet
                table, below = self._below(root, None, frozenset(node))
                result = np.multiply.outer(result, _scaled(table, self._ones[root] / self._total))
                axes += [root, *below]
        return result.transpose([axes.index(a) for a in node])

    def _below(self, a: int, parent: int | None, wanted: frozenset[int]) -> tuple[Array, list[int]]:
        """The distribution of the wanted attributes beyond ``a``, seen from ``parent``, for every value of it.

        Returns:
          The table, its first axis that of ``a``, and the attributes of the others.
        """
        table, axes = np.ones(len(self._ones[a])), list[int]()
        for b in self._next[a]:
            if b != parent:
                below, found = self._below(b, a, wanted)
                if b in wanted:
                    branch, found = self._conditional[a, b][(..., *[None] * len(found))] * below, [b, *found]
                elif found:
                    branch = np.tensordot(self._conditional[a, b], below, axes=1)
                else:
                    continue
                table, axes = _beside(table, branch), axes + found
        return table, axes


def _scaled(table: Array, factors: Array) -> Array:
    """A table times one factor per place on its first axis."""
    return np.asarray(table * factors[(..., *[None] * (table.ndim - 1))])


def _beside(x: Array, y: Array) -> Array:
    """The outer product of two tables for every place on their common first axis."""
    return np.asarray(x[(..., *[None] * (y.ndim - 1))] * y[(slice(None), *[None] * (x.ndim - 1))])
