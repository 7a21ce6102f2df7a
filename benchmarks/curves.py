"""Errors over epsilon: plain AIM+GReM, the references, and the batch plan at the same budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

import qcompile as qc
from benchmarks.adult import View
from benchmarks.fresh import Job, Run
from benchmarks.plots import plot
from benchmarks.report import table
from benchmarks.settings import SETTINGS, Errors, World, budget
from benchmarks.targets import Target, listed
from qcompile.estimates.references import REFERENCES
from qcompile.support.arrays import Array

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)

ADAPTIVE: Mapping[str, str] = {f"adaptive, {r}": r for r in REFERENCES}
"""Reference by line; "none" is plain AIM+GReM."""

BATCH: Mapping[str, str] = {"batch, unbiased": "unbiased", "batch, best": "best"}
"""Estimate by line: of one batch, with the reference auto."""

PLAIN, AUTO = "adaptive, none", "adaptive, auto"

TARGETS: Mapping[str, Mapping[float, float]] = {"adult-2": {1.0: 0.08}, "adult-3": {1.0: 0.275, 10.0: 0.12}}
"""The projected error that the reference auto should not exceed, by setting and epsilon."""

INTRODUCTION = """\
`plan.run` at epsilon from {first:g} to {last:g}, delta {delta}: adaptive with each reference (*none* is plain
AIM+GReM), and the batch plan of the same workload, which measures every node once. Of the batch there are two
estimates: *unbiased*, and *best*, corrected by references. Each cell is L1/N raw / projected, the mean over the
seeds; *projected* is `processing="nonnegative"`, each marginal by itself. Plots show the projected errors."""

Line = str
Point = Mapping[Line, Errors]
"""All lines at one epsilon."""


def point(name: str, folder: Path, epsilon: float, seed: int) -> Point:
    """Run everything at one epsilon with one seed.

    Args:
      name: of a setting.
      folder: with Adult's files.
      epsilon: of the budget.
      seed: of selections and noise.
    """
    world = World.of(name, folder)
    found = {line: _errors(world, world.adaptive(epsilon, r, seed), "best") for line, r in ADAPTIVE.items()}
    batch = world.batch(epsilon, seed)
    return found | {line: _errors(world, batch, estimate) for line, estimate in BATCH.items()}


def _errors(world: World, release: qc.Release, estimate: str) -> Errors:
    def raw(view: View) -> Array:
        return release.marginal(view, estimate=estimate, processing="none").array

    return world.errors(raw)


Curves = Mapping[float, Point]
"""Means over the seeds by epsilon, ascending."""


def measured(
    run_jobs: Run, names: Iterable[str], folder: Path, epsilons: Sequence[float] = EPSILONS
) -> dict[str, Curves]:
    """The curves of some settings, by their names; two runs at a time, as no times are taken."""
    keys = [(n, e, seed) for n in names for e in epsilons for seed in range(SETTINGS[n].seeds)]
    jobs = [Job(f"{SETTINGS[n].title}, epsilon {e:g}, seed {s}", point, (n, folder, e, s)) for n, e, s in keys]
    found: dict[str, dict[float, list[Point]]] = {}
    for (n, e, _), result in zip(keys, run_jobs(jobs, 2), strict=True):
        found.setdefault(n, {}).setdefault(e, []).append(result)
    return {n: {e: _mean(points) for e, points in curve.items()} for n, curve in found.items()}


def _mean(points: Sequence[Point]) -> Point:
    return {
        line: Errors(
            *(float(np.mean(v)) for v in zip(*((p[line].raw, p[line].projected) for p in points), strict=True))
        )
        for line in points[0]
    }


def section(found: Mapping[str, Curves], images: Path, prefix: str) -> str:
    """The curves as Markdown.

    Args:
      found: from `measured`.
      images: the folder of the page, for plots.
      prefix: of the plots' names.
    """
    epsilons = [e for curves in found.values() for e in curves]
    parts = [
        "## Curves",
        INTRODUCTION.format(first=min(epsilons), last=max(epsilons), delta=budget(1.0).request["delta"]),
    ]
    for name, curves in found.items():
        file = f"{prefix}-{name}.svg"
        plot(images / file, SETTINGS[name].title, lines(curves))
        seeds = SETTINGS[name].seeds
        title = f"{SETTINGS[name].title} ({seeds} seed{'s' if seeds > 1 else ''})"
        parts += [f"### {title}", _table(curves), f"![L1/N over epsilon]({file})", _conclusion(curves)]
        parts += [t for t in [listed(targets(name, curves))] if t]
    return "\n\n".join(parts)


def lines(curves: Curves) -> dict[Line, dict[float, float]]:
    """Projected errors by line and epsilon."""
    return {line: {e: p[line].projected for e, p in curves.items()} for line in next(iter(curves.values()))}


def targets(name: str, curves: Curves) -> list[Target]:
    """What the curves of a setting should show."""
    wanted = TARGETS.get(name, {})
    return [
        Target(f"projected error of auto at epsilon {e:g}", curves[e][AUTO].projected, at_most=most)
        for e, most in wanted.items()
        if e in curves
    ]


def _table(curves: Curves) -> str:
    names = list(next(iter(curves.values())))
    rows = [[line, *(str(point[line]) for point in curves.values())] for line in names]
    return table(["epsilon", *(f"{e:g}" for e in curves)], rows)


def _conclusion(curves: Curves) -> str:
    """Who is best where, and what the references change."""
    projected = lines(curves)
    best = {e: min(projected, key=lambda line: projected[line][e]) for e in curves}
    gain = [projected[PLAIN][e] / projected[AUTO][e] for e in curves]
    batch = [projected["batch, best"][e] / projected[AUTO][e] for e in curves]
    least = "; ".join(f"{e:g}: {line}" for e, line in best.items())
    return (
        f"Projected, plain AIM+GReM errs {_span(gain)} times as much as the reference auto, the batch's best estimate "
        f"{_span(batch)} times. The least error at epsilon {least}."
    )


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"
