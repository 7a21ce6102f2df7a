"""The strategies that a user gives per attribute (``solver="rp+"``): a name, a matrix file or a matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qcompile.errors import OptionError, did_you_mean
from qcompile.queries.schema import Schema
from qcompile.support.arrays import Array, digest, require_memory

DEFAULT_STRATEGY = "identity"
"""The strategy of an attribute that the user gave none for: the residual basis of its axis."""


@dataclass(frozen=True, eq=False)
class AttributeStrategy:
    """The strategy of one attribute.

    Attributes:
      label: a name of `STRATEGIES`, or the beginning of the matrix's hash.
      matrix: ``(rows, size)``.
    """

    label: str
    matrix: Array


def attribute_strategies(schema: Schema, choices: Mapping[str, str | Path | Array]) -> dict[str, AttributeStrategy]:
    """Read a strategy for every attribute, the default where the user chose none.

    Args:
      schema: the attributes.
      choices: per attribute name a name of `STRATEGIES`, the path of a .npy or .csv file, or a matrix.

    Raises:
      OptionError: an unknown attribute or strategy, or a matrix that does not fit.
    """
    for name in choices:
        if name not in schema:
            raise OptionError(f"a strategy is given for {name!r}; {did_you_mean(name, schema.names)}")
    return {a.name: _strategy(a.name, a.size, choices.get(a.name, DEFAULT_STRATEGY)) for a in schema}


def _strategy(name: str, size: int, value: str | Path | Array) -> AttributeStrategy:
    if isinstance(value, str) and value in STRATEGIES:
        return AttributeStrategy(value, make_named_strategy(value, size))
    matrix = _read_matrix(name, value) if isinstance(value, str | Path) else _convert_matrix(name, value)
    if matrix.ndim != 2 or matrix.shape[1] != size or not np.isfinite(matrix).all():
        raise OptionError(
            f"the strategy of {name!r} must be a matrix of finite numbers with {size} columns, got shape {matrix.shape}"
        )
    return AttributeStrategy(f"matrix {digest(matrix)[:12]}", matrix)


def _convert_matrix(name: str, value: Array) -> Array:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise OptionError(f"the strategy of {name!r} must be a matrix of numbers, got {value!r}") from None


def _read_matrix(name: str, path: str | Path) -> Array:
    path = Path(path)
    if not path.exists():
        known = ", ".join(STRATEGIES)
        raise OptionError(f"the strategy of {name!r}, {str(path)!r}, is neither one of {known} nor a file")
    try:
        if path.suffix == ".npy":
            return np.asarray(np.load(path, allow_pickle=False), dtype=np.float64)
        return np.loadtxt(path, delimiter=",", ndmin=2)
    except (OSError, ValueError) as e:
        raise OptionError(f"{path} cannot be read as a matrix: {e}; use .npy, or numbers separated by commas") from e


def make_named_strategy(name: str, size: int) -> Array:
    """A strategy matrix by name, ``(queries, size)``; not centred.

    Args:
      name: one of `STRATEGIES`.
      size: the number of cells, at least 1.

    Raises:
      OptionError: an unknown name or a size below 1.
      SizeError: a matrix past the memory limit.
    """
    if name not in _MAKERS:
        raise OptionError(f"no strategy is called {name!r}; {did_you_mean(name, STRATEGIES)}")
    if size < 1:
        raise OptionError(f"a strategy needs at least one cell, got {size}")
    require_memory(f"the strategy {name!r} of {size} cells", 2 * size * size, "use fewer or coarser cells")
    return _MAKERS[name](size)


def _halves(size: int) -> list[tuple[int, int, int]]:
    """The inner nodes of the binary tree over the cells: (start, middle, stop), the left half never the smaller."""
    inner, waiting = [], [(0, size)]
    while waiting:
        start, stop = waiting.pop()
        if stop - start > 1:
            middle = (start + stop + 1) // 2
            inner.append((start, middle, stop))
            waiting += [(middle, stop), (start, middle)]
    return inner


def _haar(size: int) -> Array:
    """The total, and left half less right half at every inner node: orthogonal where size is a power of two."""
    rows = np.zeros((size, size))
    rows[0] = 1
    for row, (start, middle, stop) in zip(rows[1:], _halves(size), strict=True):
        row[start:middle] = 1
        row[middle:stop] = -1
    return rows


def _hierarchical(size: int) -> Array:
    """The sum of the cells below every node of the tree, leaves and root included; all of equal weight."""
    inner = np.zeros((size - 1, size))
    for row, (start, _, stop) in zip(inner, _halves(size), strict=True):
        row[start:stop] = 1
    return np.concatenate([inner, np.eye(size)])


_MAKERS: Mapping[str, Callable[[int], Array]] = {
    "identity": np.eye,
    "prefix": np.tri,
    "haar": _haar,
    "hierarchical": _hierarchical,
}

STRATEGIES = tuple(_MAKERS)
"""Names that `make_named_strategy` knows."""
