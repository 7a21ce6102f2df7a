"""Conversions between privacy definitions, each rounded to the safe side, and the noise scale of one mechanism.

A mechanism ``B x + N(0, sigma^2)`` has cost ``b = max_j ||B[:, j]||^2 / sigma^2``; it satisfies ``rho = b/2`` zCDP and
``mu = sqrt(b)`` Gaussian differential privacy. From there to (epsilon, delta) lead two curves:

- zCDP (Canonne, Kamath, Steinke 2020, arXiv 2004.00010, section 2.3): ``log delta <= u (alpha rho - epsilon) -
  log(1 + u) - u log(1 + 1/u)`` for every ``alpha = 1 + u``, ``u > 0``. What holds for every u holds for the one that a
  search in doubles found: the search decides only how tight the bound is. The bound itself is then evaluated in balls
  and rounded to the safe side, so a converted rho never exceeds what the request allows.
- the Gaussian mechanism's own (Balle, Wang 2018, arXiv 1805.06530, Theorem 8): ``delta(epsilon) = Phi(r/2 - epsilon/r)
  - e^epsilon Phi(-r/2 - epsilon/r)`` with ``r = sqrt(b)``, evaluated in balls and inverted by bisection over the
  doubles: the result is the last double for which the condition is certain, hence monotone in the request.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

from qcompile.errors import BudgetError
from qcompile.privacy.ball_arithmetic import ball, precision, rounded_down, rounded_up
from qcompile.privacy.exact_numbers import SMALLEST, Number, exact, finite, shown

LARGEST_EPSILON = Fraction(10**9)
"""Larger requests protect nothing, and are likely a slip."""

_BITS = 256
_SEARCH = 300.0
_STEPS = 80
_MOST_BITS = 8192  # where a comparison that is still open counts as failed


def rho_from_epsilon(epsilon: Number, delta: Number) -> Fraction:
    """The largest zCDP budget known to satisfy (epsilon, delta), rounded down.

    Args:
      epsilon: > 0, at most 1e9.
      delta: between 0 and 1, exclusive.

    Returns:
      rho, a fraction of 53 significant bits; ``delta_from_rho(rho, epsilon) <= delta``.

    Raises:
      BudgetError: a parameter is out of its range.

    References:
      Canonne, Kamath, Steinke 2020, section 2.3.
    """
    return _rho_from_epsilon(*_request(epsilon, delta))


def epsilon_from_rho(rho: Number, delta: Number) -> Fraction:
    """The smallest epsilon known to hold at ``delta`` under ``rho`` zCDP, rounded up; 0 where delta alone suffices.

    Raises:
      BudgetError: a parameter is out of its range.

    References:
      Canonne, Kamath, Steinke 2020, section 2.3.
    """
    r, d = exact("rho", rho), exact_delta(delta)
    return _epsilon_from_rho(r, d)


def delta_from_rho(rho: Number, epsilon: Number) -> Fraction:
    """The smallest delta known to hold at ``epsilon`` under ``rho`` zCDP, rounded up; between 1e-100 and 1.

    Raises:
      BudgetError: a parameter is out of its range.

    References:
      Canonne, Kamath, Steinke 2020, section 2.3.
    """
    r, e = exact("rho", rho), _checked_epsilon(epsilon)
    rough, target = float(r), float(e)
    u = _crossing(lambda u: (2 * u + 1) * rough - target - math.log1p(1 / u))
    with precision(_BITS):
        exponent = ball(u * ((1 + u) * r - e)) - _entropy(u)
        # Compared before it is exponentiated: the power itself may have more digits than memory.
        return SMALLEST if exponent <= ball(SMALLEST).log() else min(Fraction(1), rounded_up(exponent.exp()))


def cost_from_epsilon(epsilon: Number, delta: Number) -> Fraction:
    """The largest cost of one Gaussian mechanism that satisfies (epsilon, delta), rounded down.

    Args:
      epsilon: > 0, at most 1e9.
      delta: between 0 and 1, exclusive.

    Returns:
      The cost, that is twice rho.

    Raises:
      BudgetError: a parameter is out of its range.

    References:
      Balle, Wang 2018, Theorem 8.
    """
    return _cost_from_epsilon(*_request(epsilon, delta))


def epsilon_from_cost(cost: Number, delta: Number) -> Fraction:
    """The smallest epsilon of one Gaussian mechanism of this cost at ``delta``, rounded up; 0 where delta suffices.

    Raises:
      BudgetError: a parameter is out of its range.

    References:
      Balle, Wang 2018, Theorem 8.
    """
    return _epsilon_from_cost(exact("cost", cost), exact_delta(delta))


def delta_from_cost(cost: Number, epsilon: Number) -> Fraction:
    """The delta at ``epsilon`` of one Gaussian mechanism of this cost, rounded up; between 1e-100 and 1.

    Raises:
      BudgetError: a parameter is out of its range.

    References:
      Balle, Wang 2018, Theorem 8.
    """
    c, e = exact("cost", cost), _checked_epsilon(epsilon)
    bits = 128
    while True:  # ends: the true value is above 0, so enough bits separate it from 0
        with precision(bits):
            true = gaussian_delta(c, e)
            if true <= ball(SMALLEST):
                return SMALLEST
            if true > 0 and true.rel_accuracy_bits() > 64:
                return min(Fraction(1), rounded_up(true))
        bits *= 2


def exact_delta(delta: Number) -> Fraction:
    """A failure probability as a fraction in (0, 1).

    Raises:
      BudgetError: anything else; for 0 the message names the two ways out.
    """
    if finite("delta", delta) == 0:
        raise BudgetError(
            f"delta={shown(delta)} leaves no budget, since Gaussian noise never reaches it; "
            "give a small delta such as 1e-9, or give rho instead of epsilon and delta"
        )
    value = exact("delta", delta)
    if not value < 1:
        raise BudgetError(f"delta={shown(delta)} must be < 1, and far below 1 over the number of rows; give e.g. 1e-9")
    return value


def _request(epsilon: Number, delta: Number) -> tuple[Fraction, Fraction]:
    return _checked_epsilon(epsilon), exact_delta(delta)


def _checked_epsilon(epsilon: Number) -> Fraction:
    value = exact("epsilon", epsilon)
    if value > LARGEST_EPSILON:
        raise BudgetError(f"epsilon={shown(epsilon)} is beyond 1e9 and protects nothing; give a smaller one, or rho")
    return value


@lru_cache(maxsize=256)
def _rho_from_epsilon(epsilon: Fraction, delta: Fraction) -> Fraction:
    target, log_delta = float(epsilon), _log(delta)

    def slope(u: float) -> float:
        rho = (log_delta / u + math.log1p(u) / u + math.log1p(1 / u) + target) / (1 + u)
        return (2 * u + 1) * rho - target - math.log1p(1 / u) if rho > 0 else -1.0

    u = _crossing(slope)
    with precision(_BITS):
        return rounded_down((ball(delta).log() + _entropy(u) + ball(u * epsilon)) / ball(u * (1 + u)))


@lru_cache(maxsize=256)
def _epsilon_from_rho(rho: Fraction, delta: Fraction) -> Fraction:
    rough, log_delta = float(rho), _log(delta)
    # The derivative of the bound on epsilon, times u^2.
    u = _crossing(lambda u: u * u * rough + log_delta + math.log1p(u))
    with precision(_BITS):
        found = rounded_up(ball((1 + u) * rho) - (ball(delta).log() + _entropy(u)) / ball(u))
    return max(Fraction(0), found)


def _entropy(u: Fraction) -> Any:
    """``log(1 + u) + u log(1 + 1/u)``, the part of the zCDP bound that depends on the order alone."""
    return ball(u).log1p() + ball(u) * ball(1 / u).log1p()


def _log(value: Fraction) -> float:
    with precision(64):
        return float(ball(value).log())


def _crossing(slope: Callable[[float], float]) -> Fraction:
    """The root of a function of ``u > 0`` that turns from negative to positive, by bisection in log u."""
    low, high = -_SEARCH, _SEARCH
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if slope(math.exp(middle)) < 0:
            low = middle
        else:
            high = middle
    return Fraction(math.exp(high))


@lru_cache(maxsize=256)
def _cost_from_epsilon(epsilon: Fraction, delta: Fraction) -> Fraction:
    low = 2 * _rho_from_epsilon(epsilon, delta)  # holds: the zCDP bound is an upper bound of the curve
    while _gaussian_holds(2 * low, epsilon, delta):
        low *= 2
    below, above = _ordinal(low), _ordinal(2 * low)
    return _double(_first(lambda i: not _gaussian_holds(_double(i), epsilon, delta), below, above) - 1)


@lru_cache(maxsize=256)
def _epsilon_from_cost(cost: Fraction, delta: Fraction) -> Fraction:
    if _gaussian_holds(cost, Fraction(0), delta):
        return Fraction(0)
    above = _ordinal(_epsilon_from_rho(cost / 2, delta))
    return _double(_first(lambda i: _gaussian_holds(cost, _double(i), delta), 0, above))


def _ordinal(value: Fraction) -> int:
    """The number of positive doubles up to ``value``, which is one of them: their bit patterns, read as integers."""
    return int(struct.unpack("<q", struct.pack("<d", float(value)))[0])


def _double(ordinal: int) -> Fraction:
    """The inverse of `_ordinal`."""
    return Fraction(struct.unpack("<d", struct.pack("<q", ordinal))[0])


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The first integer that meets a monotone condition, which fails at ``low`` and holds at ``high``."""
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def _gaussian_holds(cost: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """True if a Gaussian mechanism of this cost certainly satisfies (epsilon, delta)."""
    bits = 128
    while bits <= _MOST_BITS:
        with precision(bits):
            true = gaussian_delta(cost, epsilon)
            if true <= ball(delta):
                return True
            if true > ball(delta):
                return False
        bits *= 2
    return False


def gaussian_delta(cost: Fraction, epsilon: Fraction) -> Any:
    """``delta(epsilon)`` of one Gaussian mechanism, as a ball of the current precision.

    Args:
      cost: > 0.
      epsilon: >= 0.

    References:
      Balle, Wang 2018, Theorem 8.
    """
    root, half = ball(cost).sqrt(), ball(Fraction(1, 2))
    scale = half.sqrt()
    shift = ball(epsilon) / root
    return half * (_erfc((shift - root / 2) * scale) - ball(epsilon).exp() * _erfc((shift + root / 2) * scale))


def _erfc(x: Any) -> Any:
    """``erfc`` of a ball, from its two ends: Arb's own bound for what a radius does to a large x is far wider."""
    return x.lower().erfc().union(x.upper().erfc())
