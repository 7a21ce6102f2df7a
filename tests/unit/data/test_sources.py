"""Tables in memory: every library's columns reach the same cells, and types are matched, never guessed."""

from __future__ import annotations

import datetime
import decimal
import pathlib
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qcompile.data import Rows, read
from qcompile.errors import DataError
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, NumericDomain, Policy, Schema

REST = Policy("other", "rest")
SCHEMA = Schema(
    (
        Attribute("age", IntegerDomain(0, 9), REST),
        Attribute("educ", CategoryDomain(("none", "college")), REST),
        Attribute("member", CategoryDomain((True, False)), REST),
        Attribute("code", CategoryDomain((1, 2, 4)), REST),
        Attribute("pay", NumericDomain((0.0, 10.0, 20.0)), REST),
    )
)
CODES = {"age": [3, 9, 10], "educ": [1, 2, 0], "member": [0, 1, 2], "code": [2, 3, 0], "pay": [1, 2, 0]}
AGE, EDUC, MEMBER = [3, 9, None], ["college", None, "none"], [True, False, None]
CODE, PAY = [4, None, 1], [10.0, None, 0.5]
FRAME: dict[str, Any] = {"x": [[1], {}, object], "age": AGE, "educ": EDUC, "member": MEMBER, "code": CODE, "pay": PAY}


def frames() -> dict[str, Any]:
    arrow = pa.table({n: FRAME[n] for n in SCHEMA.names})
    pandas = pd.DataFrame(FRAME)
    nullable = pandas.astype({"age": "Int8", "educ": "string", "member": "boolean", "code": "Int64", "pay": "Float32"})
    category = pandas.astype(dict.fromkeys(SCHEMA.names, "category"))
    polars = pl.DataFrame({n: FRAME[n] for n in reversed(SCHEMA.names)}, strict=False)
    return {
        "arrow": arrow,
        "arrow batches": pa.concat_tables([arrow.slice(0, 1), arrow.slice(1)]),
        "arrow batch": arrow.to_batches()[0],
        "arrow dictionaries": pa.table({n: arrow[n].dictionary_encode() for n in SCHEMA.names}),
        "arrow views": arrow.set_column(1, "educ", arrow["educ"].cast(pa.string_view())),
        "arrow decimals": arrow.set_column(4, "pay", arrow["pay"].cast(pa.decimal256(50, 3))),
        "pandas": pandas,
        "pandas objects": pandas.astype(object),
        "pandas nullable": nullable,
        "pandas categories": category,
        "pandas arrow": arrow.to_pandas(types_mapper=pd.ArrowDtype),
        "pandas odd index": pandas.set_index(pd.Index(["a", "a", "b"])),
        "polars": polars,
        "polars categories": polars.with_columns(pl.col("educ").cast(pl.Categorical), pl.col("age").cast(pl.UInt8)),
        "polars enum": polars.with_columns(pl.col("educ").cast(pl.Enum(["college", "none"]))),
        "lists": {n: FRAME[n] for n in SCHEMA.names},
        "tuples": {n: tuple(FRAME[n]) for n in SCHEMA.names},
        "numpy": {n: np.array(FRAME[n], dtype=object) for n in SCHEMA.names},
        "series": {n: pd.Series(FRAME[n]) for n in SCHEMA.names},
        "extra columns": {"unused": object(), **{n: FRAME[n] for n in SCHEMA.names}},
    }


@pytest.mark.parametrize("kind", frames())
def test_every_library_reaches_the_same_cells(kind: str) -> None:
    rows = read(frames()[kind], SCHEMA)
    assert {n: c.tolist() for n, c in rows.codes.items()} == CODES


def codes(values: Any, attribute: Attribute) -> list[int]:
    return read({attribute.name: values}, Schema((attribute,))).codes[attribute.name].tolist()  # type: ignore[no-any-return]


INTEGER = Attribute("a", IntegerDomain(0, 9), REST)


