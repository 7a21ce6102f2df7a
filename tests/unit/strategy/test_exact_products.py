"""Exact products of doubles and integers, against rational arithmetic."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcompile.strategy.exact_products import as_fraction, as_integers, contract, convolve

DOUBLES = st.floats(min_value=-1e30, max_value=1e30, allow_subnormal=True) | st.sampled_from([0.0, 2.0**-40, 1e-300])


@given(st.lists(DOUBLES, min_size=1, max_size=6))
def test_doubles_are_integers_over_one_power_of_two(values: list[float]) -> None:
    integers, exponent = as_integers(np.array(values))
    assert [as_fraction(k, exponent) for k in integers] == [Fraction(v) for v in values]


@given(st.data(), st.integers(1, 4), st.integers(1, 3), st.sampled_from([10, 2**31, 2**53]))
def test_contractions(data: st.DataObject, n: int, k: int, largest: int) -> None:
    """At sums up to 2^53, where limbs are shortest, and again from Python's integers."""
    row = np.array(data.draw(st.lists(DOUBLES, min_size=n, max_size=n)))
    share = largest // (n * k)
    x = np.array(data.draw(st.lists(st.integers(-share, share), min_size=n * k, max_size=n * k))).reshape(n, k)
    expected = [sum(Fraction(b) * int(v) for b, v in zip(row.tolist(), x[:, j], strict=True)) for j in range(k)]
    for integers in (x, x.astype(object)):
        product, exponent = contract(row, integers)
        assert [as_fraction(v, exponent) for v in product] == expected


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 4), (2, 3, 5)])
def test_cyclic_convolutions(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    kernel, x = rng.normal(size=shape) * 2.0 ** rng.integers(-30, 30, shape), rng.integers(0, 2**50, shape)
    product, exponent = convolve(kernel, x)
    for cell in np.ndindex(shape):
        expected = Fraction(0)
        for other in itertools.product(*map(range, shape)):
            lag = tuple((i - j) % n for i, j, n in zip(cell, other, shape, strict=True))
            expected += Fraction(float(kernel[lag])) * int(x[other])
        assert as_fraction(int(product[cell]), exponent) == expected


def test_a_convolution_with_nothing_is_nothing() -> None:
    product, exponent = convolve(np.ones(3), np.zeros(3, dtype=np.int64))
    assert [as_fraction(v, exponent) for v in product] == [0, 0, 0]
