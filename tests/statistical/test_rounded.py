"""Rounded Gaussian noise: the law, the decisions at the boundaries, the speed; and OpenDP's noise beside it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtri

from qcompile.api import compile
from qcompile.errors import BudgetError, OptionError
from qcompile.privacy.ball_arithmetic import precision
from qcompile.privacy.noise import scale as noise_scale
from qcompile.privacy.noise.opendp_gaussian import opendp_gaussian
from qcompile.privacy.noise.random_bytes import ByteSource, SeededSource, SystemSource
from qcompile.privacy.noise.rounded_gaussian import (
    ExactCenters,
    Tail,
    Words,
    decide_slowly,
    first_look,
    margin,
    rough_sums,
    rounded_gaussian,
)
from qcompile.queries.factors import Affine, Circular, Prefix, Range
from qcompile.solvers.composite.cosine import correct, dual_weights, plain_strategy
from qcompile.strategy import FourierStrategy, KroneckerStrategy, MixtureStrategy, Strategy
from qcompile.support.arrays import Array, BoolArray, IntArray
from tests.conformance.helpers import family, integers, workload

ALPHA = 1e-9


def entries(centers: Sequence[Fraction]) -> ExactCenters:
    """Exact centers, given as a list."""
    return lambda rows: [centers[i] for i in rows]


def always(center: Fraction) -> ExactCenters:
    """The same exact center for every entry."""
    return lambda rows: [center] * len(rows)


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
    return rounded_gaussian(np.full(n, float(center)), error, s, always(center), source)


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
    fast = rounded_gaussian(rough, 2.0**-30, s, entries(centers), SeededSource(5))
    slow = rounded_gaussian(rough, 1e9, s, entries(centers), SeededSource(5))
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
        assert rounded_gaussian(f, 2.0**-42, s, entries([center]), Written([word]))[0] == expected


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
        outcomes[name] = int(rounded_gaussian(np.array([float(center)]), 1.0, 300.0, entries([center]), source)[0])
        assert source.asked == 8
    assert outcomes == ({"small": 0, "large": 1} if positive else {"small": 1, "large": 0})


def test_the_exact_center_is_rarely_needed() -> None:
    calls: list[int] = []

    def exact(rows: IntArray) -> list[Fraction]:
        calls.extend(rows.tolist())
        return [Fraction(1, 3)] * len(rows)

    words = [5, 2**45, 2**63 + 7]
    tails = rounded_gaussian(np.full(3, 1 / 3), 1e-9, 300.0, exact, Written(words))
    assert calls == []
    assert tails[0] < -8.8 * 300 < 8.8 * 300 < tails[2]
    rounded_gaussian(np.full(3, 1 / 3), 0.5, 300.0, exact, Written(words))
    assert calls == [0, 1, 2]


@pytest.mark.parametrize("word", [0, 2**63, 2**63 - 1, 2**64 - 1])
def test_extreme_words(word: int) -> None:
    source = Written([word], b"\xff" if word & 1 else b"\x01")
    value = int(rounded_gaussian(np.zeros(1), 0.0, 1000.0, always(Fraction(0)), source)[0])
    if word & 1:  # tails next to 1/2
        assert value == 0
    else:  # below 2^-64, that is past 9.1 standard deviations
        assert 9100 < (value if word else -value) < 14000


@pytest.mark.parametrize("center", [2.0**53, -(2.0**60), math.inf, -math.inf, math.nan])
def test_centers_beyond_doubles_are_taken_exactly(center: float) -> None:
    exact = Fraction(2**61 + 1, 3)
    if math.isfinite(center):
        exact = Fraction(center) + Fraction(1, 3)
    values = rounded_gaussian(np.full(50, center), 1.0, 10.0, always(exact), SeededSource(2))
    assert all(abs(int(value) - exact) < 70 for value in values)
    assert len(set(values.tolist())) > 10


def test_large_centers_keep_their_last_digits() -> None:
    center = Fraction(2**60)
    values = draw(center, 10.0, 4000, SystemSource(), error=0.0)
    assert law_pvalue(values - 2**60, Fraction(0), 10.0) > ALPHA


def test_results_beyond_64_bits_are_refused() -> None:
    with pytest.raises(OptionError, match="more than 64 bits"):
        rounded_gaussian(np.full(1, 2.0**63), 1.0, 1.0, always(Fraction(2**63 + 100)), SeededSource(0))


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
        rounded_gaussian(np.zeros((2, 2)), 0.0, 1.0, always(Fraction(0)), SeededSource(0))
    assert rounded_gaussian(np.zeros(0), 0.0, 1.0, always(Fraction(0)), SeededSource(0)).shape == (0,)


@pytest.mark.parametrize("cut", [1, 1000, 16384, 40_000])
def test_batches_do_not_change_the_draws(cut: int) -> None:
    rough = np.linspace(-1e4, 1e4, 40_001)
    exact = [Fraction(f) for f in rough.tolist()]
    whole = rounded_gaussian(rough, 1e-3, 300.0, entries(exact), SeededSource(9, "node"))
    source = SeededSource(9, "node")
    first = rounded_gaussian(rough[:cut], 1e-3, 300.0, entries(exact), source)
    rest = rounded_gaussian(rough[cut:], 1e-3, 300.0, entries(exact[cut:]), source)
    assert np.array_equal(whole, np.concatenate([first, rest]))


def test_further_bits_come_from_elsewhere() -> None:
    word = int.from_bytes(SeededSource(9).take(8), "little")
    with mpmath.workdps(60):
        middle = (1 if word >> 63 else -1) * 300 * as_fraction(real_z(word, Fraction(1, 2)))
    exact = [Fraction(1, 2) - middle, Fraction(0)]  # the first draw is open to 64 bits, whatever they are
    rough = np.array([float(c) for c in exact])
    source = SeededSource(9)
    first = rounded_gaussian(rough[:1], 1.0, 300.0, entries(exact), source)
    second = rounded_gaussian(rough[1:], 1.0, 300.0, entries(exact[1:]), source)
    both = rounded_gaussian(rough, 1.0, 300.0, entries(exact), SeededSource(9))
    assert np.array_equal(both, np.concatenate([first, second]))


def arb(value: Fraction) -> Any:
    import flint

    return flint.arb(flint.fmpq(value.numerator, value.denominator))


@pytest.fixture
def digits() -> Iterator[None]:
    """Ball arithmetic of 200 bits."""
    with precision(200):
        yield


def true_z(p: Fraction) -> Any:
    """``-Phi^-1(p)`` as a ball, and checked: its tail probability is p again."""
    z = arb(Fraction(2)).sqrt() * (1 - 2 * arb(p)).erfinv()
    tail = (z / arb(Fraction(2)).sqrt()).erfc() / 2
    assert tail.overlaps(arb(p))
    assert z.rel_accuracy_bits() > 110 or p > Fraction(1, 2) - Fraction(1, 2**30)
    return z


def tails() -> Array:
    """Tail probabilities as the sampler forms them: dense, and denser where something changes."""
    words = np.frombuffer(SeededSource(11, "tails").take(8 * 3000), dtype=np.uint64)
    uniform = words[:1000] >> np.uint64(1)
    at_every_size = words[1000:2000] >> (np.uint64(1) + (words[1000:2000] % np.uint64(17)))
    smallest = np.uint64(2**46) + words[2000:2200] % np.uint64(2**30)
    beyond = words[2200:2400] >> (np.uint64(18) + words[2200:2400] % np.uint64(46))  # second look: a guess only
    half = np.uint64(2**63 - 1) - (words[2400:] >> (np.uint64(1) + words[2400:] % np.uint64(63)))
    k = np.concatenate([uniform, at_every_size, smallest, beyond, half])
    switch = math.exp(-2)  # where its rational approximations meet
    around = switch * (1 + np.concatenate([-np.geomspace(1e-16, 1e-3, 100), np.geomspace(1e-16, 1e-3, 100)]))
    far = math.exp(-32)  # and the next such place
    around = np.concatenate([around, around * (far / switch), [0.5, 0.5 - 2.0**-54, 2.0**-18, 2.0**-65]])
    return np.concatenate([(k.astype(np.float64) + 0.5) * 2.0**-64, around])


def test_ndtri_is_as_accurate_as_the_margins_assume(digits: None) -> None:
    """The one function of the first look that is not IEEE arithmetic, on this machine and in this SciPy."""
    grid = tails()
    worst = 0.0
    for p, z in zip(grid.tolist(), (-ndtri(grid)).tolist(), strict=True):
        true = true_z(Fraction(p)) if p < 0.5 else arb(Fraction(0))
        error = abs(arb(Fraction(z)) - true)
        assert error <= arb(Fraction(1, 2**49)) * true
        worst = max(worst, float((error / true).mid()) if p < 0.5 else 0.0)
    print(f"ndtri: largest relative error 2^{math.log2(worst):.2f} in {grid.size} tails")
    assert worst > 2.0**-54  # it is measured at all


def test_bounds_of_the_density_where_the_first_look_is_taken(digits: None) -> None:
    """``1/phi(z) < 2^16`` and ``z < 4.5`` from ``k = 2^46`` on; Mills' ratio is at most ``sqrt(pi/2) < 1.26``."""
    z = true_z(Fraction(2**46, 2**64))
    density = (-z * z / 2).exp() / (2 * arb(Fraction(355, 113))).sqrt()  # 355/113 > pi
    assert z < arb(Fraction(9, 2))
    assert 1 / density < 2**16
    assert float(stats.norm.sf(0) / stats.norm.pdf(0)) < 1.26


