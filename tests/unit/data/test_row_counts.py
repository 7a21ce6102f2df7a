"""What a row counts for: whole numbers of steps, the same on every engine, whatever the column holds."""

from __future__ import annotations

import math
import pathlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import qcompile as qc
from qcompile.data import ExactCounts, Reading, recognise
from qcompile.data.encode.acceptance import require_accepted
from qcompile.data.encode.table import encode_table
from qcompile.data.encode.units import columns_to_open
from qcompile.data.engines import pushdown
from qcompile.data.opening import open_data
from qcompile.errors import DataError, SizeError
from qcompile.queries.schema import Attribute, IntegerDomain, Policy, Schema

ENGINES = ["memory", "duckdb", "pushed down"]

VALUES: list[float | None] = [
    *(None, math.nan, math.inf, -math.inf, -1.0, -0.2, -0.0, 0.0, 1e-300, 0.004, 0.005, 0.29, 0.49999999999999994, 0.5),
    *(0.57, 1.0, 1.15, 2.4999, 2.5, 2.675, 3.0, 99.99, 100.0, 100.004, 100.5, 101.0, 250.0, 2.0**52 + 1, 1e300),
]

OPTIONS: dict[str, dict[str, Any]] = {
    "units": {},
    "cut": {"max_count": 100},
    "weights": {"max_count": "100", "count_step": "0.01"},
    "halves": {"max_count": 3, "count_step": 0.5},
    "thirds": {"max_count": 2, "count_step": "1/3"},
    "hundreds": {"max_count": 300, "count_step": 100},
}


def expected(value: float | None, most: int | None, step: float) -> int:
    """The steps of a count: nothing for what is none, the nearest for a fraction, cut to the most."""
    if value is None or math.isnan(value) or value < 0:
        return 0
    if math.isinf(value):
        return 2**53 if most is None else most
    nearest = math.floor(Fraction(value / step) + Fraction(1, 2))
    return min(nearest, 2**53 if most is None else most)


def is_strict_count(value: float | None, declared: bool, cut: bool) -> bool:
    """True if the value is a count without rounding or leaving out."""
    if value is None or math.isnan(value) or value < 0:
        return False
    return declared or value == math.inf or value == math.floor(value) or (cut and value >= 100)


@contextmanager
def counted(data: Any, schema: Schema, engine: str, reading: Reading) -> Iterator[ExactCounts]:
    if engine != "pushed down":
        with open_data(data, schema, [schema.names], reading, engine=engine) as counts:
            yield counts
        return
    with recognise(data).connect(columns_to_open(schema, reading)) as found:
        codes = encode_table(found.source, schema, reading)
        views = [schema.names]
        yield pushdown.push_down(found.connection, codes, schema, reading, views, found.source.explain)


def schema_of(rows: int) -> Schema:
    return Schema((Attribute("x", IntegerDomain(0, rows - 1), Policy("drop")),))


def table_of(values: list[float | None], kind: str, path: pathlib.Path) -> Any:
    if kind == "arrow":
        return pa.table({"x": list(range(len(values))), "n": pa.array(values, pa.float64())})
    path.write_text("x,n\n" + "".join(f"{i},{'' if v is None else repr(v)}\n" for i, v in enumerate(values)))
    return path


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["arrow", "csv"])
@pytest.mark.parametrize("name", OPTIONS)
def test_every_value_counts_its_steps(name: str, kind: str, engine: str, tmp_path: pathlib.Path) -> None:
    options = OPTIONS[name]
    most = None if name == "units" else int(Fraction(options["max_count"]) / Fraction(options.get("count_step", 1)))
    values = [v for v in VALUES if most is not None or v is None or not v > 2.0**52 + 1]
    step = float(Fraction(options.get("count_step", 1)))
    data, schema = table_of(values, kind, tmp_path / "t.csv"), schema_of(len(values))
    with counted(data, schema, engine, Reading(leave_out=True, count_column="n", **options)) as counts:
        assert counts.table(("x",)).tolist() == [expected(v, most, step) for v in values]
        assert counts.total == sum(expected(v, most, step) for v in values)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["units", "cut", "weights"])
def test_without_a_ledger_what_is_no_count_is_refused(name: str, engine: str, tmp_path: pathlib.Path) -> None:
    """Whatever else the row holds: that a policy drops it does not matter."""
    options, schema = OPTIONS[name], schema_of(1)
    declared, cut = "count_step" in options, "max_count" in options
    message = "numbers from 0, so they cannot be weights" if declared else "whole numbers from 0 to 2.53.*--count-step"
    for value in (None, math.nan, -0.2, 3.0, 0.5, 100.5, math.inf) if cut else (None, math.nan, -0.2, 3.0, 0.5):
        data = pa.table({"x": [0, 77], "n": pa.array([1.0, value], pa.float64())})
        reading = Reading(count_column="n", **options)
        if is_strict_count(value, declared, cut):
            with counted(data, schema, engine, reading) as counts:
                assert counts.total in (1, 100)
        else:
            with pytest.raises(DataError, match=message):
                counted(data, schema, engine, reading).__enter__()


