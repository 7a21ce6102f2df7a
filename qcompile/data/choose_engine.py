"""Which engine counts which data."""

from __future__ import annotations

import sys
from typing import Any, Literal, TypeAlias

from qcompile.data.sources.csv import csv_names
from qcompile.data.sources.databases import Database
from qcompile.data.sources.files import CSV, PARQUET, find, is_arrow, is_path, kind
from qcompile.data.sources.frames import rows_of
from qcompile.data.sources.parquet import parquet_rows
from qcompile.errors import OptionError
from qcompile.support.options import one_of

ENGINES = ("auto", "memory", "duckdb", "database", "spark")
"""Values of the option ``engine``: the choice by size and place; compact rows in memory; DuckDB, which holds no rows;
the database that has the table; Spark."""

Place: TypeAlias = Literal["files", "frame", "duckdb", "server", "spark"]
"""Where data is: in files, in memory, in a DuckDB database, on another database's server, in a Spark cluster."""

POSSIBLE: dict[Place, tuple[str, ...]] = {
    "files": ("memory", "duckdb", "spark"),
    "frame": ("memory", "duckdb"),
    "duckdb": ("memory", "duckdb", "database"),
    "server": ("memory", "database"),
    "spark": ("memory", "spark"),
}

WORDS: dict[Place, str] = {
    "files": "files",
    "frame": "a table in memory",
    "duckdb": "a DuckDB table",
    "server": "a table on a database server",
    "spark": "a Spark table",
}

COMFORT = 4
"""Rows are held in memory where they take no more than this part of what may be used."""


def choose(data: object, engine: str, row_bytes: int, limit: int) -> str:
    """The engine that counts: one of `ENGINES`, never "auto"; "duckdb" for a DuckDB table, however it is called.

    Args:
      data: what the user gave; of files, sizes are looked at.
      engine: what the user asked for.
      row_bytes: bytes that an encoded row takes.
      limit: bytes that may be used.

    Raises:
      OptionError: there is no such engine, or it cannot count such data.
      DataError: the files cannot be read.
    """
    one_of("engine", engine, ENGINES)
    where = place_of(data)
    if engine == "auto":
        return _best(data, where, row_bytes, limit)
    if engine not in POSSIBLE[where]:
        ways = " or ".join(repr(name) for name in ("auto", *POSSIBLE[where]))
        other = _other_way(engine, where)
        raise OptionError(f"engine={engine!r} cannot count {WORDS[where]}; use engine={ways}{other}")
    return "duckdb" if (where, engine) == ("duckdb", "database") else engine


def _other_way(engine: str, where: Place) -> str:
    if (engine, where) == ("spark", "frame"):
        return ", or pass a path or a Spark DataFrame"
    return ", or pass a Database or an Ibis table" if engine == "database" else ""


def place_of(data: object) -> Place:
    """Where the data is.

    Raises:
      OptionError: in a database of a kind that cannot be opened.
    """
    if isinstance(data, Database):
        return "duckdb" if data.backend == "duckdb" else "server"
    if is_spark_frame(data):
        return "spark"
    if is_ibis_table(data):
        places: dict[str, Place] = {"duckdb": "duckdb", "pyspark": "spark"}
        return places.get(backend_of(data).name, "server")
    return "files" if is_path(data) else "frame"


def is_ibis_table(data: object) -> bool:
    """Whether the data are an Ibis table expression; a library that is not loaded cannot have made any."""
    module = sys.modules.get("ibis.expr.types")
    return module is not None and isinstance(data, module.Table)


def is_spark_frame(data: object) -> bool:
    """Whether the data are a Spark DataFrame."""
    module = sys.modules.get("pyspark.sql")
    return module is not None and isinstance(data, module.DataFrame)


def backend_of(table: Any) -> Any:
    """The Ibis connection of a table expression.

    Raises:
      OptionError: it is bound to none, or to several.
    """
    from ibis.common.exceptions import IbisError

    try:
        return table._find_backend(use_default=True)
    except IbisError:
        raise OptionError("the Ibis table is not bound to one connection; pass connection.table(name)") from None


def _best(data: object, where: Place, row_bytes: int, limit: int) -> str:
    by_place: dict[Place, str] = {"duckdb": "duckdb", "server": "database", "spark": "spark"}
    if where in by_place:
        return by_place[where]
    return "memory" if most_rows(data) * row_bytes * COMFORT <= limit else "duckdb"


def known_rows(data: Any) -> int:
    """The rows of Parquet files or of a table in memory; 0 for everything else, whose rows are not known beforehand."""
    if is_path(data):
        paths = find(data)
        return parquet_rows(paths) if kind(paths[0]) == PARQUET else 0
    return rows_of(data) if place_of(data) == "frame" else 0


def most_rows(data: Any) -> int:
    """An upper bound of the rows of files or of a table in memory, without a look at the values.

    Raises:
      DataError: the files cannot be read.
    """
    if not is_path(data):
        return rows_of(data)
    paths = find(data)
    if is_arrow(paths):
        return 0  # mapped into memory anyway
    if kind(paths[0]) == CSV:
        # Each field of a record takes one byte at least: its separator, or the line's end.
        return sum(path.stat().st_size // max(1, len(csv_names(path))) for path in paths)
    return parquet_rows(paths)
