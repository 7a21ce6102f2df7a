"""Quadratic forms of all prefixes of a vector, ``sum over i, j <= c of x_i x_j M_ij``, for reflecting matrices M.

A matrix that the cosine basis diagonalises is the sum of a Toeplitz and a Hankel part, ``M_ij = p(i-j) + p(i+j+1)``.
Each prefix adds a row to the one before it. The rows' Toeplitz parts are one convolution; their Hankel parts are taken
by halves: what the left half of a block gives to its right half is a correlation, for all blocks of a size at once.
"""

from __future__ import annotations

import numpy as np

from qcompile.support.arrays import Array

LEAF = 32
"""Entries of a block whose sums are taken one by one."""


def prefix_quadratics(x: Array, kernel: Array) -> Array:
    """``sum over i, j <= c of x_i x_j (p(i-j) + p(i+j+1))`` for c = 0..n-1.

    Args:
      x: ``(n,)``.
      kernel: p at 0..2n-1, an even function of period 2n.
    """
    n = len(x)
    before = causal_convolution(x, kernel[:n]) + causal_correlation(x, kernel)
    return np.cumsum(x * (2 * before + x * (kernel[0] + kernel[1 : 2 * n : 2])))


def causal_convolution(x: Array, kernel: Array) -> Array:
    """``sum over j < i of x_j p(i-j)``, all of shape ``(n,)``; p(0) is not used."""
    from scipy.fft import irfft, next_fast_len, rfft

    n, size = len(x), next_fast_len(2 * len(x), real=True)
    later = np.concatenate([[0.0], kernel[1:]])
    return np.asarray(irfft(rfft(x, size) * rfft(later, size), size)[:n])


def causal_correlation(x: Array, kernel: Array) -> Array:
    """``sum over j < i of x_j p(i+j+1)``: x of shape ``(n,)``, p of ``(2n,)``."""
    n = len(x)
    size = LEAF << max(0, (n - 1).bit_length() - (LEAF - 1).bit_length())
    padded, wide = np.zeros(size), np.zeros(2 * size)
    padded[:n], wide[: 2 * n] = x, kernel
    total = _within_leaves(padded, wide)
    width = 2 * LEAF
    while width <= size:
        total.reshape(-1, width)[:, width // 2 :] += _across_halves(padded, wide, width)
        width *= 2
    return total[:n]


def _within_leaves(x: Array, kernel: Array) -> Array:
    """The sums within each block of `LEAF` entries."""
    blocks, segments = x.reshape(-1, LEAF), kernel.reshape(-1, 2 * LEAF)
    total = np.zeros_like(blocks)
    for j in range(LEAF - 1):
        total[:, j + 1 :] += blocks[:, j : j + 1] * segments[:, 2 * j + 2 : j + LEAF + 1]
    return total.ravel()


def _across_halves(x: Array, kernel: Array, width: int) -> Array:
    """What the left half of each block of a width gives to its right half, ``(blocks, width / 2)``."""
    from scipy.fft import irfft, rfft

    left = x.reshape(-1, width)[:, : width // 2]
    segments = kernel.reshape(-1, 2 * width)[:, width // 2 + 1 : width // 2 + 1 + width]
    return np.asarray(irfft(rfft(left, width).conj() * rfft(segments, width), width)[:, : width // 2])
