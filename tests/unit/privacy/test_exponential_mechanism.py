"""Private selection: its law by both routes, its cost exactly and by OpenDP's account, its ranges.

OpenDP's draws cannot be seeded. Each statistic has a level that keeps the chance of a false alarm of this file below
1e-6, and the size of its sample is chosen so that a law whose scale is off by 20 % is missed as rarely.
"""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from qcompile.adaptive.history import SelectionStep
from qcompile.errors import BudgetError, InternalError
from qcompile.privacy.noise import exponential_mechanism
from qcompile.privacy.noise.exponential_mechanism import (
    LARGEST_SCORE,
    Select,
    make_select,
    private,
    seeded,
    selection_scale,
)
from qcompile.privacy.noise.scale import smallest_sigma
from qcompile.support.arrays import Array, IntArray

shares = st.fractions(min_value=Fraction(1, 10**30), max_value=10**30, max_denominator=10**40).filter(lambda r: r > 0)
sensitivities = st.integers(1, LARGEST_SCORE - 1)

LEVEL = 5e-8
"""Of one statistic; this file has a dozen that cannot be seeded."""

STEPS = np.array([40, 30, 20, *[0] * 30])
"""Scores in tenths of the scale: both the best and the crowd have a good chance, so that a wrong scale shows."""


def selection_cost(sensitivity: int, scale: float) -> Fraction:
    return SelectionStep.of(sensitivity, scale).cost


def scaled(scale: float, offset: int = 0) -> IntArray:
    return (np.rint(STEPS * scale / 10) + offset).astype(np.int64)


def law(scores: IntArray, scale: float) -> Array:
    p = np.exp((scores - scores.max()) / scale)
    return np.asarray(p / p.sum())


def drawn(select: Select, scores: IntArray, scale: float, n: int) -> IntArray:
    """How often each score was selected."""
    return np.bincount([select(scores, scale, f"draw {i}") for i in range(n)], minlength=scores.size).astype(np.int64)


def rejected(seen: IntArray, p: Array) -> bool:
    """By chi-square at LEVEL."""
    expected = seen.sum() * p
    assert expected.min() > 10
    return bool(stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), p.size - 1) < LEVEL)


def missed(p: Array, other: Array, n: int) -> float:
    """The chance that n draws from one law do not reject another: known before any is drawn."""
    noncentrality = n * ((p - other) ** 2 / other).sum()
    return float(stats.ncx2.cdf(stats.chi2.isf(LEVEL, p.size - 1), p.size - 1, noncentrality))


def examine(select: Select, scale: float, n: int, offset: int = 0) -> None:
    """Draw, accept the law of the scale, reject those of scales 20 % off."""
    scores = scaled(scale, offset)
    p = law(scores, scale)
    seen = drawn(select, scores, scale, n)
    assert not rejected(seen, p)
    for wrong in (0.8 * scale, 1.2 * scale):
        assert missed(p, law(scores, wrong), n) < LEVEL
        assert rejected(seen, law(scores, wrong))


@pytest.mark.parametrize(("scale", "offset", "n"), [(10.0, 0, 20_000), (1e12, -(10**15), 3000), (1e5, 2**61, 3000)])
def test_seeded_selection_follows_the_law(scale: float, offset: int, n: int) -> None:
    examine(make_select("rounded", 3), scale, n, offset)


@pytest.mark.parametrize(("scale", "offset"), [(10.0, 0), (1e12, -(10**15)), (1e5, 2**61)])
def test_private_selection_follows_the_law(scale: float, offset: int) -> None:
    """Scores of 2^61 that differ by thousands: doubles would not tell them apart."""
    examine(private, scale, 3000, offset)


def test_differences_of_one_count_at_any_size() -> None:
    scores = np.array([10**15, 10**15 + 1])
    p = law(scores, 1.0)
    seen = drawn(private, scores, 1.0, 2000)
    assert not rejected(seen, p)
    assert rejected(seen, np.array([0.5, 0.5]))


@pytest.mark.parametrize("seed", [1, None])
def test_ties_are_broken_evenly(seed: int | None) -> None:
    """And one draw in ten too many for the first of them would show."""
    scores, even = np.zeros(6, dtype=np.int64), np.full(6, 1 / 6)
    seen = drawn(make_select("rounded", seed), scores, 5.0, 3000)
    assert not rejected(seen, even)
    biased = even + np.array([5, *[-1] * 5]) / 50
    assert missed(biased, even, 3000) < LEVEL
    assert rejected(np.rint(3000 * biased).astype(np.int64), even)


def test_extreme_scales() -> None:
    """A tiny scale finds the largest score, a huge one any: chances below 1e-100 and 2^-63 aside, certainly."""
    scores = np.array([10**15, 10**15 + 1, -(10**15), 5])
    for select in (make_select("rounded", 0), make_select("rounded", None)):
        assert [select(scores, 1e-6, f"{i}") for i in range(100)] == [1] * 100
        assert [select(scores, 1e-300, f"{i}") for i in range(100)] == [1] * 100
        assert {select(scores, 1e300, f"{i}") for i in range(300)} == {0, 1, 2, 3}  # misses: 4 (3/4)^300 < 1e-36


