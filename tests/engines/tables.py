"""The messy table in every place that it can be read from."""

from __future__ import annotations

import csv
import io
import math
import pathlib
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from qcompile.data import ExactCounts, Reading
from qcompile.data.opening import open_data
from qcompile.queries.schema import Schema
from tests.engines import brute

TYPES: dict[str, Any] = {
    "good": pa.int16(),
    "age": pa.int64(),
    "Month of birth": pa.int64(),
    "pay": pa.float64(),
    "debt": pa.float64(),
    "price": pa.decimal128(12, 3),
    "rate": pa.float64(),
    "member": pa.bool_(),
    "label": pa.string(),
    "code": pa.int32(),
    "word": pa.string(),
    "number": pa.int32(),
    "person": pa.string(),
    "house": pa.int32(),
    "cells": pa.int64(),
}


def arrow(rows: Sequence[brute.Row]) -> pa.Table:
    """The rows as an Arrow table."""
    return pa.table({name: pa.array([row[name] for row in rows], type_) for name, type_ in TYPES.items()})


def parquet(rows: Sequence[brute.Row], path: pathlib.Path) -> pathlib.Path:
    """The rows as a Parquet file."""
    pq.write_table(arrow(rows), path, row_group_size=100)
    return path


def text(rows: Sequence[brute.Row], path: pathlib.Path) -> pathlib.Path:
    """The rows as a CSV file: nulls are empty, empty texts are quoted, numbers as Python writes them."""
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator="\r\n").writerow(TYPES)
    for row in rows:
        file.write(",".join(_field(row[name]) for name in TYPES) + "\r\n")
    path.write_text(file.getvalue(), encoding="utf-8", newline="")
    return path


def _field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return str(value)


def require_same(
    data: object,
    rows: Sequence[brute.Row],
    engine: str,
    schema: Schema = brute.SCHEMA,
    reading: Reading | None = None,
    views: Sequence[brute.Names] = (),
) -> None:
    """All views of the data, as an engine counts them, against the plain encoder."""
    reading = Reading() if reading is None else reading
    if reading.unit is None:
        expected = list(brute.encoded(schema, rows, reading.leave_out))
    else:
        expected = brute.kept(schema, rows, reading.unit, reading.contributions)
    views = views or brute.views(schema)
    with open_data(data, schema, views, reading, engine=engine) as counts:
        made = [(view, make()) for view, make in counts.tables(views)]
        assert sorted(view for view, _ in made) == sorted(views)
        for view, table in made:
            require_equal(table, brute.count(schema, expected, view, partial(steps, reading)), view)
        require_on_demand(counts, dict(made))


def steps(reading: Reading, row: brute.Row) -> int:
    """The number of steps that a row counts: the nearest, cut to the largest."""
    if reading.count_column is None:
        return 1
    step = Fraction(str(reading.count_step or 1))
    nearest = math.floor(Fraction(row[reading.count_column]) / step + Fraction(1, 2))
    return nearest if reading.max_count is None else min(nearest, int(Fraction(str(reading.max_count)) / step))


def require_on_demand(counts: ExactCounts, made: dict[brute.Names, Any]) -> None:
    """Tables one by one are those that were counted together."""
    assert counts.total == int(made[()])
    for view in list(made)[::17]:
        assert (counts.table(view[::-1]) == made[view].transpose()).all()


def require_equal(table: Any, expected: Any, view: brute.Names) -> None:
    """A dense table has exactly the non-empty cells expected."""
    found = {tuple(map(int, cell)): int(table[tuple(cell)]) for cell in np.argwhere(table)}
    assert table.dtype == np.int64
    assert found == expected, view
