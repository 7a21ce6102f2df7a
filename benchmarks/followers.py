"""The baselines of lazy updating and of the Conditional ResidualPlanner: full reconstruction and independent noise.

Both can take the place of their counterparts in the adaptive loop, see `qcompile.adaptive.aim.Settings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np

from benchmarks.routes.inaxis import decomp, recon
from qcompile.adaptive import conditional_planner as crp
from qcompile.estimates.grem import Estimates
from qcompile.lattice.projection import is_uniform
from qcompile.support.arrays import Array


def iid(prior: Array, cost: Array, loss: Array, budget: float) -> Array:
    """The precisions of independent noise of the same variance on every cell of the marginal.

    That is the best allocation for who knows nothing: `conditional_planner.allocate` without priors, where nothing is
    dropped. For the residual basis it is `benchmarks.routes.residual_planner.allocate_iid`. Arguments and result are
    those of `allocate`.
    """
    return crp.allocate(np.zeros_like(prior), cost, loss, budget, least_share=0)


class NestedMarginals:
    """All marginals anew in every round, by partial sums over the axes that are each used once.

    Args:
      estimates: the measurements.
      nodes: positions of the nodes whose marginals are wanted.
    """

    def __init__(self, estimates: Estimates, nodes: Iterable[int]) -> None:
        self._estimates, self._nodes = estimates, list(nodes)
        self._tables: dict[int, Array] = {}
        self.update({})

    def update(self, changes: Mapping[int, Array]) -> Sequence[int]:
        """Reconstruct; what changed does not matter. Returns all nodes."""
        for i in self._nodes:
            self._tables[i] = self._estimates.marginal(i)
        return self._nodes

    def estimate(self, node: int) -> Array:
        """The marginal's estimate; not to be written to."""
        return self._tables[node]


class ReconMarginals:
    """All marginals anew in every round, each the sum of Recon of every residual below it.

    This is the reconstruction of AIM+GReM (arXiv 2602.05674, section 4) as it is written, with in-axis operations.

    Args:
      estimates: the measurements.
      nodes: positions of the nodes whose marginals are wanted.

    Raises:
      ValueError: centring is not uniform, as Recon presumes.
    """

    def __init__(self, estimates: Estimates, nodes: Iterable[int]) -> None:
        self._estimates, self._lattice = estimates, estimates.lattice
        if not all(is_uniform(u) for u in self._lattice.centring):
            raise ValueError("Recon presumes uniform centring; compile with centring='uniform'")
        self._nodes = list(nodes)
        self._below = {i: self._residuals_below(i) for i in self._nodes}
        self._z: dict[int, Array] = {}
        self._tables: dict[int, Array] = {}
        self.update(dict.fromkeys(estimates.measured, np.zeros(0)))

    def _residuals_below(self, node: int) -> list[tuple[int, tuple[int, ...]]]:
        """The subsets of a node: position in the lattice, and numbers of the node's axes."""
        attributes = self._lattice.nodes[node]
        axes = range(len(attributes))
        kept = [k for size in range(len(attributes) + 1) for k in combinations(axes, size)]
        return [(self._lattice.index[tuple(attributes[a] for a in k)], k) for k in kept]

    def update(self, changes: Mapping[int, Array]) -> Sequence[int]:
        """Take in the changed residuals and reconstruct. Returns all nodes."""
        for i in changes:
            residual = self._estimates.residual(i)
            if residual is not None:
                self._z[i] = decomp(residual, tuple(range(residual.ndim)))
        for i in self._nodes:
            self._tables[i] = self._reconstructed(i)
        return self._nodes

    def _reconstructed(self, node: int) -> Array:
        shape = self._lattice.shape(self._lattice.nodes[node])
        table = np.zeros(shape)
        for i, kept in self._below[node]:
            if i in self._z:
                table += recon(self._z[i], shape, kept)
        return table

    def estimate(self, node: int) -> Array:
        """The marginal's estimate; not to be written to."""
        return self._tables[node]
