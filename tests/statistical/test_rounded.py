"""Rounded Gaussian noise: the law, the decisions at the boundaries, the speed; and OpenDP's noise beside it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtri

from qcompile import allocation
from qcompile.arrays import Array, IntArray
from qcompile.errors import BudgetError, OptionError
from qcompile.privacy.opendp_noise import opendp_gaussian
from qcompile.privacy.rounded import Tail, decide_slowly, first_look, rounded_gaussian
from qcompile.privacy.source import ByteSource, SeededSource, SystemSource

ALPHA = 1e-9
SCALES = [0.3, 1.0, 17.3, 300.0, 1e6]
CENTERS = [Fraction(0), Fraction(1, 4), Fraction(1, 2), 10**5 + Fraction(1, 3)]


class Written:
    """Given bytes, then given further ones for ever."""

    private = False

    def __init__(self, words: list[int], further: bytes = b"\0") -> None:
        self._data = b"".join(word.to_bytes(8, "little") for word in words)
        self._further = further
        self.asked = 0

    def take(self, n: int) -> bytes:
        data, self._data = self._data[:n], self._data[n:]
        self.asked += n - len(data)
        return data + self._further * (n - len(data))

    def branch(self, label: bytes) -> ByteSource:
        return self


def draw(center: Fraction, s: float, n: int, source: ByteSource, error: float = 2.0**-30) -> IntArray:
    return rounded_gaussian(np.full(n, float(center)), error, s, lambda _: center, source)


def law_pvalue(values: IntArray, center: Fraction, s: float) -> float:
    """Chi-square test of integers against the exact probabilities of ``round(center + s Z)``, in up to 60 bins."""
    quantiles = float(center) + s * stats.norm.ppf(np.linspace(0, 1, 61)[1:-1])
    edges = np.unique(np.floor(quantiles) + 0.5)
    if s < 1:  # the quantiles fall on a few integers only; add both neighbours
        edges = np.unique(np.concatenate([edges - 1, edges, edges + 1]))
    chance = np.diff(np.concatenate([[0], stats.norm.cdf((edges - float(center)) / s), [1]]))
    seen = np.bincount(np.searchsorted(edges, values), minlength=edges.size + 1)
    keep = chance * values.size > 5
    if not keep.all():
        chance = np.append(chance[keep], chance[~keep].sum())
        seen = np.append(seen[keep], seen[~keep].sum())
        usable = chance * values.size > 1e-3
        assert seen[~usable].sum() == 0
        chance, seen = chance[usable], seen[usable]
    return float(stats.chisquare(seen, chance / chance.sum() * values.size).pvalue)


@pytest.mark.parametrize("center", CENTERS, ids=str)
@pytest.mark.parametrize("s", SCALES)
def test_law_with_power(s: float, center: Fraction) -> None:
    values = draw(center, s, 100_000, SystemSource())
    assert law_pvalue(values, center, s) > ALPHA
    for wrong in (0.9 * s, 1.1 * s):
        assert law_pvalue(values, center, wrong) < ALPHA
    assert law_pvalue(values, center + Fraction(s) / 8, s) < ALPHA


@pytest.mark.parametrize("center", CENTERS, ids=str)
@pytest.mark.parametrize("s", [0.3, 17.3])
def test_law_of_the_slow_path(s: float, center: Fraction) -> None:
    values = draw(center, s, 4000, SystemSource(), error=1.0)
    assert law_pvalue(values, center, s) > ALPHA
    assert law_pvalue(values, center, 1.5 * s) < ALPHA


def test_entries_are_independent() -> None:
    values = draw(Fraction(0), 300.0, 200_000, SystemSource()).astype(np.float64) / 300
    for lag in (1, 2, 16384):
        assert abs(np.mean(values[lag:] * values[:-lag])) < 6.5 / math.sqrt(values.size - lag)


@pytest.mark.parametrize("s", [0.3, 17.3, 300.0, 1e6])
def test_slow_path_agrees_with_the_fast_path(s: float) -> None:
    centers = [Fraction(i, 7) * (-1) ** i for i in range(1000)]
    rough = np.array([float(c) for c in centers])
    fast = rounded_gaussian(rough, 2.0**-30, s, centers.__getitem__, SeededSource(5))
    slow = rounded_gaussian(rough, 1e9, s, centers.__getitem__, SeededSource(5))
    assert np.array_equal(fast, slow)
    words = np.frombuffer(SeededSource(5).take(8000), dtype=np.uint64)
    nearest, sure = first_look(words, rough, 2.0**-30, s)
    assert np.array_equal(nearest[sure], slow[sure])
    assert sure.mean() > 0.99


def test_doubtful_entries_are_as_rare_as_promised() -> None:
    words = np.frombuffer(SeededSource(6).take(8 * 2_000_000), dtype=np.uint64)
    _, sure = first_look(words, np.zeros(words.size), 0.0, 300.0)
    # Nearly all have a tail below 2^46: 2^-17 of the draws, 15 of two million.
    assert 2 <= np.count_nonzero(~sure) <= 40
    _, sure = first_look(words, np.zeros(words.size), 1e-3, 300.0)
    assert np.mean(~sure) == pytest.approx(2e-3, rel=0.1)


def real_z(word: int, extra: Fraction) -> Any:
    """|Z| of a word whose unread bits are ``extra`` in [0, 1], to 60 digits."""
    p = mpmath.mpf((word & (2**63 - 1)) * extra.denominator + extra.numerator) / extra.denominator / 2**64
    return mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * p)


def as_fraction(value: Any) -> Fraction:
    return Fraction(int(mpmath.nint(value * 2**160)), 2**160)


@given(st.integers(2**46, 2**64 - 1).filter(lambda w: w & (2**63 - 1) >= 2**46), st.integers(-400, 400))
@settings(max_examples=25)
@pytest.mark.parametrize("s", [0.3, 300.0])
def test_borderline_cases_are_decided_right(s: float, word: int, n: int) -> None:
    with mpmath.workdps(60):
        sign = 1 if word >> 63 else -1
        near, far = (sign * Fraction(s) * as_fraction(real_z(word, Fraction(i))) for i in (1, 0))
    low, high = sorted((near, far))
    tiny = Fraction(1, 2**120)
    for center, expected in ((n + Fraction(1, 2) - low + tiny, n + 1), (n + Fraction(1, 2) - high - tiny, n)):
        f = np.array([float(center)])
        words = np.array([word], dtype=np.uint64)
        assert not first_look(words, f, 2.0**-42, s)[1][0]
        assert decide_slowly(center, Fraction(s), Tail(word, Written([]))) == expected
        assert rounded_gaussian(f, 2.0**-42, s, [center].__getitem__, Written([word]))[0] == expected


@pytest.mark.parametrize("positive", [True, False])
def test_further_bits_decide_what_the_first_leave_open(positive: bool) -> None:
    word = 0x123456789ABCDEF0 | (positive << 63)
    sign = 1 if positive else -1
    with mpmath.workdps(60):
        middle = sign * 300 * as_fraction(real_z(word, Fraction(1, 2)))
    center = Fraction(1, 2) - middle
    # More unread bits set: a larger tail, a smaller |Z|; in between the draw is on the boundary to 64 more bits.
    outcomes = {}
    for name, further in (("small", b"\xff"), ("large", b"\0")):
        source = Written([word], further)
        outcomes[name] = int(rounded_gaussian(np.array([float(center)]), 1.0, 300.0, [center].__getitem__, source)[0])
        assert source.asked == 8
    assert outcomes == ({"small": 0, "large": 1} if positive else {"small": 1, "large": 0})


def test_the_exact_center_is_rarely_needed() -> None:
    calls: list[int] = []

    def exact(index: int) -> Fraction:
        calls.append(index)
        return Fraction(1, 3)

    words = [5, 2**45, 2**63 + 7]
    tails = rounded_gaussian(np.full(3, 1 / 3), 1e-9, 300.0, exact, Written(words))
    assert calls == []
    assert tails[0] < -8.8 * 300 < 8.8 * 300 < tails[2]
    rounded_gaussian(np.full(3, 1 / 3), 0.5, 300.0, exact, Written(words))
    assert calls == [0, 1, 2]


@pytest.mark.parametrize("word", [0, 2**63, 2**63 - 1, 2**64 - 1])
def test_extreme_words(word: int) -> None:
    source = Written([word], b"\xff" if word & 1 else b"\x01")
    value = int(rounded_gaussian(np.zeros(1), 0.0, 1000.0, lambda _: Fraction(0), source)[0])
    if word & 1:  # tails next to 1/2
        assert value == 0
    else:  # below 2^-64, that is past 9.1 standard deviations
        assert 9100 < (value if word else -value) < 14000


@pytest.mark.parametrize("center", [2.0**53, -(2.0**60), math.inf, -math.inf, math.nan])
def test_centers_beyond_doubles_are_taken_exactly(center: float) -> None:
    exact = Fraction(2**61 + 1, 3)
    if math.isfinite(center):
        exact = Fraction(center) + Fraction(1, 3)
    values = rounded_gaussian(np.full(50, center), 1.0, 10.0, lambda _: exact, SeededSource(2))
    assert all(abs(int(value) - exact) < 70 for value in values)
    assert len(set(values.tolist())) > 10


def test_large_centers_keep_their_last_digits() -> None:
    center = Fraction(2**60)
    values = draw(center, 10.0, 4000, SystemSource(), error=0.0)
    assert law_pvalue(values - 2**60, Fraction(0), 10.0) > ALPHA


def test_results_beyond_64_bits_are_refused() -> None:
    with pytest.raises(OptionError, match="more than 64 bits"):
        rounded_gaussian(np.full(1, 2.0**63), 1.0, 1.0, lambda _: Fraction(2**63 + 100), SeededSource(0))


@pytest.mark.parametrize("s", [0.0, -1.0, math.nan, math.inf, 2.0**41])
def test_wrong_scales_are_refused(s: float) -> None:
    with pytest.raises(OptionError, match="s="):
        draw(Fraction(0), s, 1, SeededSource(0))


@pytest.mark.parametrize("error", [-1.0, math.nan, math.inf])
def test_wrong_errors_are_refused(error: float) -> None:
    with pytest.raises(OptionError, match="error="):
        draw(Fraction(0), 1.0, 1, SeededSource(0), error)


def test_arrays_must_be_vectors() -> None:
    with pytest.raises(OptionError, match=r"vector, got shape \(2, 2\)"):
        rounded_gaussian(np.zeros((2, 2)), 0.0, 1.0, lambda _: Fraction(0), SeededSource(0))
    assert rounded_gaussian(np.zeros(0), 0.0, 1.0, lambda _: Fraction(0), SeededSource(0)).shape == (0,)


@pytest.mark.parametrize("cut", [1, 1000, 16384, 40_000])
def test_batches_do_not_change_the_draws(cut: int) -> None:
    rough = np.linspace(-1e4, 1e4, 40_001)
    exact = [Fraction(f) for f in rough.tolist()]
    whole = rounded_gaussian(rough, 1e-3, 300.0, exact.__getitem__, SeededSource(9, "node"))
    source = SeededSource(9, "node")
    first = rounded_gaussian(rough[:cut], 1e-3, 300.0, exact.__getitem__, source)
    rest = rounded_gaussian(rough[cut:], 1e-3, 300.0, exact[cut:].__getitem__, source)
    assert np.array_equal(whole, np.concatenate([first, rest]))


def test_further_bits_come_from_elsewhere() -> None:
    word = int.from_bytes(SeededSource(9).take(8), "little")
    with mpmath.workdps(60):
        middle = (1 if word >> 63 else -1) * 300 * as_fraction(real_z(word, Fraction(1, 2)))
    exact = [Fraction(1, 2) - middle, Fraction(0)]  # the first draw is open to 64 bits, whatever they are
    rough = np.array([float(c) for c in exact])
    source = SeededSource(9)
    first = rounded_gaussian(rough[:1], 1.0, 300.0, exact.__getitem__, source)
    second = rounded_gaussian(rough[1:], 1.0, 300.0, exact[1:].__getitem__, source)
    both = rounded_gaussian(rough, 1.0, 300.0, exact.__getitem__, SeededSource(9))
    assert np.array_equal(both, np.concatenate([first, second]))


def test_ndtri_is_as_accurate_as_the_margins_assume() -> None:
    grid = np.concatenate([np.geomspace(2.0**-18, 0.49, 150), 0.5 - np.geomspace(2.0**-54, 0.4, 100)])
    switch = math.exp(-2)  # where its rational approximations meet
    grid = np.concatenate([grid, [switch, math.nextafter(switch, 0), math.nextafter(switch, 1), 0.5]])
    with mpmath.workdps(40):
        for p, z in zip(grid.tolist(), (-ndtri(grid)).tolist(), strict=True):
            true = mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * mpmath.mpf(p))
            assert abs(true - z) <= mpmath.mpf(2) ** -49 * true


def rate(work: Callable[[], object], n: int) -> float:
    """Draws a second, the best of three."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return n / min(times)