def sum_errors(words: Words, rough: Array, centers: Sequence[Fraction], s: float) -> Iterator[tuple[float, Any]]:
    """For every entry the margin of the first look, and how wrong its sum is for the worst of the unread bits."""
    with np.errstate(invalid="ignore"):
        whole, sums, spread = rough_sums(words, rough, s)
    margins = margin(spread.copy(), s)
    scale = arb(Fraction(s))
    for word, w, found, m, c in zip(
        words.tolist(), whole.tolist(), sums.tolist(), margins.tolist(), centers, strict=True
    ):
        k, sign = word & (2**63 - 1), 1 if word >> 63 else -1
        ends = (Fraction(k, 2**64), Fraction(k + 1, 2**64))
        zs = [true_z(p) if 0 < p < Fraction(1, 2) else arb(Fraction(0)) for p in ends]
        offset = arb(c - Fraction(w)) - arb(Fraction(found))
        yield m, max((abs(offset + sign * scale * z) for z in zs), key=lambda e: float(e.mid()))


def usable_words(n: int) -> Words:
    """Words of which the first look is sure as far as their tails go: of every size, with both signs."""
    words = np.frombuffer(SeededSource(12, "sums").take(8 * n), dtype=np.uint64)
    k = np.uint64(2**46) + ((words & np.uint64(2**63 - 1)) >> (words % np.uint64(17)))
    half = np.uint64(2**63 - 1) - (words >> (np.uint64(1) + words % np.uint64(63)))
    k = np.where(words % np.uint64(5) == 0, half, k)
    k[:2] = 2**46, 2**63 - 1
    return np.asarray(np.minimum(np.maximum(k, np.uint64(2**46)), np.uint64(2**63 - 1)) | words & np.uint64(2**63))


