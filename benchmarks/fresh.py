"""Functions called in processes of their own, so that neither memory nor caches carry over."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any


@dataclass(frozen=True)
class Job:
    """A call.

    Attributes:
      title: for people.
      function: of a module's top level.
      arguments: that can be pickled, like its result.
    """

    title: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


Run = Callable[[Iterable[Job], int], list[Any]]
"""Results of jobs, in their order; the number is how many may run at once."""


def fresh(jobs: Iterable[Job], at_once: int = 1) -> list[Any]:
    """Results of jobs, in their order, each in a fresh process; progress goes to stderr.

    Args:
      jobs: what to do.
      at_once: number of processes; 1 where times count.
    """
    start, results = time.perf_counter(), list[Any]()
    with ProcessPoolExecutor(at_once, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        for job, future in [(job, pool.submit(job.function, *job.arguments)) for job in jobs]:
            results.append(future.result())
            print(f"{time.perf_counter() - start:.0f} s: {job.title}", file=sys.stderr, flush=True)
    return results


def here(jobs: Iterable[Job], at_once: int = 1) -> list[Any]:
    """The results of `fresh`, in this process, one job after the other."""
    return [job.function(*job.arguments) for job in jobs]
