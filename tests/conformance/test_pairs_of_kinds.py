"""Random small workloads of every pair of kinds of factors, against their query matrices written out."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from qcompile.api import compile
from qcompile.queries.factors import Abs, Affine, Circular, Factor, Marginal, Matrix, Predicate, Prefix, Random, Range
from qcompile.queries.schema import Attribute
from qcompile.queries.workload import Family, Workload
from tests.conformance.helpers import family, integer, workload
from tests.conformance.test_brute_force import (
    check_answers_without_noise,
    check_costs,
    check_distance_from_the_best,
    check_variances,
)

ONE_WAY: dict[str, type[Marginal] | type[Prefix] | type[Range] | type[Circular]] = {
    "marginal": Marginal,
    "prefix": Prefix,
    "range": Range,
    "circular": Circular,
}

KINDS = ("total", *ONE_WAY, "affine", "abs", "random", "count", "matrix", "each")

PAIRS = list(itertools.combinations_with_replacement(KINDS, 2))

SAMPLE = range(24)
"""Of the thousand, run each time: with steps of 13 through the pairs they meet every kind."""


def drawn_factors(rng: np.random.Generator, kind: str, both: list[Attribute]) -> tuple[Factor, ...]:
    """The factors of one family of a kind, on one or both attributes."""
    on = [both[i] for i in rng.permutation(2)[: rng.integers(1, 3)]]
    shape = tuple(a.size for a in on)
    coefficients = [int(c) for c in rng.choice([-2, -1, -1, 1, 1, 3], size=2)]
    made: dict[str, Callable[[], tuple[Factor, ...]]] = {
        "total": lambda: (),
        "affine": lambda: (Affine(both, coefficients, some_thresholds(rng)),),
        "abs": lambda: (Abs(both, coefficients, some_thresholds(rng)),),
        "random": lambda: (Random(on, 0.4, int(rng.integers(1, 7)), int(rng.integers(1000))),),
        "count": lambda: (Predicate(on, rng.random(shape) < 0.5, "drawn"),),
        "matrix": lambda: (Matrix(on, np.round(rng.normal(size=(int(rng.integers(1, 4)), *shape)) * 4) / 4),),
        "each": lambda: tuple(ONE_WAY[str(rng.choice(list(ONE_WAY)))](a) for a in both),
    }
    return made[kind]() if kind in made else tuple(ONE_WAY[kind](a) for a in on)


def some_thresholds(rng: np.random.Generator) -> list[int] | None:
    return sorted({int(t) for t in rng.integers(-1, 8, size=3)}) if rng.random() < 0.2 else None


def drawn_family(rng: np.random.Generator, number: int, kind: str, both: list[Attribute]) -> Family:
    weight = float(10.0 ** rng.uniform(-3, 3)) if rng.random() < 0.5 else 1.0
    choose = (int(rng.integers(0, 2)), int(rng.integers(1, 3))) if kind == "each" else None
    return family(*drawn_factors(rng, kind, both), name=f"{number}: {kind}", weight=weight, choose=choose)


def drawn_workload(seed: int) -> Workload:
    """Two kinds of factors, a third in every other workload; often on attributes of equal size, which has symmetry."""
    rng = np.random.default_rng(seed)
    kinds = [*PAIRS[13 * seed % len(PAIRS)], *rng.choice(KINDS, size=seed % 2)]
    sizes = [int(n) for n in rng.integers(2, 13, size=2)]
    if rng.random() < 0.6:
        sizes[1] = sizes[0]
    both = [integer(name, n, int(rng.choice([0, 0, -2, 5]))) for name, n in zip("ab", sizes, strict=True)]
    return workload(both, *(drawn_family(rng, i, str(kind), both) for i, kind in enumerate(kinds)))


def check(made: Workload) -> None:
    plan = compile(made)
    check_costs(plan)
    check_variances(plan)
    check_answers_without_noise(plan)
    check_distance_from_the_best(plan)


@pytest.mark.parametrize("seed", SAMPLE)
def test_a_pair_of_kinds(seed: int) -> None:
    check(drawn_workload(seed))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SAMPLE.stop, 1000, 61))
def test_a_thousand_pairs_of_kinds(first: int) -> None:
    for seed in range(first, min(first + 61, 1000)):
        check(drawn_workload(seed))


def test_the_sample_meets_every_kind_and_the_thousand_every_pair() -> None:
    def kinds(seed: int) -> tuple[str, ...]:
        return tuple(f.name.partition(": ")[2] for f in drawn_workload(seed).families[:2])

    assert {kind for seed in SAMPLE for kind in kinds(seed)} == set(KINDS)
    assert {kinds(seed) for seed in range(1000)} == set(PAIRS)


@pytest.mark.parametrize("size", [4, 5, 8])
def test_a_symmetry_that_some_queries_do_not_reach(size: int) -> None:
    """No query changes sign with both attributes reversed and swapped: that block of the Gram is rounding error."""
    a, b = integer("a", size), integer("b", size)
    forms = Abs([a, b], [1, -1]), Affine([a, b], [1, 1]), Affine([a, b], [1, -1])
    check(workload([a, b], *(family(f, name=str(i)) for i, f in enumerate(forms))))
