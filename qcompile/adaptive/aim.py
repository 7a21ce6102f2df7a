"""AIM+GReM: choose the marginal that is estimated worst, measure what is not known of it, reconstruct, repeat.

AIM (McKenna et al. 2022, arXiv 2201.12677, algorithm 1) with GReM and the Conditional ResidualPlanner (arXiv
2602.05674, algorithm 4), on the compiled strategies of any workload and with reference priors inside the loop. Nothing
that this module returns or reports depends on the data but through the noise and the selections it is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from qcompile.adaptive import conditional_planner as crp
from qcompile.adaptive.candidates import Candidates, candidate_nodes, score_sensitivity, whole_weights
from qcompile.adaptive.history import History, MeasuredRound, Round, SelectionStep, Step
from qcompile.adaptive.objective import Objective
from qcompile.adaptive.resolutions import expected_noise
from qcompile.adaptive.spending import MEASURING, Spending
from qcompile.data.engines.counts import ExactCounts
from qcompile.errors import InternalError
from qcompile.estimates.grem import Estimates, LazyMarginals
from qcompile.estimates.references import References
from qcompile.plan.plan import Plan
from qcompile.privacy.noise.scale import PUBLIC, Scale, measurement_scale
from qcompile.strategy import Strategy
from qcompile.support.arrays import Array, IntArray, cells
from qcompile.support.threads import in_order

LOOP_TOLERANCE = 2e-3
"""Change of a table, relative to the rows, below which nothing that follows from it is looked at again."""

RESCORING = 32
"""Passes over a candidate's cells that estimating and scoring it takes, roughly."""

LOOP_SWEEPS = 1
"""Passes of proportional fitting inside the loop: scores need no more."""


Changes = Mapping[int, Array]
"""Changes of residuals by node, as `Estimates.add` returns them."""

Measured = tuple[tuple[Step, ...], tuple[int, ...], Changes]
"""The steps of a round, the nodes that needed none, and what changed."""

Allocate = Callable[[Array, Array, Array, float], Array]
"""``(prior precisions, prices, losses, budget)`` to the precisions to add."""


class Chance(Protocol):
    """The randomness of a run, and its cost."""

    def noise(self, strategy: Strategy, x: IntArray, scale: Scale, label: str) -> npt.NDArray[Any]:
        """Measurements of counts x (axes in the strategy's order): multiples of the grid as int64, or doubles."""
        ...

    def delivered(self, scale: Scale) -> Scale:
        """The scale that `noise` really has."""
        ...

    def selection_scale(self, sensitivity: int, rho: Fraction) -> float:
        """The noise scale of a selection that costs at most rho."""
        ...

    def select(self, scores: IntArray, scale: float, label: str) -> int:
        """The place of a score that is probably near the largest."""
        ...


