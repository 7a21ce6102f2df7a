"""The abstract kind of data. A new kind is one module with a final subclass, and one line in `recognition.KINDS`."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from qcompile.data.choose_engine import ENGINES, Place, choose_engine
from qcompile.data.datasets.opened import ConnectedTable, OpenedData, OpenedTable
from qcompile.data.encode.reading import Reading
from qcompile.data.encode.table import encode_table
from qcompile.data.encode.units import columns_to_open
from qcompile.data.engines.stream import row_bytes
from qcompile.errors import DataError
from qcompile.queries.schema import Schema
from qcompile.support.arrays import DEFAULT_MEMORY
from qcompile.support.options import one_of, whole

PLAIN = Reading()

IN_MEMORY = 4
"""Rows are held in memory where they take at most one part in so many of the memory."""

LEAST_DUCKDB = 2**27
"""Bytes that DuckDB may always take."""


class Dataset(ABC):
    """Data that a user passed. No value is read to make one, nor by its methods, nor by opening it."""

    @classmethod
    @abstractmethod
    def recognise(cls, data: object) -> Dataset | None:
        """Return the dataset, or None for data of another kind.

        No library is imported and no file is touched.

        Raises:
          DataError: it is of this kind, but cannot be read as it is.
        """

    @property
    @abstractmethod
    def place(self) -> Place:
        """The place of the data. It decides which engines can count it.

        Raises:
          OptionError: in a database of a kind that cannot be opened.
        """

    @abstractmethod
    def columns(self) -> list[object]:
        """Return the names of all columns in their order. They may be repeated, or be no text.

        Raises:
          OptionError: something is not installed.
          DataError: the data cannot be opened.
        """

    @abstractmethod
    def connect(
        self,
        columns: Schema,
        engine: str = "auto",
        row_bytes: int = 1,
        limit: int = DEFAULT_MEMORY,
        workers: int | None = None,
    ) -> AbstractContextManager[ConnectedTable]:
        """Connect to some columns of any type. Only descriptions of columns are read.

        Args:
          columns: to open, see `qcompile.data.encode.units.columns_to_open`.
          engine: one of `qcompile.data.choose_engine.ENGINES`.
          row_bytes: bytes of an encoded row, by which the engine is chosen.
          limit: bytes that may be used.
          workers: threads of a local engine; one per processor where None.

        Raises:
          OptionError: the engine cannot count such data, or something is not installed.
          DataError: the data cannot be opened, or lacks a column.
        """

    @abstractmethod
    def open(
        self,
        schema: Schema,
        reading: Reading = PLAIN,
        *,
        engine: str = "auto",
        max_memory: int | None = None,
        workers: int | None = None,
    ) -> AbstractContextManager[OpenedData]:
        """Open the data, and refuse columns and types that do not fit. No value is read.

        Args:
          schema: the declared attributes.
          reading: how rows become counts.
          engine: one of `qcompile.data.choose_engine.ENGINES`.
          max_memory: bytes that reading and counting may use; `qcompile.support.arrays.DEFAULT_MEMORY` where None.
          workers: threads; one per processor where None.

        Raises:
          OptionError: an option has a value it cannot take, the engine cannot count such data, or something is not
            installed.
          DataError: columns are missing or of other types, or there is no such data.
        """

    def known_rows(self) -> int:
        """Return the number of rows where it is stored with the data; 0 otherwise.

        Raises:
          DataError: the data cannot be read.
        """
        return 0

    def most_rows(self) -> int:
        """Return an upper bound of the number of rows; 0 where the size does not matter for the engine.

        Raises:
          DataError: the data cannot be read.
        """
        return 0

    def files(self) -> list[Path]:
        """Return the files that are read, all files of a folder included; none that does not exist."""
        return []

    def identity(self) -> list[list[Any]]:
        """Return ``[real path, time of last change in ns]`` of each file, by which a resumed run knows its data.

        Data that is not on disk cannot be compared: the list is empty. Nothing depends on the content of a file.
        """
        return [[os.path.realpath(path), path.stat().st_mtime_ns] for path in self.files()]


class TableDataset(Dataset):
    """Data with rows: a table on a connection of Ibis."""

    @abstractmethod
    def _connect(
        self, columns: Schema, engine: str, memory: int, workers: int | None
    ) -> AbstractContextManager[ConnectedTable]:
        """Connect to the columns for an engine that can count them.

        Args:
          columns: to open.
          engine: as `choose_engine` returns it.
          memory: bytes that the engine may take itself.
          workers: threads of a local engine; one per processor where None.

        Raises:
          OptionError: something is not installed.
          DataError: the data cannot be opened, or does not fit.
        """

    def choose_engine(self, engine: str, row_bytes: int, limit: int) -> str:
        """Return the engine that counts, see `qcompile.data.choose_engine.choose_engine`.

        Args:
          engine: the one that the user asked for.
          row_bytes: bytes of an encoded row.
          limit: bytes that may be used.

        Raises:
          OptionError: there is no such engine, or it cannot count such data.
          DataError: the data cannot be read.
        """
        return choose_engine(self.place, engine, lambda: self.most_rows() * row_bytes * IN_MEMORY <= limit)

    @contextmanager
    def connect(
        self,
        columns: Schema,
        engine: str = "auto",
        row_bytes: int = 1,
        limit: int = DEFAULT_MEMORY,
        workers: int | None = None,
    ) -> Iterator[ConnectedTable]:
        """Connect to some columns; see `Dataset.connect`."""
        chosen = self.choose_engine(engine, row_bytes, limit)
        # Half is left for the encoded rows and the tables.
        with self._connect(columns, chosen, max(limit // 2, LEAST_DUCKDB), workers) as connected:
            yield connected

    @contextmanager
    def open(
        self,
        schema: Schema,
        reading: Reading = PLAIN,
        *,
        engine: str = "auto",
        max_memory: int | None = None,
        workers: int | None = None,
    ) -> Iterator[OpenedData]:
        """Open the table; see `Dataset.open`."""
        limit, threads = check_limits(engine, max_memory, workers)
        require_attributes(schema)
        columns = columns_to_open(schema, reading)
        with self.connect(columns, engine, row_bytes(schema, reading), limit, workers) as connected:
            codes = encode_table(connected.source, schema, reading)
            yield OpenedTable(connected, codes, schema, reading, limit, threads, self.known_rows)


def check_limits(engine: str, max_memory: int | None, workers: int | None) -> tuple[int, int]:
    """Return the bytes and the threads that may be used.

    Raises:
      OptionError: there is no such engine, or a limit is no whole number from 1.
    """
    one_of("engine", engine, ENGINES)
    limit = DEFAULT_MEMORY if max_memory is None else whole("max_memory", max_memory, 1, "bytes")
    return limit, (os.cpu_count() or 1) if workers is None else whole("workers", workers, 1, "threads")


def require_attributes(schema: Schema) -> None:
    """Refuse a schema without attributes.

    Raises:
      DataError: it has none.
    """
    if not len(schema):
        raise DataError("the schema declares no attribute, so there is nothing to read")


def existing_files(paths: Iterable[Path]) -> list[Path]:
    """Return the files among some paths; none where one cannot be looked at, as opening it explains why."""
    try:
        return [path for path in paths if path.is_file()]
    except OSError:
        return []
