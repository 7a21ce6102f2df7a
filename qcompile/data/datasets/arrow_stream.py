"""Whatever hands out its rows as an Arrow stream: readers, scanners, pyarrow datasets, DuckDB relations, other frames.

The rows are read into memory when the data is opened, the columns of the schema only: engines scan a table several
times, which a stream need not allow.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, final

from qcompile.data.choose_engine import Place
from qcompile.data.datasets.dataset import TableDataset
from qcompile.data.datasets.opened import ConnectedTable
from qcompile.data.sources.arrays import open_arrays
from qcompile.data.sources.columns import locate, require_column_limit
from qcompile.data.sources.duckdb import connect_duckdb
from qcompile.data.sources.engine_errors import call_engine
from qcompile.errors import DataError, SizeError
from qcompile.queries.schema import Schema
from qcompile.support.arrays import bytes_text

TITLE = "the Arrow stream"

_READ: weakref.WeakSet[Any] = weakref.WeakSet()
"""Streams that were read, and have no rows any more. Some of them do not say so: they seem to be empty."""


@dataclass
class _Kept:
    """What is left of a stream that can be read once.

    Attributes:
      reader: the only one, until it is read.
      fields: the Arrow schema, afterwards.
      table: the Arrow table that was read; None where reading failed.
    """

    reader: Any = None
    fields: Any = None
    table: Any = None


@final
@dataclass(frozen=True, eq=False)
class ArrowStream(TableDataset):
    """Data that exports an Arrow stream.

    Attributes:
      data: an object with ``__arrow_c_stream__``, or a dataset or scanner of pyarrow.
      kept: the state of the reading.
    """

    data: Any
    kept: _Kept = field(default_factory=_Kept, init=False)

    @classmethod
    def recognise(cls, data: object) -> ArrowStream | None:
        """Return the stream of an object that exports one; None of anything else."""
        is_scanned = _is_of_pyarrow(data, "Dataset") or _is_of_pyarrow(data, "Scanner")
        return cls(data) if is_scanned or hasattr(type(data), "__arrow_c_stream__") else None

    @property
    def place(self) -> Place:
        """In memory, once it is read."""
        return "frame"

    @property
    def is_read_once(self) -> bool:
        """True if the object cannot be read a second time, as iterators cannot."""
        return hasattr(type(self.data), "__next__") or _is_of_pyarrow(self.data, "Scanner")

    def columns(self) -> list[object]:
        """Return the names of all columns; see `Dataset.columns`."""
        return list(self._names())

    @contextmanager
    def _connect(self, columns: Schema, engine: str, memory: int, workers: int | None) -> Iterator[ConnectedTable]:
        table = self._read(columns, memory)
        with connect_duckdb(memory, workers) as connection:
            source = open_arrays(TITLE, table.schema.names, lambda i: table.column(i), columns)
            yield ConnectedTable(engine, connection, source)

    def _names(self) -> list[str]:
        if _is_of_pyarrow(self.data, "Dataset"):
            return list(self.data.schema.names)
        return list((self.kept.fields or self._peek().schema).names)

    def _read(self, columns: Schema, memory: int) -> Any:
        """Return an Arrow table with the columns; that of the first time, where there is no second.

        Raises:
          DataError: a column is missing, or the stream was read already.
          SizeError: the columns take more than ``memory`` bytes.
        """
        names = self._names()
        require_column_limit(TITLE, len(names))
        locate(columns, names, TITLE)
        if self.kept.table is None:
            reader = self._take() if self.is_read_once else self._export(columns.names)
            table = call_engine(lambda: _collect(reader, columns.names, memory), _unreadable)
            if not self.is_read_once:
                return table
            self.kept.table = table
        if not set(columns.names) <= set(self.kept.table.schema.names):
            raise DataError(_read_already())
        return self.kept.table

    def _export(self, names: Sequence[str] = ()) -> Any:
        """Return a reader of the data; of a dataset, with the named columns only."""
        return call_engine(lambda: _open_reader(self.data, names), _unreadable)

    def _peek(self) -> Any:
        """Return a reader from which no row may be taken; of a stream that can be read once, the only one."""
        if not self.is_read_once:
            return self._export()
        if self.kept.fields is not None or _is_read(self.data):
            raise DataError(_read_already())
        if self.kept.reader is None:
            self.kept.reader = self._export()
        return self.kept.reader

    def _take(self) -> Any:
        """Return the only reader of the data, for the only time."""
        reader = self._peek()
        self.kept.fields, self.kept.reader = reader.schema, None
        with contextlib.suppress(TypeError):  # some objects cannot be remembered
            _READ.add(self.data)
        return reader


def _is_of_pyarrow(data: object, name: str) -> bool:
    """True if the data is of a class of ``pyarrow.dataset``; if that is not loaded, nothing is."""
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(data, getattr(module, name))


def _open_reader(data: Any, names: Sequence[str]) -> Any:
    import pyarrow as pa

    if _is_of_pyarrow(data, "Dataset"):
        return data.scanner(columns=list(names)).to_reader()
    return data.to_reader() if _is_of_pyarrow(data, "Scanner") else pa.RecordBatchReader.from_stream(data)


def _collect(reader: Any, names: Sequence[str], memory: int) -> Any:
    """Return the named columns of all batches as one table."""
    import pyarrow as pa

    wanted = [i for i, name in enumerate(reader.schema.names) if name in names]
    batches, size = [], 0
    for batch in reader:
        batches.append(batch.select(wanted))
        size += batches[-1].nbytes
        if size > memory:
            limit = bytes_text(memory)
            raise SizeError(
                f"{TITLE} takes more than {limit}, half of the memory: write it to a Parquet file, which is read in "
                "pieces, or raise the limit: --max-memory, max_memory"
            )
    return pa.Table.from_batches(batches, pa.schema([reader.schema.field(i) for i in wanted]))


def _unreadable(_: str) -> str:
    return f"{TITLE} cannot be read: it has no columns, was read already, or its program failed; pass an Arrow table"


def _read_already() -> str:
    return f"{TITLE} was read already, which is possible once; make a new one, or pass a table: reader.read_all()"


def _is_read(data: Any) -> bool:
    try:
        return data in _READ
    except TypeError:
        return False
