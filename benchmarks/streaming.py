"""Runs that write what they draw: time, memory and files as the workload grows.

``python benchmarks/streaming.py [--quick] [-o FILE.md]``
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import qcompile as qc
from benchmarks.fresh import Job, fresh
from benchmarks.memory import peak
from benchmarks.report import megabytes, page, seconds, table, write
from benchmarks.workloads import mixed
from qcompile.api import Release
from qcompile.lattice.reconstruct import lift_residual

ROWS, SIZE = 100_000, 40
COUNTS = (10, 20, 30, 40)
"""Numbers of attributes."""

INTRODUCTION = f"""\
1-way range, 2-way affine and 3-way prefix queries on all of d attributes of {SIZE} values, {ROWS:,} generated rows,
rho = 1/2, rounded noise of the operating system, a ledger, two workers. Every line is a process of its own, of which
*start-up and plan* are the memory before the run. *run* counts, measures and writes the release; *residuals* then
reads the file and computes the residual estimates of all nodes from it, as nothing that can be computed from the
measurements is stored. *load* opens the file in a fresh process; *range*, *affine* and *prefix* are then the answers of
one 1-way, one 2-way and one 3-way product (64,000 queries), with standard errors; the slowest of three of each."""

COLUMNS = ("d", "queries", "measurements", "run (s)", "a second", "residuals (s)", "file (MB)")
READING = ("d", "load (s)", "range (s)", "affine (s)", "prefix (s)", "peak (MB)")
MEMORY = ("d", "start-up and plan (MB)", "peak of the run (MB)", "run alone (MB)")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="the smallest workload alone")
    parser.add_argument("-o", "--output", type=Path, help="write the page to this file instead of printing it")
    chosen = parser.parse_args(arguments)
    counts = COUNTS[:1] if chosen.quick else COUNTS
    with tempfile.TemporaryDirectory() as folder:
        files = {d: Path(folder) / f"{d}.release" for d in counts}
        made = fresh(Job(f"d = {d}", made_release, (d, path)) for d, path in files.items())
        read = fresh(Job(f"reading d = {d}", questions, (d, path)) for d, path in files.items())
    write(page("Streaming", [INTRODUCTION], list(_sections(counts, made, read))), chosen.output)


def _sections(counts: Sequence[int], made: list[dict[str, Any]], read: list[dict[str, float]]) -> Iterator[str]:
    yield f"## Runs\n\n{table(COLUMNS, [_run_line(d, m) for d, m in zip(counts, made, strict=True)])}"
    yield f"## Memory\n\n{table(MEMORY, [_memory_line(d, m) for d, m in zip(counts, made, strict=True)])}"
    yield f"## Answers from the file\n\n{table(READING, [_read_line(d, r) for d, r in zip(counts, read, strict=True)])}"


def _run_line(d: int, found: dict[str, Any]) -> list[str]:
    pace = found["measurements"] / found["run"]
    numbers = [f"{found['queries']:,}", f"{found['measurements']:,}", seconds(found["run"]), f"{pace / 1e6:.1f}e6"]
    return [str(d), *numbers, seconds(found["residuals"]), megabytes(found["file"])]


def _memory_line(d: int, found: dict[str, Any]) -> list[str]:
    before, most = found["before"], found["peak"]
    return [str(d), megabytes(before), megabytes(most), megabytes(most - before)]


def _read_line(d: int, found: dict[str, float]) -> list[str]:
    times = [seconds(found[name]) for name in ("load", "range", "affine", "prefix")]
    return [str(d), *times, megabytes(found["peak"])]


def made_release(d: int, path: Path) -> dict[str, Any]:
    """Compile, run, read back: seconds, bytes, sizes."""
    plan = qc.compile(mixed(SIZE, d))
    draw = np.random.default_rng(d)
    data = {f"a{i}": draw.integers(0, SIZE, ROWS) for i in range(d)}
    ledger = qc.Ledger.create(path.with_suffix(".ledger"), qc.Budget(rho=1))
    before, start = peak(), time.perf_counter()
    release = plan.run(data, qc.Budget(rho="1/2"), ledger=ledger, strict_values=True, output=path, workers=2)
    ran, most = time.perf_counter() - start, peak()
    start = time.perf_counter()
    numbers = residuals(release)
    return {
        "queries": plan.queries,
        "measurements": numbers,
        "run": ran,
        "residuals": time.perf_counter() - start,
        "before": before,
        "peak": most,
        "file": path.stat().st_size,
    }


def residuals(release: Release) -> int:
    """Compute all residual estimates, one after the other; returns how many measurements they take."""
    closure, numbers = release.plan.closure, 0
    for node, c in enumerate(closure.class_of.tolist()):
        if c >= 0:
            y = release.measured(node)
            lift_residual(closure, release.plan.strategies[c].solve(y), closure.nodes[node])
            numbers += y.size
    return numbers


def questions(d: int, path: Path) -> dict[str, float]:
    """Seconds to open a file and to answer from it; the peak memory."""
    start = time.perf_counter()
    release = qc.load_release(path)
    found = {"load": time.perf_counter() - start}
    names = [f"a{i}" for i in range(d)]
    one, three = (f.name for f in release.plan.workload.families if f.text.startswith("each"))
    pairs = [f.name for f in release.plan.workload.families if f.name not in (one, three)]
    asked: dict[str, list[tuple[str, tuple[str, ...] | None]]] = {
        "range": [(one, (name,)) for name in names[:2] + names[-1:]],
        "affine": [(pair, None) for pair in pairs[:2] + pairs[-1:]],
        "prefix": [(three, of) for of in (*itertools.islice(itertools.combinations(names, 3), 2), tuple(names[-3:]))],
    }
    for kind, questions_ in asked.items():
        found[kind] = max(_timed(release, family, of) for family, of in questions_)
    return found | {"peak": float(peak())}


def _timed(release: Release, family: str, of: tuple[str, ...] | None) -> float:
    start = time.perf_counter()
    release.answers(family, of=of)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
