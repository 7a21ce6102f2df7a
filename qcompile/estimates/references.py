"""Reference priors: what to expect of a marginal before, and beside, measuring it.

GReM sets a residual that was not measured to 0, which interpolates additively: a poor guess on skewed tables. Here
every node has a *reference*, the table that a multiplicative model of the smaller nodes predicts, and measurements only
say how the data deviates from it:

- a node that was not measured takes the reference's residual;
- a measured one takes the reference's plus the deviation, shrunk cell by cell (`qcompile.estimates.shrinkage`) where
  its noise is alike in all cells, in full elsewhere.

All of it is post-processing of private output. Estimates are biased; no standard error is given for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import combinations

import numpy as np

from qcompile.estimates import forest, loglinear
from qcompile.estimates.corrector import Corrector
from qcompile.estimates.grem import Estimates
from qcompile.estimates.pair_tables import PairTables
from qcompile.lattice.lattice import Lattice, Node, lower_covers, subsets
from qcompile.lattice.reconstruct import Residual, lift_residual, marginal
from qcompile.support.arrays import Array

REFERENCES = ("none", "independence", "tree", "loglinear", "auto")
"""Models of a node given the smaller ones.

- none: no model; what was not measured is 0 (plain AIM+GReM).
- independence: the product of the attributes.
- tree: the forest of maximum mutual information over measured pairs.
- loglinear: independence for pairs, for larger nodes no interaction of all their attributes.
- auto: the tree for pairs, loglinear for larger nodes.
"""

ResidualTable = tuple[Array, Array]
"""A node's residual, lifted, and its non-negative table."""


