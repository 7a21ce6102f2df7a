"""Files with a JSON object a line, as Ibis tables of texts.

A value is the text that stands for it, so that it is matched by the declared type of its attribute, as a field of a
CSV file. Names are looked up in each object exactly; columns of DuckDB would ignore case.
"""

from __future__ import annotations

import codecs
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qcompile.data.sources.columns import SourceTable, require_column_limit, select_columns
from qcompile.data.sources.compression import is_compressed, read_pieces
from qcompile.data.sources.engine_errors import call_engine
from qcompile.data.sources.parts import FILE_COLUMN, Part, join_keys, locate_in_part, patterns, unite, uses_keys
from qcompile.errors import DataError
from qcompile.queries.schema import Schema

MAX_OBJECT = 2**24
"""Bytes of a line, of which DuckDB takes no longer ones."""

_NUMBERS = itertools.count()


def open_json_lines(parts: Sequence[Part], schema: Schema, connection: Any) -> SourceTable:
    """Open files whose first objects name all columns of the schema; names that others lack are nulls in them.

    Raises:
      DataError: a file is not of this kind, or does not fit the schema.
    """
    for part in parts:
        _require_names(part, schema)
    damaged = _damage_message(parts)
    groups: dict[tuple[bool, tuple[str, ...]], list[Part]] = {}
    for part in parts:
        groups.setdefault((is_compressed(part.path), part.key_names), []).append(part)
    table = call_engine(
        lambda: unite([_read_group(some, compressed, schema, connection) for (compressed, _), some in groups.items()]),
        lambda _: damaged,
    )
    return SourceTable(table, None, lambda _: damaged)


def _require_names(part: Part, schema: Schema) -> None:
    """Refuse a file whose first object lacks a name: a misspelt one would be a column of nulls."""
    names = read_json_names(part.path)
    try:
        locate_in_part(part, names, schema)
    except DataError as error:
        lacks = any(name not in (*names, *part.key_names) for name in schema.names)
        hint = "; the first object must have all of them, null where there is no value" if lacks else ""
        raise DataError(f"{error}{hint}") from None


def _damage_message(parts: Sequence[Part]) -> str:
    first = parts[0].path
    where = str(first) if len(parts) == 1 else f"one of {len(parts)} files, the first of which is {first},"
    return f"{where} could not be parsed as JSON lines; check that each line is one object, in UTF-8, and not too long"


def _read_group(parts: Sequence[Part], compressed: bool, schema: Schema, connection: Any) -> Any:
    """Return the table of some files, all compressed or none, with keys of the same names."""
    names = [name for name in schema.names if name not in parts[0].key_names]
    positions = locate_in_part(parts[0], names, schema)
    table = _read_values(patterns(parts), compressed, names, connection)
    keyed = uses_keys(positions, len(names))
    return select_columns(join_keys(table, parts) if keyed else table, positions)


def _read_values(addresses: Sequence[str], compressed: bool, names: Sequence[str], connection: Any) -> Any:
    """Return an Ibis table with the texts of some names, and `FILE_COLUMN` as the last column."""
    columns = [f"json_extract_string(json, {_quote(_pointer(name))}) AS f{i}" for i, name in enumerate(names)]
    columns.append(f'"{FILE_COLUMN}"')
    compression = "gzip" if compressed else "uncompressed"
    view = f"json_lines_{next(_NUMBERS)}"
    connection.raw_sql(
        f"CREATE TEMP VIEW {view} AS SELECT {', '.join(columns)} FROM read_ndjson_objects("
        f"[{', '.join(map(_quote, addresses))}], compression = '{compression}', "
        f"filename = '{FILE_COLUMN}', hive_partitioning = false, maximum_object_size = {MAX_OBJECT}) "
        "WHERE CASE WHEN json_type(json) = 'OBJECT' THEN true ELSE error('no object') END"
    )
    return connection.table(view)


def _pointer(name: str) -> str:
    """Return the JSON pointer (RFC 6901) of a name: DuckDB takes nothing in it for a pattern."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def read_json_names(path: Path) -> list[str]:
    """Return the names in the first object of a file.

    Raises:
      DataError: the first line that is not blank is no object with names.
    """
    start = next(read_pieces(path, MAX_OBJECT), b"")
    first = start.removeprefix(codecs.BOM_UTF8).lstrip().partition(b"\n")[0]
    try:
        names = json.loads(first.decode())
    except ValueError:  # which holds the text
        names = None
    if not isinstance(names, dict) or not names:
        raise DataError(f"{path}: the first line must be a JSON object with the names of all columns, null where empty")
    require_column_limit(path, len(names))
    return list(names)
