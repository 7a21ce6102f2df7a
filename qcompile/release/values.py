"""Measurements in a release file: cut into parts, each read and verified when a question needs it.

Cells of neighbouring nodes are asked for together, so a part holds the measurements of consecutive nodes of the
lattice. Where the cuts are depends on the plan alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from qcompile.errors import StorageError

NodeValues = npt.NDArray[Any]
"""A node's measurements: whole multiples of its grid, of any width, with rounded noise; doubles otherwise."""

MEASURED = "measured/"
"""Prefix of the names of all parts."""

PART = 2**21
"""Measurements from which on a part is complete: 4 MB with the usual two bytes each."""

HELD = 8
"""Parts that are kept for further questions."""

IN_MEMORY = 2**28
"""Bytes of measurements up to which a file is read at once."""


def narrow(values: NodeValues) -> NodeValues:
    """Whole numbers in the narrowest type that holds them all; anything else as it is."""
    if values.dtype.kind != "i" or not values.size:
        return values
    low, high = int(values.min()), int(values.max())
    fitting = (t for t in (np.int16, np.int32) if np.iinfo(t).min <= low and high <= np.iinfo(t).max)
    return values.astype(next(fitting, np.int64), copy=False)


def cuts(rows: Sequence[int]) -> list[range]:
    """The parts: ranges of nodes, each with at least `PART` measurements, except the last."""
    found, start, held = list[range](), 0, 0
    for node, count in enumerate(rows):
        held += count
        if held >= PART or (node == len(rows) - 1 and held):
            found.append(range(start, node + 1))
            start, held = node + 1, 0
    return found


def parts(
    rows: Sequence[int],
    values: Sequence[NodeValues],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[tuple[str, NodeValues]]:
    """The arrays of a file, by name, one at a time.

    Args:
      rows: number of measurements per node.
      values: of each node.
      progress: called before each with the number done and of all.
    """
    found = cuts(rows)
    for number, nodes in enumerate(found):
        progress(number, len(found))
        yield name(number), narrow(np.concatenate([values[i] for i in nodes if rows[i]]))


def name(number: int) -> str:
    """A part's name in the file."""
    return f"{MEASURED}{number:05}"


def is_measured(name: str) -> bool:
    """True for the names of measurements: parts, or a single array up to format 4."""
    return name.startswith(MEASURED) or name == MEASURED.rstrip("/")


class ByNode(Sequence[NodeValues], ABC):
    """The measurements of every node, by its position, each found when it is asked for."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def of_node(self, node: int) -> NodeValues:
        """The measurements of a node that there is."""

    @overload
    def __getitem__(self, node: int) -> NodeValues: ...
    @overload
    def __getitem__(self, node: slice) -> Sequence[NodeValues]: ...
    def __getitem__(self, node: int | slice) -> NodeValues | Sequence[NodeValues]:
        if isinstance(node, slice):
            return [self[i] for i in range(*node.indices(len(self)))]
        if not 0 <= node < len(self):
            raise IndexError(node)
        return self.of_node(node)


class StoredValues(ByNode):
    """The measurements of every node, out of the parts of a file.

    Attributes:
      parts: arrays by name, each looked up when it is needed.
      rows: number of measurements per node.
      whole: whether they are whole multiples of a grid.
      where: the file, for messages.

    Raises:
      StorageError: there are other parts than these nodes have.
    """

    def __init__(self, parts: Mapping[str, NodeValues], rows: Sequence[int], whole: bool, where: object) -> None:
        self.parts, self.rows, self.whole, self.where = parts, rows, whole, where
        self._cuts = cuts(rows)
        if set(parts) != {name(i) for i in range(len(self._cuts))}:
            raise self._unfit
        self._starts = [nodes.start for nodes in self._cuts]
        self._ends = np.cumsum([0, *rows])
        self._part = lru_cache(maxsize=HELD)(self._read)

    def __len__(self) -> int:
        return len(self.rows)

    def of_node(self, node: int) -> NodeValues:
        """The measurements of a node.

        Raises:
          StorageError: they are damaged, or of another plan.
        """
        if not self.rows[node]:
            return np.zeros(0)
        number = bisect_right(self._starts, node) - 1
        first = self._ends[self._starts[number]]
        return self._part(number)[self._ends[node] - first : self._ends[node + 1] - first]

    def _read(self, number: int) -> NodeValues:
        """A part, verified.

        Raises:
          StorageError: it is damaged, or no measurements of this plan.
        """
        values = self.parts[name(number)]
        nodes = self._cuts[number]
        fits = values.shape == (self._ends[nodes.stop] - self._ends[nodes.start],)
        kind = "i" if self.whole else "f"
        if not fits or values.dtype.kind != kind or (not self.whole and not np.isfinite(values).all()):
            raise self._unfit
        return values

    @property
    def _unfit(self) -> StorageError:
        return StorageError(f"{self.where} has measurements that do not fit its plan; measure again")
