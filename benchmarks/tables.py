"""Tables 2 to 7 of QuerySmasher (arXiv 2604.00868), measured here, beside the published figures.

``python benchmarks/tables.py [--quick] [--table N ...] [-o FILE.md]``
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dataclasses import replace

from benchmarks.measure import Job, Outcome, measure
from benchmarks.render import Result, section
from benchmarks.report import page, seconds, write
from benchmarks.rows import PLAIN, VARIANTS, Row, rows
from benchmarks.workloads import products

LIMITS = {True: 120.0, False: 60.0}
"""Seconds until a job is stopped: with the default options, and with others."""

INTRODUCTION = """\
RP+, HDMM, WFF and QS are the published figures. *qcompile* is the default: uniform centring, no blocks; its gap is the
certified relative gap of the squared error from the best of that kind. *optimised centring* and *and blocks* add those
options one after the other. A dash means not run: where symmetry makes uniform centring the best, or too long for this
page. Each figure is from a process of its own. Times leave out the start-up of that process (Python, imports and a
first small compilation); peak memory includes it. Solving is confined to one process."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print the tables that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a single row of each table")
    parser.add_argument("--table", type=int, nargs="+", choices=range(2, 8), default=list(range(2, 8)), metavar="N")
    parser.add_argument("-o", "--output", type=Path, help="write the page to this file instead of printing it")
    chosen = parser.parse_args(arguments)
    sections = [section(n, [_measured(r) for r in rows(n) if r.quick or not chosen.quick]) for n in chosen.table]
    write(page("Tables 2 to 7 of QuerySmasher", [INTRODUCTION, _startup()], sections), chosen.output)


def _measured(row: Row) -> Result:
    return Result(row, {variant: _run(row, variant) for variant in row.variants})


def _run(row: Row, variant: str) -> Outcome:
    job = replace(row.job, options={**row.job.options, **VARIANTS[variant]})
    outcome = measure(job, LIMITS[variant == PLAIN])
    print(*row.labels.values(), variant, outcome.note or f"{outcome.process:.1f} s", file=sys.stderr, sep=", ")
    return outcome


def _startup() -> str:
    """How long a process takes for nothing: the least of three."""
    outcomes = [measure(Job(products("prefix", 2, 1, "1")), 60) for _ in range(3)]
    return f"Start-up: {seconds(min(o.startup for o in outcomes))} s."


if __name__ == "__main__":
    main()
