"""The series and single workloads of the page of growth."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.measure import Job
from benchmarks.workloads import each, mixed, pair, products, text


@dataclass(frozen=True)
class Series:
    """One quantity grows, everything else stays.

    Attributes:
      title: of the workload.
      variable: what grows.
      jobs: by its value.
    """

    title: str
    variable: str
    jobs: Mapping[int, Job]


@dataclass(frozen=True)
class Single:
    """One large workload.

    Attributes:
      title: of the workload.
      published: time and memory published for it, or empty.
      job: what is measured.
    """

    title: str
    job: Job
    published: str = ""


def _pairs_of_families(count: int) -> str:
    """The first ``count`` affine families on pairs of 100 attributes of 10 values, with 1-way prefixes."""
    pairs = itertools.islice(itertools.combinations(range(100), 2), count)
    return text([10] * 100, [each("1", ["prefix"] * 100), *(pair("affine", i, j) for i, j in pairs)])


SERIES = (
    Series(
        "1-way and 2-way prefix, 40 attributes of n values",
        "n",
        {n: Job(products("prefix", n, 40, "1..2")) for n in (25, 50, 100, 200, 400)},
    ),
    Series(
        "affine queries on one pair of n values each",
        "n",
        {n: Job(text([n, n], [pair("affine", 0, 1)])) for n in (10, 20, 30, 40, 50)},
    ),
    Series(
        "1-way and 2-way prefix, d attributes of 10 values",
        "d",
        {d: Job(products("prefix", 10, d, "1..2")) for d in (20, 40, 80, 160)},
    ),
    Series(
        "1-way, 2-way and 3-way prefix, d attributes of 10 values",
        "d",
        {d: Job(products("prefix", 10, d, "1..3")) for d in (10, 20, 40, 60)},
    ),
    Series(
        "1-way range, 2-way affine, 3-way prefix, d attributes of 10 values",
        "d",
        {d: Job(mixed(10, d)) for d in (10, 20, 40)},
    ),
    Series(
        "1-way prefix and affine families on pairs of 100 attributes of 10 values",
        "families",
        {count: Job(_pairs_of_families(count)) for count in (100, 300, 1000, 3000)},
    ),
)

SINGLES = (
    Single(
        "1-way and 2-way prefix, 50 attributes of 40 values",
        Job(products("prefix", 40, 50, "1..2")),
        "37.5 s, 2 GB (128 cores)",
    ),
    Single(
        "1-way range, 2-way affine, 3-way prefix, 40 attributes of 40 values",
        Job(mixed(40, 40)),
        "3,031.6 s, 227 GB",
    ),
    Single("1-way, 2-way and 3-way prefix, 100 attributes of 10 values", Job(products("prefix", 10, 100, "1..3"))),
    Single("1-way and 2-way marginals, 100 attributes of 100 values", Job(products("marginal", 100, 100, "1..2"))),
    Single(
        "3-way prefix and 3-way range, 3 attributes of 100 values",
        Job(text([100] * 3, [each("3", ["prefix"] * 3), each("3", ["range"] * 3)])),
    ),
    Single(
        "affine on a pair of 50 values each, to a gap of 1e-5",
        Job(text([50, 50], [pair("affine", 0, 1)]), {"gap": 1e-5}),
    ),
    Single(
        "abs on a pair of 50 values each, to a gap of 1e-5", Job(text([50, 50], [pair("abs", 0, 1)]), {"gap": 1e-5})
    ),
)

LONG_AXES = tuple(
    Series(f"{kind}, 1 attribute of n values", "n", {n: Job(products(kind, n, 1, "1")) for n in sizes})
    for kind, sizes in (
        ("prefix", (300, 1000, 2500, 10_000, 30_000, 100_000)),
        ("range", (300, 1000, 2500, 10_000, 100_000)),
    )
)
