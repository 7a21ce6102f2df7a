"""Seconds of the phases of a compilation: parse, decompose, and the rest, which is designing and solving."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import qcompile as qc
from qcompile import compiler


def compile_timed(text: str, options: Mapping[str, Any]) -> tuple[qc.Plan, dict[str, float]]:
    """The plan of a workload, and the seconds that each of `benchmarks.measure.PHASES` took."""
    start = time.perf_counter()
    workload = qc.parse(text)
    parsed = time.perf_counter()
    with _decomposing() as spans:
        plan = qc.compile(workload, **options)
    total, parse, decompose = time.perf_counter() - start, parsed - start, sum(spans)
    return plan, {"parse": parse, "decompose": decompose, "solve": total - parse - decompose, "total": total}


@contextmanager
def _decomposing() -> Iterator[list[float]]:
    """The seconds of each call the compiler makes to `decompose`: one for every design that it compares."""
    original, spans = compiler.__dict__["decompose"], list[float]()
    setattr(compiler, "decompose", _timed(original, spans))  # noqa: B010  # not exported, so mypy refuses to assign it
    try:
        yield spans
    finally:
        setattr(compiler, "decompose", original)  # noqa: B010


def _timed(function: Callable[..., Any], spans: list[float]) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            spans.append(time.perf_counter() - start)

    return timed
