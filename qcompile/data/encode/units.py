"""The privacy unit: the rows of each person, and the cut to a number of rows of each.

The guarantee for a person (a household, a device) with several rows holds for as many rows as the plan's
`contributions`; a unit that has more is cut down to that number before anything is counted. Which of its rows stay
depends on that unit's rows alone, so that a unit that comes or goes never moves a row of another: with ids attached,
two tables that differ in one unit give truncated tables that differ in at most `contributions` rows.

The rows that stay are those with the smallest MD5 digests of id, codes and (for rows that are alike) a running number:
fixed, whatever the order of the data or the engine, and as good as drawn at random, so that no cell is favoured.
A digest is no secret. It need not be one: the guarantee does not rest on it.

Rows without an id stay out of all counts, as those do that a policy drops. Taken for a unit each, they would break
the guarantee; to refuse the data would tell whoever sees the exit code that there is such a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from qcompile.data.encode.cells import EXACT, omitted_code
from qcompile.data.encode.reading import Reading
from qcompile.data.sources.columns import AnyColumn, SourceTable
from qcompile.errors import DataError, OptionError
from qcompile.queries.schema import Schema


def columns_to_open(schema: Schema, reading: Reading) -> Schema:
    """Return the columns to open: the attributes, then the unit's if it is no attribute, or the column of counts.

    Raises:
      OptionError: the column of counts is an attribute, too.
    """
    if reading.count_column is not None:
        if reading.count_column in schema:
            raise OptionError(
                f"count_column={reading.count_column!r} is an attribute of the schema; a column cannot be both a value "
                "and the number of rows that have it"
            )
        return Schema((*schema, AnyColumn.named(reading.count_column, "holds the counts")))
    if reading.unit is None or reading.unit in schema:
        return schema
    return Schema((*schema, AnyColumn.named(reading.unit)))


def unit_ids(source: SourceTable, schema: Schema, unit: str) -> Any:
    """Return the ids of the units as text; null where there is none.

    In a CSV file an id is the text as it is written: 1 and 01 are two units. Otherwise ids are text or whole numbers.

    Args:
      source: opened with the columns `columns_to_open`.
      schema: the attributes.
      unit: the name of the column.

    Raises:
      DataError: the column is of a type whose values do not identify anybody reliably.
    """
    import ibis

    position = schema.positions.get(unit, len(schema))
    column = source.table[f"c{position}"]
    if source.kinds is not None and source.kinds[position] == "null":
        return ibis.null("string")
    if column.type().is_floating():  # as a DataFrame stores whole numbers with a null among them
        return _floating_ids(source, position)
    is_odd = source.kinds is not None and source.kinds[position] == "other"
    if not (column.type().is_string() or column.type().is_uuid() or (column.type().is_integer() and not is_odd)):
        raise DataError(
            f"column {unit!r} names the privacy unit, but is of type {source.type_name(position)}; ids are text or "
            "numbers: convert the column"
        )
    return column.cast("string").nullif("")


def _floating_ids(source: SourceTable, position: int) -> Any:
    """Return ids of floating numbers: 7.0 is the unit 7, NaN is no id, other numbers are taken as they are."""
    import ibis

    number = source.double(position)
    small = number.abs() < EXACT
    is_whole = small & (number.floor() == number)
    # Not all engines evaluate the branch that is taken only, and the cast of a large number is an error.
    nearest = ibis.ifelse(small, number, 0).cast("int64")
    return ibis.ifelse(is_whole, nearest.cast("string"), number.cast("string"))


def is_counted(codes: Any, schema: Schema, leave_out: bool = False) -> Any:
    """Return the test that no policy drops a row, over a table of codes; ``leave_out`` as in `reading.Reading`."""
    import ibis

    tests = [codes[f"c{i}"] != s for i, a in enumerate(schema) if (s := omitted_code(a, leave_out)) is not None]
    return ibis.and_(*tests) if tests else ibis.literal(True)


def rank_rows(codes: Any, schema: Schema, leave_out: bool = False) -> Any:
    """Add three columns to a table of codes and ids.

    ``counts``: no policy drops the row; ``rank``: its place from 0 among the rows of its unit that count (or do not);
    ``mine``: whether it has an id.

    Args:
      codes: columns ``c0, c1, ...`` as `qcompile.data.encode.cells.encode_columns` makes them, and ``unit``.
      schema: the attributes.
      leave_out: as in `qcompile.data.encode.reading.Reading`.
    """
    import ibis

    names = [f"c{i}" for i in range(len(schema))]
    # The order says nothing, as all rows of the window are alike; but some engines want one.
    copy = ibis.row_number().over(group_by=["unit", *names], order_by=names[0])
    # view() keeps the stages apart: a window function may not look into another one.
    alike = codes.mutate(counts=is_counted(codes, schema, leave_out), mine=codes.unit.notnull(), copy=copy).view()
    hashed = alike.mutate(digest=_digest(alike, names)).view()
    rank = ibis.row_number().over(group_by=["unit", "counts"], order_by=["digest", *names, "copy"])
    return hashed.mutate(rank=rank).drop("digest", "copy").view()


def _digest(rows: Any, names: Sequence[str]) -> Any:
    import ibis

    # The id comes last: whatever it holds, it cannot be taken for a code.
    parts = [rows[name].cast("string") for name in (*names, "copy")]
    return _md5()(ibis.literal(" ").join([*parts, rows["unit"]]))


@cache
def _md5() -> Any:
    """Return the engine's own function: Ibis does not know that all engines have it."""
    import ibis

    return ibis.udf.scalar.builtin(name="md5", signature=(("string",), "string"))(lambda text: None)


def is_kept(ranked: Any, contributions: int) -> Any:
    """Return the test that a row of `rank_rows` is counted: no policy drops it, it has an id and a low rank."""
    return ranked.counts & ranked.mine & (ranked["rank"] < contributions)


def is_without_id(codes: Any) -> Any:
    """Return the test that a row of a table with ids has none."""
    return codes.unit.isnull()


def units_of_part(codes: Any, part: int, parts: int) -> Any:
    """Return the rows of some units, by a hash of their ids: for each unit all of its rows or none. DuckDB only.

    Args:
      codes: a table with the column ``unit``; rows without an id are in no part.
      part: from 0.
      parts: their number.
    """
    return codes.filter(~is_without_id(codes), _hash()(codes.unit) % parts == part).view()


@cache
def _hash() -> Any:
    """Return DuckDB's own function, which is ten times as quick as a digest."""
    import ibis

    return ibis.udf.scalar.builtin(name="hash", signature=(("string",), "uint64"))(lambda text: None)
