"""Products of doubles with whole numbers, exactly: every double is an integer times a power of two.

A row of doubles is brought to one exponent, ``b = 2^e k`` with integers k. Counts below 2^53 are contracted with k in
64-bit integers: k is cut into limbs so short that no sum can overflow. Everything after that is Python's integers.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from qcompile.support.arrays import Array, IntArray

Integers: TypeAlias = npt.NDArray[Any]
"""Integers: of 64 bits, or Python's own in an array of objects."""

MANTISSA = 53
"""Bits of the integer that a double holds."""

WORD = 62
"""Bits of a sum in 64-bit integers that cannot overflow."""


def as_integers(values: Array) -> tuple[list[int], int]:
    """Finite doubles over one power of two.

    Returns:
      Integers k and an exponent e with ``values == k 2^e``, exactly.
    """
    mantissas, exponents = np.frexp(values)
    whole, places = (mantissas * 2.0**MANTISSA).astype(np.int64), exponents.astype(np.int64) - MANTISSA
    used = whole != 0
    if not used.any():
        return [0] * len(whole), 0
    least = int(places[used].min())
    return [int(k) << int(e - least) if k else 0 for k, e in zip(whole.tolist(), places.tolist(), strict=True)], least


def contract(row: Array, x: Integers) -> tuple[Integers, int]:
    """Multiply a row of doubles into the first axis of an array of integers.

    Args:
      row: finite doubles, ``(n,)``.
      x: ``(n, k)``; 64-bit integers whose absolute values add up to at most 2^53, or Python's integers.

    Returns:
      Python's integers, ``(k,)``, and an exponent e: the product is the integers times ``2^e``, exactly.
    """
    integers, exponent = as_integers(row)
    if x.dtype == object:
        return np.array(integers, dtype=object) @ x, exponent
    return _contract_by_limbs(integers, x), exponent


def _contract_by_limbs(integers: list[int], x: IntArray) -> Integers:
    """``sum_i integers[i] x[i]``, a few bits of the integers at a time."""
    used = [i for i, k in enumerate(integers) if k]
    kept, part = [integers[i] for i in used], x[used]
    width = WORD - int(np.abs(part).sum()).bit_length()
    total: Integers = np.zeros(x.shape[1], dtype=object)
    for shift in range(0, max((abs(k).bit_length() for k in kept), default=0), width):
        limbs = [(abs(k) >> shift & ((1 << width) - 1)) * (1 if k > 0 else -1) for k in kept]
        total += (np.array(limbs, dtype=np.int64) @ part).astype(object) << shift
    return total


def as_fraction(integer: int, exponent: int) -> Fraction:
    """``integer 2^exponent``."""
    return Fraction(int(integer)) * Fraction(2) ** exponent


def convolve(kernel: Array, x: IntArray) -> tuple[Integers, int]:
    """The cyclic convolution of doubles with integers, all of its entries at once.

    The arrays are laid out on axes of twice their lengths, on which nothing wraps around, and become polynomials whose
    product is exact (python-flint).

    Args:
      kernel: finite doubles.
      x: integers of the same shape.

    Returns:
      Python's integers of the same shape, and an exponent e: the convolution is the integers times ``2^e``.
    """
    import flint

    integers, exponent = as_integers(kernel.ravel())
    shape = kernel.shape
    wide = tuple(2 * n for n in shape)
    spread = [_lay_out(np.array(v, dtype=object).reshape(shape), wide) for v in (integers, x)]
    product = flint.fmpz_poly(spread[0].tolist()) * flint.fmpz_poly(spread[1].tolist())
    unwrapped: Integers = np.zeros(spread[0].size, dtype=object)
    coefficients = [int(c) for c in product.coeffs()]
    unwrapped[: len(coefficients)] = coefficients
    folded = unwrapped.reshape([m for n in shape for m in (2, n)]).sum(axis=tuple(range(0, 2 * len(shape), 2)))
    return np.asarray(folded, dtype=object), exponent


def _lay_out(values: Integers, shape: tuple[int, ...]) -> Integers:
    """The values in the first corner of a larger array of zeros, flat in C order."""
    wide: Integers = np.zeros(shape, dtype=object)
    wide[tuple(slice(n) for n in values.shape)] = values
    return wide.ravel()
