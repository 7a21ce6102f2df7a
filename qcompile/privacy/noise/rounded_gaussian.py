"""Exactly rounded Gaussian noise: integers distributed as if computed with real numbers.

The mechanism is defined over the reals, ``y = round(c + s Z)`` with ``c = (B x)/g`` rational, Z a standard normal and
``s = sigma/g``: post-processing of the Gaussian mechanism, so its privacy needs no word about floating point. This
module returns that y and no other, by *interval refining* (Haney et al. 2022, arXiv 2207.13793): compute with few bits
and bounds, and look closer only where the bounds do not settle the integer.

**From bits to a real number.** A sign bit (set: Z > 0) and an infinite string of bits, the binary digits of a tail
probability p after the leading 0 that makes it uniform on (0, 1/2); ``|Z| = -Phi^-1(p)``. The first 63 bits form the
integer k, hence ``k <= 2^64 p < k + 1``.

**First look**, in doubles, for all entries at once. With f the caller's double for c, ``|f - c| <= error``, take
``z = -ndtri((k + 1/2) / 2^64)`` and ``t = (f - rint(f)) + sign s z``. What separates t from the real number:

- the unread bits and the rounding of p: p is off by at most ``2^-65 + 2^-52 p``, and an error dp moves z by
  ``dp/phi(z)``. With ``p/phi(z)`` (Mills' ratio) at most 1.26, and ``1/phi(z) < 2^16`` where ``k >= 2^46`` (z < 4.5),
  that is below ``2^-49 z + 2^-51``;
- ndtri itself, within ``2^-49 z`` (a test looks again);
- the product and the sum: ``2^-53 s z`` and ``2^-53 (1/2 + s z)``; ``f - rint(f)`` and ``t - rint(t)`` are exact;
- ``error``, which is where the rounding errors of a BLAS product come in.

All this is less than half of ``2^-42 s z + 2^-50 s + 2^-40``, and ``error``. If t is farther than their sum from every
half-integer, y is ``rint(f) + rint(t)``. docs/noise.md has the proof, line by line, and the test behind each line.

**Second look**, where the center's error or a distance below the margin left an entry open (about ``2 error`` of them):
the exact rational c is asked for, all of these entries at once, and the first look is taken again with ``c - rint(c)``,
which a double holds within 2^-54.

**Third look**, in ball arithmetic (Arb), for the few that are left (1e-5 of them: mostly ``k < 2^46``). Mirrored so
that the sign is +, y is the largest integer n with ``|Z| > b = (n - 1/2 - c)/s``. That holds exactly if p is below
``erfc(b/sqrt 2)/2``, a ball; while the interval of p is not clear of the ball, 64 more bits of p are drawn and the ball
is computed more precisely. The center is first taken as the interval ``f +- error``; the exact c is asked for only if
the two ends disagree. Ties have probability zero.

The time an entry takes depends on its noise and, through f, on the data: an observer with a clock is not defended
against.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from qcompile.errors import OptionError
from qcompile.privacy.ball_arithmetic import ball, precision
from qcompile.privacy.noise.random_bytes import ByteSource
from qcompile.support.arrays import Array, BoolArray, IntArray

FIRST_BITS = 64
"""Bits of randomness that every entry uses: a sign and 63 digits of the tail probability."""

LARGEST_SCALE = 2.0**40
"""Noise scales above this many integers are refused; a release uses less than 2^9."""

_CHUNK = 1 << 14  # entries at a time: the temporaries stay in a core's cache
_SIGN = np.uint64(1 << 63)
_TAIL = np.uint64((1 << 63) - 1)
_SHORT_TAIL = np.uint64(1 << 46)
_LARGEST_CENTER = 2.0**52
_RELATIVE, _PER_SCALE, _ABSOLUTE = 2.0**-42, 2.0**-50, 2.0**-40

FINE_SCALE = 2.0**20
"""Noise scales up to which the margin of the first look is next to nothing: then an exact center settles an entry."""

EXACT_ERROR = 2.0**-54
"""Error of the difference between a rational number and its nearest integer, as a double."""

Words = npt.NDArray[np.uint64]

ExactCenters: TypeAlias = Callable[[IntArray], Sequence[Fraction]]
"""The rational centers of the entries at some positions, ``(k,)``."""


def rounded_gaussian(
    scaled: Array, error: Array | float, s: float, exact: ExactCenters, source: ByteSource
) -> IntArray:
    """The nearest integers to ``c + s Z``, with Z independent real standard normals.

    Args:
      scaled: f, shape ``(m,)``: c in double precision, in grid steps.
      error: a bound of ``|f - c|`` for every entry, ``(m,)``, or one for all, >= 0, in grid steps.
      s: the standard deviation of the noise, > 0 and at most 2^40, in grid steps; its double value is exact.
      exact: gives c of some entries as fractions. It is called for the few entries that need it.
      source: each entry takes 8 bytes in order; further bits come from branches of it.

    Returns:
      The integers, shape ``(m,)``.

    Raises:
      OptionError: s or error is out of its range, ``scaled`` is not a vector, or a result needs more than 64 bits.

    References:
      Haney et al. 2022, arXiv 2207.13793.
    """
    _require_parameters(scaled, error, s)
    errors = np.broadcast_to(np.asarray(error, dtype=np.float64), scaled.shape)
    result = np.empty(scaled.shape[0], dtype=np.int64)
    doubtful: list[IntArray] = []
    doubtful_words: list[Words] = []
    for start in range(0, scaled.shape[0], _CHUNK):
        part = slice(start, start + _CHUNK)
        center = scaled[part]
        words = np.frombuffer(source.take(8 * center.shape[0]), dtype="<u8").astype(np.uint64, copy=False)
        result[part], sure = first_look(words, center, errors[part], s)
        left = np.flatnonzero(~sure)
        doubtful.append(left + start)
        doubtful_words.append(words[left])
    for rows, words in _in_pieces(doubtful, doubtful_words):
        result[rows] = _look_again(rows, words, scaled[rows], errors[rows], s, exact, source)
    return result


def first_look(words: Words, center: Array, error: Array | float, s: float) -> tuple[IntArray, BoolArray]:
    """The rounded sums in double precision, and where they are certainly right.

    Args:
      words: the first 64 bits of each entry, shape ``(m,)``.
      center: f, shape ``(m,)``.
      error: bound of ``|f - c|``, ``(m,)`` or one for all.
      s: noise scale.

    Returns:
      The integers, and a mask that is False where they must be looked at again; shape ``(m,)`` each.
    """
    with np.errstate(invalid="ignore"):
        whole, sums, spread = rough_sums(words, center, s)
        nearest = np.rint(sums)
        sums -= nearest
        np.abs(sums, out=sums)
        sums += margin(spread, s)
        sure: BoolArray = sums < 0.5 - error
        sure &= (words & _TAIL) >= _SHORT_TAIL
        sure &= np.abs(whole) <= _LARGEST_CENTER
        nearest += whole
        return nearest.astype(np.int64), sure


def rough_sums(words: Words, center: Array, s: float) -> tuple[Array, Array, Array]:
    """``f + sign s z`` in double precision, in two parts.

    Args:
      words: the first 64 bits of each entry, shape ``(m,)``.
      center: f, shape ``(m,)``.
      s: noise scale.

    Returns:
      ``rint(f)``, the rest of the sum, and ``s z``, shape ``(m,)`` each. The rest differs from ``c - rint(f) +
      sign s |Z|``, whatever the further bits, by less than half of `margin`, and ``|f - c|``.
    """
    from scipy.special import ndtri

    # ndtri of a tail is <= 0: flipping its sign bit where the sign bit of the word is set gives sign * s * z.
    noise: Array = (words & _TAIL).view(np.int64).astype(np.float64)
    noise += 0.5
    noise *= 2.0**-FIRST_BITS
    ndtri(noise, out=noise)
    noise *= s
    spread = np.abs(noise)
    noise.view(np.uint64)[...] ^= words & _SIGN
    whole = np.rint(center)
    noise += center - whole
    return whole, noise, spread


def margin(spread: Array, s: float) -> Array:
    """The least distance of a sum from a half-integer, besides the error of its center, that `first_look` trusts.

    Args:
      spread: ``s z`` of each entry, shape ``(m,)``; it is written over.
      s: noise scale.

    Returns:
      The distances, shape ``(m,)``.
    """
    spread *= _RELATIVE
    spread += _PER_SCALE * s + _ABSOLUTE
    return spread


class Tail:
    """The tail probability of one draw, as many bits of it as were needed so far.

    Args:
      word: the first 64 bits; the top one is the sign.
      source: gives the further bits.
    """

    def __init__(self, word: int, source: ByteSource) -> None:
        self.positive = word >> (FIRST_BITS - 1) == 1
        self.digits = word & int(_TAIL)
        self.bits = FIRST_BITS
        self._source = source

    @property
    def guess(self) -> float:
        """``|Z|`` in double precision."""
        from scipy.special import ndtri

        return -float(ndtri((self.digits + 0.5) / 2.0**self.bits))

    def exceeds(self, boundary: Fraction) -> bool:
        """True if ``|Z| > boundary``, decided with as many further bits as it takes."""
        if boundary <= 0:
            return True
        while True:
            with precision(self.bits + 32):
                chance = _upper_tail(boundary)
                if ball(Fraction(self.digits + 1, 1 << self.bits)) <= chance:
                    return True
                if ball(Fraction(self.digits, 1 << self.bits)) >= chance:
                    return False
            self._extend()

    def _extend(self) -> None:
        self.digits = self.digits << 64 | int.from_bytes(self._source.take(8), "little")
        self.bits += 64


def decide_slowly(center: Fraction, s: Fraction, tail: Tail) -> int:
    """The nearest integer to ``center + s Z`` for one draw, by ball arithmetic.

    Args:
      center: c, exactly.
      s: the noise scale, exactly.
      tail: the draw; it may grow by further bits.

    Returns:
      The integer: exact, with probability one over the draw.
    """
    # Mirrored, so that the noise is s |Z| >= 0: the integer n is reached if c + s |Z| > n - 1/2.
    mirrored = center if tail.positive else -center

    def reached(n: int) -> bool:
        return tail.exceeds((n - Fraction(1, 2) - mirrored) / s)

    low = math.ceil(mirrored - Fraction(1, 2))  # its boundary is below the center: certainly reached
    high = max(low, round(mirrored + s * Fraction(tail.guess)))
    step = 1
    while reached(high):
        low, high, step = high, high + step, 2 * step
    step = 1
    while high - low > step and not reached(high - step):
        high, step = high - step, 2 * step
    low = max(low, high - step)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if reached(middle) else (low, middle)
    return low if tail.positive else -low


def _in_pieces(rows: list[IntArray], words: list[Words]) -> Iterator[tuple[IntArray, Words]]:
    """Rows in order with their words, at most `_CHUNK` at a time."""
    all_rows = np.concatenate([*rows, np.zeros(0, dtype=np.int64)])
    all_words = np.concatenate([*words, np.zeros(0, dtype=np.uint64)])
    for start in range(0, len(all_rows), _CHUNK):
        yield all_rows[start : start + _CHUNK], all_words[start : start + _CHUNK]


def _look_again(
    rows: IntArray, words: Words, centers: Array, errors: Array, s: float, exact: ExactCenters, source: ByteSource
) -> list[int]:
    """The rounded sums of entries that the first look left open; rows are their positions."""
    result: list[int | None] = [None] * len(rows)
    if s <= FINE_SCALE:  # long tails were left open by their centers; short ones are open by their own bits
        for i, value in _second_look(rows, words, np.flatnonzero((words & _TAIL) >= _SHORT_TAIL), s, exact):
            result[i] = value
    for i in [i for i, value in enumerate(result) if value is None]:
        result[i] = _third_look(int(words[i]), float(centers[i]), float(errors[i]), s, rows[i : i + 1], exact, source)
    return [_fitting(value) for value in result if value is not None]


def _second_look(
    rows: IntArray, words: Words, where: IntArray, s: float, exact: ExactCenters
) -> Iterator[tuple[int, int]]:
    """The rounded sums of some entries, from their exact centers; without those that are open even so."""
    if not len(where):
        return
    centers = exact(rows[where])
    whole = [round(c) for c in centers]
    rest = np.array([float(c - w) for c, w in zip(centers, whole, strict=True)])
    nearest, sure = first_look(words[where], rest, EXACT_ERROR, s)
    for i, w, n, settled in zip(where.tolist(), whole, nearest.tolist(), sure.tolist(), strict=True):
        if settled:
            yield i, w + n


def _third_look(
    word: int, center: float, error: float, s: float, row: IntArray, exact: ExactCenters, source: ByteSource
) -> int:
    tail, scale = Tail(word, source.branch(word.to_bytes(8, "little"))), Fraction(s)
    if math.isfinite(center) and error < 0.5:
        # The answer is monotone in the center: equal at both ends, it is the answer in between.
        ends = {decide_slowly(Fraction(center) + side * Fraction(error), scale, tail) for side in (-1, 1)}
        if len(ends) == 1:
            return ends.pop()
    return decide_slowly(exact(row)[0], scale, tail)


def _fitting(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise OptionError("a noisy count needs more than 64 bits; the grid is too fine for counts of this size")
    return value


def _upper_tail(boundary: Fraction) -> Any:
    """``P(Z > boundary)`` as a ball."""
    return (ball(boundary) * ball(Fraction(1, 2)).sqrt()).erfc() / 2


def _require_parameters(scaled: Array, error: Array | float, s: float) -> None:
    if scaled.ndim != 1:
        raise OptionError(f"scaled must be a vector, got shape {scaled.shape}; flatten it")
    if not 0 < s <= LARGEST_SCALE:
        raise OptionError(f"s={s!r} must be > 0 and at most 2^40; choose another grid")
    if not bool(np.all((np.asarray(error) >= 0) & np.isfinite(error))):
        raise OptionError(f"error={error!r} must be >= 0 and finite; give a bound of the error of scaled")
