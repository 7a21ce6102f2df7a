"""The sampler against its exact law ``P(y = n) = Phi((n + 1/2 - c)/s) - Phi((n - 1/2 - c)/s)``, and the tests' power.

opendp#2638: an "exact" sampler that was biased. Two statistics, chi-square over merged cells and the largest distance
of the distribution functions, each at a level that keeps the chance of any false alarm in this file below 1e-6. Seeds
make every run the same. The same draws must reject, at the same level, laws whose scale or shift is off by little.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats
from scipy.special import ndtr

from qcompile.privacy.noise.random_bytes import SeededSource
from qcompile.privacy.noise.rounded_gaussian import rounded_gaussian
from qcompile.support.arrays import Array

SCALES = [0.1, 0.3, 0.5, 1.0, 17.3, 300.0, 1e6]
SHIFTS = [Fraction(0), Fraction(1, 4), Fraction(1, 2), 10**5 + Fraction(1, 3)]
LAWS = list(itertools.product(SCALES, SHIFTS))
each = pytest.mark.parametrize(("s", "shift"), LAWS, ids=str)

LEVEL = 1e-6 / (4 * len(LAWS))
"""Two statistics, two sizes of sample: Bonferroni."""

QUICK, LONG = 1_500_000, 16_000_000
PIECE = 250_000

POWER = 200.0
"""A noncentrality of chi-square that is noticed: with 40 cells LEVEL is at 110; expected are 240, give or take 30."""

Counts = npt.NDArray[np.int64]


def histogram(shift: Fraction, s: float, n: int, cuts: Array) -> Counts:
    """How many of n draws fall between the cuts, which are relative to the whole part of the shift."""
    source, whole = SeededSource(2638, f"{s} {shift}"), math.floor(shift)
    seen = np.zeros(cuts.size + 1, dtype=np.int64)
    for _ in range(n // PIECE):
        values = (
            rounded_gaussian(np.full(PIECE, float(shift)), 2.0**-30, s, lambda rows: [shift] * len(rows), source)
            - whole
        )
        seen += np.bincount(np.searchsorted(cuts, values), minlength=seen.size)
    return seen


def edges(s: float, rest: float) -> Array:
    """Half-integers that cut the law into some 40 cells, a few of them far out."""
    if s < 5:  # few integers have any chance: all of them
        return np.arange(math.floor(rest - 7 * s) - 1, math.ceil(rest + 7 * s) + 1, dtype=np.float64) + 0.5
    far = 10.0 ** -np.arange(3, 7)
    quantiles = stats.norm.ppf(np.concatenate([np.linspace(0, 1, 33)[1:-1], far, 1 - far]))
    return np.asarray(np.unique(np.floor(rest + s * quantiles) + 0.5), dtype=np.float64)


def chances(cuts: Array, rest: float, s: float) -> Array:
    """The exact chance of each cell; in either tail by its own side, so that no digits cancel."""
    z = (cuts - rest) / s
    below, above = np.concatenate([[0], ndtr(z), [1]]), np.concatenate([[1], ndtr(-z), [0]])
    return np.where(np.append(z, np.inf) < 0, np.diff(below), -np.diff(above))


def chi_square(seen: Counts, expected: Array) -> float:
    """The p-value; the smallest cell is merged with its smaller neighbour until each expects 10 draws."""
    while expected.size > 1 and expected.min() < 10:
        i = int(expected.argmin())
        j = i + 1 if i == 0 or (i + 1 < expected.size and expected[i + 1] < expected[i - 1]) else i - 1
        seen, expected = seen.copy(), expected.copy()
        seen[j] += seen[i]
        expected[j] += expected[i]
        seen, expected = np.delete(seen, i), np.delete(expected, i)
    if expected.size == 1:
        return 1.0
    return float(stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), expected.size - 1))


def kolmogorov(seen: Counts, expected: Array) -> float:
    """A bound of the p-value of the largest distance of the distribution functions (Massart 1990)."""
    n = int(seen.sum())
    distance = float(np.abs(np.cumsum(seen - expected)).max()) / n
    return min(1.0, 2 * math.exp(-2 * n * distance**2))


def rejected(seen: Counts, p: Array) -> bool:
    expected = p * int(seen.sum())
    return min(chi_square(seen, expected), kolmogorov(seen, expected)) < LEVEL


def visible(p: Array, other: Array, n: int) -> bool:
    """Whether n draws of one law suffice to reject another: known before any is drawn."""
    usable = other * n > 10
    return float((n * (p - other) ** 2 / np.where(usable, other, np.inf)).sum()) > POWER


def smallest_noticed(
    seen: Counts, cuts: Array, rest: float, s: float, laws: dict[float, list[tuple[float, float]]]
) -> float:
    """The smallest distance at which both laws (rest, s) are visible; every visible law must be rejected."""
    p, n, found = chances(cuts, rest, s), int(seen.sum()), math.inf
    for distance, pair in sorted(laws.items(), reverse=True):
        others = [chances(cuts, *law) for law in pair]
        shown = [visible(p, other, n) for other in others]
        assert all(rejected(seen, other) for other, v in zip(others, shown, strict=True) if v)
        found = distance if all(shown) else found
    return found


def examine(s: float, shift: Fraction, n: int) -> tuple[float, float]:
    """Draw, accept the true law, reject wrong ones; the smallest relative distances noticed in scale and shift."""
    rest = float(shift - math.floor(shift))
    cuts = edges(s, rest)
    seen = histogram(shift, s, n, cuts)
    assert not rejected(seen, chances(cuts, rest, s))
    scales = {d: [(rest, s * (1 - d)), (rest, s * (1 + d))] for d in (0.004, 0.01, 0.02, 0.04, 0.1, 0.3)}
    shifts = {d: [(rest - d * s, s), (rest + d * s, s)] for d in (0.01, 0.05, 0.2, 1.0, 2.0)}
    return smallest_noticed(seen, cuts, rest, s, scales), smallest_noticed(seen, cuts, rest, s, shifts)


SCALE_NOTICED = {0.1: math.inf, 0.3: 0.04, 0.5: 0.02}
"""Where few integers have any chance the scale shows less: at s = 0.1 and shift 1/2 it does not show at all."""

SHIFT_NOTICED = {0.1: 2.0}
"""At s = 0.1 and shift 0 every value is 0, but for one draw in two million."""


@each
def test_draws_follow_the_law(s: float, shift: Fraction) -> None:
    """And would not pass for a law whose scale is off by 1 % or whose shift is off by 5 % of the scale."""
    scale, moved = examine(s, shift, QUICK)
    assert scale <= SCALE_NOTICED.get(s, 0.01)
    assert moved <= SHIFT_NOTICED.get(s, 0.05)


@pytest.mark.slow
@each
def test_many_draws_follow_the_law(s: float, shift: Fraction) -> None:
    scale, moved = examine(s, shift, LONG)
    assert scale <= (math.inf if s == 0.1 else 0.004 if s >= 5 else 0.01 if s > 0.4 else 0.02)
    assert moved <= (2.0 if s == 0.1 else 0.01)


def test_chances_are_those_of_the_law() -> None:
    """The expectations by SciPy against the definition to many digits."""
    import mpmath

    for s, rest in ((0.1, 0.5), (1.0, 0.25), (17.3, 1 / 3)):
        cuts = edges(s, rest)
        with mpmath.workdps(150):
            levels = [mpmath.ncdf((mpmath.mpf(c) - rest) / s) for c in cuts.tolist()]
            true = [float(b - a) for a, b in itertools.pairwise([mpmath.mpf(0), *levels, mpmath.mpf(1)])]
        assert np.allclose(chances(cuts, rest, s), true, rtol=1e-11, atol=1e-300)


@pytest.mark.parametrize("bias", [0.003, 0.01])
def test_a_biased_share_of_the_draws_is_noticed(bias: float) -> None:
    """A sampler that returns 0 too often, by this share of its draws, as a wrong treatment of ties would."""
    cuts = edges(17.3, 0.25)
    seen, p = histogram(Fraction(1, 4), 17.3, QUICK, cuts), chances(cuts, 0.25, 17.3)
    moved = np.floor(seen * bias).astype(np.int64)
    wrong = seen - moved
    wrong[np.searchsorted(cuts, 0.0)] += moved.sum()
    assert not rejected(seen, p)
    assert rejected(wrong, p)
