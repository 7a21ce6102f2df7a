"""Gaussian noise by OpenDP: slow, by other people's code, the cross-check of ``rounded``.

OpenDP's Gaussian measurement on vectors of doubles has its own proof and its own account of floating point. Its noise
scale is enlarged, by very little, until its own privacy map grants the share of the budget that we mean to spend.
What it protects is the double it is given; the rounding of ``B x`` to doubles before it is outside its account, which
is one reason why it is the cross-check and not the default.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from qcompile.errors import BudgetError, OptionError
from qcompile.privacy.noise.opendp_library import load_opendp
from qcompile.privacy.noise.scale import root_up
from qcompile.support.arrays import Array

_ENLARGEMENTS = 60


def opendp_gaussian(values: Array, sigma: float, sensitivity_squared: Fraction, rho: Fraction) -> tuple[Array, float]:
    """Values with independent Gaussian noise from OpenDP.

    Args:
      values: exact answers ``B x``, shape ``(m,)``, in counts.
      sigma: the standard deviation to start from, > 0, in counts.
      sensitivity_squared: an upper bound of the squared L2 sensitivity of ``values``, > 0, in counts**2.
      rho: the zCDP share that may be spent, > 0.

    Returns:
      The noisy values, shape ``(m,)``, and the standard deviation used: the first of ``sigma``, ``sigma (1 + 2^-50)``,
      ``sigma (1 + 2^-49)``, ... whose privacy loss by OpenDP's own map is at most ``rho``.

    Raises:
      OptionError: ``values`` is not a finite vector, or sigma is not a finite number > 0.
      BudgetError: no scale within a factor of 2^9 of ``sigma`` is within the share.

    References:
      OpenDP, ``make_gaussian`` under ``zero_concentrated_divergence``.
    """
    if values.ndim != 1 or not np.isfinite(values).all():
        raise OptionError(f"values must be a vector of finite numbers, got shape {values.shape}")
    if not 0 < sigma < math.inf:
        raise OptionError(f"sigma={sigma!r} must be a finite number > 0")
    scale = enlarged_sigma(sigma, sensitivity_squared, rho)
    return np.asarray(_measurement(scale)(values.tolist()), dtype=np.float64), scale


def enlarged_sigma(sigma: float, sensitivity_squared: Fraction, rho: Fraction) -> float:
    """The standard deviation that `opendp_gaussian` uses; arguments and errors are described there."""
    distance = root_up(sensitivity_squared)
    for step in range(_ENLARGEMENTS):
        scale = sigma * (1 + (2.0 ** (step - 51) if step else 0.0))
        if Fraction(_measurement(scale).map(distance)) <= rho:
            return scale
    raise BudgetError(
        f"OpenDP's privacy loss at sigma={sigma!r} and sensitivity {distance!r} is far above the share "
        f"rho={float(rho)!r}; give the sigma that belongs to this share"
    )


def _measurement(scale: float) -> Any:
    dp = load_opendp()
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    return dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale, MO=dp.ZeroConcentratedDivergence)
