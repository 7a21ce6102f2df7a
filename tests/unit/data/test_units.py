"""At most k rows of each privacy unit, chosen so that no unit has a say in the rows of another."""

from __future__ import annotations

import collections
import datetime
import pathlib
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qcompile.data import Reading, Rows, open_data, read
from qcompile.data.sources.engine_errors import quiet
from qcompile.errors import DataError, OptionError
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, Policy, Schema

SCHEMA = Schema(
    (
        Attribute("a", IntegerDomain(0, 2), Policy("drop")),
        Attribute("b", CategoryDomain(("x", "y")), Policy("other", "rest")),
    )
)
Row = tuple[Any, Any, Any]
ROWS = st.lists(
    st.tuples(st.sampled_from(["u", "v", "w", "01", "1"]), st.integers(0, 3), st.sampled_from(["x", "y", "z"])),
    max_size=24,
)


def cells(rows: list[Row], k: int) -> collections.Counter[tuple[int, ...]]:
    """The rows that count, by cell."""
    table = read(columns(rows), SCHEMA, unit="id", contributions=k).table(("a", "b"))
    return collections.Counter({i: int(n) for i, n in np.ndenumerate(table) if n})


def columns(rows: list[Row]) -> pa.Table:
    types = {"id": pa.string(), "a": pa.int64(), "b": pa.string()}
    return pa.table({n: pa.array([r[i] for r in rows], t) for i, (n, t) in enumerate(types.items())})


def counting(rows: list[Row]) -> list[Row]:
    """The rows with an id that no policy drops."""
    return [r for r in rows if r[0] not in (None, "") and r[1] in (0, 1, 2)]


@settings(max_examples=12)
@given(ROWS, st.integers(1, 4), st.randoms(use_true_random=False))
def test_each_unit_is_cut_by_itself(rows: list[Row], k: int, random: Any) -> None:
    """Brute force over all neighbours: a unit that leaves takes its own rows with it and changes nothing else."""
    whole = cells(rows, k)
    alone = {unit: cells([r for r in rows if r[0] == unit], k) for unit in {r[0] for r in rows}}
    assert whole == sum(alone.values(), collections.Counter())
    for unit, own in alone.items():
        assert sum(own.values()) == min(k, len(counting([r for r in rows if r[0] == unit])))
        assert whole - cells([r for r in rows if r[0] != unit], k) == own
    shuffled = random.sample(rows, len(rows))
    assert cells(shuffled, k) == whole


def test_neither_order_nor_chunks_matter() -> None:
    rng = np.random.default_rng(5)
    table = pa.table({"id": rng.integers(0, 900, 5000), "a": rng.integers(0, 4, 5000), "b": ["x", "q"] * 2500})
    expected = read(table, SCHEMA, unit="id", contributions=3)
    assert 900 < expected.total < 2700
    shuffled = table.take(rng.permutation(5000))
    chunks = pa.concat_tables([shuffled.slice(i, 37) for i in range(0, 5000, 37)])
    for same in (shuffled, chunks, table.to_pandas(), {n: table.column(n).to_numpy() for n in table.column_names}):
        found = read(same, SCHEMA, unit="id", contributions=3)
        assert (found.table(("a", "b")) == expected.table(("a", "b"))).all()


def test_files_and_frames_keep_the_same_rows(tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"id": rng.integers(0, 200, 1000), "a": rng.integers(0, 4, 1000), "b": ["x", "y"] * 500})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    expected = read(frame, SCHEMA, unit="id", contributions=2).table(("a", "b"))
    text = frame.assign(id=frame["id"].astype(str))
    for same in (tmp_path / "t.csv", tmp_path / "t.parquet", text, text.astype({"id": "category"})):
        assert (read(same, SCHEMA, unit="id", contributions=2).table(("a", "b")) == expected).all()


def test_the_rows_that_count_come_first() -> None:
    """A row that a policy drops never takes the place of one that counts."""
    rows: list[Row] = [("u", 9, "x")] * 50 + [("u", 1, "y")]
    assert cells(rows, 1) == {(1, 1): 1}


