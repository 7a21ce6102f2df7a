"""What lazy updating and the Conditional ResidualPlanner are worth: the loop with and without them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import numpy as np

from benchmarks.adult import View
from benchmarks.followers import NestedMarginals, ReconMarginals, iid
from benchmarks.fresh import Job, Run
from benchmarks.report import seconds, table
from benchmarks.settings import SETTINGS, Errors, World, budget
from benchmarks.targets import Target, listed
from qcompile.adaptive import conditional_planner as crp
from qcompile.adaptive.aim import Allocate, Settings, adapt
from qcompile.adaptive.objective import Objective
from qcompile.api import Plan
from qcompile.data.engines.given_counts import GivenCounts
from qcompile.estimates.grem import Estimates, LazyMarginals
from qcompile.run.randomness import Chance
from qcompile.support.arrays import Array

FOLLOWERS: Mapping[str, type[ReconMarginals | NestedMarginals | LazyMarginals]] = {
    "full by Recon": ReconMarginals,
    "full by nested sums": NestedMarginals,
    "lazy": LazyMarginals,
}
"""What keeps the marginals up to date."""

ALLOCATORS: Mapping[str, Allocate] = {"IID": iid, "CRP": crp.allocate}
"""What divides a round's budget."""

INTRODUCTION = """\
AIM's loop on {title}, without references: all variants with the same seed, each in a process of its own on one
thread; seconds are processor time. *full* reconstructs every candidate after every round: *by Recon*, as AIM+GReM
states it, the sum of the in-axis Recon of every residual below a marginal; *by nested sums*, with partial sums over
the axes that are each used once, as this project reconstructs anything. *lazy* adds the change to the marginals that
contain a newly measured node, and scores those alone. All are whole-array NumPy operations, and all score with the
same ones. *IID* measures the selected marginal with independent noise on every cell, *CRP* what is not known of it
yet. *lazy, CRP* is the plain mechanism, what `mechanism="adaptive", reference="none"` runs. *seconds* are the whole
loop with its first measurements, *ms a round* those of the rounds after the first, *nodes* are those that were
measured at least once, *L1/N* is raw / projected."""

CONCLUSION = """\
With IID every round measures the total anew, which every marginal contains. No marginal is ever clean: lazy updating
saves the reconstruction of what did not change, but no pass over a table and no scoring, which take most of the time.
After the first rounds CRP knows the total and the single attributes and leaves them alone. Only then few marginals
are dirty, and both cost little: the two belong together. CRP reaches more nodes with the same budget. Each adds its
noise to the raw estimates, and more truth than noise to the projected ones."""


@dataclass(frozen=True)
class Outcome:
    """A run of the loop.

    Attributes:
      seconds: of processor time, from the counts to the last measurement.
      a_round: seconds of a round, without the first one.
      rounds: the measured marginals, by position, and the budgets of their measurements, twice rho.
      nodes: number of different nodes that were measured.
      errors: of the estimates.
    """

    seconds: float
    a_round: float
    rounds: Sequence[tuple[int, float]]
    nodes: int
    errors: Errors


Variant = tuple[str, str]
"""A key of `FOLLOWERS` and one of `ALLOCATORS`."""

VARIANTS: Sequence[Variant] = [(follower, allocator) for allocator in ALLOCATORS for follower in FOLLOWERS]
REFERENCE: Variant = ("lazy", "CRP")


def run(name: str, folder: Path, epsilon: float, variant: Variant, seed: int) -> Outcome:
    """Run a variant of the loop on one thread.

    Args:
      name: of a setting.
      folder: with Adult's files.
      epsilon: of the budget.
      variant: what to run.
      seed: of selections and noise.
    """
    _loop(World.of("made-up-2", folder), 1.0, variant, seed)  # loads what the first run of a process has to load
    return _loop(World.of(name, folder), epsilon, variant, seed)


def _loop(world: World, epsilon: float, variant: Variant, seed: int) -> Outcome:
    plan, ends = world.plan, list[float]()
    counts = GivenCounts.of(world.table.exact(plan.tables), plan.workload.schema)
    settings = Settings(reference="none", workers=1, allocate=ALLOCATORS[variant[1]], follow=FOLLOWERS[variant[0]])

    def progress(done: int, total: int) -> None:
        ends.append(time.process_time())

    start, chance = time.process_time(), Chance("rounded", seed)
    history, values = adapt(plan, counts, budget(epsilon).rho, plan.strategies, chance, settings, progress)
    estimates = Estimates(plan.closure, plan.strategies)
    for node, precision in history.precisions().items():
        estimates.add(node, values[node], precision)

    def marginal(view: View) -> Array:
        return estimates.marginal(plan.closure.index[tuple(plan.closure.schema.positions[n] for n in view)])

    a_round = (ends[-1] - ends[0]) / max(1, len(ends) - 1)
    rounds = [(r.marginal, float(sum(s.scale.cost for s in r.steps))) for r in history.rounds]
    return Outcome(ends[-1] - start, a_round, rounds, len(values), world.errors(marginal))