class Estimator(Protocol):
    """Estimates of all candidates' marginals that follow the measurements."""

    def update(self, changes: Changes) -> Sequence[int]:
        """Take in the changes of residuals; returns the nodes whose estimates moved."""
        ...

    def estimate(self, node: int) -> Array:
        """A marginal's estimate, axes in schema order."""
        ...


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Options of an adaptive run.

    Attributes:
      basis: "compiled" or "residual".
      reference: one of `qcompile.estimates.references.REFERENCES`.
      rounds: that the first round's budget is meant for; twice the number of nodes where None.
      workers: threads that estimate and score; one per processor where None. The outcome does not depend on it.
      allocate: divides a round's budget over the nodes below the marginal, as `conditional_planner.allocate` does.
      follow: makes what follows the measurements, from them and the candidates; by the reference where None.
    """

    basis: str = "compiled"
    reference: str = "auto"
    rounds: int | None = None
    workers: int | None = None
    allocate: Allocate = crp.allocate
    follow: Callable[[Estimates, Sequence[int]], Estimator] | None = None


def adapt(
    plan: Plan,
    counts: ExactCounts,
    charge: Fraction,
    strategies: Sequence[Strategy],
    chance: Chance,
    settings: Settings,
    progress: Callable[[int, int], None] = lambda done, total: None,
    done: Sequence[MeasuredRound] = (),
    keep: Callable[[MeasuredRound], None] = lambda measured: None,
) -> tuple[History, dict[int, Array]]:
    """Spend a charge on the marginals that need it most.

    Args:
      plan: gives lattice, families and the privacy unit.
      counts: the exact contingency tables.
      charge: rho, exactly.
      strategies: B per class, as `settings.basis` says.
      chance: noise and selection.
      settings: how.
      progress: called after every round with the part of the budget that is shared out, of 1000.
      done: the rounds of an interrupted run of the same plan, charge and settings; nothing is drawn for them again.
      keep: called with every other round when it is drawn.

    Returns:
      What was done, and per measured node the inverse-variance average of its measurements, in counts, ``(rows,)``.

    Raises:
      InternalError: a draw would cost more than its share.
    """
    run = _Run(plan, counts, charge, strategies, chance, settings, done, keep)
    run.begin()
    while run.spending.left > 0:
        run.round()
        progress(math.floor(1000 * (1 - run.spending.left / charge)), 1000)
    return History(settings.basis, tuple(run.rounds)), {i: run.estimates.value(i) for i in run.estimates.measured}


def require_selections(plan: Plan, charge: Fraction, chance: Chance, settings: Settings) -> None:
    """Find the noise scales of the smallest and the largest selection, so that nothing is refused after the charge.

    Raises:
      BudgetError: one is beyond what can be drawn.
    """
    nodes = candidate_nodes(plan)
    sensitivity = score_sensitivity(plan, whole_weights(plan, nodes, settings.reference != "none"))
    first = Spending(charge, plan.closure.first_block, settings.rounds).next_round().selection
    for share in (first, charge * (1 - MEASURING)):
        chance.selection_scale(sensitivity, share)


class _Run:
    """The state of one run."""

    def __init__(
        self,
        plan: Plan,
        counts: ExactCounts,
        charge: Fraction,
        strategies: Sequence[Strategy],
        chance: Chance,
        settings: Settings,
        done: Sequence[MeasuredRound],
        keep: Callable[[MeasuredRound], None],
    ) -> None:
        self.done, self.keep = done, keep
        self.closure, self.strategies, self.chance, self.settings = plan.closure, strategies, chance, settings
        self.candidates = Candidates(plan, counts, inherited=settings.reference != "none")
        self.objective = Objective(plan, strategies)
        self.estimates = Estimates(plan.closure, strategies)
        self.spending = Spending(charge, plan.closure.first_block, settings.rounds)
        self.sensitivities = [plan.unit.sensitivity_squared(s) for s in strategies]
        self.rounds: list[Round] = []
        self.drawn: list[npt.NDArray[Any]] = []  # in the present round
        self.marginals: Estimator

    def begin(self) -> None:
        """Measure the public nodes, then every attribute by itself."""
        for i in range(self.closure.first_block):
            if self.closure.class_of[i] >= 0 and self._sensitivity(i) == 0:
                steps, skipped, _ = self._repeat(Fraction(0)) or self._measure_public(i)
                self._end(Round(i, Fraction(0), None, steps, skipped))
        for i in self.candidates.nodes:
            if len(self.closure.nodes[i]) == 1:
                budget = self.spending.initial()
                steps, skipped, _ = self._repeat(budget) or self._measure_below(i, budget)
                self._end(Round(i, budget, None, steps, skipped))
        shrunk = self.settings.reference != "none"
        self.levels = {i: self.objective.levels(i, self.sensitivities, shrunk) for i in self.candidates.nodes}
        self.noisy_cells: dict[int, list[float]] = {}
        self.marginals = self._estimator()
        self._rescore(self.candidates.nodes)

    def _estimator(self) -> Estimator:
        if self.settings.follow is not None:
            return self.settings.follow(self.estimates, self.candidates.nodes)
        if self.settings.reference == "none":
            return LazyMarginals(self.estimates, self.candidates.nodes, LOOP_TOLERANCE)
        return References(self.estimates, self.settings.reference, LOOP_TOLERANCE, LOOP_SWEEPS)

    def round(self) -> None:
        """Select, measure, update, compare.

        A round of an interrupted run goes the same way, as estimates depend on the order of additions; only what was
        drawn, and what followed from it by arithmetic of another machine, is taken from the record.
        """
        share = self.spending.next_round()
        sigma = math.sqrt(1 / (2 * share.measurement))
        past = self._past
        chosen, selection = (
            self._select(share.selection, sigma) if past is None else self._choose(past, share.selection)
        )
        before = self.marginals.estimate(chosen).copy()
        steps, skipped, changes = self._repeat(share.measurement) or self._measure_below(chosen, share.measurement)
        self._rescore(self.marginals.update(changes))
        grown = not share.last and not self._is_informative(chosen, before, sigma)
        if past is not None:
            grown = past.grown
        if grown:
            self.spending.grow()
        self._end(Round(chosen, share.selection + share.measurement, selection, steps, skipped, grown))

    @property
    def _past(self) -> Round | None:
        """The present round as an interrupted run made it; None where it is to be made now."""
        return self.done[len(self.rounds)].round if len(self.rounds) < len(self.done) else None

    def _choose(self, past: Round, share: Fraction) -> tuple[int, SelectionStep]:
        """The selection of an interrupted run."""
        if past.selection is None:
            raise InternalError("a round of an interrupted run has no selection")
        self.spending.reserve(past.selection.cost, share)
        return past.marginal, past.selection

    def _repeat(self, share: Fraction) -> Measured | None:
        """The measurements of an interrupted run in this round; None where there are none."""
        past, changes = self._past, dict[int, Array]()
        if past is None:
            return None
        for step, values in zip(past.steps, self.done[len(self.rounds)].values, strict=True):
            self.spending.reserve(step.scale.cost / 2, share)
            changes[step.node] = self._average(step, values)
        return past.steps, past.skipped, changes

    def _end(self, finished: Round) -> None:
        """Keep a round that was drawn now, before anybody learns of it."""
        if self._past is None:
            self.keep(MeasuredRound(finished, tuple(self.drawn)))
        self.drawn = []
        self.rounds.append(finished)

    def _rescore(self, nodes: Iterable[int]) -> None:
        """Look again at the candidates among some nodes, several at a time."""
        held = [i for i in nodes if i in self.candidates]
        effort = RESCORING * sum(cells(self._shape(i)) for i in held)
        jobs = (partial(self._compare, i) for i in held)
        for node, (distances, noisy_cells) in zip(held, in_order(jobs, effort, self.settings.workers), strict=True):
            self.candidates.note(node, distances)
            self.noisy_cells[node] = noisy_cells

    def _compare(self, node: int) -> tuple[tuple[int, ...], list[float]]:
        """Distances of a candidate's estimate to the counts, and its numbers of noisy cells, one per level."""
        estimate, levels = self.marginals.estimate(node), self.levels[node]
        return self.candidates.distances(node, estimate, levels), [
            v.count_noisy_cells(v.aggregate(estimate)) for v in levels
        ]

    def _is_informative(self, node: int, before: Array, sigma: float) -> bool:
        """True if a marginal's estimate moved by more than the expected noise at any level."""
        moved = self.marginals.estimate(node) - before
        far = [float(np.abs(level.aggregate(moved)).sum()) for level in self.levels[node]]
        return any(f > noise for f, noise in zip(far, self._expected_noise(node, sigma), strict=True))

    def _select(self, share: Fraction, sigma: float) -> tuple[int, SelectionStep]:
        """The exponential mechanism over all candidates."""
        selection = SelectionStep.of(
            self.candidates.sensitivity, self.chance.selection_scale(self.candidates.sensitivity, share)
        )
        self.spending.reserve(selection.cost, share)
        scores = self.candidates.scores({i: self._expected_noise(i, sigma) for i in self.candidates.nodes})
        label = f"round {len(self.rounds) + 1}: selection"
        return self.candidates.nodes[self.chance.select(scores, selection.scale, label)], selection

    def _measure_public(self, node: int) -> Measured:
        """Measure a node that no neighbouring table changes."""
        step, change = self._measure(node, PUBLIC, "public")
        return (step,), (), {node: change}

    def _measure_below(self, chosen: int, share: Fraction) -> Measured:
        """Measure what the workload needs of a marginal and is not known well enough, for exactly ``share``."""
        losses = self.objective.losses(chosen)
        nodes = [i for i in losses if self._sensitivity(i) > 0]
        prior = np.array([self.estimates.precision(i) for i in nodes])
        price = np.array([float(self._sensitivity(i)) for i in nodes])
        loss = np.array([losses[i] for i in nodes])
        added = self.settings.allocate(prior, price, loss, float(2 * share))
        weights = [Fraction(float(w)) for w in price * added]
        steps, changes = list[Step](), dict[int, Array]()
        for i, weight in zip(nodes, weights, strict=True):
            if weight > 0:
                part = share * weight / sum(weights)
                scale = measurement_scale(2 * part, self._sensitivity(i))
                self.spending.reserve(scale.cost / 2, part)
                step, changes[i] = self._measure(i, scale, f"round {len(self.rounds) + 1}: {self.closure.title(i)}")
                steps.append(step)
        return tuple(steps), tuple(i for i, w in zip(nodes, weights, strict=True) if not w), changes

    def _measure(self, node: int, scale: Scale, label: str) -> tuple[Step, Array]:
        """Draw a measurement that was accounted for, and average it in."""
        x = self.candidates.counts(node).transpose(self.closure.orders[node])
        values = self.chance.noise(self.strategies[self.closure.class_of[node]], x, scale, label)
        self.drawn.append(values)
        step = Step(node, self.chance.delivered(scale))
        return step, self._average(step, values)

    def _average(self, step: Step, values: npt.NDArray[Any]) -> Array:
        """Average a measurement in; returns the change of the node's residual."""
        y = np.asarray(values * step.scale.grid if values.dtype.kind == "i" else values, dtype=np.float64)
        return self.estimates.add(step.node, y, step.precision)

    def _sensitivity(self, node: int) -> Fraction:
        return self.sensitivities[int(self.closure.class_of[node])]

    def _expected_noise(self, node: int, sigma: float) -> list[float]:
        pairs = zip(self.noisy_cells[node], self.levels[node], strict=True)
        return [expected_noise(sigma, noisy_cells, level.spread) for noisy_cells, level in pairs]

    def _shape(self, node: int) -> tuple[int, ...]:
        return self.closure.shape(self.closure.nodes[node])
