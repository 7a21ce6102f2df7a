"""Counting where the rows are: group-bys of any Ibis backend, of which the results alone are fetched."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from qcompile.data.encode.acceptance import may_refuse, require_accepted
from qcompile.data.encode.cells import refused_code
from qcompile.data.encode.reading import Reading
from qcompile.data.encode.row_counts import LARGEST_TOTAL
from qcompile.data.encode.units import is_counted
from qcompile.data.engines.cover import Names
from qcompile.data.engines.dialects import require_compilable, translate
from qcompile.data.engines.scans import Scans, plan_scans
from qcompile.data.sources.engine_errors import call_engine, fetch
from qcompile.data.sources.ibis_columns import has_lists
from qcompile.errors import DataError
from qcompile.queries.schema import Attribute, Schema
from qcompile.support.arrays import IntArray, cells

Explain = Callable[[str], str]

FETCHED = 2**20
"""Cells that a query may give back: drivers of databases make several objects of each."""


def push_down(
    connection: Any,
    codes: Any,
    schema: Schema,
    reading: Reading,
    views: Sequence[Names],
    explain: Explain,
    rows: int | None = None,
) -> Scans:
    """Have the backend count tables. One query, made now, checks all rows, and the first scan is made now, too.

    So a query that the backend cannot answer is refused before a budget is charged: the later ones have the same
    operations on other columns, and those are translated now.

    Args:
      connection: the Ibis backend.
      codes: the encoded table, see `qcompile.data.encode.table.encode_table`.
      schema: the attributes.
      reading: how the rows are read.
      views: whose tables will be asked for.
      explain: rewords the backend's errors.
      rows: the number that the backend must find, where another reader has counted them.

    Raises:
      DataError: the data is refused, or the backend cannot count it.
    """
    codes = translate(connection, codes)
    for check in (codes, _checks(codes, schema, reading)):
        require_compilable(connection, check)
    total = _check(connection, codes, schema, reading, explain, rows)
    # Rows that have become refused since are no cells: they must not fall into others.
    good = [codes[f"c{i}"] != refused_code(a) for i, a in enumerate(schema) if may_refuse(a, reading.leave_out)]
    good += [] if reading.counted is None else [codes.weight.notnull()]
    kept = codes.filter(_counts(codes, schema, reading), *good).view()

    query = partial(_query_tables if has_lists(connection) else _query_table, kept, schema, reading)
    fetched = FETCHED if has_lists(connection) else 1

    def count(names: Sequence[Names]) -> dict[Names, IntArray]:
        tables: dict[Names, IntArray] = {}
        for keys in _group_queries(schema, names, fetched):
            tables |= _fetch_tables(connection, query(keys), schema, keys, explain)
        return tables

    planned = plan_scans(schema, views)
    used = tuple(name for name in schema.names if any(name in view for view in views))
    require_compilable(connection, query([used]))
    return Scans(schema, total, planned, count, count([union.names for union in planned[0]]) if planned else {})


def _counts(codes: Any, schema: Schema, reading: Reading) -> Any:
    return codes.kept if reading.unit is not None else is_counted(codes, schema, reading.leave_out)


def _checks(codes: Any, schema: Schema, reading: Reading) -> Any:
    """Return the query for the rows, those that count, and the values to refuse of each attribute."""
    import ibis

    codes = codes.mutate(counts=_counts(codes, schema, reading))
    kept = codes.counts
    sums = {"rows": codes.count(), "total": codes.count(where=kept)}
    checked = _checked(schema, reading)
    sums |= {f"refused{i}": codes.count(where=codes[f"c{i}"] == refused_code(a)) for i, a in checked}
    if reading.count_column is not None:
        sums["bad"] = codes.count(where=codes.weight.isnull())
        # Doubles, which do not overflow; a sum below 2^53 is exact, and one that is not has passed 2^53.
        sums["total"] = ibis.ifelse(kept & codes.weight.notnull(), codes.weight, 0.0).sum()
    return codes.aggregate(**sums)


def _checked(schema: Schema, reading: Reading) -> list[tuple[int, Attribute]]:
    return [(i, a) for i, a in enumerate(schema) if may_refuse(a, reading.leave_out)]


def _check(connection: Any, codes: Any, schema: Schema, reading: Reading, explain: Explain, rows: int | None) -> int:
    """Refuse bad values, and return the number of rows that are counted."""
    (row,) = fetch(connection, _checks(codes, schema, reading), explain)
    number = {name: int(min(value or 0, LARGEST_TOTAL)) for name, value in row.items()}
    if rows is not None and number["rows"] != rows:
        raise DataError("Spark found another number of rows in the files than there are; use engine='duckdb'")
    bad = [a.name for i, a in _checked(schema, reading) if number[f"refused{i}"]]
    require_accepted(schema, reading, bad, bool(number.get("bad", 0)), number["total"])
    return number["total"]


def _query_tables(kept: Any, schema: Schema, reading: Reading, keys: Sequence[Names]) -> Any:
    """Count several tables by one query: each row becomes one cell of each table, and all are grouped at once.

    So a row is encoded once, however many tables there are.
    """
    import ibis

    places = [_flat_cell(kept, schema, key) + start for key, start in zip(keys, _starts(schema, keys), strict=False)]
    return _group(kept, reading, ibis.array(places).unnest())


def _query_table(kept: Any, schema: Schema, reading: Reading, keys: Sequence[Names]) -> Any:
    """Count one table by a plain group-by, which every database has."""
    (key,) = keys
    return _group(kept, reading, _flat_cell(kept, schema, key))


def _group(kept: Any, reading: Reading, cell: Any) -> Any:
    weighted = {} if reading.count_column is None else {"weight": kept.weight}
    rows = kept.select(cell=cell, **weighted).view()
    number = rows.count() if reading.count_column is None else rows.weight.sum()
    return rows.group_by("cell").aggregate(number=number)


def _starts(schema: Schema, keys: Sequence[Names]) -> list[int]:
    """Return the first flat cell of each table, and the number of cells of all."""
    return list(itertools.accumulate((cells(schema.shape(key)) for key in keys), initial=0))


def _fetch_tables(
    connection: Any, grouped: Any, schema: Schema, keys: Sequence[Names], explain: Explain
) -> dict[Names, IntArray]:
    """Return the tables of a query."""
    shapes, ends = [schema.shape(key) for key in keys], _starts(schema, keys)
    result = call_engine(lambda: connection.to_pyarrow(grouped), explain)
    counts = np.zeros(ends[-1], dtype=np.int64)
    counts[result["cell"].to_numpy()] = result["number"].to_numpy()
    pieces = np.split(counts, ends[1:-1])
    return {key: piece.reshape(shape) for key, piece, shape in zip(keys, pieces, shapes, strict=True)}


def _flat_cell(kept: Any, schema: Schema, key: Names) -> Any:
    """Return the flat cell of each row, C order."""
    import ibis

    cell = ibis.literal(0, "int64")
    for name in key:
        cell = cell * schema[name].size + kept[f"c{schema.positions[name]}"].cast("int64")
    return cell


def _group_queries(schema: Schema, names: Sequence[Names], fetched: int) -> Iterator[list[Names]]:
    """Yield groups of tables of no more than ``fetched`` cells, or of a single table."""
    group: list[Names] = []
    for key in names:
        if group and sum(cells(schema.shape(k)) for k in [*group, key]) > fetched:
            yield group
            group = []
        group.append(key)
    if group:
        yield group