def predicted(plan: Plan, rounds: Sequence[tuple[int, float]], allocate: Allocate) -> float:
    """The root of the mean squared error per cell that some rounds leave in the marginals that they measure.

    Args:
      plan: gives the marginals.
      rounds: marginals by position, and the budgets of their measurements, twice rho, > 0.
      allocate: divides the budgets.
    """
    objective, precision = Objective(plan, plan.strategies), np.zeros(len(plan.closure.nodes))
    costs = np.array([float(plan.unit.sensitivity_squared(s)) for s in plan.strategies])[plan.closure.class_of]
    for node, spent in rounds:
        losses = objective.losses(node)
        below = list(losses)
        precision[below] += allocate(precision[below], costs[below], np.array([*losses.values()]), spent)
    measured = {node for node, _ in rounds}
    errors = [loss / precision[i] for node in measured for i, loss in objective.losses(node).items()]
    cells = sum(math.prod(plan.closure.shape(plan.closure.nodes[node])) for node in measured)
    return math.sqrt(math.fsum(errors) / cells)


Found = Mapping[Variant, Outcome]


def section(run_jobs: Run, name: str, folder: Path, epsilons: Sequence[float], seed: int = 0) -> str:
    """All variants at some budgets, measured now, as Markdown.

    Args:
      run_jobs: how.
      name: of a setting.
      folder: with Adult's files.
      epsilons: of the budgets.
      seed: of selections and noise.
    """
    title, plan = SETTINGS[name].title, World.of(name, folder).plan
    parts = [f"## Ablation: {title}", INTRODUCTION.format(title=title)]
    for epsilon in epsilons:
        jobs = [
            Job(f"{title}, epsilon {epsilon:g}, {', '.join(v)}", run, (name, folder, epsilon, v, seed))
            for v in VARIANTS
        ]
        found = dict(zip(VARIANTS, run_jobs(jobs, 1), strict=True))
        same = [predicted(plan, found["lazy", "IID"].rounds, allocate) for allocate in (crp.allocate, iid)]
        goals = [
            *targets(found),
            Target("predicted error of CRP over IID on IID's marginals", same[0] / same[1], at_most=1),
        ]
        parts += [f"### epsilon {epsilon:g}", _table(found), _same(found), listed(goals)]
    return "\n\n".join([*parts, CONCLUSION])


def _table(found: Found) -> str:
    lines = [
        [
            ", ".join(variant),
            seconds(o.seconds),
            str(len(o.rounds)),
            str(o.nodes),
            f"{1e3 * o.a_round:.1f}",
            f"{o.a_round / found[REFERENCE].a_round:.1f}",
            str(o.errors),
        ]
        for variant, o in found.items()
    ]
    return table(["variant", "seconds", "rounds", "nodes", "ms a round", "over lazy, CRP", "L1/N"], lines)


def _same(found: Found) -> str:
    """Whether runs with the same allocation did the same, so that their rounds can be compared."""
    told = []
    for allocator in ALLOCATORS:
        first, *others = [[node for node, _ in o.rounds] for (_, a), o in found.items() if a == allocator]
        common = min(_common(first, other) for other in others)
        whole = all(len(other) == len(first) == common for other in others)
        told.append(f"the {allocator} runs measured the same {'' if whole else 'first '}{common} marginals")
    return f"With this seed {' and '.join(told)}, in the same order."


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """The number of rounds until two runs differ."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))


def targets(found: Found) -> list[Target]:
    """What the ablation should show."""

    def times(one: Variant, other: Variant) -> float:
        return found[one].a_round / found[other].a_round

    full = [f for f in FOLLOWERS if f != "lazy"]
    return [
        *(
            Target(f"lazy over {f}, both {a}, a round", times((f, a), ("lazy", a)), at_least=7)
            for a in ALLOCATORS
            for f in full
        ),
        Target("lazy, CRP over lazy, IID, a round", times(("lazy", "IID"), REFERENCE), at_least=2),
        Target("lazy, CRP over full by Recon, IID, a round", times(("full by Recon", "IID"), REFERENCE), at_least=14),
        Target(
            "projected error of CRP over IID, both lazy",
            found[REFERENCE].errors.projected / found["lazy", "IID"].errors.projected,
            at_most=1,
        ),
        Target(
            "raw error of CRP over IID, both lazy",
            found[REFERENCE].errors.raw / found["lazy", "IID"].errors.raw,
            at_most=1,
        ),
    ]
