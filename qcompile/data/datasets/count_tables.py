"""Counts that were made elsewhere: a dict keyed by tuples of attribute names."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, final

from qcompile.data.choose_engine import Place
from qcompile.data.datasets.dataset import PLAIN, Dataset, check_limits
from qcompile.data.datasets.opened import ConnectedTable, OpenedCounts, OpenedData
from qcompile.data.encode.reading import Reading
from qcompile.data.engines.counts import holds_counts
from qcompile.data.engines.given_counts import GivenCounts
from qcompile.errors import OptionError
from qcompile.queries.schema import Schema
from qcompile.support.arrays import DEFAULT_MEMORY


@final
@dataclass(frozen=True, eq=False)
class CountTables(Dataset):
    """Tables of exact counts.

    Attributes:
      data: tuples of attribute names to arrays of counts, one axis per name.
    """

    data: Mapping[Any, Any]

    @classmethod
    def recognise(cls, data: object) -> CountTables | None:
        """Return the tables of a mapping with a tuple among its keys; None of anything else."""
        return cls(data) if holds_counts(data) else None

    @property
    def place(self) -> Place:
        """The counts are made already."""
        return "counts"

    def columns(self) -> list[object]:
        """Return the names in all keys, each once."""
        return list(dict.fromkeys(name for key in self.data if isinstance(key, tuple) for name in key))

    def connect(
        self,
        columns: Schema,
        engine: str = "auto",
        row_bytes: int = 1,
        limit: int = DEFAULT_MEMORY,
        workers: int | None = None,
    ) -> AbstractContextManager[ConnectedTable]:
        """Refuse: there are no rows.

        Raises:
          OptionError: always.
        """
        raise OptionError("counts by tuples of names hold no rows to diagnose; give the table they were counted from")

    def open(
        self,
        schema: Schema,
        reading: Reading = PLAIN,
        *,
        engine: str = "auto",
        max_memory: int | None = None,
        workers: int | None = None,
    ) -> AbstractContextManager[OpenedData]:
        """Check the counts; see `Dataset.open`.

        Raises:
          OptionError: a unit or a column of counts is named, which only rows have; or another option is wrong.
          DataError: the counts do not fit the schema or each other.
        """
        check_limits(engine, max_memory, workers)
        _require_plain(reading)
        return nullcontext(OpenedCounts(GivenCounts.of(self.data, schema)))


def _require_plain(reading: Reading) -> None:
    if reading.unit is not None:
        raise OptionError(
            f"unit={reading.unit!r} cannot be used with counts: rows of a unit can be cut before counting only; give "
            "the table itself, or leave unit out if no unit has more rows than contributions"
        )
    if reading.count_column is not None:
        raise OptionError(
            f"count_column={reading.count_column!r} cannot be used with counts by tuples of names, which have no "
            "columns; leave it out"
        )
