"""In-axis Decomp beside the dense Kronecker product, on the two settings of AIM+GReM (arXiv 2602.05674).

``python benchmarks/inaxis.py [--quick] [-o FILE.md]``
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.report import page, table, write
from benchmarks.routes.inaxis import decomp, decomp_all
from qcompile.support.arrays import Array

Shape: TypeAlias = tuple[int, ...]

SETTINGS: Mapping[str, Sequence[Shape]] = {
    "16 values on each of 2 to 7 axes": [(16,) * axes for axes in range(2, 8)],
    "2 to 256 values on each of 3 axes": [(n,) * 3 for n in (2, 4, 8, 16, 32, 64, 128, 256)],
}

QUICK = 2**12
"""Cells of the largest array of a quick run."""

MEMORY = 8 * 2**30
"""Bytes that a measurement may take: the array, and the two between which the dense product goes to and fro."""

EVERY = 2**24
"""Cells up to which every residual is computed; at 16^7 cells the dense routes would take some minutes."""

SECONDS = 1.0
"""Each comparison is repeated for about that long."""

INTRODUCTION = """\
Milliseconds of Decomp, each the least of several calls in one process, the routes taking turns. *dense* is the
Kronecker product with a matrix for each axis, reshape and matmul: the array as (before, n, after) times [-1 | I] on a
kept axis and a row of ones on the others. *rotating* is the same product with the array as (n, rest) and a
transposition after each axis. Their matrices are made beforehand. *in-axis* is `benchmarks.routes.inaxis.decomp`. The
*top* residual is that on all axes, without sums; *every* residual means all subsets of the axes, one after the other,
each from the marginal; *at once* is `decomp_all`, which shares the work between them. Ratios are over in-axis."""


def dense(matrices: Sequence[Array], x: Array) -> Array:
    """The Kronecker product of matrices with an array, an axis at a time: reshape to (before, n, after) and matmul.

    Args:
      matrices: one per axis, ``(m_i, n_i)``.
      x: ``(n_1, ..., n_k)``.

    Returns:
      The product, ``(m_1, ..., m_k)``.
    """
    shape = list(x.shape)
    for axis, matrix in enumerate(matrices):
        x = matrix @ x.reshape(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
        shape[axis] = len(matrix)
    return x.reshape(shape)


def rotating(matrices: Sequence[Array], x: Array) -> Array:
    """The product of `dense` by reshape to (n, rest), matmul and transposition, as in HDMM (McKenna et al. 2018)."""
    for matrix in matrices:
        flat = x.reshape(matrix.shape[1], -1)
        del x  # the copy that the reshape made is enough
        x = (matrix @ flat).T
    return x.reshape([len(matrix) for matrix in matrices])


def decomp_matrices(shape: Shape, kept: tuple[int, ...]) -> list[Array]:
    """The matrices of Decomp: differences with the first value on the kept axes, a row of ones on the others."""
    return [
        np.hstack([-np.ones((n - 1, 1)), np.eye(n - 1)]) if axis in kept else np.ones((1, n))
        for axis, n in enumerate(shape)
    ]


@dataclass(frozen=True)
class Times:
    """Seconds of the routes.

    Attributes:
      dense: of `dense`.
      rotating: of `rotating`.
      inaxis: of `decomp`.
      at_once: of `decomp_all`, where every residual was asked for.
    """

    dense: float
    rotating: float
    inaxis: float
    at_once: float | None = None

    @property
    def ratios(self) -> tuple[float, float]:
        """Of dense and of rotating to in-axis."""
        return self.dense / self.inaxis, self.rotating / self.inaxis


def times(shape: Shape, targets: Sequence[tuple[int, ...]], at_once: bool, total: float) -> Times:
    """Seconds to decompose an array into some residuals.

    Args:
      shape: of the array.
      targets: the kept axes of each residual.
      at_once: whether `decomp_all` is timed too.
      total: seconds after which no further repetition begins.
    """
    x = np.random.default_rng(0).random(shape)
    matrices = [decomp_matrices(shape, kept) for kept in targets]

    def each(route: Callable[[Sequence[Array], Array], Array]) -> Callable[[], None]:
        def run() -> None:
            for m in matrices:
                route(m, x)

        return run

    def inaxis() -> None:
        for kept in targets:
            decomp(x, kept)

    routes = [each(dense), each(rotating), inaxis, *([lambda: decomp_all(x)] if at_once else [])]
    return Times(*least(routes, total))


def least(routes: Sequence[Callable[[], object]], total: float) -> list[float]:
    """The least seconds of a call of each, in turns, until ``total`` seconds are over; at least one call each."""
    found = [math.inf] * len(routes)
    end = time.perf_counter() + total
    while math.inf in found or time.perf_counter() < end:
        for i, route in enumerate(routes):
            start = time.perf_counter()
            route()
            found[i] = min(found[i], time.perf_counter() - start)
    return found


def section(quick: bool = False) -> str:
    """Both settings, measured now, as Markdown."""
    parts, top, every = ["## In-axis operations", INTRODUCTION], dict[Shape, Times](), dict[Shape, Times]()
    for title, shapes in SETTINGS.items():
        asked = [shape for shape in shapes if _asked(math.prod(shape), quick)]
        found = [_measured(shape, 0.05 if quick else SECONDS) for shape in asked]
        these = dict(zip(asked, found, strict=True))
        tops = {shape: t for shape, (t, _) in these.items()}
        everies = {shape: t for shape, (_, t) in these.items() if t}
        parts += [f"### {title}", f"The top residual:\n\n{_table(tops)}", f"Every residual:\n\n{_table(everies)}"]
        top, every = top | tops, every | everies
    return "\n\n".join([*parts, _summary(top, every)])


def _asked(cells: int, quick: bool) -> bool:
    return cells <= QUICK if quick else 3 * 8 * cells <= MEMORY


def _measured(shape: Shape, total: float) -> tuple[Times, Times | None]:
    """Seconds for the top residual, and for every residual where that is not too long."""
    axes = range(len(shape))
    top, every = times(shape, [tuple(axes)], False, total), None
    if math.prod(shape) <= EVERY:
        subsets = [kept for size in range(len(shape) + 1) for kept in itertools.combinations(axes, size)]
        every = times(shape, subsets, True, total)
    print("x".join(map(str, shape)), top, every, file=sys.stderr, sep=", ")
    return top, every


def _table(found: Mapping[Shape, Times]) -> str:
    at_once = any(t.at_once is not None for t in found.values())
    routes = ["dense", "rotating", "in-axis", *(["at once"] if at_once else [])]
    lines = [
        [
            f"{shape[0]}^{len(shape)}",
            f"{math.prod(shape):,}",
            *map(_milliseconds, (t.dense, t.rotating, t.inaxis)),
            *([_milliseconds(t.at_once or math.nan)] if at_once else []),
            *(f"{ratio:.1f}" for ratio in t.ratios),
        ]
        for shape, t in found.items()
    ]
    lines.append(["mean", *[""] * (1 + len(routes)), *(f"{ratio:.1f}" for ratio in _mean_ratios(found.values()))])
    return table(["shape", "cells", *routes, "dense ratio", "rotating ratio"], lines)


def _mean_ratios(found: Iterable[Times]) -> list[float]:
    return [float(mean) for mean in np.mean([t.ratios for t in found], axis=0)]


def _summary(top: Mapping[Shape, Times], every: Mapping[Shape, Times]) -> str:
    """The mean ratios over the shapes of both settings."""
    (dense_top, rotating_top), (dense_every, rotating_every) = _mean_ratios(top.values()), _mean_ratios(every.values())
    return (
        f"Mean over all shapes: in-axis is {dense_top:.1f} times as fast as dense and {rotating_top:.1f} times as fast "
        f"as rotating for the top residual, {dense_every:.1f} and {rotating_every:.1f} times for every residual."
    )


def _milliseconds(value: float) -> str:
    return f"{1e3 * value:.3f}" if value < 0.1 else f"{1e3 * value:,.0f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure both settings and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="small arrays alone")
    parser.add_argument("-o", "--output", type=Path, help="write the page to this file instead of printing it")
    chosen = parser.parse_args(arguments)
    write(page("In-axis operations", [], [section(chosen.quick)]), chosen.output)


if __name__ == "__main__":
    main()
