"""The choice of the engine that counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from qcompile.errors import OptionError
from qcompile.support.options import one_of

ENGINES = ("auto", "memory", "duckdb", "database", "spark")
"""Values of the option ``engine``: the choice by size and place; compact rows in memory; DuckDB, which holds no rows;
the database that has the table; Spark."""

Place: TypeAlias = Literal["files", "frame", "duckdb", "server", "spark", "counts"]
"""The place of data: in files, in memory, in a DuckDB database, on another database's server, in a Spark cluster; or
counted already."""

POSSIBLE: dict[Place, tuple[str, ...]] = {
    "files": ("memory", "duckdb", "spark"),
    "frame": ("memory", "duckdb"),
    "duckdb": ("memory", "duckdb", "database"),
    "server": ("memory", "database"),
    "spark": ("memory", "spark"),
    "counts": ("memory", "duckdb", "database", "spark"),  # of which none is used
}
"""Engines that can count the data of each place, besides "auto"."""

WORDS: dict[Place, str] = {
    "files": "files",
    "frame": "a table in memory",
    "duckdb": "a DuckDB table",
    "server": "a table on a database server",
    "spark": "a Spark table",
    "counts": "counts",
}
"""Names of the places in messages."""

OWN_ENGINE: dict[Place, str] = {"duckdb": "duckdb", "server": "database", "spark": "spark"}
"""The engine of places that count by themselves."""


def choose_engine(place: Place, engine: str, fits_in_memory: Callable[[], bool]) -> str:
    """Return the engine that counts: one of `ENGINES`, never "auto"; "duckdb" for a DuckDB table, however it is called.

    Args:
      place: where the data is.
      engine: the one that the user asked for.
      fits_in_memory: called where the size decides; True if the rows can be held in memory.

    Raises:
      OptionError: there is no such engine, or it cannot count such data.
    """
    one_of("engine", engine, ENGINES)
    if engine == "auto":
        return OWN_ENGINE[place] if place in OWN_ENGINE else "memory" if fits_in_memory() else "duckdb"
    if engine not in POSSIBLE[place]:
        ways = " or ".join(repr(name) for name in ("auto", *POSSIBLE[place]))
        other = _other_way(engine, place)
        raise OptionError(f"engine={engine!r} cannot count {WORDS[place]}; use engine={ways}{other}")
    return "duckdb" if (place, engine) == ("duckdb", "database") else engine


def _other_way(engine: str, place: Place) -> str:
    if (engine, place) == ("spark", "frame"):
        return ", or pass a path or a Spark DataFrame"
    return ", or pass a Database or an Ibis table" if engine == "database" else ""
