"""A lower bound of the error of every plan of a decomposition whose cost is that of its worst pair of replaced rows.

For weights w of the sets D of attributes that a pair can differ in, a node A costs at least ``sum_D w_D c_A(D & A)``,
and the total error is at least ``(sum_A sqrt(L_A sum_D w_D c_A(D & A)))^2``, see `qcompile.plan.allocation`. What a
node's strategy can make of ``L c(S)`` is bounded by averages. With uniform centring B is 0 on the constants of every
axis. Let j differ from i in exactly the axes S, evenly: then the mean of b_j is ``k b_i`` with k the product of
``-1 / (n_a - 1)`` over S, so that for every i, and on average over i,

    c(S) >= mean_j |b_i - b_j|^2 >= (1 - 2 k) |b_i|^2,      c(S) >= 2 (1 - k) mean_i |b_i|^2.

L max |b_i|^2 is at least the bound of the certificate, L mean |b_i|^2 at least the SVD bound. Over an axis that is left
free the mean over its sets, each axis differing with probability ``1 - 1/n``, makes its factor of k zero.

With other centring weights u, not negative, let i be uniform and j follow u: the mean of b_j is 0, and the cost of the
pair is on average at least ``mean |b_i|^2`` plus the same again where u is uniform. Nothing is proven for
a block or an oblique node, whose rows are not centred.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from qcompile.lattice.lattice import Lattice, Node
from qcompile.privacy.joint_distance import JointDistance
from qcompile.solvers.bounds.lower_bound import lower_bound
from qcompile.solvers.solution import Solution
from qcompile.support.arrays import Array

LEAST_WEIGHT = 1e-12
"""Sets of less weight are left out, which only lowers the bound."""


def least_error(closure: Lattice, solutions: Sequence[Solution], joint: JointDistance, weights: Array) -> float:
    """The bound for one row replaced, at cost 1.

    Args:
      closure: the nodes.
      solutions: one per class, with its bound.
      joint: the costs of all sets of attributes.
      weights: of these, sum 1.
    """
    spectral = [lower_bound(p) for p in closure.classes]
    uniform = all(closure.uniform(node) for node in closure.nodes[: closure.first_block])
    weights = np.where(weights > LEAST_WEIGHT, weights, 0.0)
    leaving, paired = (float(weights[-1]), weights[:-1]) if joint.may_leave else (0.0, weights)
    costs: defaultdict[tuple[int, ...], list[float]] = defaultdict(list)
    for position, (node, c) in enumerate(zip(closure.nodes, closure.class_of.tolist(), strict=True)):
        if c < 0:
            continue
        bound, strategy = solutions[c].bound, solutions[c].strategy
        if position >= closure.first_block or strategy.own is not strategy:
            pairs = 0.0
        elif uniform:
            pairs = _evenly(closure, node, joint, paired, bound, spectral[c])
        else:
            pairs = float(paired.sum()) * _by_weights(closure, node) * spectral[c]
        costs[c, *sorted(joint.groups[list(node)].tolist())].append(pairs + leaving * bound)
    # One set stands for all that swaps of attributes make of it: a node's mean over them is that over its own images.
    return sum(len(alike) * math.sqrt(sum(alike) / len(alike)) for alike in costs.values()) ** 2


def _evenly(closure: Lattice, node: Node, joint: JointDistance, weights: Array, bound: float, spectral: float) -> float:
    """The least that all pairs of rows together cost a node with uniform centring."""
    factor, differs = np.ones(len(weights)), np.zeros(len(weights), dtype=bool)
    for a in node:
        differing, free, size = joint.differing[: len(weights), a], joint.free[a], closure.schema.attributes[a].size
        factor *= 0.0 if free else np.where(differing, -1 / max(1, size - 1), 1.0)
        differs |= differing | free
    each = np.maximum(2 * (1 - factor) * spectral, (1 - 2 * factor) * bound)
    return float(weights @ np.where(differs, each, 0.0))


def _by_weights(closure: Lattice, node: Node) -> float:
    """The mean squared norms of a pair's two columns, in units of the mean over all cells."""
    if not node or any((closure.centring[a] < 0).any() for a in node):
        return 0.0
    return 2.0 if closure.uniform(node) else 1.0
