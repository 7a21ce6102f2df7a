"""Which engine counts what, how many scans it takes, and what is refused when."""

from __future__ import annotations

import itertools
import pathlib
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcompile.data import ENGINES, Database, GivenCounts, Reading, Rows, preflight, read, recognise
from qcompile.data.datasets import opened
from qcompile.data.datasets.dataset import TableDataset
from qcompile.data.encode.table import encode_table
from qcompile.data.engines import cover, stream
from qcompile.data.engines.cover import Names, group_scans, plan_unions
from qcompile.data.engines.passes import Passes
from qcompile.data.engines.pushdown import push_down
from qcompile.data.engines.scans import Scans
from qcompile.data.opening import open_data
from qcompile.data.sources.duckdb import connect_duckdb
from qcompile.data.sources.engine_errors import EXHAUSTED, ExhaustedError, quiet
from qcompile.data.sources.ibis_columns import open_ibis_table
from qcompile.errors import DataError, IntegrityError, OptionError, SizeError
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, Policy, Schema
from qcompile.support.arrays import cells

SCHEMA = Schema(
    (
        Attribute("a", IntegerDomain(0, 2)),
        Attribute("b", CategoryDomain(("x", "y")), Policy("other", "rest")),
        Attribute("c", IntegerDomain(5, 8), Policy("drop")),
    )
)
DATA: dict[str, Any] = {"a": [0, 1, 2, 2], "b": ["x", "y", None, "z"], "c": [5, 8, 8, 9]}
VIEWS: list[Names] = [v for k in range(4) for v in itertools.permutations(SCHEMA.names, k)]
GIVEN = {("a", "b", "c"): read(DATA, SCHEMA).table(("a", "b", "c"))}


def sized(*sizes: int) -> Schema:
    return Schema(tuple(Attribute(f"x{i}", IntegerDomain(1, n)) for i, n in enumerate(sizes)))


# --- engines ---


