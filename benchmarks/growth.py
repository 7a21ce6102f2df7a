"""How compile time, peak memory and error grow with the workload.

``python benchmarks/growth.py [--quick] [-o FILE.md]``
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Job, Outcome, measure
from benchmarks.report import ABSENT, error, gap, megabytes, page, seconds, table, write
from benchmarks.series import SERIES, SINGLES, Series
from benchmarks.workloads import products

LIMIT = 120.0
"""Seconds until a job is stopped."""

SMALLEST = 1.2
"""Points within this factor of a process that does nothing say nothing of growth."""

INTRODUCTION = """\
Every row is from a process of its own, with the default options unless it says otherwise. *seconds* are those of
compiling; *process* adds start-up (Python, imports, a first small compilation). *MB* is the peak memory of the process,
of which {baseline} MB are start-up. Solving is confined to one process. The last line of a series is the exponent of a
power law fitted to the logarithms; for memory, of what is above start-up, and only where that is a fifth or more of
it."""

COLUMNS = ("queries", "nodes", "classes", "seconds", "process", "MB", "RMSE", "gap")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print every series and every single workload."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="the two smallest points of each series alone")
    parser.add_argument("-o", "--output", type=Path, help="write the page to this file instead of printing it")
    chosen = parser.parse_args(arguments)
    baseline = float(run("start-up", Job(products("prefix", 2, 1, "1"))).values["peak"])
    sections = [section(s, 2 if chosen.quick else None, baseline) for s in SERIES]
    sections += [] if chosen.quick else [_singles()]
    write(page("Growth", [INTRODUCTION.format(baseline=megabytes(baseline))], sections), chosen.output)


def run(title: str, job: Job) -> Outcome:
    """Measure a job in a process of its own, and say on standard error how long it took."""
    outcome = measure(job, LIMIT)
    print(title, outcome.note or f"{outcome.process:.1f} s", file=sys.stderr, sep=", ")
    return outcome


def section(series: Series, points: int | None, baseline: float) -> str:
    """The table of a series, or of its first points.

    Args:
      series: what is measured.
      points: how many; all where None.
      baseline: peak memory of a process that does nothing, in bytes.
    """
    jobs = list(series.jobs.items())[:points]
    outcomes = {x: run(f"{series.title}, {x}", job) for x, job in jobs}
    lines = [[str(x), *_cells(o)] for x, o in outcomes.items()]
    found = {x: o.values for x, o in outcomes.items() if o.values}
    curves: list[Mapping[int, float]] = [
        {x: v["seconds"]["total"] for x, v in found.items()},
        {x: v["peak"] - baseline for x, v in found.items() if v["peak"] > SMALLEST * baseline},
        {x: v["rmse"] for x, v in found.items()},
    ]
    time, memory, rmse = (exponent(c) for c in curves)
    lines.append(["exponent", "", "", "", time, "", memory, rmse, ""])
    return f"## {series.title}\n\n{table([series.variable, *COLUMNS], lines)}"


def _singles() -> str:
    lines = [[s.title, s.published, *_cells(run(s.title, s.job))] for s in SINGLES]
    return f"## Large workloads\n\n{table(['workload', 'published', *COLUMNS], lines)}"


def _cells(outcome: Outcome) -> list[str]:
    v = outcome.values
    if not v:
        return [*[""] * (len(COLUMNS) - 1), outcome.note]
    counts = [f"{v[name]:,}" for name in ("queries", "nodes", "classes")]
    costs = [seconds(v["seconds"]["total"]), seconds(outcome.process), megabytes(v["peak"])]
    return [*counts, *costs, error(v["rmse"]), gap(v["gap"])]


def exponent(curve: Mapping[int, float]) -> str:
    """The slope of the least-squares line through the logarithms; a dash for fewer than two points."""
    x, y = [math.log(value) for value in curve], [math.log(value) for value in curve.values()]
    if len(x) < 2:
        return ABSENT
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return f"{covariance / sum((a - mean_x) ** 2 for a in x):.2f}"


if __name__ == "__main__":
    main()