@pytest.mark.parametrize(
    "values",
    [
        np.array([1, 2], dtype=">i4"),
        np.array([1, 2], dtype=">f8"),
        np.array([1, 2], dtype=np.float16),
        np.ma.masked_array([1, 2], mask=[False, False]),
        [np.int64(1), np.uint8(2)],
        [decimal.Decimal("1"), decimal.Decimal("2.00")],
        pa.chunked_array([[1], [2]]),
        np.array([1, 2])[::-1][::-1],
    ],
    ids=lambda v: type(v).__name__ + str(getattr(v, "dtype", "")),
)
def test_whole_numbers_of_any_make(values: Any) -> None:
    assert codes(values, INTEGER) == [1, 2]


def test_masks_and_nan_are_nulls_and_fractions_are_outside() -> None:
    assert codes(np.ma.masked_array([1, 2], mask=[False, True]), INTEGER) == [1, 10]
    assert codes(np.array([1.0, np.nan, 1.5, np.inf, -0.0]), INTEGER) == [1, 10, 10, 10, 0]
    assert codes([None, None], INTEGER) == [10, 10]
    assert codes([], INTEGER) == []


@pytest.mark.parametrize(
    "values", [[2**62, 0.5, 3], [2**70, 0.5, 3], [10**400, None, np.int8(3)], [-(10**400), 1.5, 3.0]]
)
def test_numbers_too_large_for_arrow_are_numbers(values: list[Any]) -> None:
    """A policy covers them, like all that is outside of the domain."""
    assert codes(values, INTEGER) == [10, 10, 3]


TEXT = Attribute("a", CategoryDomain(("0", "1")))
WHOLE = Attribute("a", CategoryDomain((0, 1)))
FLAG = Attribute("a", CategoryDomain((False, True)))
MIXED = Attribute("a", CategoryDomain((0, "x")))
NUMBER = Attribute("a", NumericDomain((0.0, 1.0)))


