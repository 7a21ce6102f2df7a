"""The exact choice of noise scales and grids."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcompile.errors import BudgetError
from qcompile.privacy.noise import scale as noise_scale

positive = st.fractions(min_value=Fraction(1, 10**30), max_value=10**30, max_denominator=10**40)


@given(positive, positive)
def test_sigma_is_the_smallest_double_that_suffices(beta: Fraction, sensitivity_squared: Fraction) -> None:
    sigma = noise_scale.smallest_sigma(beta, sensitivity_squared)
    assert Fraction(sigma) ** 2 * beta >= sensitivity_squared
    assert Fraction(math.nextafter(sigma, 0)) ** 2 * beta < sensitivity_squared


@pytest.mark.parametrize("root", [1.0, 3.0, 0.1, 2.0**-500, 1e200, math.nextafter(2.0, 1), math.nextafter(1.0, 2)])
def test_exact_squares_have_exact_roots(root: float) -> None:
    square = Fraction(root) ** 2
    assert noise_scale.root_up(square) == root
    assert noise_scale.root_up(square + square / 10**40) == math.nextafter(root, math.inf)


@pytest.mark.parametrize(("beta", "square"), [(0, 1), (1, 0), (-1, 1), (1, -1)])
def test_scales_need_positive_arguments(beta: int, square: int) -> None:
    with pytest.raises(BudgetError, match="needs both > 0"):
        noise_scale.smallest_sigma(Fraction(beta), Fraction(square))


@pytest.mark.parametrize("square", [Fraction(10) ** 700, Fraction(1, 10**700)])
def test_scales_beyond_doubles_are_refused(square: Fraction) -> None:
    with pytest.raises(BudgetError, match="beyond the range of doubles"):
        noise_scale.root_up(square)


@given(st.floats(min_value=1e-280, max_value=1e280))
def test_grid_is_a_power_of_two_with_the_scale_between_256_and_512(sigma: float) -> None:
    g = noise_scale.grid(sigma)
    assert math.frexp(g)[0] == 0.5
    assert 256 <= sigma / g < 512


@pytest.mark.parametrize(("sigma", "g"), [(256.0, 1.0), (511.9, 1.0), (512.0, 2.0), (1.0, 2.0**-8), (0.75, 2.0**-9)])
def test_grid_at_its_edges(sigma: float, g: float) -> None:
    assert noise_scale.grid(sigma) == g


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, math.inf, 1e-300])
def test_grid_needs_a_scale(sigma: float) -> None:
    with pytest.raises(BudgetError, match="too extreme to be drawn"):
        noise_scale.grid(sigma)


@pytest.mark.parametrize("grid_sigma", [256.0, 300.5, math.nextafter(512.0, 0)])
def test_a_variance_includes_the_rounding_to_the_grid(grid_sigma: float) -> None:
    made = noise_scale.Scale(grid_sigma, noise_scale.grid(grid_sigma), Fraction(1))
    assert made.grid == 1
    assert made.variance == pytest.approx(grid_sigma**2 + 1 / 12)
    assert noise_scale.PUBLIC.variance == 0


@given(positive, positive)
def test_a_measurement_never_costs_more_than_its_share(beta: Fraction, sensitivity_squared: Fraction) -> None:
    made = noise_scale.measurement_scale(beta, sensitivity_squared)
    assert made.cost <= beta
    assert made.cost == sensitivity_squared / Fraction(made.sigma) ** 2
    assert 256 <= made.sigma / made.grid < 512
