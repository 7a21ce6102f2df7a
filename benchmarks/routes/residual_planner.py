"""The paper's residual basis and its baselines, to compare the planner of a round with.

Prices and losses of residuals in closed form, the optimum without ``x >= 0``, and independent noise on every cell.
Source: AIM+GReM (arXiv 2602.05674), section on the Conditional ResidualPlanner.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from qcompile.adaptive.conditional_planner import allocate
from qcompile.support.arrays import Array


def allocate_relaxed(prior: Array, cost: Array, loss: Array, budget: float) -> Array:
    """The minimiser without ``x >= 0``, in closed form: ``c + x`` is proportional to ``sqrt(loss / cost)``.

    Where it is nowhere negative it is the optimum of `qcompile.adaptive.conditional_planner.allocate` without dropping.
    Nodes with loss 0 or an infinite prior get nothing. Arguments, result and errors are those of `allocate`.
    """
    return allocate(prior, cost, loss, budget, 0.0, filling=_fill_freely)


def marginal_error(prior: Array, loss: Array, added: Array) -> float:
    """The error of the marginal, ``sum loss / (c + x)``; infinite where a node that matters has no precision at all."""
    matters = loss > 0
    with np.errstate(divide="ignore", over="ignore"):
        return float((loss[matters] / (prior[matters] + added[matters])).sum())


def costs(shape: Sequence[int], nodes: Sequence[tuple[int, ...]]) -> Array:
    """p_tau: what a unit of precision of a residual costs, ``prod over tau of (n - 1) / n``, one per node.

    Args:
      shape: of the marginal.
      nodes: numbers of the axes tau of each residual.
    """
    return np.array([math.prod((shape[axis] - 1) / shape[axis] for axis in node) for node in nodes])


def losses(shape: Sequence[int], nodes: Sequence[tuple[int, ...]]) -> Array:
    """v_tau: what a residual of unit variance adds to the variance of each cell of the marginal, one per node.

    ``prod over tau of (n - 1) / n``, times ``1 / n^2`` for each other axis. Arguments are those of `costs`.
    """
    return np.asarray(costs(shape, nodes) / _other_cells(shape, nodes) ** 2)


def allocate_iid(shape: Sequence[int], nodes: Sequence[tuple[int, ...]], budget: float) -> Array:
    """The precisions that the same budget gives as independent noise on every cell of the marginal: the baseline.

    Noise of variance 1 / C on each cell measures the residual on tau with variance 1 / C times the number of cells that
    its other axes have, which are summed. Over all subsets of the axes the costs add up to C.

    Args:
      shape: of the marginal.
      nodes: numbers of the axes tau of each residual.
      budget: C.
    """
    return np.asarray(budget / _other_cells(shape, nodes))


def _fill_freely(weights: Array, breakpoints: Array) -> Array:
    """The optimal shares if they could be negative: all nodes at one level."""
    depth = breakpoints - breakpoints.min()
    level = (1 + weights @ depth) / weights.sum()
    return np.asarray(weights * (level - depth))


def _other_cells(shape: Sequence[int], nodes: Sequence[tuple[int, ...]]) -> Array:
    """Number of cells that the axes outside each node have together."""
    outside = [[n for axis, n in enumerate(shape) if axis not in node] for node in nodes]
    return np.array([float(math.prod(sizes)) for sizes in outside])
