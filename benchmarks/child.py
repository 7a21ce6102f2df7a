"""One measurement in a process of its own, so that neither memory nor caches carry over: a job in, an outcome out.

Run as a module with the job on standard input; the outcome is the last line of standard output. Both are JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import qcompile as qc
from benchmarks.memory import peak
from benchmarks.phases import compile_timed
from benchmarks.sampling import extrapolated_rmse
from benchmarks.workloads import PAIRS, each, text

WARM_UP = text([3, 3], [each("1..2", ["prefix", "marginal"]), PAIRS["affine"].format("a0", "a1")])
"""A workload that loads every module a usual one needs; what this takes counts as start-up."""


def main() -> None:
    """Read the job, warm up, measure, write the outcome."""
    job = json.load(sys.stdin)
    try:
        qc.compile(WARM_UP, **job["options"])
        outcome = _compiled(job)
    except qc.QCompileError as error:
        outcome = {"refused": str(error)}
    print(json.dumps(outcome | {"peak": peak()}))


def _compiled(job: dict[str, Any]) -> dict[str, Any]:
    plan, seconds = compile_timed(job["text"], job["options"])
    outcome = {
        "seconds": seconds,
        "queries": plan.queries,
        "views": plan.views,
        "nodes": len(plan.closure.nodes),
        "classes": len(plan.classes),
        "rmse": extrapolated_rmse(plan, job["width"]) if job["width"] else plan.rmse(),
        "gap": plan.gap,
    }
    return outcome | (_released(plan, job["rows"]) if job["rows"] else {})


def _released(plan: qc.Plan, rows: int) -> dict[str, Any]:
    """Measure a made-up table and reconstruct every view."""
    import numpy as np

    generator = np.random.default_rng(1)
    data = {a.name: generator.integers(a.size, size=rows) for a in plan.workload.schema}
    start = time.perf_counter()
    release = plan.run(data, qc.Budget(rho=1))
    measured = time.perf_counter()
    for view in plan.workload.views:
        release.marginal(view)
    answered = time.perf_counter()
    return {"measure": measured - start, "answer": answered - measured}


if __name__ == "__main__":
    main()
