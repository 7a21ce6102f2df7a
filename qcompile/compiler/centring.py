"""Optimised centring: weights u per attribute that minimise the plan's total error, sum over nodes of sqrt(L_A(u)).

Costs and variances add up whatever u is, so the weights are free; uniform ones are QuerySmasher's. Attributes with the
same size and the same factors share their weights. Where all factors of an attribute are unchanged by permutations or
by cyclic shifts, uniform weights are optimal and stay.

L-BFGS minimises the logarithm of the total (`total_error`), from uniform weights or from those of each axis's own
optimum (`axis_optimum`), whichever are better. For a product of one-attribute factors these are the optimum over all
matrix mechanisms already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from qcompile.compiler.axis_optimum import axis_weights
from qcompile.compiler.total_error import WORK, TotalError
from qcompile.lattice.ordered_grams import WRITTEN_CELLS as LONGEST
from qcompile.queries.factors import Circular, Factor, Marginal
from qcompile.queries.workload import Workload
from qcompile.support.arrays import Array

TRUSTED_CELLS = 2000
"""Cells of the largest sum whose lower bound is trusted while searching."""

STEPS = 60
"""Most iterations of L-BFGS; 25 to 40 are usual."""

TOLERANCE = 1e-7
"""Relative decrease of the logarithm of the total below which the search ends."""


def optimised_centrings(
    workload: Workload,
    blocks: Sequence[Sequence[str]] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[dict[str, Array]]:
    """Candidates of centring weights, each per attribute name; attributes that stay uniform are left out.

    There is one, or none where nothing is free, as long as every node's error is known exactly while searching. Large
    sums of several terms are not: then the first candidate leaves their attributes uniform; a second one trusts the
    lower bounds, and is given where it can be solved quickly enough to be compared.

    Args:
      workload: the families.
      blocks: families that are measured unsplit and do not matter here.
      progress: called with (evaluations done, most evaluations).

    Source: the envelope theorem on QuerySmasher's equation 4; gradients checked by finite differences.
    """
    roles = free_roles(workload, blocks)
    if not roles:
        return []
    total = TotalError(workload, roles, blocks)
    starts = {names: _start(workload, names, blocks) for names in roles}
    if total.bounded_cells == 0:
        return [_by_attribute(roles, _minimise(total, [starts[names] for names in roles], progress))]
    candidates = []
    # Roles without a large sum or a node left out: what is searched there is the plan's own error.
    certain = [names for names in roles if not total.bounded & set(names)]
    if certain:
        known = TotalError(workload, certain, blocks)
        candidates.append(_by_attribute(certain, _minimise(known, [starts[names] for names in certain], progress)))
    if total.bounded_cells <= TRUSTED_CELLS:
        candidates.append(_by_attribute(roles, _minimise(total, [starts[names] for names in roles], progress)))
    # An axis that is too long to be searched has its closed form all the same.
    long = {name: u for names, u in starts.items() for name in names if u is not None and len(u) ** 3 > WORK}
    if long:
        candidates.append({**(candidates[-1] if candidates else {}), **long})
    return candidates


def _start(workload: Workload, names: Sequence[str], blocks: Sequence[Sequence[str]]) -> Array | None:
    """The closed form of the attributes that share their weights."""
    return axis_weights(workload, names[0], [name for block in blocks for name in block])


def _by_attribute(roles: Sequence[tuple[str, ...]], weights: Sequence[Array]) -> dict[str, Array]:
    return {name: u for names, u in zip(roles, weights, strict=True) for name in names}


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
                if not _is_invariant(x) and 1 < x.shape[axis] <= LONGEST:
                    free.add(name)
    groups: dict[object, list[str]] = {}
    for a in workload.schema:
        if a.name in free:
            groups.setdefault((a.size, frozenset(seen[a.name])), []).append(a.name)
    return [tuple(names) for names in groups.values()]


def _is_invariant(factor: Factor) -> bool:
    """Whether permutations or cyclic shifts of all cells leave a factor unchanged."""
    return isinstance(factor, Marginal) or (isinstance(factor, Circular) and not factor.leaves_other)


def _minimise(total: TotalError, start: Sequence[Array | None], progress: Callable[[int, int], None]) -> list[Array]:
    """L-BFGS from the better of two starts, in variables whose sum does not matter; the best weights on the way."""
    from scipy.optimize import minimize

    ends = np.cumsum(total.sizes)
    seen: list[tuple[float, Array]] = []

    def weights(x: Array) -> list[Array]:
        pieces = np.split(x, ends[:-1])
        return [(1 + p - p.mean()) / len(p) for p in pieces]

    def objective(x: Array) -> tuple[float, Array]:
        value, gradients = total(weights(x))
        seen.append((value, x.copy()))
        progress(min(len(seen), STEPS), STEPS)
        return value, np.concatenate([(g - g.mean()) / len(g) for g in gradients])

    options: Any = {"maxiter": STEPS, "ftol": TOLERANCE, "gtol": 1e-9, "maxcor": 20}
    uniform = np.zeros(ends[-1])
    closed = [np.zeros(n) if u is None else n * u - 1 for n, u in zip(total.sizes, start, strict=True)]
    objective(uniform)
    if any(u is not None for u in start):
        objective(np.concatenate(closed))
    minimize(objective, min(seen, key=lambda s: s[0])[1], jac=True, method="L-BFGS-B", options=options)
    return weights(min(seen, key=lambda s: s[0])[1])