@pytest.mark.parametrize("engine", ENGINES)
def test_decimals_of_weights_are_exact(engine: str) -> None:
    """Each number of hundredths is itself, though few of them are doubles; rounded down, 29 hundredths would be 28."""
    weights = [i / 100 for i in range(10_001)]
    assert int(0.29 / 0.01) == 28
    data, schema = {"x": list(range(10_001)), "n": weights}, schema_of(10_001)
    reading = Reading(count_column="n", max_count=100, count_step="0.01")
    with counted(data, schema, engine, reading) as counts:
        assert counts.table(("x",)).tolist() == list(range(10_001))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("type_", [pa.int8(), pa.uint32(), pa.float32(), pa.decimal128(8, 3), pa.null()])
def test_counts_of_every_type_of_numbers(type_: pa.DataType, engine: str) -> None:
    values = [None, None, None] if pa.types.is_null(type_) else [7, None, 0]
    data = pa.table({"x": [0, 1, 1], "n": pa.array(values, type_)})
    with counted(data, schema_of(2), engine, Reading(leave_out=True, count_column="n", max_count=5)) as counts:
        assert counts.table(("x",)).tolist() == [0 if pa.types.is_null(type_) else 5, 0]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_table_of_nothing_but_what_counts_nothing(engine: str) -> None:
    data = pa.table({"x": [0, 1], "n": pa.array([None, -1.0])})
    with counted(data, schema_of(2), engine, Reading(leave_out=True, count_column="n")) as counts:
        assert counts.total == 0
        assert counts.table(("x",)).tolist() == [0, 0]


@pytest.mark.parametrize("engine", ENGINES)
def test_counts_that_cannot_be_added_up(engine: str) -> None:
    """With a ledger it is a lack of room, as with too many rows; otherwise the data is refused."""
    data = {"x": [0, 0], "n": [2.0**52, 2.0**52]}
    for leave_out, error in ((True, SizeError), (False, DataError)):
        with pytest.raises(error, match=r"counts 2\^53 rows or more"):
            counted(data, schema_of(1), engine, Reading(leave_out=leave_out, count_column="n")).__enter__()


def test_refused_values_come_before_counts_that_are_too_large() -> None:
    schema, reading = Schema((Attribute("x", IntegerDomain(0, 1)),)), Reading(leave_out=True, count_column="n")
    with pytest.raises(DataError, match="attribute 'x' has nulls"):
        require_accepted(schema, reading, ["x"], True, 2**53)


SOURCE = """schema { x : integer 0..4 clip
  y : category {"a", "b"} drop
  z : numeric [0, 1, 5) other "?" }
workload { all : each 1..3 of all
  sums : range(x) * marginal(y) }
"""


def rows(seed: int) -> list[tuple[str, str, str, int]]:
    rng = random.Random(seed)
    return [
        (rng.choice("01234"), rng.choice(["a", "b", "c"]), rng.choice(["0", "3", "", "9"]), rng.randrange(6))
        for _ in range(60)
    ]


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("most", [None, 3, 100])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_table_with_a_row_per_unit_has_the_same_answers(
    seed: int, most: int | None, engine: str, tmp_path: pathlib.Path
) -> None:
    """Exactly: a row with the count n is n rows, or the largest number of rows if that is less."""
    plan = qc.compile(SOURCE)
    lines = [(",".join(cells), n) for *cells, n in rows(seed)]
    (tmp_path / "cells.csv").write_text("x,y,z,n\n" + "".join(f"{text},{n}\n" for text, n in lines))
    times = [(text, n if most is None else min(n, most)) for text, n in lines]
    (tmp_path / "rows.csv").write_text("x,y,z\n" + "".join(f"{text}\n" * n for text, n in times))
    options: dict[str, Any] = {"noise": "none", "engine": engine}
    wide = plan.run(tmp_path / "rows.csv", qc.Budget(rho=1), **options)
    short = plan.run(tmp_path / "cells.csv", qc.Budget(rho=1), count_column="n", max_count=most, **options)
    assert wide.ask("total").estimate > 50
    for family in ("all", "sums"):
        assert short.answers(family).column("estimate").equals(wide.answers(family).column("estimate"))
