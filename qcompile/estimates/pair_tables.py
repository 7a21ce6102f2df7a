"""Tables of single attributes and of pairs, which the forest ties together: they are made all at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qcompile.estimates import forest
from qcompile.estimates.corrector import Corrector
from qcompile.estimates.grem import Estimates
from qcompile.estimates.nonnegative import nonnegative
from qcompile.lattice.lattice import Node
from qcompile.support.arrays import Array, outer


class PairTables:
    """The nodes of one and two attributes, as far as they are known.

    Args:
      estimates: the measurements.
      corrector: of the same measurements.
      tree: whether pairs are expected to follow the forest of the measured ones, rather than to be independent.

    Attributes:
      counts: per single attribute its non-negative table, by node.
      tables: per pair the corrected reference, by node.
      edges: the pairs of the forest, by node; none where pairs are independent.
    """

    def __init__(self, estimates: Estimates, corrector: Corrector, tree: bool) -> None:
        self._lattice, self._corrector, self._total = estimates.lattice, corrector, corrector.total
        sizes = [len(n) for n in self._lattice.nodes[: self._lattice.first_block]]
        ones, twos = ([i for i, k in enumerate(sizes) if k == size] for size in (1, 2))
        self.counts = {i: nonnegative(estimates.marginal(i), self._total) for i in ones}
        self._ones = [np.zeros(a.size) for a in self._lattice.schema]
        for i in ones:
            self._ones[self._lattice.nodes[i][0]] = self.counts[i]
        self._forest: forest.Forest | None = None
        self.edges: frozenset[int] = frozenset()
        self.tables = self._tree(twos) if tree else {i: self._alone(i) for i in twos}

    def independent(self, node: Node) -> Array:
        """The expected counts of independent attributes."""
        parts = outer([self._ones[a] for a in node])
        return parts / self._total ** (len(node) - 1) if self._total > 0 else parts

    def joint(self, node: Node) -> Array:
        """The expected counts by the forest; of independent attributes where there is none."""
        return self.independent(node) if self._forest is None else self._forest.joint(node)

    def _alone(self, pair: int) -> Array:
        """A pair by itself: independence, corrected."""
        return self._corrector.corrected(pair, self.independent(self._lattice.nodes[pair]))

    def _tree(self, pairs: Sequence[int]) -> dict[int, Array]:
        nodes = self._lattice.nodes
        edges = {i: self._alone(i) for i in pairs if self._corrector.measured(i)}
        tables = {(nodes[i][0], nodes[i][1]): nonnegative(table, self._total) for i, table in edges.items()}
        held = set(forest.spanning_forest({pair: forest.mutual_information(t) for pair, t in tables.items()}))
        self.edges = frozenset(i for i in edges if nodes[i] in held)
        if self._total > 0:
            self._forest = forest.Forest(self._ones, held, tables, self._total)
        return {i: edges[i] if nodes[i] in held else self._corrector.corrected(i, self.joint(nodes[i])) for i in pairs}
