"""Noise scales in a release file, and whether they are what their costs say."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

from qcompile.privacy.noise.scale import PUBLIC, Scale
from qcompile.support.json_fields import Field

SLACK = 1e-9
"""Relative: costs and scales agree to rounding errors only where another machine adds numbers in another order."""

_FRACTION = re.compile(r"[0-9]{1,4000}(/[0-9]{1,4000})?")
"""The text of a fraction. `Fraction` also reads exponents, which are refused: 1e999999999 takes a gigabyte."""


def read_fraction(data: Field) -> Fraction:
    """A fraction as `str` writes it.

    Raises:
      StorageError: it is something else.
    """
    text = data.read_text()
    try:
        return Fraction(text) if _FRACTION.fullmatch(text) else data.refuse("a fraction of whole numbers")
    except ZeroDivisionError:
        data.refuse("a fraction of whole numbers")


def scale_data(scale: Scale) -> list[Any]:
    """A scale as plain data."""
    return [scale.sigma, scale.grid, str(scale.cost)]


def read_scale(data: Field) -> Scale:
    """The inverse of `scale_data`.

    Raises:
      StorageError: it is no scale.
    """
    return scale_of(*data.read_tuple(3))


def scale_of(sigma: Field, grid: Field, cost: Field) -> Scale:
    """A scale from its three numbers.

    Raises:
      StorageError: one of them is none, or negative.
    """
    return Scale(float(sigma.read_number(least=0)), float(grid.read_number(least=0)), read_fraction(cost))


def is_composed_jointly(noise: str) -> bool:
    """True if the measurements of a batch are one Gaussian mechanism, whose cost is the distance of all answers.

    OpenDP accounts for each measurement by its own sensitivity, and its steps are not those of a Gaussian.
    """
    return noise != "opendp"


def scales_agree(found: Scale, expected: Scale, noise: str) -> bool:
    """True if a scale is the expected one, up to rounding.

    Args:
      found: in a file.
      expected: recomputed.
      noise: its kind: OpenDP's is enlarged until its own accounting agrees, and not rounded to a grid.
    """
    if PUBLIC in (found, expected):
        return found == expected
    if abs(found.cost / expected.cost - 1) > SLACK:
        return False
    if noise == "opendp":
        return found.grid == 0 and found.sigma >= expected.sigma * (1 - SLACK)
    power_of_two = math.frexp(found.grid)[0] == 0.5
    return power_of_two and 256 <= found.sigma / found.grid < 512 and abs(found.sigma / expected.sigma - 1) <= SLACK


def scale_matches_cost(scale: Scale, sensitivity_squared: Fraction, noise: str) -> bool:
    """True if a measurement of some sensitivity has the noise that its stated cost requires."""
    if not sensitivity_squared or not scale.sigma:
        return not sensitivity_squared and scale == PUBLIC
    if scale.cost <= 0:
        return False
    return scales_agree(scale, Scale(math.sqrt(sensitivity_squared / scale.cost), 1.0, scale.cost), noise)
