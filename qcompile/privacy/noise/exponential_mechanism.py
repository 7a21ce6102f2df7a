"""Private selection: which of several scores is largest, by the exponential mechanism.

The index i is chosen with a chance proportional to ``exp(score_i / scale)``. With scores that a neighbouring table
changes by up to the sensitivity D, some up and some down, the mechanism has a range bounded by ``eps = 2 D / scale``,
hence ``eps^2 / 8 = D^2 / (2 scale^2)`` zCDP (Cesar, Rogers 2021, arXiv 2004.07223). OpenDP draws it (the largest score
plus Gumbel noise) with its own generator, exactly: scores are whole numbers, the scale is the double that it is, and
noise is compared to as many digits as it takes. Its distance is *not* declared monotonic: that would halve eps, and
holds only for scores that move one way together, which errors of estimates do not.

The time that a selection takes depends on the scores: an observer with a clock is not defended against.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any, Protocol

import numpy as np

from qcompile.errors import BudgetError, InternalError
from qcompile.privacy.noise.opendp_library import load_opendp
from qcompile.privacy.noise.random_bytes import ByteSource, SeededSource
from qcompile.privacy.noise.scale import smallest_sigma
from qcompile.support.arrays import Array, IntArray

LARGEST_SCORE = 2**62
"""Scores and sensitivities are below this in size, so that differences of two fit into 64 bits."""

_ENLARGEMENTS = 16
_UNIFORM_BITS = 52  # of a test's uniform numbers: the middles between multiples of 2^-52 are doubles, and none is 1


class Select(Protocol):
    """Chooses one of several scores."""

    def __call__(self, scores: IntArray, scale: float, label: str) -> int:
        """The index of a score that is probably near the largest.

        Args:
          scores: exact, shape ``(n,)``, n >= 1, below 2^62 in size.
          scale: of the noise, > 0, in the unit of the scores.
          label: of this selection, unlike that of any other in a run; seeds follow it.

        Raises:
          InternalError: an argument is not like that.
        """
        ...


def selection_scale(sensitivity: int, rho: Fraction) -> float:
    """The smallest noise scale whose cost is at most ``rho``, both exactly and by OpenDP's own account.

    Exactly, it is ``sensitivity^2 / (2 scale^2)``: a selection has a bounded range of ``2 sensitivity / scale``.

    Args:
      sensitivity: by how much neighbouring tables change any score, at most; from 1 to 2^62.
      rho: the zCDP share that may be spent, > 0.

    Returns:
      A double; never smaller for a smaller share. OpenDP rounds its account upwards, so it may be a few units in the
      last place above the smallest double whose exact cost is within the share.

    Raises:
      BudgetError: an argument is out of its range, or so is the scale.

    References:
      Cesar, Rogers 2021, arXiv 2004.07223: what has a bounded range of eps is eps^2 / 8 zCDP.
    """
    if not 0 < sensitivity < LARGEST_SCORE:
        raise BudgetError(
            f"a selection needs a sensitivity from 1 to 2^62, got {sensitivity}; bring the families' weights together"
        )
    scale = smallest_sigma(2 * rho, Fraction(sensitivity) ** 2)
    for _ in range(_ENLARGEMENTS):
        if Fraction(_measurement(scale).map(sensitivity)) <= rho:
            return scale
        scale = math.nextafter(scale, math.inf)
    raise BudgetError(
        f"OpenDP's privacy loss at scale {scale!r} and sensitivity {sensitivity} stays above the share "
        f"rho={float(rho)!r}; choose a budget nearer to 1"
    )


def private(scores: IntArray, scale: float, label: str) -> int:
    """A `Select` by OpenDP, with noise from its own generator, which the operating system seeds."""
    _require(scores, scale)
    return int(_measurement(scale)(scores.tolist()))


def seeded(seed: int, scores: IntArray, scale: float, label: str) -> int:
    """NOT PRIVATE, after the seed a `Select`: the same law to double precision, with noise that follows from the seed.

    A score that is chosen with a chance of less than 2^-52 or so is never chosen.
    """
    _require(scores, scale)
    # A branch: no label of a selection gives the stream of a measurement.
    noise = _gumbel(scores.shape[0], SeededSource(seed, "selection").branch(label.encode()))
    with np.errstate(over="ignore"):  # a score so far below that its distance is infinite is out of question
        return int(np.argmax((scores - scores.max()) / scale + noise))


def largest(scores: IntArray, scale: float, label: str) -> int:
    """A `Select` without noise, for tests: the first of the largest scores."""
    _require(scores, scale)
    return int(np.argmax(scores))


def make_select(kind: str, test_seed: int | None) -> Select:
    """The selection that goes with the noise called ``kind``.

    Args:
      kind: "none" has none; "rounded" and "opendp" have the same private selection.
      test_seed: makes the selection of "rounded" repeatable, and NOT PRIVATE.
    """
    if kind == "none":
        return largest
    if kind == "opendp" or test_seed is None:
        return private
    return partial(seeded, test_seed)


def _measurement(scale: float) -> Any:
    dp = load_opendp()
    domain, distance = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64", monotonic=False)
    return dp.m.make_noisy_max(domain, distance, dp.zero_concentrated_divergence(), scale)


def _gumbel(n: int, source: ByteSource) -> Array:
    words = np.frombuffer(source.take(8 * n), dtype="<u8") >> np.uint64(64 - _UNIFORM_BITS)
    uniform = (words.astype(np.float64) + 0.5) * 2.0**-_UNIFORM_BITS
    return np.asarray(-np.log(-np.log(uniform)))


def _require(scores: IntArray, scale: float) -> None:
    if scores.ndim != 1 or scores.size == 0 or scores.dtype != np.int64:
        raise InternalError(f"scores must be a vector of 64-bit integers, got {scores.dtype} of shape {scores.shape}")
    if not -LARGEST_SCORE < int(scores.min()) <= int(scores.max()) < LARGEST_SCORE:
        raise InternalError("scores must be below 2^62 in size")  # which ones they are is confidential
    if not 0 < scale < math.inf:
        raise InternalError(f"the scale of a selection must be a finite number > 0, got {scale!r}")
