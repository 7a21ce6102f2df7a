"""Seconds, memory and spread of adaptive runs on Adult."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.adult import mean_error
from benchmarks.fresh import Job, Run
from benchmarks.memory import peak
from benchmarks.report import ABSENT, megabytes, seconds, table
from benchmarks.settings import DELTA, SETTINGS, World
from benchmarks.targets import Target, listed
from qcompile.estimates.grem import Estimates

SPEED = """\
Each row is from a process of its own that reads and compiles first, and runs once on a smaller table to load what a
first run loads. *run* is `plan.run`: counting, all rounds, noise. *estimates* are all marginals of the workload, non-
negative. *MB* is the peak memory of the process."""

RECONSTRUCTION = """\
Only nodes of up to two attributes are measured, and all 3-way marginals reconstructed from them, which is what the
published code of GReM took 51.7 s and 2.2 GB for on such a machine: {seconds} s here, {memory} MB for the whole
process."""

SPREAD = """\
{title}, delta {delta}, reference auto, {count} seeds in one process: L1/N of the non-negative
estimates and seconds of run and estimates together. One seed is one sample of a random mechanism; this is what to
expect of it."""


@dataclass(frozen=True)
class Cost:
    """Of a run.

    Attributes:
      run: seconds of `plan.run`.
      estimates: seconds for all marginals; None where they were not asked for.
      peak: bytes.
    """

    run: float
    estimates: float | None
    peak: int


@dataclass(frozen=True)
class Spread:
    """Of several seeds.

    Attributes:
      errors: projected, by seed.
      seconds: of run and estimates, by seed.
    """

    errors: Sequence[float]
    seconds: Sequence[float]


@dataclass(frozen=True)
class Row:
    """A run to take the costs of.

    Attributes:
      name: of a setting.
      epsilon: of the budget.
      reference: of the run.
      estimates: whether to estimate all marginals, too.
    """

    name: str
    epsilon: float
    reference: str
    estimates: bool

    @property
    def title(self) -> str:
        """For people."""
        return f"{SETTINGS[self.name].title}, epsilon {self.epsilon:g}, reference {self.reference}"


def cost(row: Row, folder: Path) -> Cost:
    """Run once and take time and memory; Adult's files are in ``folder``."""
    _timed(World.of("made-up-3", folder), row)
    return _timed(World.of(row.name, folder), row)


def _timed(world: World, row: Row) -> Cost:
    plan = world.plan
    start = time.perf_counter()
    release = world.adaptive(row.epsilon, row.reference, 0)
    ran = time.perf_counter()
    for view in plan.workload.views if row.estimates else ():
        release.marginal(view)
    done = time.perf_counter()
    return Cost(ran - start, done - ran if row.estimates else None, peak())


def reconstruction(name: str, folder: Path) -> Cost:
    """Measure the nodes of up to two attributes, at sigma 1, and reconstruct the workload's marginals from them."""
    world, stream = World.of(name, folder), np.random.default_rng(0)
    closure, estimates = world.plan.closure, Estimates(world.plan.closure, world.plan.strategies)
    for i, node in enumerate(closure.nodes):
        if len(node) <= 2:
            strategy = world.plan.strategies[int(closure.class_of[i])]
            names = closure.names(tuple(node[axis] for axis in closure.orders[i]))
            exact = strategy.apply(world.table.exact([names])[names].astype(np.float64))
            estimates.add(i, exact + stream.standard_normal(strategy.rows), 1.0)
    wanted = [i for i, node in enumerate(closure.nodes) if len(node) == world.ways]
    start = time.perf_counter()
    for i in wanted:
        estimates.marginal(i)
    return Cost(0.0, time.perf_counter() - start, peak())


def spread(name: str, folder: Path, epsilon: float, seeds: int) -> Spread:
    """Run and estimate with several seeds, with the reference auto.

    Args:
      name: of a setting.
      folder: with Adult's files.
      epsilon: of the budget.
      seeds: how many.
    """
    world, errors, times = World.of(name, folder), list[float](), list[float]()
    exact = world.table.exact(world.plan.workload.views)
    world.adaptive(epsilon, "auto", seeds)
    for seed in range(seeds):
        start = time.perf_counter()
        release = world.adaptive(epsilon, "auto", seed)
        found = {view: release.marginal(view).array for view in exact}
        times.append(time.perf_counter() - start)
        errors.append(mean_error(found, exact))
    return Spread(errors, times)


LIMITS = (("adult-3", "none", 10.0), ("adult-3", "auto", 20.0))
"""Seconds that a run should take at most, by setting and reference."""

MEMORY = 3e9
"""Bytes that a process should take at most."""


def rows(large: str, small: str) -> list[Row]:
    """What is measured for the section on speed, of a setting with many cells and one with few."""
    return [
        Row(large, 10.0, "none", False),
        Row(large, 10.0, "auto", False),
        Row(large, 10.0, "none", True),
        Row(large, 10.0, "auto", True),
        Row(small, 1.0, "auto", True),
    ]


def section(run_jobs: Run, large: str, small: str, folder: Path) -> str:
    """Time and memory, measured now, as Markdown; arguments are those of `rows`."""
    wanted = rows(large, small)
    found = run_jobs([Job(r.title, cost, (r, folder)) for r in wanted], 1)
    again = run_jobs([Job("reconstruction", reconstruction, (large, folder))], 1)[0]
    lines = [[r.title, seconds(c.run), _estimates(c), megabytes(c.peak)] for r, c in zip(wanted, found, strict=True)]
    goals = [
        Target(f"seconds of the run, reference {r.reference}", c.run, at_most=limit)
        for r, c in zip(wanted, found, strict=True)
        for name, reference, limit in LIMITS
        if (r.name, r.reference, r.estimates) == (name, reference, False)
    ]
    goals += [
        Target("GB of the largest process", max(c.peak for c in found) / 1e9, at_most=MEMORY / 1e9),
        Target("seconds to reconstruct all marginals from smaller ones", again.estimates, at_most=1),
    ]
    text = RECONSTRUCTION.format(seconds=seconds(again.estimates), memory=megabytes(again.peak))
    head = ["Adaptive run", "run", "estimates", "MB"]
    return "\n\n".join(["## Speed and memory", SPEED, table(head, lines), text, listed(goals)])


def _estimates(found: Cost) -> str:
    return ABSENT if found.estimates is None else seconds(found.estimates)


def spread_section(found: Spread, name: str, epsilon: float) -> str:
    """What several seeds gave, as Markdown."""
    title = f"{SETTINGS[name].title}, epsilon {epsilon:g}"
    text = SPREAD.format(title=title, delta=DELTA, count=len(found.errors))
    columns = {"L1/N": (found.errors, "{:.4f}"), "seconds": (found.seconds, "{:.3f}")}
    lines = [
        [what, *(form.format(f(values)) for f in (np.mean, np.std, np.min, np.max, np.median))]
        for what, (values, form) in columns.items()
    ]
    goals = [
        Target("mean error", float(np.mean(found.errors)), at_most=0.08),
        Target("median seconds", float(np.median(found.seconds)), at_most=2),
    ]
    head = ["", "mean", "sd", "least", "most", "median"]
    return "\n\n".join([f"## {len(found.errors)} seeds", text, table(head, lines), listed(goals)])
