"""The benchmarks' workloads, as texts in the workload language."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

HYBRIDS = {
    "adult": ((42, 16, 15, 9, 7, 6, 5, 2, 2), (100, 100, 100, 99, 85)),
    "cps": ((7, 4, 2), (50, 100)),
    "loans": ((51, 36, 15, 8, 6, 5, 4, 3), (101, 101, 101, 101)),
}
"""Sizes of the categorical and of the numeric attributes of the published schemas."""

PAIRS = {
    "affine": "affine({} + {} <= *)",
    "abs": "abs({} - {} <= *)",
    "prefix": "prefix({}) * prefix({})",
}
"""Families on two attributes."""

MOST_CELLS = 6_000
"""Pairs of more cells were published with prefix x prefix in place of the affine or abs queries."""

QUERIES_A_CELL = 3
"""Random queries drawn for every cell."""

PROBABILITY = 0.3
"""That a random query counts a cell."""


def text(sizes: Sequence[int], families: Sequence[str]) -> str:
    """A workload over integer attributes a0, a1, ... with values 0 to size - 1."""
    schema = [f"  a{i} : integer 0..{n - 1}" for i, n in enumerate(sizes)]
    return "\n".join(["schema {", *schema, "}", "workload {", *(f"  {f}" for f in families), "}", ""])


def each(ways: str, kinds: Sequence[str]) -> str:
    """All products of as many attributes as ``ways`` says ("2" or "1..3"), attribute i with the i-th kind."""
    return f"each {ways} of ({', '.join(f'a{i}: {kind}' for i, kind in enumerate(kinds))})"


def pair(kind: str, i: int, j: int) -> str:
    """One of `PAIRS` on attributes i and j."""
    return PAIRS[kind].format(f"a{i}", f"a{j}")


def products(kind: str, size: int, count: int, ways: str) -> str:
    """Products of one kind over ``count`` attributes of ``size`` values."""
    return text([size] * count, [each(ways, [kind] * count)])


def hybrid(schema: str, ways: str) -> str:
    """Products of marginals of categorical and prefixes of numeric attributes (table 2)."""
    sizes, kinds = _hybrid(schema)
    return text(sizes, [each(ways.replace("-", ".."), kinds)])


def hybrid_and_pairs(schema: str, kind: str) -> str:
    """The 1-way hybrid and affine or abs queries on all pairs, prefixes on the largest pairs (table 3)."""
    sizes, kinds = _hybrid(schema)
    both = [
        pair(kind if sizes[i] * sizes[j] <= MOST_CELLS else "prefix", i, j)
        for i, j in itertools.combinations(range(len(sizes)), 2)
    ]
    return text(sizes, [each("1", kinds), *both])


def _hybrid(schema: str) -> tuple[tuple[int, ...], list[str]]:
    categorical, numeric = HYBRIDS[schema]
    return categorical + numeric, ["marginal"] * len(categorical) + ["prefix"] * len(numeric)


def prefixes_and_pairs(kind: str, size: int, count: int) -> str:
    """1-way prefixes and affine or abs queries on all pairs (table 4)."""
    pairs = [pair(kind, i, j) for i, j in itertools.combinations(range(count), 2)]
    return text([size] * count, [each("1", ["prefix"] * count), *pairs])


def random_pairs(size: int, count: int, width: int) -> str:
    """1-way and 2-way random queries of ``count`` of ``width`` attributes, every draw of its own (table 4).

    The 1-way families weigh as much, beside the pairs that reach the same attribute, as they do among all ``width``.
    """
    ones = [_random([i], size, seed=i) for i in range(count)]
    if count < width:
        ones = [f"{one} weight {(count - 1) / (width - 1):.12f}" for one in ones]
    twos = [_random(p, size, seed=width + k) for k, p in enumerate(itertools.combinations(range(count), 2))]
    return text([size] * count, [*ones, *twos])


def _random(attributes: Sequence[int], size: int, seed: int) -> str:
    of = ", ".join(f"a{i}" for i in attributes)
    return f"random({of}; p = {PROBABILITY}, count = {QUERIES_A_CELL * size ** len(attributes)}, seed = {seed})"


def mixed(size: int, count: int) -> str:
    """1-way ranges, 2-way affine and 3-way prefix queries on all attributes (table 5)."""
    pairs = [pair("affine", i, j) for i, j in itertools.combinations(range(count), 2)]
    return text([size] * count, [each("1", ["range"] * count), *pairs, each("3", ["prefix"] * count)])