def test_no_cell_is_favoured() -> None:
    """Each row of a unit stays with the same probability, whatever its cell, and however often it occurs."""
    units = 20_000
    ids = np.repeat(np.arange(units), 4)
    # Every unit has three rows alike and one other.
    data = {"id": ids, "a": np.tile([0, 0, 0, 2], units), "b": ["x"] * len(ids)}
    for k in (1, 3):
        kept = read(data, SCHEMA, unit="id", contributions=k).table(("a",))
        assert kept.sum() == k * units
        deviation = np.sqrt(units * k / 4 * (1 - k / 4))
        assert abs(kept[2] - units * k / 4) < 4.5 * deviation


def test_the_unit_may_be_an_attribute_and_ids_keep_their_spelling(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,id\n1,x,01\n1,x,1\n1,x,1\n1,x, 1\n")
    assert read(path, SCHEMA, unit="id").total == 3
    assert read(path, SCHEMA, unit="a").total == 1
    assert read(path, SCHEMA, unit="b", contributions=3).total == 3
    assert read(path, SCHEMA, unit="id", contributions=2**80).total == 4
    assert read(path, SCHEMA, contributions=1).total == 4


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_rows_without_an_id_stay_out(suffix: str, tmp_path: pathlib.Path) -> None:
    rows: list[Row] = [(None, 1, "x"), ("", 1, "x"), (" ", 1, "x"), ("u", 1, "y"), (None, 2, "x")]
    path = tmp_path / f"t{suffix}"
    if suffix == ".csv":
        path.write_text('id,a,b\n,1,x\n"",1,x\n" ",1,x\nu,1,y\n,2,x\n')
    else:
        pq.write_table(columns(rows), path)
    found = read(path, SCHEMA, unit="id", contributions=5)
    assert found.total == 2
    assert found.table(("a", "b"))[1].tolist() == [1, 1, 0]
    assert read({"id": [None, None], "a": [1, 1], "b": ["x", "y"]}, SCHEMA, unit="id").total == 0


def test_values_that_no_policy_covers_are_refused_in_any_row() -> None:
    schema = Schema((Attribute("a", IntegerDomain(0, 2)), Attribute("b", CategoryDomain(("x",)))))
    data = {"id": ["u", "u", None, "secret"], "a": [1, 1, 7, 1], "b": ["x", "x", "x", "hidden"]}
    with pytest.raises(DataError) as caught:
        read(data, schema, unit="id")
    lines = str(caught.value).splitlines()
    assert [line.split(" has ")[0] for line in lines] == ["attribute 'a'", "attribute 'b'"]
    assert not any(word in str(caught.value) for word in ("secret", "hidden", "7"))


@pytest.mark.parametrize(
    ("ids", "type_"),
    [
        ([datetime.date(2026, 1, 1)] * 2, "date"),
        ([datetime.datetime(2026, 1, 1, 12)] * 2, "timestamp"),
        ([True, False], "boolean"),
    ],
    ids=["date", "time", "flag"],
)
def test_ids_that_identify_nobody_are_refused(ids: list[Any], type_: str) -> None:
    with pytest.raises(DataError) as caught:
        read({"id": ids, "a": [1, 1], "b": ["x", "x"]}, SCHEMA, unit="id")
    message = str(caught.value)
    assert message.startswith(f"column 'id' names the privacy unit, but is of type {type_}")
    assert "convert the column" in message
    assert "2026" not in message


def test_a_column_that_is_not_there(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,person\n1,x,4141\n")
    for data in (path, {"a": [1], "b": ["x"], "person": ["4141"]}):
        with pytest.raises(DataError, match="has no column 'persn' that names the privacy unit, did you mean 'person'"):
            read(data, SCHEMA, unit="persn")
    with pytest.raises(DataError) as caught:
        read(path, SCHEMA, unit="zzz")
    assert str(caught.value) == f"{path} has no column 'zzz' that names the privacy unit"
    path.write_text("a,id,id,b\n1,u,v,x\n")
    with pytest.raises(DataError, match="has 2 columns called 'id'"):
        read(path, SCHEMA, unit="id")


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2", None])
def test_contributions_are_whole_numbers_from_one(value: Any) -> None:
    with pytest.raises(OptionError, match="contributions must be a whole number, at least 1"):
        read({"id": ["u"], "a": [1], "b": ["x"]}, SCHEMA, unit="id", contributions=value)


@pytest.mark.parametrize("value", ["", 3, ("id",)])
def test_a_unit_is_the_name_of_a_column(value: Any) -> None:
    with pytest.raises(OptionError, match="unit must be the name of the column"):
        read({"id": ["u"], "a": [1], "b": ["x"]}, SCHEMA, unit=value)


def test_counts_cannot_be_cut_any_more() -> None:
    by_id = Reading(unit="id")
    refused = pytest.raises(OptionError, match="unit='id' cannot be used with counts")
    with refused, open_data({("a",): [1, 0, 0]}, SCHEMA, reading=by_id):
        pass
    with open_data({"id": ["u", "u"], "a": [1, 1], "b": ["x", "x"]}, SCHEMA, reading=by_id) as rows:
        assert isinstance(rows, Rows)
        assert rows.total == 1


def test_no_rows() -> None:
    assert cells([], 1) == {}


def test_whole_numbers_with_a_null_among_them_stay_the_same_ids() -> None:
    """A DataFrame makes floats of them; a refusal would tell that there is a null."""
    frame = {"id": np.array([7.0, np.nan, 7.0, 2.5, 2.5, np.inf, -0.0]), "a": [1] * 7, "b": ["x"] * 7}
    assert read(frame, SCHEMA, unit="id").total == 4  # 7, 2.5, inf and 0; none for NaN


@pytest.mark.parametrize("ids", [[b"x", b"y"], [[1], [2]], [{"x": 1}] * 2, [1 + 2j] * 2])
def test_odd_ids_are_refused_without_a_traceback(ids: list[Any]) -> None:
    with pytest.raises(DataError, match=r"convert|cannot be read"):
        read({"id": np.array(ids, dtype=object), "a": [1, 1], "b": ["x", "x"]}, SCHEMA, unit="id")


def test_what_clip_cannot_clip_is_left_out_where_an_error_would_tell() -> None:
    """With and without truncation: the row leaves all counts, and takes no place among its unit's rows."""
    schema = Schema((Attribute("n", IntegerDomain(0, 3), Policy("clip")),))
    data = {"n": [1.0, None, 99.0, 2.0], "id": ["p", "p", "p", "q"]}
    with pytest.raises(DataError):
        read(data, schema)
    assert read(data, schema, leave_out=True).table(("n",)).tolist() == [0, 1, 1, 1]
    assert read(data, schema, unit="id", contributions=2, leave_out=True).table(("n",)).tolist() == [0, 1, 1, 1]
    assert read(data, schema, unit="id", leave_out=True).total == 2


@pytest.mark.parametrize("others", [[1.0], [1.0, 2.5], [0.0, 2.0**60]])
def test_not_a_number_is_no_id_in_a_parquet_file_either(others: list[float], tmp_path: pathlib.Path) -> None:
    """Whose statistics leave NaN out: an engine that takes them for a proof sees no NaN."""
    ids = [float("nan"), *others] * 3
    rows = pa.table({"id": pa.array(ids, pa.float64()), "a": [0] * len(ids), "b": ["x"] * len(ids)})
    pq.write_table(rows, tmp_path / "t.parquet")
    by_id = Reading(unit="id")
    for engine in ("memory", "duckdb"):
        with open_data(tmp_path / "t.parquet", SCHEMA, [("a",)], by_id, engine=engine) as found:
            assert found.total == len(others)
    own = ibis.duckdb.connect()
    before = own.raw_sql("SELECT current_setting('disabled_optimizers')").fetchone()
    with quiet():
        table = own.read_parquet(tmp_path / "t.parquet")
    with open_data(table, SCHEMA, [("a",)], by_id) as found:
        assert found.total == len(others)
    assert own.raw_sql("SELECT current_setting('disabled_optimizers')").fetchone() == before
    own.disconnect()


def test_a_refused_value_is_refused_by_every_engine(tmp_path: pathlib.Path) -> None:
    """Also where rows are counted while they pass by."""
    table = pa.table({"a": [0, 99, 1], "b": ["x", "y", "x"]})
    pq.write_table(table, tmp_path / "t.parquet")
    strict = Schema((Attribute("a", IntegerDomain(0, 3)), Attribute("b", CategoryDomain(("x", "y")))))
    for engine in ("memory", "duckdb"):
        refused = pytest.raises(DataError, match="attribute 'a' has nulls or values outside its domain")
        with refused, open_data(tmp_path / "t.parquet", strict, [("a",), ("b",)], engine=engine):
            pass