@pytest.mark.parametrize("engine", ["auto", "memory", "duckdb"])
def test_each_view_is_made_once_by_any_thread(engine: str) -> None:
    expected = read(DATA, SCHEMA)
    with open_data(DATA, SCHEMA, VIEWS, engine=engine) as counts:
        assert isinstance(counts, Scans if engine == "duckdb" else Rows)
        jobs = list(counts.tables(VIEWS))
        assert sorted(view for view, _ in jobs) == sorted(VIEWS)
        made: dict[Names, Any] = {}
        threads = [threading.Thread(target=lambda v=v, m=m: made.update({v: m()})) for v, m in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for view in VIEWS:
            assert (made[view] == expected.table(view)).all()
            assert made[view].shape == SCHEMA.shape(view)
            assert (counts.table(view) == made[view]).all()
        assert counts.total == 3


def test_given_counts_come_through_the_same_entrance() -> None:
    with open_data(GIVEN, SCHEMA, VIEWS) as counts:
        assert isinstance(counts, GivenCounts)
        for view, make in counts.tables(VIEWS):
            assert (make() == read(DATA, SCHEMA).table(view)).all()
    for reading in (Reading("a"), Reading(count_column="n")):
        with pytest.raises(OptionError, match="cannot be used with counts"):
            preflight(GIVEN, SCHEMA, reading)


def test_tables_that_cannot_be() -> None:
    with open_data(DATA, SCHEMA, engine="duckdb") as counts:
        for name in (("A",), ("a", "a")):
            with pytest.raises(IntegrityError):
                counts.table(name)
            with pytest.raises(IntegrityError):
                list(counts.tables([name]))
    wide = sized(*[1000] * 8)
    with open_data({n: [1] for n in wide.names}, wide, engine="duckdb") as counts, pytest.raises(SizeError):
        counts.table(wide.names)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_data_is_refused_on_entering(engine: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({**DATA, "a": [0, 1, 2, 3]}), path)
    with pytest.raises(DataError, match="attribute 'a' has nulls or values outside its domain"):
        open_data(path, SCHEMA, engine=engine).__enter__()
    preflight(path, SCHEMA, engine=engine)
    with pytest.raises(DataError, match="column is of type string, but the schema declares numbers"):
        preflight({**DATA, "a": ["0", "1"] * 2}, SCHEMA, engine=engine)


def test_a_file_that_changes_between_two_scans_is_noticed(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(DATA), path)
    with open_data(path, SCHEMA, engine="duckdb") as counts:
        assert counts.total == 3
        pq.write_table(pa.table({n: v[:2] for n, v in DATA.items()}), path)
        with pytest.raises(DataError):
            counts.table(("a",))


def test_the_first_scan_serves_all_views_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    scan = stream.scan

    def counted(*arguments: Any, **options: Any) -> Any:
        made.append(len(options["names"]))
        return scan(*arguments, **options)

    monkeypatch.setattr(stream, "scan", counted)
    with open_data(DATA, SCHEMA, VIEWS, engine="duckdb") as counts:
        assert [make() is not None for _, make in counts.tables(VIEWS)] == [True] * len(VIEWS)
        assert len(made) == 1
    monkeypatch.setattr(cover, "SCAN_BYTES", 8)
    monkeypatch.setattr(cover, "UNION_CELLS", 1)
    with open_data(DATA, SCHEMA, [("a",), ("b",)], engine="duckdb") as counts:
        for view, make in counts.tables([("a",), ("b",)]):
            assert (make() == read(DATA, SCHEMA).table(view)).all()


def test_many_rows_are_counted_by_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcompile.data.engines.counts.MANY_ROWS", 100)
    rng = np.random.default_rng(5)
    codes: dict[str, Any] = {
        "a": rng.integers(0, 3, 1001),
        "b": rng.integers(0, 3, 1001),
        "c": rng.integers(0, 4, 1001),
    }
    weights = rng.integers(0, 9, 1001).astype(float)
    for stands in (None, weights):
        total = 1001 if stands is None else int(weights.sum())
        for view in VIEWS:
            one, three = (Rows(SCHEMA, codes, total, stands, workers=n).table(view) for n in (1, 3))
            assert (one == three).all()
            assert one.sum() == total


# --- the choice ---


def choose(data: object, *options: Any) -> str:
    dataset = recognise(data)
    assert isinstance(dataset, TableDataset)
    return dataset.choose_engine(*options)


@pytest.mark.parametrize(
    ("rows", "limit", "engine"), [(10, 2**30, "memory"), (2**16, 2**20, "memory"), (2**16 + 1, 2**20, "duckdb")]
)
def test_large_files_are_not_held_in_memory(rows: int, limit: int, engine: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": np.zeros(rows, dtype=np.int8)}), path)
    assert recognise(path).most_rows() == rows
    assert choose(path, "auto", 4, limit) == engine
    assert choose(pa.table({"a": np.zeros(rows)}), "auto", 4, limit) == engine
    assert choose(path, "memory", 4, 1) == "memory"


def test_the_rows_of_a_csv_file_are_bounded_by_its_size(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n" + ",,\n" * 1000)
    assert 1000 <= recognise(path).most_rows() <= 1100
    assert recognise({"a": [1, 2, 3], "b": object()}).most_rows() == 3


@pytest.mark.parametrize("rows", [999, 1000, 1001])
def test_rows_that_do_not_fit_are_counted_scan_by_scan(rows: int, tmp_path: pathlib.Path) -> None:
    """A refusal would tell how many rows there are, of those that no policy drops: an exact answer for nothing."""
    path = tmp_path / "t.csv"
    path.write_text("a\n" + "1\n" * rows)
    schema = Schema((SCHEMA["a"],))
    with open_data(path, schema, [("a",)], engine="memory", max_memory=1000) as counts:
        assert isinstance(counts, Scans if rows > 1000 else Rows)
        assert counts.total == rows
        assert counts.table(("a",)).tolist() == [0, rows, 0]
    with open_data(path, schema, [("a",)], max_memory=999) as counts:
        assert isinstance(counts, Scans)


def test_reading_for_the_curator_alone_refuses_too_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcompile.data.opening.DEFAULT_MEMORY", 2)
    with pytest.raises(SizeError, match="does not fit into 2 bytes; count it with engine='duckdb'"):
        read(DATA, SCHEMA)


def many_units(rows: int) -> pa.Table:
    """Two rows of each unit, and some without an id."""
    who = [None if i % 7 == 0 else f"u{i // 2}" for i in range(rows)]
    return pa.table({"a": np.arange(rows) % 3, "who": pa.array(who, pa.string())})


@pytest.mark.parametrize("limit", [1, 2**24])
def test_units_are_cut_in_parts_where_memory_does_not_suffice(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    schema, table = Schema((SCHEMA["a"],)), many_units(3000)
    expected = read(table, schema, unit="who").table(("a",))
    read_parts = stream.read_batches
    failing = iter([True, False, True] + [False] * 1000)
    seen: list[Any] = []

    def exhausted(connection: Any, codes: Any, explain: Any) -> Any:
        seen.append(codes)
        for batch in read_parts(connection, codes, explain):
            yield batch
            if next(failing):  # after a batch, which must not be counted twice
                raise ExhaustedError(EXHAUSTED)

    monkeypatch.setattr(opened, "read_batches", exhausted)
    with open_data(table, schema, [("a",)], Reading("who"), max_memory=limit) as counts:
        assert (counts.table(("a",)) == expected).all()
        assert counts.total == expected.sum() == 1500
    assert len(seen) >= 1 + 2 + 17


def test_what_cannot_be_read_in_parts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: Any) -> Any:
        seen.append(1)
        raise ExhaustedError(EXHAUSTED)

    seen: list[int] = []
    monkeypatch.setattr(opened, "read_batches", exhausted)
    monkeypatch.setattr(opened, "MOST_PARTS", 5)
    for reading, attempts in [(Reading("who"), 3), (Reading(), 1)]:
        seen.clear()
        with pytest.raises(SizeError, match="reading takes more memory than DuckDB may use"):
            open_data(many_units(9), Schema((SCHEMA["a"],)), [], reading, engine="duckdb").__enter__()
        assert len(seen) == attempts


def test_values_without_a_policy_are_refused_in_parts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"a": [1, 1, 7], "who": pa.array(["u", "v", None])})
    monkeypatch.setattr(Passes, "parts", 4)
    with pytest.raises(DataError, match="attribute 'a' has nulls or values outside"):
        open_data(table, Schema((SCHEMA["a"],)), reading=Reading("who")).__enter__()


def test_units_take_memory_in_parts() -> None:
    """To cut units, DuckDB has to sort rows; nothing is spilled to disk."""
    table = pa.table({"a": np.arange(1_500_000) % 3, "who": np.arange(1_500_000) // 2})
    with open_data(table, Schema((SCHEMA["a"],)), [("a",)], Reading("who"), max_memory=2**24) as counts:
        assert counts.total == 750_000


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("dukdb", "engine cannot be 'dukdb'; did you mean 'duckdb'?"),
        (
            "spark",
            "cannot count a table in memory; use engine='auto' or 'memory' or 'duckdb', or pass a path or a Spark",
        ),
        ("database", "cannot count a table in memory; use engine='auto' or 'memory' or 'duckdb', or pass a Database"),
    ],
)
def test_engines_that_cannot_be(engine: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        preflight(DATA, SCHEMA, engine=engine)
    assert message in str(caught.value)


def test_options_are_checked() -> None:
    for options in ({"max_memory": 0}, {"workers": 0}, {"workers": 1.5}, {"max_memory": "1"}):
        with pytest.raises(OptionError):
            open_data(DATA, SCHEMA, **options).__enter__()
    assert ENGINES[0] == "auto"


@pytest.mark.parametrize("missing", ["pyspark", "psycopg"])
def test_what_is_not_installed_is_named(missing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n")
    server = Database("postgresql://somebody@localhost/people", "t")
    data, engine = (path, "spark") if missing == "pyspark" else (server, "auto")
    with pytest.raises(OptionError, match=r"pip install 'qcompile\[(spark|postgres)\]'"):
        preflight(data, SCHEMA, engine=engine)


# --- cells with multiplicities ---


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_rows_may_stand_for_many(engine: str) -> None:
    data = {**DATA, "n": [3, 0, 2**40, 7]}
    with open_data(data, SCHEMA, VIEWS, Reading(count_column="n"), engine=engine) as counts:
        assert counts.total == 3 + 2**40  # the last row is dropped with all that it stands for
        assert counts.table(("a",)).tolist() == [3, 0, 2**40]
        assert counts.table(("c", "b"))[3].tolist() == [0, 0, 2**40]


BAD = "column 'n' has nulls or values that are not whole numbers from 0 to 2^53"


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([1, 2, 3, None], BAD),
        ([1, 2, 3, -1], BAD),
        ([1, 2, 3, 0.5], BAD),
        ([1.0, 2.0, 3.0, np.inf], BAD),
        ([1, 2, 3, 2**53 + 2], BAD),
        ([2**52, 2**52, 0, 0], "column 'n' counts 2^53 rows or more"),
        (["1", "2", "3", "4"], "column 'n' holds the counts, but is of type string"),
        ([True] * 4, "column 'n' holds the counts, but is of type bool"),
    ],
)
def test_counts_that_are_none(engine: str, counts: list[Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        open_data({**DATA, "n": counts}, SCHEMA, VIEWS, Reading(count_column="n"), engine=engine).__enter__()
    assert message in str(caught.value)


def test_a_column_of_counts_stands_alone() -> None:
    with pytest.raises(OptionError, match="cannot be used with unit='p'"):
        Reading("p", count_column="n")
    with pytest.raises(OptionError, match="must be the name of the column that holds the counts"):
        Reading(count_column="")
    with pytest.raises(OptionError, match="count_column='a' is an attribute of the schema"):
        preflight(DATA, SCHEMA, Reading(count_column="a"))
    with pytest.raises(DataError, match="the dict of columns has no column 'N' that holds the counts"):
        preflight(DATA, SCHEMA, Reading(count_column="N"))


def test_counts_in_a_csv_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,n\n0, 3 \n1,1e2\n0,4.0\n")
    with open_data(path, Schema((SCHEMA["a"],)), reading=Reading(count_column="n")) as counts:
        assert counts.table(("a",)).tolist() == [7, 100, 0]


# --- unions and scans ---

SIZES = st.lists(st.integers(1, 12), min_size=1, max_size=7)


@given(SIZES, st.data(), st.integers(1, 3000))
def test_unions_cover_every_view_once(sizes: list[int], data: st.DataObject, limit: int) -> None:
    schema = sized(*sizes)
    subsets = st.sets(st.sampled_from(schema.names)).map(
        lambda names: tuple(sorted(names, reverse=len(names) % 2 == 0))
    )
    views = data.draw(st.lists(subsets, max_size=12))
    found = plan_unions(schema, views, limit)
    assert sorted(view for union in found for view in union.views) == sorted(views)
    for union in found:
        assert all(set(view) <= set(union.names) for view in union.views)
        assert union.names == schema.order(union.names)
        size = cells(schema.shape(union.names))
        assert size <= max(limit, *(cells(schema.shape(view)) for view in union.views))


def test_pairs_share_unions() -> None:
    schema = sized(*[15] * 10)
    views = [v for k in (1, 2) for v in itertools.combinations(schema.names, k)]
    assert len(plan_unions(schema, views)) <= 12  # 9 sets of four would do
    assert len(plan_unions(schema, views, 2**22)) <= 8


def test_scans_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = sized(*[10] * 6)
    monkeypatch.setattr(cover, "SCAN_BYTES", 8 * 250)
    found = plan_unions(schema, list(itertools.combinations(schema.names, 2)), 100)
    groups = list(group_scans(schema, found))
    assert [union for group in groups for union in group] == found
    assert {len(group) for group in groups} <= {1, 2}
    large = plan_unions(schema, [schema.names[:3]], 100)
    assert list(group_scans(schema, large)) == [large]


def test_planning_thousands_of_views_is_quick() -> None:
    schema = sized(*[40] * 100)
    views = list(itertools.combinations(schema.names, 2))
    assert len(views) == 4950
    assert sum(len(union.views) for union in plan_unions(schema, views)) == 4950


def test_a_row_that_is_refused_since_falls_into_no_cell() -> None:
    """Where a table is written while a database counts it: a refused value's signal is no cell of the next table."""
    schema = Schema((Attribute("a", IntegerDomain(0, 3)), Attribute("b", IntegerDomain(0, 1))))
    with connect_duckdb() as connection, quiet():
        connection.raw_sql("CREATE TABLE t AS SELECT * FROM (VALUES (0, 0), (3, 1)) AS v(a, b)")
        source = open_ibis_table(connection.table("t"), schema, connection, "t")
        codes = encode_table(source, schema, Reading())
        found = push_down(connection, codes, schema, Reading(), [], source.explain)
        assert found.total == 2
        connection.raw_sql("INSERT INTO t VALUES (99, 1), (NULL, 0)")
        assert found.table(("a",)).tolist() == [1, 0, 0, 1]
        assert found.table(("b",)).tolist() == [1, 1]
