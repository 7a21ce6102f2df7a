"""Conditional ResidualPlanner: how one round divides its budget over the nodes of the marginal that it measures.

A node that already has the precision c (inverse variance) and is measured with precision x more contributes
``loss / (c + x)`` to the error of the marginal; that measurement costs ``cost * x`` of the budget C:

    min sum loss / (c + x)   over   x >= 0, sum cost * x = C.

At the optimum ``c + x = s sqrt(loss / cost)`` wherever x > 0. That is water-filling: the level s is found exactly after
sorting the breakpoints ``c / sqrt(loss / cost)`` at which a node gets wet. Source: AIM+GReM (arXiv 2602.05674), section
on the Conditional ResidualPlanner.

Inside, everything is in shares of the budget, so that no unit matters: q = cost * x / C, the prior cost * c / C,
weights w proportional to ``sqrt(loss * cost)``, the largest 1, and breakpoints prior / w. The problem is then to
minimise ``sum w^2 / (prior + q)`` over q >= 0 of sum 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from qcompile.errors import InternalError
from qcompile.support.arrays import Array, BoolArray

LEAST_SHARE = 1e-3
"""Least part of a round's budget per node; a node that would get less is not measured."""

MOST_DROPPED = 0.5
"""Part of the budget up to which small shares are dropped."""

Filling: TypeAlias = Callable[[Array, Array], Array]
"""Shares of the budget, of sum 1, from weights in (0, 1] and finite breakpoints; one of each per node."""


def allocate(
    prior: Array,
    cost: Array,
    loss: Array,
    budget: float,
    least_share: float = LEAST_SHARE,
    *,
    filling: Filling | None = None,
) -> Array:
    """The precisions to add, in the order of the nodes, that minimise the error of a marginal.

    Nodes whose share of the budget is below ``least_share`` are dropped, and the problem is solved again on the others
    that were to be measured, which is at least as good as to scale those up. Never dropped is a node without which the
    error would grow by more than that share, like any that was never measured. Nor is any where the small shares make
    up most of the budget, as they may where there are very many nodes.

    Args:
      prior: c, ``(k,)``, >= 0, in counts**-2; infinite for a node that needs nothing.
      cost: of a unit of precision, ``(k,)``, > 0, in counts**2.
      loss: contribution to the error at unit precision, ``(k,)``, >= 0; a node with loss 0 gets nothing.
      budget: C > 0, twice the rho that the round may spend on its measurements.
      least_share: in [0, 1).
      filling: what solves the problem; by default `water_filling`.

    Returns:
      x, ``(k,)``, >= 0, in counts**-2, with ``sum(cost * x) == budget`` to rounding.

    Raises:
      InternalError: an argument is out of its range (NaN included), or every loss is 0.
    """
    _check(prior, cost, loss, budget)
    if not 0 <= least_share < 1:
        raise InternalError(f"the least share of a budget must be in [0, 1), got {least_share!r}")
    weights, priors = _to_shares(prior, cost, loss, budget)
    shares = _drop_small(weights, priors, least_share, filling or water_filling)
    return np.asarray(shares / cost * budget)


def water_filling(weights: Array, breakpoints: Array) -> Array:
    """The optimal shares, exactly, in O(k log k).

    Raising the level from one breakpoint to the next takes the weight of all nodes below times the distance. These
    amounts are added up as they come, all positive, so that nothing cancels however far apart the breakpoints are.
    """
    order = np.argsort(breakpoints, kind="stable")
    depth = breakpoints[order] - breakpoints[order[0]]
    below = np.cumsum(weights[order])
    with np.errstate(over="ignore"):
        filled = np.concatenate([[0.0], np.cumsum(below[:-1] * np.diff(depth))])
    last = int(np.searchsorted(filled, 1.0)) - 1
    level = depth[last] + (1 - filled[last]) / below[last]
    shares = np.zeros(len(weights))
    shares[order] = weights[order] * np.maximum(level - depth, 0)
    return np.asarray(shares / shares.sum())


def _check(prior: Array, cost: Array, loss: Array, budget: float) -> None:
    """Raise an InternalError where the problem is not one; written so that NaN is refused."""
    if not prior.shape == cost.shape == loss.shape == (len(prior),):
        raise InternalError(f"one prior, cost and loss per node, got shapes {prior.shape}, {cost.shape}, {loss.shape}")
    if not 0 < budget < math.inf:
        raise InternalError(f"a round needs a budget > 0 and finite, got {budget!r}")
    if not ((cost > 0) & (cost < math.inf)).all():
        raise InternalError(f"every node needs a cost > 0 and finite; one without cost is public, got {cost.min()!r}")
    if not ((loss >= 0) & (loss < math.inf)).all() or not (prior >= 0).all():
        raise InternalError("losses must be >= 0 and finite, priors >= 0")
    if not (loss > 0).any():
        raise InternalError("no node of the marginal has a loss: there is nothing to spend a budget on")


def _to_shares(prior: Array, cost: Array, loss: Array, budget: float) -> tuple[Array, Array]:
    """The weights, of largest 1, and the priors in shares of the budget; infinite where they exceed all doubles."""
    weights = np.sqrt(loss) * np.sqrt(cost)
    with np.errstate(over="ignore"):
        return weights / weights.max(), prior / budget * cost


def _drop_small(weights: Array, priors: Array, least_share: float, filling: Filling) -> Array:
    """The shares with small ones dropped."""
    shares = _fill_among(weights, priors, weights > 0, filling)
    wet = shares > 0
    small = wet & (shares < least_share) & ~_indispensable(weights, priors, shares, least_share)
    if not small.any() or shares[small].sum() > MOST_DROPPED:
        return shares
    return _fill_among(weights, priors, wet & ~small, filling)


def _indispensable(weights: Array, priors: Array, shares: Array, least_share: float) -> BoolArray:
    """The nodes without whose measurement the error would grow by more than the least share."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        error = np.where(weights > 0, weights**2 / (priors + shares), 0.0)
        without = np.where(weights > 0, weights**2 / priors, 0.0)
        return np.asarray(without - error > least_share * error.sum())


def _fill_among(weights: Array, priors: Array, among: BoolArray, filling: Filling) -> Array:
    """The optimal shares where only these nodes may be measured."""
    shares = np.zeros(len(weights))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        breakpoints = np.where(among, priors / weights, math.inf)
    reach = np.isfinite(breakpoints)
    if reach.any():
        shares[reach] = filling(weights[reach], breakpoints[reach])
    else:  # No node is so little known that the budget would change its error by a digit.
        shares[among] = weights[among] / weights[among].sum()
    return shares