@pytest.mark.parametrize("s", [2.0**-10, 0.3, 1.0, 17.3, 300.0, 511.9, 1e6, 2.0**40])
def test_all_errors_of_the_first_look_are_within_half_of_its_margin(s: float, digits: None) -> None:
    """Unread bits, rounding of p, ndtri, product and sum together, against numbers of 200 bits; the center is exact."""
    words = usable_words(300)
    rough = np.sin(np.arange(words.size)) * 10.0 ** (np.arange(words.size) % 13)
    worst = 0.0
    for m, error in sum_errors(words, rough, [Fraction(f) for f in rough.tolist()], s):
        assert 2 * error < m
        worst = max(worst, float(error.mid()) / m)
    print(f"s = {s:g}: the largest error is {worst:.4f} of the margin")
    assert worst > 2.0**-16


@cache
def strategies() -> dict[str, Strategy]:
    """What solvers make: a dense one, a product, one applied by Fourier transforms, and a stack of two."""
    a, b = integers(8, 9)
    prefixes, sums = workload([a, b], family(Prefix(a), Range(b))), workload([a, b], family(Affine([a, b], [1, 1])))
    circular = workload([a, b], family(Circular(a), Circular(b)))
    product, dense = compile(prefixes).strategies[-1], compile(sums).strategies[-1]
    assert isinstance(product, KroneckerStrategy)
    assert isinstance(dense, KroneckerStrategy)
    assert (len(product.parts), len(dense.parts)) == (2, 1)
    fourier = compile(circular, solver="wff").strategies[-1]
    assert isinstance(fourier, FourierStrategy)
    mixture = MixtureStrategy([product, dense])
    cosine = correct(plain_strategy(70), dual_weights(70, 1e-3).point.mu, 5)
    return {"dense": dense, "product": product, "Fourier": fourier, "mixture": mixture, "cosine": cosine}


