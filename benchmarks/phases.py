"""Seconds of the phases of a compilation: parse, decompose, and the rest, which is designing and solving."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import qcompile as qc
from qcompile.lattice.decompose import decompose


def compile_timed(text: str, options: Mapping[str, Any]) -> tuple[qc.Plan, dict[str, float]]:
    """The plan of a workload, and the seconds that each of `benchmarks.measure.PHASES` took.

    The decomposition of the plan that was found is made once more, by itself, to be timed.
    """
    start = time.perf_counter()
    workload = qc.parse(text)
    parsed = time.perf_counter()
    plan = qc.compile(workload, **options)
    total, parse = time.perf_counter() - start, parsed - start
    again = time.perf_counter()
    names = plan.workload.schema.names
    decompose(workload, dict(zip(names, plan.closure.centring, strict=True)), plan.closure.blocks)
    split = min(time.perf_counter() - again, total - parse)
    return plan, {"parse": parse, "decompose": split, "solve": total - parse - split, "total": total}
