"""The rows of each table: what is published, and the jobs that are measured beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from benchmarks import workloads
from benchmarks.measure import Job
from benchmarks.published import published

WIDTH = 40
"""Attributes of table 4."""

SAMPLE = {"10": 6, "20": 5, "30": 4, "40": 2, "50": 2}
"""Attributes between which the random queries of table 4 are solved, by their number of values."""

VARIANTS: Mapping[str, Mapping[str, object]] = {
    "uniform": {},
    "optimised centring": {"centring": "optimised"},
    "and blocks": {"centring": "optimised", "blocks": "auto"},
}
"""Options of `qcompile.compile`, from the plain decomposition on."""

PLAIN = "uniform"
ALL = tuple(VARIANTS)


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes:
      labels: its keys, by column.
      published: figures of the paper, by column.
      job: the workload; the variants' options are added.
      variants: the names of those that are run; none where the published figure stands alone.
      quick: whether it stands for its table in a quick run.
    """

    labels: Mapping[str, str]
    published: Mapping[str, str]
    job: Job
    variants: tuple[str, ...] = (PLAIN,)
    quick: bool = field(default=False, kw_only=True)


def rows(table: int) -> list[Row]:
    """All rows of a table of the paper, 2 to 7."""
    return list(_BUILDERS[table]())


def _split(row: Mapping[str, str], keys: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
    return {k: row[k] for k in keys}, {k: v for k, v in row.items() if k not in keys}


def _table_2() -> Iterator[Row]:
    for row in published(2):
        labels, figures = _split(row, ("schema", "ways"))
        job = Job(workloads.hybrid(row["schema"], row["ways"]))
        yield Row(labels, figures, job, ALL, quick=(row["schema"], row["ways"]) == ("cps", "1"))


def _table_3() -> Iterator[Row]:
    for row in published(3):
        labels, figures = _split(row, ("schema", "family"))
        small = (row["schema"], row["family"]) == ("cps", "affine")
        job = Job(workloads.hybrid_and_pairs(row["schema"], row["family"]))
        yield Row(labels, figures, job, ALL[:2] if small else (PLAIN,), quick=small)


def _table_4() -> Iterator[Row]:
    for row in published(4):
        labels, figures = _split(row, ("n", "family"))
        n, kind = int(row["n"]), row["family"]
        if kind == "random":
            labels["family"] += f", {_sampled(SAMPLE[row['n']])}"
            yield Row(labels, figures, Job(workloads.random_pairs(n, SAMPLE[row["n"]], WIDTH), width=WIDTH))
        elif kind in ("affine", "abs"):
            job = Job(workloads.prefixes_and_pairs(kind, n, WIDTH))
            yield Row(labels, figures, job, ALL if n == 10 else ALL[:2])
        else:
            job = Job(workloads.products(kind, n, WIDTH, "1..2"))
            symmetric = kind in ("marginal", "circular")
            yield Row(labels, figures, job, (PLAIN,) if symmetric else ALL, quick=(n, kind) == (10, "prefix"))


def _sampled(count: int) -> str:
    """How a sample of pairs is called in the table."""
    return f"{math.comb(count, 2)} of {math.comb(WIDTH, 2)} pairs"


def _table_5() -> Iterator[Row]:
    for row in published(5):
        labels, figures = _split(row, ("n", "d"))
        n, d = int(row["n"]), int(row["d"])
        yield Row(labels, figures, Job(workloads.mixed(n, d)), ALL if d == 10 else (PLAIN,), quick=n == d == 10)


def _table_6() -> Iterator[Row]:
    for row in published(6):
        labels, figures = _split(row, ("workload", "n", "d"))
        n, d = int(row["n"]), int(row["d"])
        prefix = row["workload"] == "prefix"
        text = workloads.products("prefix", n, d, "1..2") if prefix else workloads.mixed(n, d)
        yield Row(labels, figures, Job(text), quick=prefix)


def _table_7() -> Iterator[Row]:
    (row,) = published(7)
    labels, figures = _split(row, ("workload", "n", "d"))
    for d in (6, 10):
        job = Job(workloads.mixed(int(row["n"]), d), rows=100_000)
        yield Row({**labels, "d": str(d)}, {}, job, quick=d == 6)
    yield Row(labels, figures, Job(workloads.mixed(int(row["n"]), int(row["d"]))), variants=())


_BUILDERS: Mapping[int, Callable[[], Iterator[Row]]] = {
    2: _table_2,
    3: _table_3,
    4: _table_4,
    5: _table_5,
    6: _table_6,
    7: _table_7,
}
