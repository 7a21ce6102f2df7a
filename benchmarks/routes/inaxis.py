"""In-axis operations on whole arrays, and the residuals of a marginal they make and unmake.

A marginal m on the axes gamma is the sum of one part per subset tau of them. Its residual z_tau takes the sum over the
axes outside tau and the differences with the first slice over those inside:

    z_tau = Decomp(m, gamma -> tau),    m = sum over tau of Recon(z_tau, tau -> gamma).

On an axis of n values, as matrices, with 1 a column of ones:

    sum     1'              (1, n)      smear   1 / n            (n, 1), the pseudo-inverse of sum
    sub     D = [-1 | I]    (n-1, n)    center  D^+ = (I - 11'/n) [0; I]   (n, n-1), the pseudo-inverse of sub

No matrix is made: each operation is a few NumPy calls. The parts of different tau are orthogonal, because the column of
*smear* is orthogonal to those of *center*. Source: AIM+GReM (arXiv 2602.05674), table 1 and algorithms 1 and 2.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping
from string import ascii_letters
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from qcompile.errors import InternalError
from qcompile.support.arrays import Array

BLOCK = 2**15
"""Cells of a piece that is taken through all axes while it lies in the cache: 256 kB."""

CHAIN = 2**12
"""Cells up to which *sub* makes a new array for each axis: calls cost more than memory."""

SMALL = 2**10
"""Cells up to which NumPy's own sum costs less than another."""

TINY = 2**7
"""Cells of a matrix that is worth a call of BLAS."""

# Where an operation on an axis reads and writes; to make such a tuple costs as much as the work on a small array.
_HEAD = tuple((slice(None),) * axis + (slice(0, 1),) for axis in range(64))
_TAIL = tuple((slice(None),) * axis + (slice(1, None),) for axis in range(64))

Step: TypeAlias = Callable[[Array, int], None]
"""An operation on one axis, in place."""


def sum_axis(x: npt.ArrayLike, axis: int) -> Array:
    """*sum*: the total over one axis, which keeps length 1."""
    return _sum(_floats(x), axis)


def sub(x: npt.ArrayLike, axis: int) -> Array:
    """*sub*: the differences with the first slice; the axis goes from n to n - 1."""
    x = _floats(x)
    return x[_TAIL[axis]] - x[_HEAD[axis]]


def center(z: npt.ArrayLike, axis: int) -> Array:
    """*center*: a slice of zeros in front, then the mean over the axis subtracted; from n - 1 to n."""
    z = _floats(z)
    whole = np.zeros((*z.shape[:axis], z.shape[axis] + 1, *z.shape[axis + 1 :]))
    whole[_TAIL[axis]] = z
    _center(whole, axis)
    return whole


def smear(x: npt.ArrayLike, axis: int, size: int) -> Array:
    """*smear*: an axis of length 1 spread evenly over ``size`` slices, which sum to it."""
    return np.repeat(_floats(x) / size, size, axis)


def decomp(m: npt.ArrayLike, kept: tuple[int, ...]) -> Array:
    """The residual of a marginal on some of its axes: *sum* over the others, *sub* over these.

    Args:
      m: the marginal, ``(n_1, ..., n_k)``, in counts.
      kept: tau, numbers of axes in ascending order.

    Returns:
      z_tau, ``n - 1`` along each kept axis and no others; empty where a kept axis has one value.

    Raises:
      InternalError: ``kept`` are not axes of ``m`` in ascending order.
    """
    x = _floats(m)
    others, subscripts = _others(x.ndim, kept)
    return _differences(_sum_out(x, others, subscripts) if others else x)


