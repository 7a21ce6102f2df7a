"""Some columns of a DuckDB relation. The types of all others are never looked at: Ibis may not know them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from qcompile.data.sources.columns import SourceTable, ibis_kind, locate, require_types, type_text
from qcompile.data.sources.engine_errors import call_engine
from qcompile.queries.schema import Schema

Field = tuple[str, str]
"""Name and type of a column, in DuckDB's words."""


def open_duckdb_relation(relation: str, columns: Schema, connection: Any, where: str) -> SourceTable:
    """Open some columns of a table or view of a DuckDB database.

    Args:
      relation: its quoted name.
      columns: to open.
      connection: of `qcompile.data.sources.duckdb.connect_duckdb`.
      where: how messages call it.

    Raises:
      DataError: it cannot be read, or does not fit the schema.
    """

    def explain(text: str) -> str:
        return explain_relation(where, text)

    fields = call_engine(lambda: describe_relation(connection, relation), explain)
    positions = locate(columns, [name for name, _ in fields], where)
    types = [_known_type(connection, fields[p][1]) for p in positions]
    kinds = require_types(columns, types, ibis_kind)
    table = call_engine(lambda: select_positions(connection, relation, fields, positions), explain)
    return SourceTable(table, kinds, explain, types=tuple(map(type_text, types)))


def describe_relation(connection: Any, relation: str) -> list[Field]:
    """Return the columns of a relation in their order; the errors are DuckDB's own."""
    rows = connection.con.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    return [(name, type_) for name, type_, *_ in rows]


def select_positions(connection: Any, relation: str, fields: Sequence[Field], positions: Sequence[int]) -> Any:
    """Return columns of a relation as an Ibis table with columns ``c0, c1, ...``.

    A column of a type that Ibis does not know is null where its value is, and 0 elsewhere. The errors are DuckDB's own.
    """
    import ibis

    columns = [_select(connection, fields[p]) for p in positions]
    listed = ", ".join(f"{column} AS c{i}" for i, column in enumerate(columns))
    view = ibis.util.gen_name("columns")
    connection.con.execute(f"CREATE TEMP VIEW {view} AS SELECT {listed} FROM {relation}")
    return connection.table(view)


def quote_name(name: str) -> str:
    """Return a name as DuckDB reads it, whatever its characters."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """Return a text as a literal of DuckDB."""
    return "'" + text.replace("'", "''") + "'"


def explain_relation(where: str, text: str) -> str:
    """Reword DuckDB's error about a table or view."""
    if "disabled by configuration" in text:
        return f"{where} is a view that reads other files, which may change during a run; make a table of it"
    return f"{where} could not be read: its database refused the query, or is damaged"


def _select(connection: Any, field: Field) -> str:
    column = quote_name(field[0])
    is_known = not isinstance(_known_type(connection, field[1]), str)
    return column if is_known else f"CASE WHEN {column} IS NULL THEN NULL ELSE 0 END"


def _known_type(connection: Any, type_: str) -> Any:
    """Return the Ibis type of a DuckDB type; where Ibis does not know it, the first word of its name."""
    try:
        dtype = connection.compiler.type_mapper.from_string(type_)
    except Exception:  # of many kinds, such as a KeyError of a coordinate system
        dtype = None
    is_column = dtype is not None and not dtype.is_unknown() and not dtype.is_geospatial()
    return dtype if is_column else re.split(r"\W", type_)[0].lower()
