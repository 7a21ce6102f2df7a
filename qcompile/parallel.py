"""Independent pieces of work on several threads.

Threads share what is solved for all, cost nothing to start, and the linear algebra releases the interpreter's lock. The
linear algebra library is used as it is configured, so that results have the same bits for any number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from qcompile.checks import whole

T = TypeVar("T")

LEAST_EFFORT = 2**23
"""Steps below which one thread does everything: a fraction of a second."""


def in_order(jobs: Iterable[Callable[[], T]], effort: float, workers: int | None) -> Iterator[T]:
    """Results of independent jobs, in their order, each as soon as it and all before it are done.

    Args:
      jobs: what to do; taken one after another, a few ahead of what is done.
      effort: of all of it, in rough steps (squared cells when solving).
      workers: threads; one per processor where None.

    Raises:
      OptionError: the number of workers is not a whole number of at least 1.
    """
    count = _threads(workers)
    if count <= 1 or effort < LEAST_EFFORT:
        return (job() for job in jobs)
    from joblib import Parallel, delayed

    threads = Parallel(n_jobs=count, backend="threading", return_as="generator", batch_size=1)
    results: Iterator[T] = threads(delayed(job)() for job in jobs)
    return results


def _threads(workers: int | None) -> int:
    if workers is None:
        return os.cpu_count() or 1
    return whole("workers", workers, 1, "threads")