def recon(z: npt.ArrayLike, shape: tuple[int, ...], kept: tuple[int, ...], *, full: bool = True) -> Array:
    """The part of a marginal that is its residual on some of its axes: *center* over these, *smear* over the others.

    Args:
      z: z_tau, ``n - 1`` along each kept axis, in counts.
      shape: of the marginal.
      kept: tau, numbers of axes of the marginal in ascending order.
      full: False leaves length 1 to the axes outside tau, along which the part is constant: NumPy stretches them when
        the part is added to a marginal, and the part in full need not be written.

    Returns:
      The part, of ``shape``.

    Raises:
      InternalError: ``kept`` are not axes of ``shape`` in ascending order, or ``z`` is no residual on them.
    """
    z = _floats(z)
    others, _ = _others(len(shape), kept)
    whole = np.zeros([shape[axis] for axis in kept])
    corner = whole[_corner(len(kept), tuple(range(len(kept))))]
    if z.shape != corner.shape:
        raise InternalError(f"a residual on the axes {kept} of {shape} cannot have the shape {z.shape}")
    np.divide(z, math.prod(shape[axis] for axis in others), out=corner)
    _everywhere(_center, whole)
    thin = whole.reshape([n if axis in kept else 1 for axis, n in enumerate(shape)])
    return np.broadcast_to(thin, shape).copy() if full and others else thin


def decomp_all(m: npt.ArrayLike) -> dict[tuple[int, ...], Array]:
    """Every residual of a marginal at once, by its kept axes: views of one array of the size of ``m``."""
    whole = np.array(m, dtype=np.float64)
    _everywhere(_split, whole)
    return {kept: whole[_corner(whole.ndim, kept)] for kept in _subsets(whole.ndim)}


def recon_all(residuals: Mapping[tuple[int, ...], Array], shape: tuple[int, ...]) -> Array:
    """The sum of the parts of many residuals at once: the marginal again where all are given.

    Args:
      residuals: by their kept axes; those that are not there count as zero.
      shape: of the marginal.

    Raises:
      InternalError: a key is not made of axes in ascending order, or a residual has the wrong shape.
    """
    whole = np.zeros(shape)
    for kept, z in residuals.items():
        _others(len(shape), kept)
        corner = whole[_corner(len(shape), kept)]
        if z.shape != corner.shape:
            raise InternalError(f"a residual on the axes {kept} of {shape} cannot have the shape {z.shape}")
        corner[...] = z
    _everywhere(_merge, whole)
    return whole


def _center(whole: Array, axis: int) -> None:
    mean = _sum(whole, axis)
    mean /= whole.shape[axis]
    np.subtract(whole, mean, out=whole)


def _sub(whole: Array, axis: int) -> None:
    """*sub*, leaving zeros in the first slice: twice as fast as to go round them, as lines of the cache stay whole."""
    np.subtract(whole, whole[_HEAD[axis]].copy(), out=whole)


def _split(whole: Array, axis: int) -> None:
    """*sum* into the first slice, *sub* into the others."""
    total = _sum(whole, axis)
    _sub(whole, axis)
    whole[_HEAD[axis]] = total


def _merge(whole: Array, axis: int) -> None:
    """*smear* of the first slice plus *center* of the others: the inverse of `_split`."""
    head = whole[_HEAD[axis]]
    shift = _sum(whole, axis)
    shift -= 2 * head
    shift /= whole.shape[axis]
    head[...] = 0
    np.subtract(whole, shift, out=whole)


def _everywhere(step: Step, whole: Array, first: int = 0) -> None:
    """A step on this axis and all behind it, in place; a large array in pieces that stay in the cache meanwhile.

    A pass over memory per axis would cost several times the arithmetic. Past an axis its slices need nothing of each
    other.
    """
    if whole.size <= BLOCK or whole.ndim == first + 1:
        for axis in range(first, whole.ndim):
            step(whole, axis)
        return
    if first == 0:
        step(whole, 0)
    for start, stop in _pieces(len(whole), whole.shape[1:]):
        piece = whole[start:stop]
        _everywhere(step, piece if len(piece) > 1 else piece[0], int(len(piece) > 1))


def _differences(x: Array) -> Array:
    """*sub* on every axis."""
    if x.size > CHAIN and x.ndim > 1:
        out = np.empty([n - 1 for n in x.shape])
        if out.size:
            _differences_into(out, x, (), np.empty(max(BLOCK, x.shape[-1])))
        return out
    for axis in range(x.ndim):
        x = x[_TAIL[axis]] - x[_HEAD[axis]]
    return x