@pytest.mark.parametrize(
    ("attribute", "values", "message"),
    [
        (WHOLE, ["0", "1"], "type string, but the schema declares numbers; write every label of the schema in quotes"),
        (TEXT, [0, 1], "type int64, but the schema declares text; write the labels of the schema without quotes"),
        (TEXT, [True], "type bool, but the schema declares text; write the labels"),
        (FLAG, [0, 1], "type int64, but the schema declares true/false; give all labels"),
        (FLAG, ["true"], "type string, but the schema declares true/false"),
        (WHOLE, [True, False], "type bool, but the schema declares numbers"),
        (INTEGER, ["1"], "type string, but the schema declares numbers; convert the column"),
        (INTEGER, [True], "type bool, but the schema declares numbers; convert the column"),
        (NUMBER, [False], "type bool, but the schema declares numbers"),
        (NUMBER, [datetime.date(2020, 1, 1)], "type date32[day], but the schema declares numbers"),
        (TEXT, [b"0"], "type binary, but the schema declares text; convert the column"),
        (TEXT, [["0"]], "type list, but the schema declares text"),
        (MIXED, ["x"], "type string, but the schema declares numbers and text; write every label"),
        (MIXED, [0], "type int64, but the schema declares numbers and text; give all labels"),
        (INTEGER, pa.array([1], pa.duration("s")), "type duration[s], but"),
        (INTEGER, pa.RunEndEncodedArray.from_arrays([2], [5]), "type run_end_encoded"),
    ],
)
def test_types_are_matched_and_never_guessed(
    attribute: Attribute, values: Any, message: str, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(DataError) as caught:
        codes(values, attribute)
    assert str(caught.value).startswith(f"attribute 'a': the column is of type {message.split(',')[0][5:]}")
    assert message in str(caught.value)


def test_types_are_matched_in_parquet_files(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": ["0", "1"]}), path)
    with pytest.raises(DataError, match="'a': the column is of type string, but the schema declares numbers"):
        read(path, Schema((WHOLE,)))
    assert read(path, Schema((TEXT,))).codes["a"].tolist() == [0, 1]
    pq.write_table(pa.table({"a": pa.nulls(2)}), path)
    assert read(path, Schema((INTEGER,))).codes["a"].tolist() == [10, 10]


@pytest.mark.parametrize(
    "values",
    [
        [1, "secret"],
        ["secret", 1],
        [1, True],
        [True, 1],
        [1.5, True],
        np.array([[1, 2]]),
        np.array([1j]),
        np.array([1, "secret"], dtype=object),
        np.array([1.5, True], dtype=object),
        pd.Series(["secret", 1]),
    ],
    ids=str,
)
def test_mixed_columns_are_refused_without_their_values(values: Any) -> None:
    with pytest.raises(DataError) as caught:
        codes(values, INTEGER)
    expected = "column 'a' cannot be read: it mixes types or is not a plain column of numbers, text or true/false"
    assert str(caught.value) == expected
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "values", ["text", b"bytes", {1, 2}, {"x": 1}, 5, None, iter([1])], ids=lambda v: type(v).__name__
)
def test_what_is_not_a_column_is_refused(values: Any) -> None:
    with pytest.raises(DataError, match="column 'a' is of type"):
        codes(values, INTEGER)


@pytest.mark.parametrize("data", [None, 5, [1, 2], np.zeros((2, 2))], ids=lambda v: type(v).__name__)
def test_what_is_not_a_table_is_refused(data: Any) -> None:
    with pytest.raises(DataError, match="cannot read data of type"):
        read(data, SCHEMA)


def test_missing_columns_are_named_with_suggestions() -> None:
    frame = pd.DataFrame({"Age": AGE, "educ": EDUC, "member": MEMBER, "pya": PAY})
    with pytest.raises(DataError) as caught:
        read(frame, SCHEMA)
    expected = (
        "the DataFrame lacks 3 of the 5 columns of the schema: 'age', did you mean 'Age'?; 'code'; "
        "'pay', did you mean 'pya'?; names must match exactly"
    )
    assert str(caught.value) == expected


def test_a_name_twice_in_a_frame_is_refused() -> None:
    with pytest.raises(DataError, match="the DataFrame has 2 columns called 'a'; keep one of them"):
        read(pd.DataFrame([[1, 2]], columns=["a", "a"]), Schema((INTEGER,)))
    with pytest.raises(DataError, match="the Arrow table has 2 columns called 'a'"):
        read(pa.table([[1], [2]], names=["a", "a"]), Schema((INTEGER,)))


def test_column_labels_are_not_converted() -> None:
    with pytest.raises(DataError, match="lacks 1 of the 1 columns of the schema: '0'"):
        read(pd.DataFrame([[1, 2]]), Schema((Attribute("0", IntegerDomain(0, 9)),)))


def test_columns_of_different_length_are_refused() -> None:
    schema = Schema((INTEGER, Attribute("b", IntegerDomain(0, 9))))
    with pytest.raises(DataError, match="the dict of columns: the columns differ in length"):
        read({"a": [1, 2, 3], "b": [1]}, schema)


def test_a_schema_without_attributes_is_refused() -> None:
    with pytest.raises(DataError, match="declares no attribute"):
        read({"a": [1]}, Schema(()))


def test_zero_rows_keep_every_shape() -> None:
    empty: list[Rows] = [
        read(pd.DataFrame({n: [] for n in SCHEMA.names}, dtype=object), SCHEMA),
        read({n: [] for n in SCHEMA.names}, SCHEMA),
        read(pl.DataFrame(schema=dict.fromkeys(SCHEMA.names, pl.Null)), SCHEMA),
    ]
    for rows in empty:
        assert rows.total == 0
        assert rows.table(("educ", "age")).shape == (3, 11)
