"""Independent jobs on several threads.

Threads share results, start fast, and the linear algebra releases the interpreter's lock. The
linear algebra library is used as it is configured, so that results have the same bits for any number of threads.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from itertools import islice
from typing import TypeVar

from qcompile.support.options import whole

T = TypeVar("T")

LEAST_EFFORT = 2**23
"""Steps below which one thread does everything: a fraction of a second."""

AHEAD = 2
"""Jobs per thread that start before their results are requested: the largest number of results in memory."""


def in_order(jobs: Iterable[Callable[[], T]], effort: float, workers: int | None) -> Iterator[T]:
    """Return the results of independent jobs in their order, each as soon as it and all before it are done.

    Args:
      jobs: functions without arguments; started in order, a few ahead of the requested results.
      effort: of all jobs together, in rough steps (squared cells when solving).
      workers: threads; one per processor where None.

    Raises:
      OptionError: the number of workers is not a whole number of at least 1.
    """
    count = threads(workers)
    if count <= 1 or effort < LEAST_EFFORT:
        return (job() for job in jobs)
    return _ahead(iter(jobs), count)


def _ahead(jobs: Iterator[Callable[[], T]], count: int) -> Iterator[T]:
    pool = ThreadPoolExecutor(count)
    try:
        # Every job runs in the caller's context: the memory budget holds on all threads.
        waiting: deque[Future[T]] = deque(pool.submit(copy_context().run, job) for job in islice(jobs, AHEAD * count))
        while waiting:
            result = waiting.popleft().result()
            waiting.extend(pool.submit(copy_context().run, job) for job in islice(jobs, 1))
            yield result
    finally:  # also after an error, or when the caller stops early
        pool.shutdown(cancel_futures=True)


def threads(workers: int | None) -> int:
    """Return the number of threads of an option; one per processor for None.

    Raises:
      OptionError: it is not a whole number of at least 1.
    """
    if workers is None:
        return os.cpu_count() or 1
    return whole("workers", workers, 1, "threads")
