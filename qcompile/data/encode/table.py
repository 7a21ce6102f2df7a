"""The encoded table of a source: codes, and the column that decides which rows are counted."""

from __future__ import annotations

from typing import Any

from qcompile.data.encode.cells import encode_columns, parse_column
from qcompile.data.encode.reading import Reading
from qcompile.data.encode.units import is_kept, rank_rows, unit_ids
from qcompile.data.sources.columns import SourceTable
from qcompile.errors import DataError
from qcompile.queries.schema import Schema


def encode_table(source: SourceTable, schema: Schema, reading: Reading) -> Any:
    """Return the Ibis table that `acceptance.RowFilter` checks: codes in schema order and at most one column more.

    With a unit that is ``kept``, whether the row counts; the ids stay in the engine. With a column of counts it is
    ``weight``, a double, null where there is no number.

    Args:
      source: opened with the columns of `qcompile.data.encode.units.columns_to_open`.
      schema: the attributes.
      reading: how the rows are read.

    Raises:
      DataError: a domain cannot be matched, or the column of ids or counts is of another type.
    """
    if reading.unit is not None:
        codes = encode_columns(source, schema, unit=unit_ids(source, schema, reading.unit))
        ranked = rank_rows(codes, schema, reading.leave_out)
        names = (f"c{i}" for i in range(len(schema)))
        return ranked.select(*names, kept=is_kept(ranked, reading.contributions))
    if reading.count_column is not None:
        return encode_columns(source, schema, weight=_weight(source, schema, reading.count_column))
    return encode_columns(source, schema)


def _weight(source: SourceTable, schema: Schema, name: str) -> Any:
    position = len(schema)
    if source.kinds is None or source.kinds[position] == "null":
        return parse_column(source, position, "number")
    if source.kinds[position] != "number":
        kind = source.type_name(position)
        raise DataError(f"column {name!r} holds the counts, but is of type {kind}; convert it to whole numbers")
    return source.double(position)
