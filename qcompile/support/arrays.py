"""Array types shared by every module, and small helpers on them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Container, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from qcompile.errors import SizeError
from qcompile.support.memory import has_room, memory_limit, used_memory

Array: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

Number = TypeVar("Number", np.float64, np.int64)

LARGEST_EXACT = 2**53
"""Whole numbers up to here, and their sums, are exact in doubles as well as in 64-bit integers."""

DEFAULT_MEMORY = 8 * 2**30
"""Bytes that reading and counting may take where no limit is set, and a single array of a run."""


def digest(array: npt.NDArray[Any]) -> str:
    """Hash dtype, shape and contents."""
    h = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    h.update(np.ascontiguousarray(array).tobytes())
    return h.hexdigest()


def bytes_text(count: float) -> str:
    """Format a number of bytes, e.g. ``3.2 GB``."""
    if count == 1:
        return "1 byte"
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if count < 1000 or unit == "PB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def require_memory(what: str, entries: int, remedy: str, limit: int | None = None, itemsize: int = 8) -> None:
    """Refuse an allocation of ``entries`` numbers before it is made.

    Args:
      what: names what is allocated.
      entries: all numbers that live at the same time, temporary ones too.
      remedy: the next step.
      limit: bytes; the memory budget in force, less what is held already, where None.
      itemsize: bytes of a number.

    Raises:
      SizeError: more than the limit; names the bytes, the limit and the remedy.
    """
    need = entries * itemsize
    if has_room(need) if limit is None else need <= limit:
        return
    size = bytes_text(float(need)) if need < 10**30 else f"about 10^{len(str(need)) - 1} bytes"
    held = 0 if limit is not None or need > memory_limit() else used_memory()
    beside = f", of which {bytes_text(held)} are in use" if held else ""
    bytes_allowed = bytes_text(memory_limit() if limit is None else limit)
    raise SizeError(f"{what} needs {size} of memory, the limit is {bytes_allowed}{beside}; {remedy}")


def along(matrix: Array, x: Array, axis: int) -> Array:
    """Multiply ``matrix`` into one axis of ``x``: the in-axis product."""
    return np.moveaxis(np.tensordot(matrix, x, axes=(1, axis)), 0, axis)


def outer(parts: Sequence[Array]) -> Array:
    """Outer product of any number of arrays; the scalar 1 for none."""
    result: Array = np.ones(())
    for part in parts:
        result = np.multiply.outer(result, part)
    return result


def marginalise(table: npt.NDArray[Number], axes: Sequence[object], kept: Container[object]) -> npt.NDArray[Number]:
    """A table summed down to some of its axes, which keep their order; sums have the table's own type.

    Args:
      table: counts or estimates, one axis per entry of ``axes``.
      axes: what each axis stands for: names or positions of attributes.
      kept: those that stay.
    """
    away = tuple(i for i, axis in enumerate(axes) if axis not in kept)
    return np.asarray(table.sum(axis=away, dtype=table.dtype))


def cells(shape: Sequence[int]) -> int:
    """Number of cells as a Python integer, exact at any size."""
    return math.prod(shape)
