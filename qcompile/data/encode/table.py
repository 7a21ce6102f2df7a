"""The encoded table of a source: codes, and the column that decides which rows are counted."""

from __future__ import annotations

from typing import Any

from qcompile.data.encode.cells import encode_columns, parse_column
from qcompile.data.encode.reading import Reading
from qcompile.data.encode.row_counts import count_steps
from qcompile.data.encode.units import is_kept, is_without_id, rank_rows, unit_ids, units_of_part
from qcompile.data.sources.columns import SourceTable
from qcompile.errors import DataError
from qcompile.queries.schema import Schema


def encode_table(source: SourceTable, schema: Schema, reading: Reading) -> Any:
    """Return the Ibis table that `acceptance.RowFilter` checks: codes in schema order and at most one column more.

    With a unit that is ``kept``, whether the row counts; the ids stay in the engine. With a column of counts it is
    ``weight``, see `qcompile.data.encode.row_counts.count_steps`.

    Args:
      source: opened with the columns of `qcompile.data.encode.units.columns_to_open`.
      schema: the attributes.
      reading: how the rows are read.

    Raises:
      DataError: a domain cannot be matched, or the column of ids or counts is of another type.
    """
    if reading.unit is not None:
        return _cut_units(_encode_with_ids(source, schema, reading.unit), schema, reading)
    if reading.counted is not None:
        number = _number(source, schema, reading.counted.name)
        return encode_columns(source, schema, weight=count_steps(number, reading.counted, reading.leave_out))
    return encode_columns(source, schema)


def encode_units_in_parts(source: SourceTable, schema: Schema, reading: Reading, parts: int) -> list[Any]:
    """Return the table of `encode_table` in parts, so that an engine ranks the rows of some units at a time.

    Each row is in one part. The first part has the rows without an id, which are not ranked; a unit is in one of the
    others as a whole, so that what is kept of it does not depend on the number of parts.

    Args:
      source: see `encode_table`; of DuckDB.
      schema: the attributes.
      reading: how the rows are read, with a unit.
      parts: the number of parts that the units are divided into.
    """
    import ibis

    codes = _encode_with_ids(source, schema, str(reading.unit))
    without = codes.filter(is_without_id(codes)).select(*_code_names(schema), kept=ibis.literal(False))
    divided = (units_of_part(codes, part, parts) for part in range(parts))
    return [without, *(_cut_units(some, schema, reading) for some in divided)]


def _encode_with_ids(source: SourceTable, schema: Schema, unit: str) -> Any:
    return encode_columns(source, schema, unit=unit_ids(source, schema, unit))


def _cut_units(codes: Any, schema: Schema, reading: Reading) -> Any:
    ranked = rank_rows(codes, schema, reading.leave_out)
    return ranked.select(*_code_names(schema), kept=is_kept(ranked, reading.contributions))


def _code_names(schema: Schema) -> list[str]:
    return [f"c{i}" for i in range(len(schema))]


def _number(source: SourceTable, schema: Schema, name: str) -> Any:
    position = len(schema)
    if source.kinds is None or source.kinds[position] == "null":
        return parse_column(source, position, "number")
    if source.kinds[position] != "number":
        kind = source.type_name(position)
        raise DataError(f"column {name!r} holds the counts, but is of type {kind}; convert it to whole numbers")
    return source.double(position)
