"""Tables in memory: pandas and polars DataFrames, Arrow tables, dicts of columns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

from qcompile.data.choose_engine import Place
from qcompile.data.datasets.dataset import TableDataset
from qcompile.data.datasets.opened import ConnectedTable
from qcompile.data.sources.arrays import open_arrays
from qcompile.data.sources.duckdb import connect_duckdb
from qcompile.errors import DataError
from qcompile.queries.schema import Schema


@final
@dataclass(frozen=True, eq=False)
class Frame(TableDataset):
    """A table in memory, by its columns.

    Attributes:
      title: its name in messages.
      names: of all columns.
      column: from a position to a list or an array; it is called only when the column is read.
      rows: returns the number of rows, or 0 when unknown.
    """

    title: str
    names: Sequence[object]
    column: Callable[[int], Any]
    rows: Callable[[], int]

    @classmethod
    def recognise(cls, data: Any) -> Frame | None:
        """Return the frame of a DataFrame, an Arrow table or a mapping; None of anything else.

        Raises:
          DataError: a polars LazyFrame, which is not computed yet.
        """
        if _is_a(data, "pyarrow", "Table") or _is_a(data, "pyarrow", "RecordBatch"):
            return cls("the Arrow table", data.schema.names, data.column, lambda: data.num_rows)
        if _is_a(data, "pandas", "DataFrame"):
            return cls("the DataFrame", data.columns.tolist(), lambda i: data.iloc[:, i], lambda: len(data))
        if _is_a(data, "polars", "DataFrame"):
            return cls("the DataFrame", data.columns, lambda i: data.to_series(i).to_arrow(), lambda: len(data))
        if _is_a(data, "polars", "LazyFrame"):
            raise DataError("the data is a LazyFrame, which polars has not computed yet; pass data.collect()")
        if isinstance(data, Mapping):
            return cls("the dict of columns", list(data), lambda i: list(data.values())[i], lambda: _longest(data))
        return None

    @property
    def place(self) -> Place:
        """In memory."""
        return "frame"

    def columns(self) -> list[object]:
        """Return the names of all columns; see `Dataset.columns`."""
        return list(self.names)

    def known_rows(self) -> int:
        """Return the number of rows; the length of the longest column of a dict."""
        return self.rows()

    def most_rows(self) -> int:
        """Return the number of rows; the length of the longest column of a dict."""
        return self.rows()

    @contextmanager
    def _connect(self, columns: Schema, engine: str, memory: int, workers: int | None) -> Iterator[ConnectedTable]:
        with connect_duckdb(memory, workers) as connection:
            yield ConnectedTable(engine, connection, open_arrays(self.title, self.names, self.column, columns))


def _is_a(data: object, library: str, name: str) -> bool:
    """True if the data is of a library's class; a library that is not loaded cannot have made any."""
    module = sys.modules.get(library)
    return module is not None and isinstance(data, getattr(module, name))


def _longest(data: Mapping[Any, Any]) -> int:
    """The length of the longest column, of those that have one. A mapping may hold anything."""
    return max((len(column) for column in data.values() if hasattr(column, "__len__")), default=0)
