"""The search for what oblique nodes measure: quasi-Newton steps with a rising power mean, then certified solutions.

For fixed centres the problem is convex, so that the search ends near its optimum wherever it starts; it starts at the
plain decomposition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qcompile.compiler.oblique.model import Model, Top, build
from qcompile.compiler.oblique.objective import Choice, Objective, plain_choice, top_problem, unpacked
from qcompile.lattice.decompose import centring_weights
from qcompile.lattice.oblique import Oblique
from qcompile.lattice.projection import centre
from qcompile.queries.workload import Workload
from qcompile.solvers.exact.certificate import strategy_rows
from qcompile.solvers.exact.optimal import optimise
from qcompile.solvers.solution import Solution
from qcompile.strategy.oblique import ObliqueStrategy
from qcompile.support.arrays import Array

POWERS = (8.0, 64.0, 400.0)
"""p of the power means, one after the other."""

STEPS = 40
"""Quasi-Newton steps for each."""

TOLERANCE = 1e-7
"""Relative fall of the error that ends them."""

LIMITS: Mapping[str, float] = {"auto": 3e6, "oblique": 5e8}
"""Multiplications of an iteration on all kinds of oblique nodes together: some seconds, some minutes."""


@dataclass(frozen=True, eq=False)
class ObliqueDesign:
    """What was found.

    Attributes:
      centring: weights per attribute name.
      nodes: what is measured on the oblique nodes.
      solutions: of the same, with certificates for what they measure of lower nodes.
    """

    centring: Mapping[str, Array]
    nodes: tuple[Oblique, ...]
    solutions: tuple[Solution, ...]


def oblique_design(
    workload: Workload,
    centring: Mapping[str, Array],
    blocks: Sequence[Sequence[str]],
    effort: str,
    gap: float,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ObliqueDesign | None:
    """The best oblique design that the search finds; None where no node can be oblique, or the search fails.

    Args:
      workload: the families.
      centring: weights per attribute name; uniform where absent, and then free.
      blocks: names of the families that are measured unsplit.
      effort: "auto" or "oblique".
      gap: certified relative gap of each node's solution.
      progress: called with (stages done, stages).
    """
    weights = centring_weights(workload.schema, centring)
    model = build(workload, weights, blocks, LIMITS[effort])
    if not model.tops:
        return None
    try:
        choice = unpacked(model, _search(model, progress))
    except np.linalg.LinAlgError:  # the search has come where almost nothing is left to a lower node
        return None
    found = {**centring, **_centres(workload, model, choice)}
    final = centring_weights(workload.schema, found)
    pairs = [_solved(t, rho, final, gap) for t, rho in zip(model.tops, choice.left, strict=True)]
    return ObliqueDesign(found, tuple(o for o, _ in pairs), tuple(s for _, s in pairs))


def _search(model: Model, progress: Callable[[int, int], None]) -> Array:
    from scipy.optimize import minimize

    objective, x = Objective(model, POWERS[0]), plain_choice(model).packed()
    options: Any = {"maxiter": STEPS, "ftol": TOLERANCE, "gtol": 1e-9, "maxcor": 20}
    for done, power in enumerate(POWERS):
        progress(done, len(POWERS))
        objective.power = power
        x = minimize(objective.__call__, x, jac=True, method="L-BFGS-B", options=options).x
    progress(len(POWERS), len(POWERS))
    return np.asarray(x)


def _centres(workload: Workload, model: Model, choice: Choice) -> dict[str, Array]:
    """The weights u of the attributes whose centres were free: ``basis u = -c``."""
    found = {}
    for top, classes in zip(model.tops, model.centre_of, strict=True):
        for kept, c in zip(top.kept, classes, strict=True):
            if c >= 0:
                basis, n = model.lowers[c].basis, model.lowers[c].basis.shape[1]
                for member in top.members:
                    found[workload.schema.names[member[kept[0]]]] = 1 / n - choice.centres[c] @ basis
    return found


def _solved(top: Top, left: Array, weights: Sequence[Array], gap: float) -> tuple[Oblique, Solution]:
    """The optimal measurements of a top that leaves ``left``, with their certificate."""
    problem, rows = top_problem(top, left)
    best = optimise(problem, gap)
    blocks = [b for b, c in zip(top.symmetry.blocks, top.characters, strict=True) if c.size]
    measured = np.concatenate([b.expand(r) for b, r in zip(blocks, strategy_rows(problem, best.point), strict=True)])
    own = measured.reshape(-1, *top.shape)
    for axis, a in enumerate(top.members[0]):
        own = centre(own, weights[a], axis + 1)
    oblique = Oblique(measured, own.reshape(measured.shape), top.members)
    strategy = ObliqueStrategy(top.shape, oblique.measured, oblique.own)
    label = f"oblique, rank {len(rows)} of {rows.shape[1]}"
    return oblique, Solution(strategy, best.point.loss, best.bound, label)