def test_a_hundred_times_the_speed_of_opendp() -> None:
    ours = rate(lambda: draw(Fraction(1, 3), 300.0, 500_000, SystemSource()), 500_000)
    values: Array = np.full(1000, 1 / 3)
    theirs = rate(lambda: opendp_gaussian(values, 300.0, Fraction(1), Fraction(1)), 1000)
    assert ours > 100 * theirs


@pytest.mark.parametrize(
    ("sensitivity_squared", "rho"), [(1, "1/49"), ("7/3", "0.1"), (10**6, "1e-6"), ("1/3", "5")], ids=str
)
def test_opendp_stays_within_the_share(sensitivity_squared: int | str, rho: str) -> None:
    square, share = Fraction(sensitivity_squared), Fraction(rho)
    sigma = allocation.smallest_sigma(2 * share, square)
    values, used = opendp_gaussian(np.full(4000, 10.0), sigma, square, share)
    assert sigma <= used <= sigma * (1 + 1e-12)
    assert square / (2 * Fraction(used) ** 2) <= share
    noise = values - 10
    assert stats.kstest(noise / sigma, "norm").pvalue > ALPHA
    total = float((noise**2).sum())
    for wrong in (0.85 * sigma, 1.15 * sigma):
        assert not 1e-5 < stats.chi2.cdf(total / wrong**2, noise.size) < 1 - 1e-5


def test_opendp_enlarges_a_scale_that_is_too_small() -> None:
    _, used = opendp_gaussian(np.zeros(1), 1.0, Fraction(4), Fraction(1, 2))
    assert 2 <= used < 4


def test_opendp_refusals() -> None:
    with pytest.raises(OptionError, match="finite numbers"):
        opendp_gaussian(np.array([math.nan]), 1.0, Fraction(1), Fraction(1))
    with pytest.raises(OptionError, match="sigma=nan"):
        opendp_gaussian(np.zeros(1), math.nan, Fraction(1), Fraction(1))
    with pytest.raises(BudgetError, match="far above the share"):
        opendp_gaussian(np.zeros(1), 1e-6, Fraction(1), Fraction(1))


def test_both_noises_have_the_same_law() -> None:
    g = allocation.grid(5.0)
    ours = draw(Fraction(0), 5.0 / g, 4000, SystemSource()) * g
    theirs, _ = opendp_gaussian(np.zeros(4000), 5.0, Fraction(1), Fraction(1, 50))
    assert stats.ks_2samp(ours, theirs).pvalue > ALPHA