@pytest.mark.parametrize("total", [10**3, 10**12])
@pytest.mark.parametrize("kind", ["dense", "product", "Fourier", "mixture", "cosine"])
def test_all_errors_from_the_counts_on_are_within_the_margin(kind: str, total: int, digits: None) -> None:
    """As a release does it: ``B x`` by BLAS or by transforms, its a-priori bound, division by the grid, first look."""
    strategy = strategies()[kind]
    x = np.floor(np.abs(np.sin(1.0 + np.arange(math.prod(strategy.shape)))) * total / 100).astype(np.int64)
    x = x.reshape(strategy.shape)
    sigma = 5.0 * float(strategy.sensitivity_squared) ** 0.5
    g = noise_scale.grid(sigma)
    floats = x.astype(np.float64)
    scaled, error = strategy.apply(floats) / g, strategy.rounding_error(floats) / g
    centers = [c / Fraction(g) for c in strategy.exact_entries(x)(np.arange(strategy.rows))]
    off = [abs(Fraction(f) - c) for f, c in zip(scaled.tolist(), centers, strict=True)]
    assert all(o <= Fraction(e / g) for o, e in zip(off, strategy.rounding_errors(floats).tolist(), strict=True))
    of_center = max(off)
    assert of_center <= Fraction(error)
    worst = 0.0
    for m, away in sum_errors(usable_words(strategy.rows), scaled, centers, sigma / g):
        assert away < m + error
        worst = max(worst, float(away.mid()) / (m + error))
    print(f"{kind}, {total:.0e} rows: center {float(of_center / Fraction(error)):.4f} of its bound, all {worst:.4f}")
    words = np.frombuffer(SeededSource(3).take(8 * strategy.rows), dtype=np.uint64)
    found = rounded_gaussian(scaled, error, sigma / g, entries(centers), SeededSource(3))
    expected = [brute_force(c, sigma / g, w) for c, w in zip(centers, words.tolist(), strict=True)]
    assert found.tolist() == expected


def brute_force(center: Fraction, s: float, word: int) -> int:
    """The nearest integer to ``center + sign s |Z|`` where all further bits are 0; from the definition, by Arb."""
    sign = 1 if word >> 63 else -1
    value = arb(center) + sign * arb(Fraction(s)) * true_z(Fraction(word & (2**63 - 1), 2**64))
    integer = (value + arb(Fraction(1, 2))).floor().unique_fmpz()
    assert integer is not None  # 200 bits decide it
    return int(integer)


DISTANCES = [Fraction(0), Fraction(1, 2**20), Fraction(1, 4), Fraction(9, 10), Fraction(3, 2), Fraction(4)]


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("distance", DISTANCES, ids=str)
@pytest.mark.parametrize("coarse", [0.0, 2.0**-10])
@pytest.mark.parametrize("s", [0.1, 300.0, 1e6])
def test_borderline_cases_around_the_margin(
    s: float, coarse: float, distance: Fraction, side: int, digits: None
) -> None:
    """Sums placed at both sides of half-integers, by multiples of the margin: closer is deferred, farther is not.

    In either case the integer is the one that the definition gives, although the rough centers are off towards the
    half-integer, or past it, by almost what they may be. Distance 0 is 2^-100 instead.
    """
    words = usable_words(20)
    _, _, spread = rough_sums(words, np.zeros(words.size), s)
    error = max(2.0**-40, s * 2.0**-49, coarse)
    margins = margin(spread, s) + error
    centers = []
    for i, (word, m) in enumerate(zip(words.tolist(), margins.tolist(), strict=True)):
        z = true_z(Fraction(word & (2**63 - 1), 2**64)) if word & (2**63 - 1) else arb(Fraction(0))
        noise = (1 if word >> 63 else -1) * as_fraction_of(z) * Fraction(s)
        away = side * (distance * Fraction(m) + Fraction(1, 2**100))
        centers.append(i - 10 + Fraction(1, 2) + away - noise)
    rough = np.array([float(c - side * Fraction(error) * Fraction(3, 4)) for c in centers])
    assert all(abs(Fraction(f) - c) <= Fraction(error) for f, c in zip(rough.tolist(), centers, strict=True))
    nearest, sure = first_look(words, rough, error, s)
    expected = [i - 10 + (side > 0) for i in range(words.size)]
    assert [brute_force(c, s, w) for c, w in zip(centers, words.tolist(), strict=True)] == expected
    assert sure.all() if distance > 2 else not sure.any() if distance < Fraction(1, 2) else True
    assert all(n == e for n, e, ok in zip(nearest.tolist(), expected, sure.tolist(), strict=True) if ok)
    source = Written(words.tolist())
    assert rounded_gaussian(rough, error, s, entries(centers), source).tolist() == expected
    assert [
        decide_slowly(c, Fraction(s), Tail(w, Written([]))) for c, w in zip(centers, words.tolist(), strict=True)
    ] == expected


