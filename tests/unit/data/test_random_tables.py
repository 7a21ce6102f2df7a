"""Random schemas and tables of many types in every source, against a reader in plain Python.

A column is drawn with its type: the reader below knows values as Python numbers, texts, flags and None, and the edges
of bins in the type of their column.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import math
import pathlib
import random
import re
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qcompile.data import Database
from qcompile.data.opening import open_data
from qcompile.data.sources.engine_errors import quiet
from qcompile.errors import DataError
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, NumericDomain, Policy, Schema

ROWS = 60
WHOLE_TYPES = ("int8", "uint8", "int16", "uint32", "int64")
FLOAT_TYPES = ("float16", "float32", "float64")


@dataclass(frozen=True)
class Column:
    """An attribute, the type of its column ("string" and "bool" beside those of NumPy), and its values."""

    attribute: Attribute
    type: str
    values: list[Any]


# --- the reader ---


def cell(column: Column, value: Any) -> int | str:
    """The cell of a value; "drop", or "refuse"."""
    place = locate(column, value)
    if isinstance(place, int):
        return place
    last = column.attribute.domain.size - 1
    clipped = {"below": 0, "above": last}.get(place, "refuse")
    by_policy: dict[str, int | str] = {"strict": "refuse", "clip": clipped, "drop": "drop", "other": last + 1}
    return by_policy[column.attribute.policy.kind]


def locate(column: Column, value: Any) -> int | str:
    domain = column.attribute.domain
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "nowhere"
    if isinstance(domain, CategoryDomain):
        return domain.labels.index(value) if value in domain.labels else "nowhere"
    if isinstance(domain, IntegerDomain):
        if not domain.low <= value <= domain.high:
            return "below" if value < domain.low else "above"
        return int(value) - domain.low if value == int(value) else "nowhere"
    edges = [float(np.dtype(column.type).type(e)) if column.type in FLOAT_TYPES else e for e in domain.edges]
    if value < edges[0]:
        return "below"
    if value > edges[-1] or (value == edges[-1] and not domain.closed):
        return "above"
    return min(len([e for e in edges if e <= value]) - 1, domain.size - 1)


def tables(columns: Sequence[Column]) -> dict[tuple[str, ...], dict[tuple[int, ...], int]] | set[str]:
    """Counts by cell of all pairs of columns; or the names of those with values that are refused."""
    rows = list(zip(*([cell(c, v) for v in c.values] for c in columns), strict=True))
    refused = {c.attribute.name for i, c in enumerate(columns) if any(row[i] == "refuse" for row in rows)}
    if refused:
        return refused
    kept = [row for row in rows if "drop" not in row]
    names = [c.attribute.name for c in columns]
    return {
        (names[i], names[j]): dict(collections.Counter((int(row[i]), int(row[j])) for row in kept))
        for i, j in itertools.combinations(range(len(names)), 2)
    }


# --- random columns ---


def draw_columns(rng: random.Random) -> list[Column]:
    makers = [draw_integers, draw_bins, draw_texts, draw_codes, draw_flags]
    return [rng.choice(makers)(rng, f"x{i}") for i in range(rng.randint(2, 3))]


def draw_policy(rng: random.Random, *, clip: bool) -> Policy:
    kind = rng.choice(["other", "drop", "clip" if clip else "other", *(["strict"] if rng.random() < 0.2 else [])])
    return Policy(kind, "rest") if kind == "other" else Policy(kind)  # type: ignore[arg-type]


def draw_values(rng: random.Random, pool: Sequence[Any], nulls: bool) -> list[Any]:
    return [None if nulls and rng.random() < 0.1 else rng.choice(pool) for _ in range(ROWS)]


def draw_integers(rng: random.Random, name: str) -> Column:
    type_ = rng.choice(WHOLE_TYPES + FLOAT_TYPES)
    low, size, cyclic = rng.randint(0, 3), rng.randint(2, 9), rng.random() < 0.3
    attribute = Attribute(name, IntegerDomain(low, low + size), draw_policy(rng, clip=not cyclic), cyclic)
    clipped = attribute.policy.kind == "clip"
    pool: list[Any] = list(range(low + size + 3)) + ([] if type_.startswith("u") else [-1, -100])
    if type_ in FLOAT_TYPES:
        pool = [float(v) for v in pool] + ([] if clipped else [0.5, math.nan, low + 1.5]) + [math.inf, -math.inf]
    return Column(attribute, type_, draw_values(rng, pool, not clipped))


def draw_bins(rng: random.Random, name: str) -> Column:
    type_ = rng.choice((*FLOAT_TYPES, *FLOAT_TYPES, "int16"))
    edges = tuple(k / 10 for k in sorted(rng.sample(range(-5, 30), rng.randint(2, 6))))
    attribute = Attribute(name, NumericDomain(edges, rng.random() < 0.5), draw_policy(rng, clip=True))
    clipped = attribute.policy.kind == "clip"
    if type_ == "int16":
        return Column(attribute, type_, draw_values(rng, range(-3, 6), not clipped))
    scalar = np.dtype(type_).type
    near = [
        x for e in edges for x in (np.nextafter(scalar(e), -scalar(9)), scalar(e), np.nextafter(scalar(e), scalar(9)))
    ]
    pool = [float(x) for x in near] + [-7.5, 9.5, math.inf, *([] if clipped else [math.nan])]
    return Column(attribute, type_, draw_values(rng, pool, not clipped))


def draw_texts(rng: random.Random, name: str) -> Column:
    labels = rng.sample(["a", "A", "1", "01", "NA", "", "café", "cafe\u0301", '"', "a,b", "two\nlines", " a"], 4)
    attribute = Attribute(name, CategoryDomain(tuple(labels)), draw_policy(rng, clip=False))
    return Column(attribute, "string", draw_values(rng, [*labels, "b", "null", "1.0"], True))


def draw_codes(rng: random.Random, name: str) -> Column:
    type_ = rng.choice(WHOLE_TYPES + FLOAT_TYPES)
    labels = rng.sample(range(20), rng.choice([1, 4]))
    attribute = Attribute(name, CategoryDomain(tuple(labels)), draw_policy(rng, clip=False))
    pool: list[Any] = [*labels, 21, 99]
    return Column(attribute, type_, draw_values(rng, [float(v) for v in pool] if "float" in type_ else pool, True))


def draw_flags(rng: random.Random, name: str) -> Column:
    labels = rng.choice([(True, False), (False, True), (True,)])
    attribute = Attribute(name, CategoryDomain(labels), draw_policy(rng, clip=False))
    return Column(attribute, "bool", draw_values(rng, [True, False], True))


# --- sources ---


def arrow(columns: Sequence[Column]) -> pa.Table:
    return pa.table({c.attribute.name: arrow_column(c) for c in columns})


def arrow_column(column: Column) -> Any:
    type_ = {"string": pa.string(), "bool": pa.bool_(), "float16": pa.float16()}.get(column.type)
    type_ = type_ or pa.from_numpy_dtype(column.type)
    if column.type != "float16":
        return pa.array(column.values, type_, from_pandas=False)
    return pa.array([None if v is None else np.float16(v) for v in column.values], type_, from_pandas=False)


def numpy_columns(columns: Sequence[Column]) -> dict[str, Any]:
    """Arrays of the very type where there is no null, or NaN for it; of objects or lists elsewhere."""
    made: dict[str, Any] = {}
    for c in columns:
        if c.type in FLOAT_TYPES:
            made[c.attribute.name] = np.array([math.nan if v is None else v for v in c.values], c.type)
        elif None in c.values or c.type == "string":
            made[c.attribute.name] = np.array(c.values, object)
        else:
            made[c.attribute.name] = np.array(c.values, c.type)
    return made


def written(column: Column, value: Any) -> str:
    """A value as it is written in a text: the shortest decimals that tell numbers of its type apart."""
    if isinstance(value, bool):
        return str(value)
    return str(np.dtype(column.type).type(value)) if column.type in FLOAT_TYPES else str(value)


def csv(columns: Sequence[Column], folder: pathlib.Path) -> pathlib.Path:
    quoted = [
        ["" if v is None else '"' + written(c, v).replace('"', '""') + '"' for v in c.values] + ["end"] for c in columns
    ]
    lines = [",".join([*(c.attribute.name for c in columns), "last"])]
    lines += [",".join([*row, "x"]) for row in list(zip(*quoted, strict=True))[:-1]]
    (folder / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    return folder / "t.csv"


def parquet(columns: Sequence[Column], folder: pathlib.Path) -> pathlib.Path:
    pq.write_table(arrow(columns), folder / "t.parquet", row_group_size=7)
    return folder / "t.parquet"


def duckdb_table(columns: Sequence[Column], folder: pathlib.Path) -> Database:
    table = arrow([c for c in columns if c.type != "float16"] or columns[:0])
    for i, c in enumerate(columns):
        if c.type == "float16":  # which DuckDB has not
            column = pa.array([None if v is None else written(c, v) for v in c.values]).cast(pa.float64())
            table = table.add_column(min(i, table.num_columns), c.attribute.name, column)
    (folder / "t.duckdb").unlink(missing_ok=True)
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.register("rows_of_the_test", table)
        connection.execute("CREATE TABLE t AS SELECT * FROM rows_of_the_test")
    return Database(str(folder / "t.duckdb"), "t")


def sqlite_table(columns: Sequence[Column], folder: pathlib.Path) -> Any:
    """Numbers are doubles here, made of the decimals of their own type."""
    types = {"string": "TEXT", "bool": "BOOLEAN", **dict.fromkeys(FLOAT_TYPES, "REAL")}
    fields = ", ".join(f"{c.attribute.name} {types.get(c.type, 'INTEGER')}" for c in columns)
    rows = zip(*([sqlite_value(c, v) for v in c.values] for c in columns), strict=True)
    (folder / "t.db").unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(folder / "t.db")) as connection, connection:
        connection.execute(f"CREATE TABLE t ({fields})")
        connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(columns))})", rows)
    with quiet():
        return ibis.sqlite.connect(str(folder / "t.db")).table("t")


def sqlite_value(column: Column, value: Any) -> Any:
    return float(written(column, value)) if value is not None and column.type in FLOAT_TYPES else value


Maker = Callable[[Sequence[Column], pathlib.Path], Any]

SOURCES: dict[str, Maker] = {
    "NumPy": lambda columns, folder: numpy_columns(columns),
    "pandas": lambda columns, folder: pd.DataFrame(numpy_columns(columns)),
    "pandas with Arrow": lambda columns, folder: arrow(columns).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda columns, folder: pl.from_arrow(arrow(columns)),
    "Arrow": lambda columns, folder: arrow(columns),
    "CSV": csv,
    "Parquet": parquet,
    "DuckDB": duckdb_table,
    "SQLite": sqlite_table,
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_counts_as_the_reader_does(source: str, tmp_path: pathlib.Path) -> None:
    for seed in range(5):
        rng = random.Random(seed)
        columns = draw_columns(rng)
        schema = Schema(tuple(c.attribute for c in columns))
        engine = rng.choice(["memory", "database" if source == "SQLite" else "duckdb"])
        compare(schema, tables(columns), SOURCES[source](columns, tmp_path), engine, f"{source}, seed {seed}")


def compare(schema: Schema, truth: Any, data: object, engine: str, where: str) -> None:
    if isinstance(truth, set):
        with pytest.raises(DataError) as caught, open_data(data, schema, engine=engine):
            pass
        assert set(re.findall(r"attribute '(\w+)' has nulls or values", str(caught.value))) == truth, where
        return
    with open_data(data, schema, truth, engine=engine) as counts:
        for view, make in counts.tables(list(truth)):
            table = make()
            filled = {tuple(map(int, place)): int(table[tuple(place)]) for place in np.argwhere(table)}
            assert filled == truth[view], (where, view)