class References:
    """Estimates of all nodes, level by level.

    Args:
      estimates: the measurements; later ones count after `update`.
      kind: one of `REFERENCES`, not "none".
      tolerance: a table that moved by less, in L1 relative to the rows, since it was last used is used as it was.
      sweeps: passes of proportional fitting at most.
    """

    def __init__(self, estimates: Estimates, kind: str, tolerance: float = 0.0, sweeps: int = loglinear.SWEEPS) -> None:
        self._estimates, self._lattice, self._kind = estimates, estimates.lattice, kind
        self._tolerance, self._sweeps = tolerance, sweeps
        self._corrector = Corrector(estimates)
        self._found: dict[int, ResidualTable] = {}
        self._information: dict[Node, float] = {}
        self._pairs = PairTables(estimates, self._corrector, tree=False)
        self.update(())

    def update(self, changed: Iterable[int]) -> list[int]:
        """Take in new measurements.

        Args:
          changed: the nodes that were measured.

        Returns:
          The nodes whose estimates moved, by a table below them, or their own, that moved by more than the tolerance.
        """
        before = self._edges
        moved = self._small_moves()
        anew = set(changed) if self._edges == before else set(self._order)
        for i in self._order:
            node = self._lattice.nodes[i]
            touched = len(node) > 2 and (i in anew or not moved.isdisjoint(self._made_of(node)))
            if touched and (i in self._maximal or self._moves(i)):
                moved.add(i)
        held = {self._lattice.nodes[i] for i in moved}
        return [i for i in self._order if not held.isdisjoint(subsets(self._lattice.nodes[i]))]

    def _small_moves(self) -> set[int]:
        """Recompute all nodes of up to two attributes, and keep those that moved."""
        self._pairs = PairTables(self._estimates, self._corrector, tree=self._kind in ("tree", "auto"))
        found = {self._lattice.index[()]: (np.zeros(0), np.array(self._corrector.total))}
        found |= {i: (np.zeros(0), table) for i, table in self._pairs.counts.items()}
        found |= {i: self._both(i, table) for i, table in self._pairs.tables.items()}
        moved = {i for i, new in found.items() if i not in self._found or self._far(new, self._found[i])}
        for i in moved:
            self._found[i] = found[i]
            self._information.pop(self._lattice.nodes[i], None)
        return moved

    def _made_of(self, node: Node) -> list[int]:
        """The nodes whose tables a reference is made of."""
        if self._kind in ("loglinear", "auto"):
            return [self._lattice.index[c] for c in lower_covers(node)]
        if self._kind == "independence":
            return [self._lattice.index[(a,)] for a in node]
        return [*self._pairs.counts, *self._pairs.edges]

    @property
    def _edges(self) -> frozenset[int]:
        """The edges of the forest that larger references follow; none where they depend on tables alone."""
        return self._pairs.edges if self._kind == "tree" else frozenset()

    def _moves(self, node: int) -> bool:
        """Recompute a node's table, and keep it if it moved."""
        old = self._found.pop(node, None)
        if old is None or self._far(self._get(node), old):
            return True
        self._found[node] = old
        return False

    def estimate(self, node: int) -> Array:
        """The marginal on a node, consistent with all others: the sum of the best residuals below it."""
        attributes = self._lattice.nodes[node]
        if node not in self._maximal:
            return marginal(self._lattice, self._residual, attributes)
        # What the table says of smaller nodes is replaced by what is known of them: cheaper than its own residual.
        table = self._table(node)
        table += marginal(self._lattice, _Corrections(self._lattice, attributes, table, self._residual), attributes)
        return table

    def _residual(self, node: int) -> Array | None:
        if len(self._lattice.nodes[node]) < 2:
            return self._estimates.residual(node)
        return self._get(node)[0]

    def _get(self, node: int) -> ResidualTable:
        """A node that others are built on; the maximal ones take most of the memory and are not kept."""
        if node not in self._found:
            self._found[node] = self._both(node, self._table(node))
        return self._found[node]

    def _both(self, node: int, table: Array) -> ResidualTable:
        return lift_residual(self._lattice, table, self._lattice.nodes[node]), self._corrector.counts(node, table)

    def _far(self, new: ResidualTable, other: ResidualTable) -> bool:
        return float(np.abs(new[1] - other[1]).sum()) > self._tolerance * self._corrector.total

    @cached_property
    def _order(self) -> list[int]:
        """All nodes of the closure with attributes, smallest first."""
        return [i for i in range(self._lattice.first_block) if self._lattice.nodes[i]]

    @cached_property
    def _maximal(self) -> frozenset[int]:
        """Nodes of three or more attributes that no other node contains."""
        return frozenset(i for i in self._lattice.maximal if len(self._lattice.nodes[i]) > 2)

    def _table(self, node: int) -> Array:
        """The best table of a node of three or more attributes; a new array."""
        return self._corrector.corrected(node, self._reference(self._lattice.nodes[node]))

    def _reference(self, node: Node) -> Array:
        if self._kind == "independence":
            return self._pairs.independent(node)
        if self._kind == "tree":
            return self._pairs.joint(node)
        covers = [self._counts(c) for c in lower_covers(node)]
        start = loglinear.conditional_start(covers, *self._weakest(node))
        return loglinear.fit(covers, start, self._sweeps)

    def _counts(self, node: Node) -> Array:
        return self._get(self._lattice.index[node])[1]

    def _weakest(self, node: Node) -> tuple[int, int]:
        """The two axes whose pair tells least: fitting starts without their interaction."""
        pairs = list(combinations(range(len(node)), 2))
        return min(pairs, key=lambda p: self._mutual_information((node[p[0]], node[p[1]])))

    def _mutual_information(self, pair: Node) -> float:
        if pair not in self._information:
            self._information[pair] = forest.mutual_information(self._counts(pair))
        return self._information[pair]


class _Corrections:
    """Residuals of the nodes inside a marginal, less the residuals of a table of it, by position.

    Args:
      lattice: the closure.
      node: the marginal's attributes.
      table: of all of them.
      residual: what is known.
    """

    def __init__(self, lattice: Lattice, node: Node, table: Array, residual: Residual) -> None:
        self._lattice, self._node, self._residual = lattice, node, residual
        self._margins = {c: table.sum(axis=axis) for axis, c in enumerate(lower_covers(node))}

    def __call__(self, index: int) -> Array | None:
        below = self._lattice.nodes[index]
        if below == self._node:
            return None
        cover = next(c for c in self._margins if set(below) <= set(c))
        said = self._margins[cover].sum(axis=tuple(i for i, a in enumerate(cover) if a not in below))
        known = self._residual(index)
        said = lift_residual(self._lattice, said, below)
        return -said if known is None else known - said
