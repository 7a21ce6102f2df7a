"""The rounds of an adaptive run in its journal: one part for each, written before the next round begins."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from qcompile.adaptive.history import MeasuredRound, Round
from qcompile.release.rounds import round_data
from qcompile.release.values import NodeValues
from qcompile.run.journal.journal import Journal
from qcompile.run.journal.parts import Part


def keep_round(journal: Journal, measured: MeasuredRound) -> None:
    """Write a round to disk.

    Raises:
      StorageError: the disk refuses.
    """
    done = measured.round
    journal.append([s.node for s in done.steps], measured.values, round_data(done))


def read_rounds(
    journal: Journal, read: Callable[[list[dict[str, Any]]], tuple[Round, ...]], rows: Callable[[int], int]
) -> list[MeasuredRound]:
    """The rounds of an interrupted run.

    Args:
      journal: of the run.
      read: from plain data to rounds, with all checks.
      rows: number of measurements of a node.

    Raises:
      ValueError: the measurements do not fit the rounds.
    """
    rounds = read([part.note for part in journal.parts])
    return [_read_round(journal, part, done, rows) for part, done in zip(journal.parts, rounds, strict=True)]


def _read_round(journal: Journal, part: Part, done: Round, rows: Callable[[int], int]) -> MeasuredRound:
    nodes = [s.node for s in done.steps]
    if list(part.nodes) != nodes or list(part.sizes) != [rows(node) for node in nodes]:
        raise ValueError("measurements do not fit their round")
    ends = np.cumsum([0, *part.sizes]).tolist()
    return MeasuredRound(done, tuple(_widen(journal.values(part, start, stop)) for start, stop in pairwise(ends)))


def _widen(values: NodeValues) -> NodeValues:
    """The measurements as they were drawn: on disk whole numbers are in the narrowest type that holds them."""
    return values.astype(np.int64) if values.dtype.kind == "i" else values