def test_without_noise_the_first_of_the_largest() -> None:
    select = make_select("none", None)
    assert make_select("none", 7) is select
    assert select(np.array([3, 9, -1, 9]), 1e300, "") == 1
    big = np.array([LARGEST_SCORE - 2, LARGEST_SCORE - 1])
    assert select(big, 1.0, "") == 1


def test_seeds_and_labels_decide() -> None:
    scores = np.arange(50)
    draws = [make_select("rounded", seed)(scores, 100.0, label) for seed in (1, 2) for label in "abcdefgh"]
    assert draws == [seeded(seed, scores, 100.0, label) for seed in (1, 2) for label in "abcdefgh"]
    assert len(set(draws)) > 8
    assert draws[:8] != draws[8:]


def test_opendp_is_never_seeded() -> None:
    assert make_select("opendp", 1) is make_select("opendp", None) is make_select("rounded", None) is private


@given(sensitivities, shares)
def test_scales_are_the_smallest_within_the_share(sensitivity: int, rho: Fraction) -> None:
    scale = selection_scale(sensitivity, rho)
    assert selection_cost(sensitivity, scale) <= rho
    assert opendp_cost(sensitivity, scale) <= rho
    smallest = smallest_sigma(2 * rho, Fraction(sensitivity) ** 2)
    assert smallest <= scale <= smallest * (1 + 2.0**-48)
    below = math.nextafter(scale, 0)
    assert max(selection_cost(sensitivity, below), opendp_cost(sensitivity, below)) > rho
    assert selection_cost(sensitivity, math.nextafter(smallest, 0)) > rho


@given(sensitivities, shares, shares)
def test_less_budget_never_means_less_noise(sensitivity: int, one: Fraction, other: Fraction) -> None:
    low, high = sorted([one, other])
    assert selection_scale(sensitivity, low) >= selection_scale(sensitivity, high)


def opendp_cost(sensitivity: int, scale: float) -> Fraction:
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    return Fraction(dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale).map(sensitivity))


@pytest.mark.parametrize(("sensitivity", "scale"), [(1, 1.0), (2, 0.1), (3, 7.5), (2**40, 2.0), (1, 1e-6), (5, 1e12)])
def test_costs_are_those_of_the_general_guarantee(sensitivity: int, scale: float) -> None:
    """``eps^2/8`` with ``eps = 2 D / scale``; scores that all move one way would cost a quarter."""
    cost = selection_cost(sensitivity, scale)
    assert cost == (2 * sensitivity / Fraction(scale)) ** 2 / 8
    assert cost == Fraction(sensitivity) ** 2 / Fraction(scale) ** 2 / 2
    assert cost <= opendp_cost(sensitivity, scale) <= cost * (1 + Fraction(1, 2**48))


def test_the_cost_bounds_the_divergence_of_the_law() -> None:
    """Renyi divergences of the law itself on neighbours that move scores both ways: at most alpha rho, and near."""
    sensitivity, scale, tight = 3, 4.0, 0.0
    rho = float(selection_cost(sensitivity, scale))
    for gap in range(-12, 13):
        scores = np.array([gap, 0, *[-20] * 3])
        p, q = law(scores, scale), law(scores + np.array([3, -3, -3, 3, 3]), scale)
        for alpha in (1.001, 1.5, 2.0, 4.0, 20.0):
            divergence = math.log((p**alpha * q ** (1 - alpha)).sum()) / (alpha - 1)
            assert divergence <= alpha * rho
            tight = max(tight, divergence / (alpha * rho))
    assert tight > 0.8


@pytest.mark.parametrize("sensitivity", [0, -1, LARGEST_SCORE, 2**70])
def test_sensitivities_have_a_range(sensitivity: int) -> None:
    with pytest.raises(BudgetError, match="sensitivity from 1 to"):
        selection_scale(sensitivity, Fraction(1))


@pytest.mark.parametrize("rho", [Fraction(0), Fraction(-1), Fraction(1, 10**700)])
def test_shares_have_a_range(rho: Fraction) -> None:
    with pytest.raises(BudgetError):
        selection_scale(1, rho)


@pytest.mark.parametrize("kind", ["rounded", "none"])
@pytest.mark.parametrize(
    "scores",
    [
        np.zeros(0, dtype=np.int64),
        np.zeros((2, 2), dtype=np.int64),
        np.zeros(3),
        np.zeros(3, dtype=np.int32),
        np.array([0, LARGEST_SCORE]),
        np.array([0, -LARGEST_SCORE]),
        np.array([-(2**63), 1]),
    ],
    ids=str,
)
def test_scores_are_exact_and_in_range(kind: str, scores: Any) -> None:
    for seed in (None, 1):
        with pytest.raises(InternalError, match="scores must be"):
            make_select(kind, seed)(scores, 1.0, "")


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_scales_are_finite_and_positive(scale: float) -> None:
    for select in (make_select("rounded", None), make_select("rounded", 1), make_select("none", None)):
        with pytest.raises(InternalError, match="finite number > 0"):
            select(np.array([1, 2]), scale, "")


def test_a_scale_that_opendp_never_grants_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own account has the last word: without its consent nothing is drawn."""
    measurement = SimpleNamespace(map=lambda sensitivity: 2.0)
    monkeypatch.setattr(exponential_mechanism, "_measurement", lambda scale: measurement)
    with pytest.raises(BudgetError, match=r"stays above the share rho=1\.0; choose a budget nearer to 1"):
        selection_scale(3, Fraction(1))
