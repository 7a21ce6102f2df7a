"""Counting where the rows are: group-bys of any Ibis backend, of which the results alone are fetched."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from qcompile.data.encode.acceptance import LARGEST_TOTAL, may_refuse, require_accepted
from qcompile.data.encode.cells import refused_code
from qcompile.data.encode.reading import Reading
from qcompile.data.encode.units import is_counted
from qcompile.data.engines.cover import Names
from qcompile.data.engines.scans import Scans, plan_scans
from qcompile.data.sources.engine_errors import call_engine, fetch
from qcompile.errors import DataError
from qcompile.queries.schema import Schema
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
    """Have the backend count tables. One query, made now, checks all rows.

    Args:
      connection: the Ibis backend.
      codes: the encoded table, see `qcompile.data.encode.table.encode_table`.
      schema: the attributes.
      reading: how the rows are read.
      views: whose tables will be asked for.
      explain: rewords the backend's errors.
      rows: the number that the backend must find, where another reader has counted them.

    Raises:
      DataError: the data is refused.
    """
    total = _check(connection, codes, schema, reading, explain, rows)
    # Rows that have become refused since are no cells: they must not fall into others.
    good = [codes[f"c{i}"] != refused_code(a) for i, a in enumerate(schema) if may_refuse(a, reading.leave_out)]
    kept = codes.filter(_counts(codes, schema, reading), *good).view()

    def count(names: Sequence[Names]) -> dict[Names, IntArray]:
        scanned = (
            _count_tables(connection, kept, schema, reading, keys, explain) for keys in _group_queries(schema, names)
        )
        return {key: table for tables in scanned for key, table in tables.items()}

    return Scans(schema, total, plan_scans(schema, views), count, {})


def _counts(codes: Any, schema: Schema, reading: Reading) -> Any:
    return codes.kept if reading.unit is not None else is_counted(codes, schema, reading.leave_out)


def _check(connection: Any, codes: Any, schema: Schema, reading: Reading, explain: Explain, rows: int | None) -> int:
    """Refuse bad values, and return the number of rows that are counted."""
    import ibis

    codes = codes.mutate(counts=_counts(codes, schema, reading))
    kept = codes.counts
    sums = {"rows": codes.count(), "total": codes.count(where=kept)}
    checked = [(i, a) for i, a in enumerate(schema) if may_refuse(a, reading.leave_out)]
    sums |= {f"refused{i}": codes.count(where=codes[f"c{i}"] == refused_code(a)) for i, a in checked}
    if reading.count_column is not None:
        weight = codes.weight
        good = (weight >= 0) & (weight <= LARGEST_TOTAL) & (weight == weight.floor())
        sums["bad"] = codes.count(where=~good.fill_null(False))
        # Doubles, which do not overflow; a sum below 2^53 is exact, and one that is not has passed 2^53.
        sums["total"] = ibis.ifelse(kept & good.fill_null(False), weight, 0.0).sum()
    (row,) = fetch(connection, codes.aggregate(**sums), explain)
    number = {name: int(min(value or 0, LARGEST_TOTAL)) for name, value in row.items()}
    if rows is not None and number["rows"] != rows:
        raise DataError("Spark found another number of rows in the files than there are; use engine='duckdb'")
    bad = [a.name for i, a in checked if number[f"refused{i}"]]
    require_accepted(schema, reading, bad, bool(number.get("bad", 0)), number["total"])
    return number["total"]


def _count_tables(
    connection: Any, kept: Any, schema: Schema, reading: Reading, keys: Sequence[Names], explain: Explain
) -> dict[Names, IntArray]:
    """Count several tables by one query: each row becomes one cell of each table, and all are grouped at once.

    So a row is encoded once, however many tables there are.
    """
    import ibis

    shapes = [schema.shape(key) for key in keys]
    ends = list(itertools.accumulate(map(cells, shapes), initial=0))
    places = [_flat_cell(kept, schema, key) + start for key, start in zip(keys, ends, strict=False)]
    weighted = {} if reading.count_column is None else {"weight": kept.weight}
    rows = kept.select(cell=ibis.array(places).unnest(), **weighted).view()
    number = rows.count() if reading.count_column is None else rows.weight.sum()
    grouped = rows.group_by("cell").aggregate(number=number)
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


def _group_queries(schema: Schema, names: Sequence[Names]) -> Iterator[list[Names]]:
    """Yield groups of tables of no more than `FETCHED` cells, or of a single table."""
    group: list[Names] = []
    for key in names:
        if group and sum(cells(schema.shape(k)) for k in [*group, key]) > FETCHED:
            yield group
            group = []
        group.append(key)
    if group:
        yield group