def as_fraction_of(value: Any) -> Fraction:
    """The middle of a ball."""
    mantissa, exponent = map(int, value.mid().man_exp())
    return Fraction(mantissa << max(0, exponent), 1 << max(0, -exponent))


@pytest.mark.parametrize("error", [0.5 - 2.0**-30, 1e9], ids=["the ends of the center's interval first", "at once"])
@pytest.mark.parametrize("s", [0.1, 0.5, 17.3, 511.9, 2.0**40])
def test_whole_arrays_by_the_slow_path_alone(s: float, error: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With so large an error no entry is sure, and the bits decide the same integers as in the first look."""
    from qcompile.privacy.noise import rounded_gaussian as rounded

    centers = [Fraction(i * i, 7 if i % 2 else -7) for i in range(600)]
    rough = np.array([float(c) for c in centers])
    asked: list[int] = []

    def exact(rows: IntArray) -> list[Fraction]:
        asked.extend(rows.tolist())
        return [centers[i] for i in rows]

    fast = rounded_gaussian(rough, 2.0**-30, s, exact, SeededSource(21))
    assert len(asked) < 6
    asked.clear()
    slowly: list[Fraction] = []

    def decide(center: Fraction, scale: Fraction, tail: Tail) -> int:
        slowly.append(center)
        return decide_slowly(center, scale, tail)

    def open_to_all(words: Words, center: Array, error: Array | float, s: float) -> tuple[IntArray, BoolArray]:
        return np.zeros(len(words), dtype=np.int64), np.zeros(len(words), dtype=bool)

    monkeypatch.setattr(rounded, "decide_slowly", decide)
    monkeypatch.setattr(rounded, "first_look", open_to_all)
    slow = rounded_gaussian(rough, error, s, exact, SeededSource(21))
    assert np.array_equal(fast, slow)
    # After the two ends of the center's interval, which disagree as it is so wide; and for the second look, but where
    # the scale is so large that it would not help.
    assert sorted(asked) == sorted((2 if s < 2**20 else 1) * list(range(len(centers))))
    assert len(slowly) == (1 if error > 1 else 3) * len(centers)


@pytest.mark.parametrize("error", [0.4, 1e9])
def test_exact_centers_settle_what_a_rough_one_leaves_open(error: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """In doubles again: ball arithmetic is left for the short tails, even where every center is open."""
    from qcompile.privacy.noise import rounded_gaussian as rounded

    rng = np.random.default_rng(4)
    centers = [Fraction(int(k), 977) for k in rng.integers(-(10**12), 10**12, 5000)]
    rough = np.array([float(c) for c in centers])
    fine = rounded_gaussian(rough, 2.0**-20, 300.0, entries(centers), SeededSource(5))
    slowly: list[Fraction] = []

    def decide(center: Fraction, scale: Fraction, tail: Tail) -> int:
        slowly.append(center)
        return decide_slowly(center, scale, tail)

    monkeypatch.setattr(rounded, "decide_slowly", decide)
    off = rough + rng.uniform(-1, 1, rough.shape) * min(error, 1e6)
    assert np.array_equal(rounded_gaussian(off, error, 300.0, entries(centers), SeededSource(5)), fine)
    assert len(slowly) < 5


def test_bounds_may_differ_by_entry() -> None:
    centers = [Fraction(i, 3) for i in range(2000)]
    errors = np.where(np.arange(2000) % 2, 0.3, 2.0**-30)
    rough = np.array([float(c) for c in centers]) + errors * np.cos(np.arange(2000))
    asked: list[int] = []

    def exact(rows: IntArray) -> list[Fraction]:
        asked.extend(rows.tolist())
        return [centers[i] for i in rows]

    expected = rounded_gaussian(np.array([float(c) for c in centers]), 2.0**-30, 50.0, exact, SeededSource(6))
    asked.clear()
    assert np.array_equal(rounded_gaussian(rough, errors, 50.0, exact, SeededSource(6)), expected)
    odd = sum(i % 2 for i in asked)
    assert odd > 400
    assert len(asked) - odd < 4


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
    sigma = noise_scale.smallest_sigma(2 * share, square)
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
    g = noise_scale.grid(5.0)
    ours = draw(Fraction(0), 5.0 / g, 4000, SystemSource()) * g
    theirs, _ = opendp_gaussian(np.zeros(4000), 5.0, Fraction(1), Fraction(1, 50))
    assert stats.ks_2samp(ours, theirs).pvalue > ALPHA
