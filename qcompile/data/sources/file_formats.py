"""Formats of files with tables, and how files are found and opened."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from qcompile.data.sources.arrays import open_arrays
from qcompile.data.sources.columns import SourceTable
from qcompile.data.sources.csv import open_csv, read_csv_names
from qcompile.data.sources.parquet import find_ceiling, map_arrow_file, open_parquet, read_parquet_fields
from qcompile.errors import DataError
from qcompile.queries.schema import Schema
from qcompile.support.files import place

CSV, PARQUET = ".csv", ".parquet"

ARROW = (".arrow", ".feather")
"""Arrow's own format of files."""

SUFFIXES = (CSV, PARQUET, *ARROW)

FILES = "a .csv, .parquet, .arrow or .feather file"

DATABASES = (".duckdb", ".db", ".ddb")
"""The suffixes of files of DuckDB databases."""

PathLike: TypeAlias = "str | Path"


def find_files(named: PathLike | tuple[PathLike, ...]) -> list[Path]:
    """Return the files of a path, of a folder of Parquet files, or of several paths: at least one, all of one kind.

    Raises:
      DataError: there is none, one cannot be read, or they are of several kinds.
    """
    for path in named if isinstance(named, tuple) else (named,):
        _require_no_address(path)
    if not isinstance(named, tuple):
        path = Path(named)
        return _list_folder(path) if _place(path) == "folder" else [_require_file(path)]
    paths = [_require_file(Path(path)) for path in named]
    kinds = sorted({suffix(path) for path in paths})
    if len(kinds) > 1:
        raise DataError(f"the files are of several kinds, {' and '.join(kinds)}; give files of one kind")
    return paths


def _require_no_address(path: str | Path) -> None:
    """Refuse the address of a database without a table; it may hold a password, so it is not repeated."""
    # A Path has one stroke left of two.
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/|.*passw|.*:.*@", str(path)):
        raise DataError(
            "the data is the address of a database, but no table in it is named; add --table NAME, or pass "
            "Database(url, table)"
        )


def _list_folder(folder: Path) -> list[Path]:
    """Return the Parquet files of a folder, by name, without hidden and auxiliary files."""
    paths = sorted(path for path in folder.iterdir() if suffix(path) == PARQUET and path.name[0] not in "._")
    if not paths:
        raise DataError(f"{folder} is a directory without .parquet files; name one that has some, or {FILES}")
    return [_require_file(path) for path in paths]


def suffix(path: Path) -> str:
    """Return the suffix in lower case, by which the format is known."""
    return path.suffix.lower()


def _place(path: Path) -> str:
    try:
        return place(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def _require_file(path: Path) -> Path:
    """Refuse a path that is no file, or a file of another format."""
    where = _place(path)
    if where == "folder":
        raise DataError(f"{path} is a directory; name {FILES}, or a directory of .parquet files by itself")
    if where == "nothing":
        raise DataError(f"{path}: no such file")
    if where == "device":
        raise DataError(f"{path} is a pipe or a device; save the data in {FILES}")
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    if not start:
        raise DataError(f"{path} is empty (zero bytes); a CSV file needs at least a header line")
    if suffix(path) not in SUFFIXES:
        raise DataError(_unknown(path))
    return path


def _unknown(path: Path) -> str:
    if suffix(path) in DATABASES:
        return (
            f"{path} is named like a DuckDB database; say which table of it, --table TABLE or "
            f"Database({str(path)!r}, table)"
        )
    return f"{path}: unknown kind of file {path.suffix!r}; use {FILES}"


def open_files(paths: Sequence[Path], schema: Schema, connection: Any) -> SourceTable:
    """Open CSV, Parquet or Arrow files as one table.

    Args:
      paths: as `find_files` returns them.
      schema: the columns to open.
      connection: of `qcompile.data.sources.duckdb.connect_duckdb`.

    Raises:
      DataError: a file is damaged, or does not fit the schema or the others.
    """
    if is_arrow(paths):
        table = read_arrow(paths, schema.names, find_ceiling(connection))
        return open_arrays(str(paths[0]), table.schema.names, table.column, schema)
    return (open_csv if suffix(paths[0]) == CSV else open_parquet)(paths, schema, connection)


def is_arrow(paths: Sequence[Path]) -> bool:
    """True if the files are Arrow's, which are read as tables in memory."""
    return suffix(paths[0]) in ARROW


def read_arrow(paths: Sequence[Path], names: Sequence[str] | None, ceiling: int | None = None) -> Any:
    """Return Arrow files as one Arrow table, mapped into memory as far as they are not compressed.

    Args:
      paths: of the files.
      names: the columns to read, if they are there; all where None.
      ceiling: see `qcompile.data.sources.parquet.map_arrow_file`.

    Raises:
      DataError: a file is damaged, or its columns are not those of the others.
      SizeError: compressed files take more memory than they may.
    """
    import pyarrow as pa

    tables = [map_arrow_file(path, names, ceiling) for path in paths]
    for path, table in zip(paths, tables, strict=True):
        if table.schema.names != tables[0].schema.names or table.schema.types != tables[0].schema.types:
            raise DataError(f"{path} and {paths[0]} differ in their columns; files read together need the same")
    return pa.concat_tables(tables)


def read_names(paths: Sequence[Path]) -> list[str]:
    """Return the names of all columns in their order; repeated or empty ones too.

    Args:
      paths: as `find_files` returns them.

    Raises:
      DataError: a file is damaged, or has too many columns.
    """
    if is_arrow(paths):
        return list(read_arrow(paths, ()).schema.names)
    return read_csv_names(paths[0]) if suffix(paths[0]) == CSV else list(read_parquet_fields(paths[0]).names)
