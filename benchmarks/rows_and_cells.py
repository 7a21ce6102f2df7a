"""How the time of a run with noise grows with rows and cells: three attributes, one table of all of them.

``python benchmarks/rows_and_cells.py [--quick] [-o FILE.md]``
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import qcompile as qc
from benchmarks.report import page, seconds, table, write
from qcompile.support.arrays import Array, IntArray, outer

SIDES = (20, 50, 100)
"""Cells along each of the three axes."""

ROWS = tuple(10**k for k in (4, 6, 7, 8, 9, 10))
"""Rows of the counts that are given."""

READ = 10**7
"""Rows of the columns that are read."""

KINDS = ("marginal", "prefix")

LINEAR = 10**9
"""Rows up to which a run may take at most `LIMIT` times what it takes at the fewest: its time is that of its cells."""

LIMIT = 8.0

INTRODUCTION = f"""\
CPU seconds of `plan.run` at rho 1 with rounded noise, the median of three. *uniform* rows are spread evenly, *skewed*
ones fall into a few cells, for which the rounding error of a measurement is hardest to bound. Counts of {ROWS[0]:,} to
{ROWS[-1]:,} rows are given, so that the time is that of the noise; the last column has a whole run on {READ:,} rows in
memory, counting included."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print all runs; fail if the time of the noise depends on the rows by more than its share."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="the smallest tables alone")
    parser.add_argument("-o", "--output", type=Path, help="write the page to this file instead of printing it")
    chosen = parser.parse_args(arguments)
    lines, worst = [], 0.0
    for kind, n, law in itertools.product(KINDS, SIDES[:1] if chosen.quick else SIDES, ("uniform", "skewed")):
        times, read = measure(make_plan(kind, n), n, law)
        lines.append([kind, law, f"{n**3:,}", *map(seconds, times), seconds(read)])
        print(*lines[-1], file=sys.stderr, flush=True)
        worst = max(worst, *(t / times[0] for t, rows in zip(times, ROWS, strict=True) if rows <= LINEAR))
    columns = ("queries", "rows fall", "cells", *(f"10^{len(str(r)) - 1} rows" for r in ROWS), "read and run")
    write(page("Rows and cells", [INTRODUCTION], [table(columns, lines)]), chosen.output)
    if worst > LIMIT:
        sys.exit(f"a run took {worst:.1f} times as long as that of the fewest rows; more than {LIMIT} is not linear")


def measure(plan: qc.Plan, n: int, law: str) -> tuple[list[float], float]:
    """CPU seconds of runs on given counts of more and more rows, and of a run that reads its rows."""
    rng = np.random.default_rng(1)
    given = [run(plan, {("a", "b", "c"): given_counts(rng, n, rows, law)}) for rows in ROWS]
    return given, run(plan, {a: draw_column(rng, n, READ, law) for a in "abc"})


def make_plan(kind: str, n: int) -> qc.Plan:
    """One table of queries of one kind on three attributes of n cells."""
    attributes = "".join(f"{a} : integer 0..{n - 1} clip\n" for a in "abc")
    return qc.compile(f"schema {{\n{attributes}}}\nworkload {{ all : {' * '.join(f'{kind}({a})' for a in 'abc')} }}")


def draw_column(rng: np.random.Generator, n: int, rows: int, law: str) -> IntArray:
    """Values of one attribute."""
    if law == "uniform":
        return rng.integers(0, n, rows)
    return np.minimum(rng.geometric(0.7, rows) - 1, n - 1)


def given_counts(rng: np.random.Generator, n: int, rows: int, law: str) -> IntArray:
    """Counts of the whole table, of about that many rows."""
    share: Array = (1.0 if law == "uniform" else 0.3) ** np.arange(n, dtype=np.float64)
    share /= share.sum()
    return np.asarray(rng.poisson(rows * outer([share, share, share])))


def run(plan: qc.Plan, data: object) -> float:
    """The median CPU time of three runs."""
    times = []
    for _ in range(3):
        start = time.process_time()
        plan.run(data, qc.Budget(rho=1))
        times.append(time.process_time() - start)
    return sorted(times)[1]


if __name__ == "__main__":
    main()
