"""The measurements of a batch in its journal, by node."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import numpy as np

from qcompile.release.values import PART, ByNode, NodeValues
from qcompile.run.journal.journal import Journal
from qcompile.run.journal.parts import Part

SECONDS = 10.0
"""Time after which measurements go to disk, however few they are."""

NOTHING = np.zeros(0)


class Measurements(ByNode):
    """The measurements by node, read from disk when they are asked for; empty where there are none yet.

    Args:
      journal: of the run.
      rows: number of measurements per node.

    Raises:
      ValueError: the journal holds measurements that do not fit.
    """

    def __init__(self, journal: Journal, rows: Sequence[int]) -> None:
        self._journal, self._rows = journal, rows
        self._where: dict[int, tuple[Part, int, int]] = {}
        for part in journal.parts:
            self._take(part)

    def __len__(self) -> int:
        return len(self._rows)

    def of_node(self, node: int) -> NodeValues:
        """The measurements of a node; none where it is not on disk."""
        return self._journal.values(*self._where[node]) if node in self._where else NOTHING

    @property
    def nodes(self) -> set[int]:
        """The nodes whose measurements are on disk."""
        return set(self._where)

    def keep(self, measured: Iterable[tuple[int, NodeValues]]) -> None:
        """Write measurements to disk as they come, some at a time.

        Args:
          measured: nodes with their measurements.

        Raises:
          StorageError: the disk refuses.
        """
        held, size, since = dict[int, NodeValues](), 0, time.monotonic()
        for node, values in measured:
            held[node] = values
            size += values.size
            if size >= PART or time.monotonic() - since > SECONDS:
                self._write(held)
                held, size, since = {}, 0, time.monotonic()
        if held:
            self._write(held)

    def _write(self, held: dict[int, NodeValues]) -> None:
        self._journal.append(list(held), list(held.values()))
        self._take(self._journal.parts[-1])

    def _take(self, part: Part) -> None:
        start = 0
        for node, size in zip(part.nodes, part.sizes, strict=True):
            if node in self._where or not 0 <= node < len(self) or size != self._rows[node]:
                raise ValueError("measurements do not fit the plan, or are there twice")
            self._where[node] = (part, start, start + size)
            start += size
