"""Opened data: columns and types are checked, no value is read yet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, final

from qcompile.data.encode.reading import Reading
from qcompile.data.encode.table import encode_units_in_parts
from qcompile.data.engines.counts import ExactCounts
from qcompile.data.engines.cover import Names
from qcompile.data.engines.given_counts import GivenCounts
from qcompile.data.engines.passes import MOST_PARTS, Batch, Passes
from qcompile.data.engines.pushdown import push_down
from qcompile.data.engines.stream import count_stream, hold_or_count, read_batches
from qcompile.data.sources.columns import SourceTable
from qcompile.queries.schema import Schema

Progress: TypeAlias = Callable[[int, int], None]
"""Called with (rows read, rows in all); the second is 0 when unknown. CONFIDENTIAL numbers."""


def ignore_progress(rows: int, total: int) -> None:
    """Report nothing."""


class OpenedData(ABC):
    """Data that fits a schema by its columns and types. It is valid while the context that opened it is."""

    @abstractmethod
    def counts(
        self, views: Iterable[Names] = (), progress: Progress = ignore_progress
    ) -> AbstractContextManager[ExactCounts]:
        """Read the data and yield its exact tables.

        Data that has to be refused is refused on entering: afterwards no error depends on a value.

        Args:
          views: sets of attributes whose tables will be asked for; an engine that holds no rows plans its scans by
            them.
          progress: called as rows are read.

        Raises:
          DataError: the data cannot be read, or does not fit the schema. The message holds no value of the data.
          SizeError: the tables do not fit in memory, or DuckDB ran out of its own. CONFIDENTIAL: that may depend on the
            data; see `qcompile.run.execute`.
        """


@final
@dataclass(frozen=True)
class OpenedCounts(OpenedData):
    """Counts that were made elsewhere, checked.

    Attributes:
      tables: the counts.
    """

    tables: GivenCounts

    def counts(
        self, views: Iterable[Names] = (), progress: Progress = ignore_progress
    ) -> AbstractContextManager[ExactCounts]:
        """Yield the tables; see `OpenedData.counts`. Nothing is read, so ``progress`` is not called.

        Raises:
          DataError: no table has all attributes of a view.
        """
        self.tables.require(views)
        return nullcontext(self.tables)


@dataclass(frozen=True)
class ConnectedTable:
    """A table on a connection that can count it.

    Attributes:
      engine: the one that counts: "memory", "duckdb", "database" or "spark".
      connection: the Ibis backend on which the table lives.
      source: the columns.
      rows: the number of rows, where another reader has counted them already.
    """

    engine: str
    connection: Any
    source: SourceTable
    rows: int | None = None


@final
@dataclass(frozen=True)
class OpenedTable(OpenedData):
    """A table whose columns fit.

    Attributes:
      connected: the table.
      codes: the encoded table, see `qcompile.data.encode.table.encode_table`.
      schema: the attributes.
      reading: how rows become counts.
      limit: bytes that reading and counting may use.
      threads: threads that count.
      known_rows: returns the number of rows, or 0 when unknown; see `Dataset.known_rows`.
    """

    connected: ConnectedTable
    codes: Any
    schema: Schema
    reading: Reading
    limit: int
    threads: int
    known_rows: Callable[[], int]

    @contextmanager
    def counts(self, views: Iterable[Names] = (), progress: Progress = ignore_progress) -> Iterator[ExactCounts]:
        """Read the rows and yield exact tables; see `OpenedData.counts`.

        Raises:
          DataError: the data is refused.
          SizeError: it does not fit in memory.
        """
        wanted, engine, reading = list(views), self.connected.engine, self.reading
        passes = Passes(partial(self._batches, progress), MOST_PARTS if self._divisible else 1)
        if engine == "memory" or (engine == "duckdb" and reading.unit is not None):
            # To cut units, DuckDB holds far more than the codes: they may as well be kept.
            yield hold_or_count(passes, self.schema, reading, wanted, self.limit, self.threads)
        elif engine == "duckdb":
            yield count_stream(passes, self.schema, reading, wanted)
        else:
            with self._pushed_codes() as codes:
                explain, rows = self.connected.source.explain, self.connected.rows
                yield push_down(self.connected.connection, codes, self.schema, reading, wanted, explain, rows)

    @property
    def _divisible(self) -> bool:
        """True if the rows can be read in parts: only the ranks within units take memory, and only in DuckDB."""
        return self.reading.unit is not None and self.connected.connection.name == "duckdb"

    def _batches(self, progress: Progress, parts: int) -> Iterator[Batch]:
        """Yield all batches of encoded rows, with progress reported after each."""
        connection, source = self.connected.connection, self.connected.source
        done, total = 0, self.known_rows()
        divided = [self.codes] if parts == 1 else encode_units_in_parts(source, self.schema, self.reading, parts)
        for codes in divided:
            for batch in read_batches(connection, codes, source.explain):
                yield batch
                done += len(batch[0])
                progress(done, total)

    def _pushed_codes(self) -> AbstractContextManager[Any]:
        """The encoded table where it is counted; Spark keeps it in its memory."""
        if self.connected.engine != "spark":
            return nullcontext(self.codes)
        from qcompile.data.engines.spark import cache_table

        return cache_table(self.connected.connection, self.codes, self.connected.source.explain)
