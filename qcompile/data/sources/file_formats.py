"""Formats of files with tables, and how files are opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from qcompile.data.sources.arrays import open_arrays
from qcompile.data.sources.columns import SourceTable
from qcompile.data.sources.compression import count_bytes, count_lines
from qcompile.data.sources.csv import open_csv, read_csv_names
from qcompile.data.sources.json_lines import open_json_lines, read_json_names
from qcompile.data.sources.parquet import (
    count_parquet_rows,
    find_ceiling,
    map_arrow_file,
    open_parquet,
    read_arrow_names,
    read_parquet_fields,
)
from qcompile.data.sources.parts import Part, join_arrays, key_scalar, key_type, locate_in_part
from qcompile.queries.schema import Schema

KINDS = {
    ".csv": "CSV",
    ".tsv": "TSV",
    ".jsonl": "JSON lines",
    ".ndjson": "JSON lines",
    ".parquet": "Parquet",
    ".arrow": "Arrow",
    ".feather": "Arrow",
}
"""Suffixes of files, and the kinds of files that they mean."""

COMPRESSED = ("CSV", "TSV", "JSON lines")
"""Kinds of files that may be compressed with gzip, .gz behind the suffix."""

FILES = "a .csv, .tsv, .jsonl (also .gz), .parquet, .arrow or .feather file"

DATABASES = (".duckdb", ".db", ".ddb")
"""The suffixes of files of DuckDB databases."""


def kind_of(path: Path) -> str | None:
    """Return the kind of a file by its name, see `KINDS`; None where it is unknown."""
    kind = KINDS.get(path.suffix.lower())
    if path.suffix.lower() == ".gz":
        kind = KINDS.get(Path(path.stem).suffix.lower())
        return kind if kind in COMPRESSED else None
    return kind


def open_files(parts: Sequence[Part], schema: Schema, connection: Any) -> SourceTable:
    """Open the files of a data set as one table.

    Args:
      parts: files of one kind, as `qcompile.data.datasets.find_parts.find_parts` returns them.
      schema: the columns to open.
      connection: of `qcompile.data.sources.duckdb.connect_duckdb`.

    Raises:
      DataError: a file is damaged, or does not fit the schema or the others.
    """
    return OPENERS[kind_of(parts[0].path) or ""](parts, schema, connection)


def _open_arrow(parts: Sequence[Part], schema: Schema, connection: Any) -> SourceTable:
    """Open Arrow files as one table in memory, mapped as far as they are not compressed."""
    types = [key_type(attribute, parts) for attribute in schema]
    ceiling = find_ceiling(connection)
    columns = [_read_columns(part, schema, types, ceiling) for part in parts]
    joined = [join_arrays(attribute, parts, [arrays[i] for arrays in columns]) for i, attribute in enumerate(schema)]
    return open_arrays(str(parts[0].path), schema.names, joined.__getitem__, schema)


def _read_columns(part: Part, schema: Schema, types: Sequence[Any], ceiling: int | None) -> list[Any]:
    """Return the columns of the schema in an Arrow file, keys included, as Arrow arrays."""
    import pyarrow as pa

    table = map_arrow_file(part.path, schema.names, ceiling)
    columns = [table.column(i) for i in range(table.num_columns)]
    positions = locate_in_part(part, table.schema.names, schema)
    return [
        columns[p] if p < len(columns) else pa.repeat(key_scalar(part.keys[p - len(columns)][1], t), table.num_rows)
        for p, t in zip(positions, types, strict=True)
    ]


OPENERS: dict[str, Callable[[Sequence[Part], Schema, Any], SourceTable]] = {
    "CSV": open_csv,
    "TSV": open_csv,
    "JSON lines": open_json_lines,
    "Parquet": open_parquet,
    "Arrow": _open_arrow,
}
"""Kinds of files to functions that open them."""


def read_names(part: Part) -> list[str]:
    """Return the names of all columns in their order, repeated or empty ones too; keys of folders come last.

    Raises:
      DataError: the file is damaged, or has too many columns.
    """
    return [*READERS[kind_of(part.path) or ""](part.path), *part.key_names]


READERS: dict[str, Callable[[Path], Sequence[str]]] = {
    "CSV": read_csv_names,
    "TSV": read_csv_names,
    "JSON lines": read_json_names,
    "Parquet": lambda path: read_parquet_fields(path).names,
    "Arrow": read_arrow_names,
}
"""Kinds of files to functions that return the names of their columns."""


def most_rows(path: Path) -> int:
    """Return an upper bound of the number of rows; 0 for Arrow files, which are mapped into memory anyway.

    Raises:
      DataError: the file cannot be read.
    """
    match kind_of(path):
        case "Parquet":
            return count_parquet_rows([path])
        case "Arrow":
            return 0
        case "JSON lines":
            return count_lines(path) + 1
    # Each field of a record takes one byte at least: its separator, or the line's end.
    return count_bytes(path) // max(1, len(read_csv_names(path)))