def _differences_into(out: Array, x: Array, less: tuple[Array, ...], buffer: Array) -> None:
    """*sub* on every axis of ``x`` minus the arrays of the same shape in ``less``, in pieces that stay in the cache.

    That difference is never made as a whole: all that a slice needs of the axes outside it is what to subtract.

    Args:
      out: for the result.
      x: with two axes or more.
      less: one array for each axis outside.
      buffer: for a piece. Memory that is fresh from the system would cost more than what is done in it.
    """
    first = x[0]
    for outside in less:
        first = first - outside[0]
    if first.size > BLOCK and x.ndim > 2:
        for i, slice_out in enumerate(out, 1):
            _differences_into(slice_out, x[i], (*(outside[i] for outside in less), first), buffer)
        return
    for start, stop in _pieces(len(out), first.shape):
        rows = slice(start + 1, stop + 1)
        piece = buffer[: (stop - start) * first.size].reshape(stop - start, *first.shape)
        np.subtract(x[rows], first, out=piece)
        for outside in less:
            np.subtract(piece, outside[rows], out=piece)
        _inner_differences(piece, out[start:stop])


def _inner_differences(piece: Array, out: Array) -> None:
    """*sub* on every axis but the first; ``piece`` is used up."""
    last = piece.ndim - 1
    for axis in range(1, last):
        _sub(piece, axis)
    core = piece[(slice(None), *(slice(1, None),) * (last - 1))]
    out[...] = core[_TAIL[last]]
    np.subtract(out, core[_HEAD[last]], out=out)


def _pieces(count: int, slice_shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Start and end of runs of slices that fit a block; single slices where none does."""
    size = max(1, BLOCK // max(1, math.prod(slice_shape)))
    return [(start, min(start + size, count)) for start in range(0, count, size)]


def _sum_out(x: Array, axes: tuple[int, ...], subscripts: str) -> Array:
    """The total over some axes, which vanish."""
    if x.size <= SMALL or len(axes) == x.ndim:
        return np.asarray(np.add.reduce(x, axes))
    if x.size <= BLOCK and subscripts:
        return np.asarray(np.einsum(subscripts, x))
    sizes = [n for axis, n in enumerate(x.shape) if axis not in axes]
    # The large axes first: they leave the least to do. Of equal ones the first, whose slices are the longest.
    for axis in sorted(axes, key=lambda a: -x.shape[a]):
        x = _sum(x, axis)
    return x.reshape(sizes)


def _sum(x: Array, axis: int) -> Array:
    """The total over one axis, which keeps length 1.

    A product with ones takes half the time of NumPy's sum, and a fraction where slices are short; `numpy.einsum` is the
    best where a matrix of the product is tiny.
    """
    if x.size <= SMALL:
        return np.add.reduce(x, axis, keepdims=True)
    shape = x.shape
    folded = x.reshape(math.prod(shape[:axis]), shape[axis], -1)
    if folded.shape[2] == 1:
        total = folded[:, :, 0] @ np.ones(shape[axis])
    elif folded[0].size >= TINY:
        total = np.ones(shape[axis]) @ folded
    else:
        total = np.einsum("ijk->ik", folded)
    return np.asarray(total.reshape(*shape[:axis], 1, *shape[axis + 1 :]))


def _floats(x: npt.ArrayLike) -> Array:
    return np.asarray(x, dtype=np.float64)


@functools.lru_cache(maxsize=2**12)
def _others(ndim: int, kept: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
    """The axes that are not kept, and the subscripts with which `numpy.einsum` sums over them; empty if too many.

    Raises:
      InternalError: ``kept`` are not axes in ascending order.
    """
    if list(kept) != [axis for axis in range(ndim) if axis in kept]:
        raise InternalError(f"{kept} are not axes of an array with {ndim} axes in ascending order")
    letters = ascii_letters[:ndim] if ndim <= len(ascii_letters) else ""
    subscripts = f"{letters}->{''.join(letters[axis] for axis in kept)}" if letters else ""
    return tuple(axis for axis in range(ndim) if axis not in kept), subscripts


def _subsets(count: int) -> list[tuple[int, ...]]:
    return [kept for size in range(count + 1) for kept in itertools.combinations(range(count), size)]


def _corner(ndim: int, kept: tuple[int, ...]) -> tuple[Any, ...]:
    """Where `_split` leaves the residual on the kept axes; a view even where that is a single number."""
    return (*(slice(1, None) if axis in kept else 0 for axis in range(ndim)), ...)
