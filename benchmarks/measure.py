"""Running a job in a child process, with a limit on its time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

PHASES = ("parse", "decompose", "solve", "total")
"""Of a compilation; designing, where an option asks for it, is part of solving."""

ONE_PROCESS = {"workers": 1}
"""So that the times are those of one process and its peak memory is all there is."""


@dataclass(frozen=True)
class Job:
    """What a child is to do.

    Attributes:
      text: the workload.
      options: of `qcompile.compile`.
      width: number of attributes to extrapolate the error to; 0 to take the plan's own.
      rows: size of a made-up table to measure and answer; 0 for none.
    """

    text: str
    options: Mapping[str, object] = field(default_factory=dict)
    width: int = 0
    rows: int = 0


@dataclass(frozen=True)
class Outcome:
    """What became of a job.

    Attributes:
      values: what the child measured (see `benchmarks.child`); empty unless it finished.
      process: seconds from the start of the process to its end.
      note: why there are no values: refused, stopped or failed.
    """

    values: Mapping[str, Any]
    process: float
    note: str = ""

    @property
    def startup(self) -> float:
        """Seconds of the process outside the measurement."""
        return self.process - float(self.values["seconds"]["total"])


def measure(job: Job, limit: float) -> Outcome:
    """Run a job in a fresh process.

    Args:
      job: what to do.
      limit: seconds after which the process is stopped.
    """
    command = [sys.executable, "-m", "benchmarks.child"]
    text = json.dumps(asdict(job) | {"options": {**ONE_PROCESS, **job.options}})
    start = time.perf_counter()
    try:
        done = subprocess.run(command, input=text, capture_output=True, cwd=ROOT, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return Outcome({}, limit, f"stopped after {limit:g} s")
    process = time.perf_counter() - start
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return Outcome({}, process, f"failed: {lines[-1]}")
    values = json.loads(done.stdout.splitlines()[-1])
    return Outcome({}, process, f"refused: {values['refused']}") if "refused" in values else Outcome(values, process)
