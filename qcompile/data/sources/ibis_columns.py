"""Columns of Ibis tables, on any backend."""

from __future__ import annotations

from typing import Any

from qcompile.data.sources.columns import OPTIONAL, SourceTable, ibis_kind, locate, require_types, select_columns
from qcompile.data.sources.engine_errors import call_engine
from qcompile.queries.schema import Schema


def open_ibis_table(table: Any, columns: Schema, connection: Any, where: str) -> SourceTable:
    """Open a table of any backend of Ibis.

    Args:
      table: the Ibis expression.
      columns: to open.
      connection: its backend.
      where: how messages call it.

    Raises:
      DataError: it does not fit the schema.
    """

    def explain(_: str) -> str:
        return f"{where} could not be read: its database refused the query, or the connection was lost"

    fields = call_engine(table.schema, explain)
    positions = locate(columns, list(fields.names), where)
    types = [fields.types[p] for p in positions]
    kinds = require_types(columns, types, ibis_kind)
    named = select_columns(table, positions)
    if connection.name == "postgres":
        named = named.select(**{f"c{i}": _simplify(named[f"c{i}"]) for i in range(len(types))})
    return SourceTable(
        named,
        kinds,
        explain,
        unsigned=connection.name == "duckdb",
        loose=connection.name == "sqlite",
        lacks=_find_lacks(connection),
    )


def _find_lacks(connection: Any) -> frozenset[str]:
    import ibis.expr.operations as operations

    return frozenset(name for name in OPTIONAL if not connection.has_operation(getattr(operations, name)))


def has_lists(connection: Any) -> bool:
    """True if a database can make several rows of one, by a list of values."""
    import ibis.expr.operations as ops

    return bool(connection.has_operation(ops.Array) and connection.has_operation(ops.Unnest))


def _simplify(column: Any) -> Any:
    """Simplify a column of PostgreSQL so that it compares as on other backends."""
    import ibis

    dtype = column.type()
    if dtype.is_string():
        return column.concat("")  # char(n) compares as if without the blanks at its end; now it has none
    if dtype.is_decimal():
        # numeric goes beyond the range of doubles, where a cast is an error; and its NaN is larger than all numbers.
        size = column.abs()
        odd = ibis.cases((column.cast("string") == "NaN", None), (column > 0, float("inf")), else_=float("-inf"))
        small = ibis.cases((size > 1e308, None), (size < 1e-300, 0), else_=column).cast("float64")
        return ibis.ifelse(size > 1e308, odd, small)
    return column
