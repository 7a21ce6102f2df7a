"""GReM-MLE as an incremental object: what all measurements together say about every node, and every marginal.

Measurements of a node share its strategy, so their inverse-variance average is the maximum likelihood estimate, and the
marginals follow by reconstruction (AIM+GReM, arXiv 2602.05674, section 4). *Lazy updating*: a new measurement of a node
changes only the marginals that contain it, each by the reconstruction of the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from qcompile.lattice.lattice import Lattice
from qcompile.lattice.reconstruct import add_marginal, marginal
from qcompile.strategy import Strategy
from qcompile.strategy.oblique import residual_estimate
from qcompile.support.arrays import Array


class Estimates:
    """The consolidated measurements of every node.

    Attributes:
      lattice: the closure.
      strategies: B per class, the same for all measurements of a class's nodes.
    """

    def __init__(self, lattice: Lattice, strategies: Sequence[Strategy]) -> None:
        self.lattice = lattice
        self.strategies = tuple(strategies)
        self._precision: dict[int, float] = {}
        self._values: dict[int, Array] = {}
        self._residuals: dict[int, Array] = {}

    def add(self, node: int, y: Array, precision: float) -> Array:
        """Average a measurement in; that of an oblique node once all nodes below it have theirs.

        Args:
          node: position in the lattice.
          y: ``B x`` plus noise, in counts, ``(rows,)``.
          precision: 1 / variance of each entry of y, > 0; infinite where it is exact.

        Returns:
          The change of the node's residual, lifted to data (sums 0 along every axis), axes in schema order.
        """
        before, old = self._residuals.get(node), self._precision.get(node, 0.0)
        share = 1.0 if old == 0 else precision / (old + precision)
        value = y if old == 0 else self._values[node] + share * (y - self._values[node])
        self._values[node], self._precision[node] = value, old + precision
        self._residuals[node] = residual = self._solved(node, value)
        return residual if before is None else residual - before

    def _solved(self, node: int, y: Array) -> Array:
        strategy = self.strategies[int(self.lattice.class_of[node])]
        return residual_estimate(self.lattice, strategy, node, y, self.residual)

    def precision(self, node: int) -> float:
        """The sum of the precisions of its measurements; 0 where there is none."""
        return self._precision.get(node, 0.0)

    def value(self, node: int) -> Array:
        """The averaged measurements, ``(rows,)``."""
        return self._values[node]

    def residual(self, node: int) -> Array | None:
        """The estimated residual, lifted to data; None, meaning 0, where nothing was measured."""
        return self._residuals.get(node)

    @property
    def total(self) -> float:
        """The estimated number of rows, which noise may make negative; 0 where it was not measured."""
        residual = self.residual(self.lattice.index[()])
        return 0.0 if residual is None else float(residual)

    @property
    def rows(self) -> float:
        """The estimated number of rows, at least 0."""
        return max(0.0, self.total)

    @property
    def measured(self) -> Iterable[int]:
        """The measured nodes."""
        return self._residuals.keys()

    def marginal(self, node: int) -> Array:
        """The marginal's estimate from scratch: the slow reference of `LazyMarginals`."""
        return marginal(self.lattice, self.residual, self.lattice.nodes[node])


class LazyMarginals:
    """The marginals of some nodes, each brought up to date when it is asked for, by what changed since.

    Args:
      estimates: the measurements.
      nodes: positions of the nodes whose marginals are wanted.
      tolerance: a marginal that moved by no more, in L1 relative to the rows, since it was last said to have moved
        is not worth another look.
    """

    def __init__(self, estimates: Estimates, nodes: Iterable[int], tolerance: float = 0.0) -> None:
        self._estimates, self._lattice, self._tolerance = estimates, estimates.lattice, tolerance
        self._sets = {i: frozenset(self._lattice.nodes[i]) for i in nodes}
        self._tables = {i: np.zeros(self._lattice.shape(self._lattice.nodes[i])) for i in self._sets}
        self._held: dict[int, dict[int, Array]] = {i: {} for i in self._sets}  # residuals as the tables have them
        self._off = dict.fromkeys(self._sets, 0.0)
        self._stale = set(self._sets)

    def update(self, changes: Mapping[int, Array]) -> list[int]:
        """Take in changes of residuals.

        Smearing a residual over other axes keeps its L1 norm, so that the norms of the changes inside a marginal bound
        how far it moved (for centring weights that are not negative).

        Args:
          changes: by node, as `Estimates.add` returns them.

        Returns:
          The nodes whose marginals moved by more than the tolerance.
        """
        norms = {frozenset(self._lattice.nodes[i]): float(np.abs(change).sum()) for i, change in changes.items()}
        touched, inside = frozenset[int]().union(*norms), dict[frozenset[int], list[float]]()
        limit, moved = self._tolerance * self._estimates.rows, list[int]()
        for i, held in self._sets.items():
            common = held & touched
            if common not in inside:
                inside[common] = [norm for node, norm in norms.items() if node <= common]
            if inside[common]:
                self._stale.add(i)
                self._off[i] += sum(inside[common])
                if self._off[i] > limit or not limit:
                    self._off[i] = 0.0
                    moved.append(i)
        return moved

    def estimate(self, node: int) -> Array:
        """The marginal's estimate, with all that was measured; not to be written to."""
        if node in self._stale:
            held = self._held[node]

            def change(index: int) -> Array | None:
                new, old = self._estimates.residual(index), held.get(index)
                if new is None or new is old:
                    return None
                held[index] = new
                return new if old is None else new - old

            add_marginal(self._tables[node], self._lattice, change, self._lattice.nodes[node])
            self._stale.discard(node)
        return self._tables[node]
