"""Optimised centring: weights u per attribute that minimise the plan's total error, sum over nodes of sqrt(L_A(u)).

Costs and variances add up whatever u is, so the weights are free; uniform ones are QuerySmasher's. Attributes with the
same size and the same factors share their weights. Where all factors of an attribute are unchanged by permutations or
by cyclic shifts, uniform weights are optimal and stay.

L-BFGS minimises the logarithm of the total (`total`). For a product of one-attribute factors the optimal u is also the
optimum over all matrix mechanisms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from qcompile.arrays import Array
from qcompile.factors import Circular, Marginal
from qcompile.total import Total
from qcompile.workload import Workload

STEPS = 60
"""Most iterations of L-BFGS; 25 to 40 are usual."""

TOLERANCE = 1e-7
"""Relative decrease of the logarithm of the total below which the search ends."""


def optimised_centring(
    workload: Workload, blocks: Sequence[Sequence[str]] = (), progress: Callable[[int], None] = lambda step: None
) -> dict[str, Array]:
    """Centring weights per attribute name; attributes that are best centred uniformly are left out.

    Args:
      workload: the families.
      blocks: families that are measured unsplit and do not matter here.
      progress: told the number of every evaluation.

    Source: the envelope theorem on QuerySmasher's equation 4; gradients checked by finite differences.
    """
    roles = free_roles(workload, blocks)
    if not roles:
        return {}
    total = Total(workload, roles, blocks)
    found = _minimise(total, progress)
    return {name: u for names, u in zip(roles, found, strict=True) for name in names}


def free_roles(workload: Workload, blocks: Sequence[Sequence[str]] = ()) -> list[tuple[str, ...]]:
    """Groups of attributes that share their weights, those whose weights are free only; names in schema order."""
    apart = {name for names in blocks for name in names}
    seen: dict[str, set[object]] = {}
    free: set[str] = set()
    for f in workload.families:
        for x in f.factors if f.name not in apart else ():
            for role, axis in zip(x.roles, x.axis_order, strict=True):
                name = x.names[axis]
                seen.setdefault(name, set()).add((x.key, role, f.weight, f.choose))
                if not isinstance(x, Marginal | Circular) and x.shape[axis] > 1:
                    free.add(name)
    groups: dict[object, list[str]] = {}
    for a in workload.schema:
        if a.name in free:
            groups.setdefault((a.size, frozenset(seen[a.name])), []).append(a.name)
    return [tuple(names) for names in groups.values()]


def _minimise(total: Total, progress: Callable[[int], None]) -> list[Array]:
    """L-BFGS from uniform weights, in variables whose sum does not matter."""
    from scipy.optimize import minimize

    ends = np.cumsum(total.sizes)
    count = [0]

    def weights(x: Array) -> list[Array]:
        pieces = np.split(x, ends[:-1])
        return [(1 + p - p.mean()) / len(p) for p in pieces]

    def objective(x: Array) -> tuple[float, Array]:
        count[0] += 1
        progress(count[0])
        value, gradients = total(weights(x))
        return value, np.concatenate([(g - g.mean()) / len(g) for g in gradients])

    found = minimize(
        objective,
        np.zeros(ends[-1]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": STEPS, "ftol": TOLERANCE, "gtol": 1e-9, "maxcor": 20},
    )
    return weights(found.x)
