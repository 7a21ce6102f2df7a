"""From whatever the user holds to an opened source on a connection that can count it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from qcompile.data.choose_engine import backend_of, choose, is_ibis_table, is_spark_frame, place_of
from qcompile.data.sources import databases
from qcompile.data.sources import frames as sources
from qcompile.data.sources.columns import Source
from qcompile.data.sources.databases import Database, open_table
from qcompile.data.sources.duckdb import engine as local_engine
from qcompile.data.sources.duckdb import nan_safe
from qcompile.data.sources.files import find
from qcompile.data.sources.frames import open_source
from qcompile.queries.schema import Schema
from qcompile.support.arrays import DEFAULT_MEMORY


@dataclass(frozen=True)
class Connected:
    """An opened source.

    Attributes:
      engine: what counts: "memory", "duckdb", "database" or "spark".
      connection: the Ibis backend on which the source's table lives.
      source: the columns.
      rows: the number of rows, where another reader has counted them already.
    """

    engine: str
    connection: Any
    source: Source
    rows: int | None = None


@contextmanager
def connected(
    data: object,
    columns: Schema,
    engine: str = "auto",
    row_bytes: int = 1,
    limit: int = DEFAULT_MEMORY,
    workers: int | None = None,
) -> Iterator[Connected]:
    """Open data for an engine; nothing is read but descriptions of columns.

    Args:
      data: see `qcompile.data.opening.open_data`.
      columns: to open, see `qcompile.data.encode.units.with_columns`.
      engine: one of `qcompile.data.choose_engine.ENGINES`.
      row_bytes: bytes that an encoded row takes, by which the engine is chosen.
      limit: bytes that may be used.
      workers: threads of a local engine; one per processor where None.

    Raises:
      OptionError: the engine cannot count such data, or something is not installed.
      DataError: the data cannot be opened, or does not fit.
    """
    chosen = choose(data, engine, row_bytes, limit)
    # Half is left for what is made of the rows.
    memory = max(limit // 2, 2**27)
    if isinstance(data, Database):
        with databases.connected(data, memory, workers) as (connection, table):
            yield Connected(chosen, connection, open_table(table, columns, connection, data.place))
    elif chosen == "spark" or place_of(data) == "spark":
        with _on_spark(data, columns, chosen, memory) as opened:
            yield opened
    elif is_ibis_table(data):
        connection = backend_of(data)
        with nan_safe(connection) if connection.name == "duckdb" else nullcontext():
            yield Connected(chosen, connection, open_table(data, columns, connection, "the Ibis table"))
    else:
        with local_engine(memory, workers) as connection:
            yield Connected(chosen, connection, open_source(data, columns, connection))


def names_of(data: Any) -> list[object]:
    """The names of all columns of any data, in their order; whatever they are, repeated or no text at all.

    Raises:
      OptionError: something is not installed.
      DataError: the data cannot be opened.
    """
    if isinstance(data, Database):
        with databases.connected(data, None, None) as (_, table):
            return list(table.columns)
    if is_ibis_table(data) or is_spark_frame(data):
        return list(data.columns)
    return sources.names_of(data)


@contextmanager
def _on_spark(data: Any, columns: Schema, chosen: str, memory: int) -> Iterator[Connected]:
    from qcompile.data.engines import spark

    if is_ibis_table(data):
        connection = backend_of(data)
        yield Connected(chosen, connection, open_table(data, columns, connection, "the Ibis table"))
    elif is_spark_frame(data):
        with spark.connected(data.sparkSession) as connection, spark.viewed(connection, data) as table:
            yield Connected(chosen, connection, open_table(table, columns, connection, "the Spark DataFrame"))
    else:
        paths = find(data)
        with (
            spark.connected(spark.session(memory)) as connection,
            spark.opened_files(connection, paths, columns) as (source, rows),
        ):
            yield Connected(chosen, connection, source, rows)
