"""Where a table can be: Arrow files, folders, several files, DuckDB databases, Ibis tables."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import duckdb
import ibis
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcompile.data import Database, Reading, preflight
from qcompile.data.curator.diagnose import diagnose
from qcompile.data.curator.draft import draft
from qcompile.data.datasets.database import redact_url
from qcompile.data.opening import open_data
from qcompile.data.sources.duckdb import connect_duckdb, read_memory_limit
from qcompile.data.sources.engine_errors import quiet
from qcompile.data.sources.parquet import find_ceiling, map_arrow_file
from qcompile.errors import DataError, OptionError, QCompileError, SizeError
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, NumericDomain, Policy, Schema

SCHEMA = Schema(
    (
        Attribute("age", IntegerDomain(0, 3), Policy("clip")),
        Attribute("sex", CategoryDomain(("f", "m")), Policy("other", "rest")),
        Attribute("pay", NumericDomain((0.0, 1.0, 2.5)), Policy("drop")),
    )
)
DATA: dict[str, Any] = {
    "who": ["a", "b", "a", "c", "c"],
    "sex": ["f", "m", None, "f", "m"],
    "age": [1, 3, 7, -2, 2],
    "pay": [0.0, 0.5, 2.5, None, 1.0],
}
TABLE = pa.table(DATA)
AGES, SEXES = [0, 1, 1, 2], [1, 2, 1]


def arrow(folder: pathlib.Path) -> pathlib.Path:
    with pa.OSFile(str(folder / "t.arrow"), "wb") as sink, pa.ipc.new_file(sink, TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=2)
    return folder / "t.arrow"


def arrow_stream(folder: pathlib.Path) -> pathlib.Path:
    with pa.OSFile(str(folder / "t.arrow"), "wb") as sink, pa.ipc.new_stream(sink, TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=2)
    return folder / "t.arrow"


def compressed(folder: pathlib.Path) -> pathlib.Path:
    feather.write_feather(TABLE, folder / "t.feather", compression="zstd")
    return folder / "t.feather"


def parts(folder: pathlib.Path, suffix: str) -> list[pathlib.Path]:
    paths = [folder / f"part {i}{suffix}" for i in range(3)]
    for i, path in enumerate(paths):
        piece = TABLE.slice(2 * i, 2)
        if suffix == ".csv":
            piece.to_pandas().astype({"age": "Int64"}).to_csv(path, index=False, lineterminator=["\n", "\r\n", "\n"][i])
        elif suffix == ".parquet":
            pq.write_table(piece, path)
        else:
            feather.write_feather(piece, path, compression="uncompressed")
    return paths


def parquet_folder(folder: pathlib.Path) -> pathlib.Path:
    parts(folder, ".parquet")
    (folder / "_SUCCESS").touch()
    (folder / "_notes.txt").write_text("no table")
    (folder / ".part 9.parquet").write_bytes(b"left by a program that was killed")
    return folder


def database(folder: pathlib.Path) -> Database:
    path = folder / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("given", TABLE)
        connection.execute("CREATE SCHEMA survey; CREATE TABLE survey.people AS SELECT * FROM given")
    return Database(str(path), "people", "survey")


def ibis_table(folder: pathlib.Path) -> Any:
    connection = ibis.duckdb.connect()
    connection.con.register("given", TABLE)
    connection.raw_sql("CREATE TABLE people AS SELECT * FROM given")
    with quiet():
        return connection.table("people")


PLACES: dict[str, Callable[[pathlib.Path], Any]] = {
    "arrow": arrow,
    "arrow stream": arrow_stream,
    "feather": compressed,
    "csv files": lambda folder: parts(folder, ".csv"),
    "parquet files": lambda folder: parts(folder, ".parquet"),
    "arrow files": lambda folder: [str(path) for path in parts(folder, ".feather")],
    "parquet folder": parquet_folder,
    "duckdb": database,
    "ibis": ibis_table,
    "ibis memtable": lambda folder: ibis.memtable(TABLE),
}


@pytest.mark.parametrize("engine", ["auto", "memory", "duckdb"])
@pytest.mark.parametrize("place", PLACES)
def test_every_place_gives_the_same_counts(place: str, engine: str, tmp_path: pathlib.Path) -> None:
    data = PLACES[place](tmp_path)
    with open_data(data, SCHEMA, [("age",), ("sex",)], engine=engine) as counts:
        assert counts.total == 4
        assert counts.table(("age",)).tolist() == AGES
        assert counts.table(("sex",)).tolist() == SEXES
    with open_data(data, SCHEMA, reading=Reading("who"), engine=engine) as counts:
        assert counts.total == 3


@pytest.mark.parametrize("place", ["csv files", "parquet folder", "duckdb", "ibis"])
def test_diagnosis_and_draft(place: str, tmp_path: pathlib.Path) -> None:
    data = PLACES[place](tmp_path)
    facts = diagnose(data, SCHEMA, unit="who")
    assert (facts.rows, facts.dropped, facts.counted) == (5, 1, 3)
    assert "age : integer -2..7 clip" in draft(data)


def problem(data: object, engine: str = "auto") -> str:
    with pytest.raises(QCompileError) as caught:
        preflight(data, SCHEMA, engine=engine)
    assert caught.value.__context__ is None
    return str(caught.value)


def test_files_that_do_not_belong_together(tmp_path: pathlib.Path) -> None:
    csv, parquet, arrows = parts(tmp_path, ".csv"), parts(tmp_path, ".parquet"), parts(tmp_path, ".arrow")
    kinds = f"the files are of several kinds: {csv[0]} is CSV, {parquet[0]} is Parquet; give files of one kind"
    assert problem([csv[0], parquet[0]]) == kinds
    assert "no such file" in problem([csv[0], tmp_path / "none.csv"])
    assert "the files are of several kinds" in problem(tmp_path)
    csv[1].write_text("who,sex,pay\n")
    assert "part 1.csv lacks 1 of the 3 columns of the schema: 'age'" in problem(csv)
    pq.write_table(TABLE.set_column(2, "age", TABLE["age"].cast(pa.string())), parquet[2])
    assert "part 2.parquet and " in problem(parquet)
    assert "differ in the type of column 'age', string and " in problem(parquet)
    feather.write_feather(TABLE.select(["sex", "pay"]), arrows[1])
    assert "part 1.arrow lacks 1 of the 3 columns" in problem(arrows)
    (tmp_path / "empty").mkdir()
    assert "is a directory without files to read" in problem(tmp_path / "empty")
    assert "cannot read data of type list" in problem([])


def test_damaged_arrow_files(tmp_path: pathlib.Path) -> None:
    path = arrow(tmp_path)
    raw = path.read_bytes()
    for damaged in (raw[:-20], raw[: len(raw) // 2], b"x", b"ARROW1\0\0", b"FEA1 old"):
        path.write_bytes(damaged)
        assert "is not a readable Arrow file" in problem(path)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("compression", ["zstd", "lz4", None])
def test_compressed_files_take_no_more_memory_than_they_may(
    compression: str | None, stream: bool, tmp_path: pathlib.Path
) -> None:
    schema = Schema((Attribute("x", IntegerDomain(0, 3), Policy("drop")),))
    zeros = np.zeros(3 * 2**20, np.int64)  # 25 MB, less than 1 MB in the file
    table = pa.table({"unused": zeros, "x": zeros})
    options = pa.ipc.IpcWriteOptions(compression=compression)
    opening = pa.ipc.new_stream if stream else pa.ipc.new_file
    for name in ("a", "b"):
        with (
            pa.OSFile(str(tmp_path / f"{name}.arrow"), "wb") as sink,
            opening(sink, table.schema, options=options) as writer,
        ):
            writer.write_table(table, max_chunksize=2**16)
    paths = [tmp_path / "a.arrow", tmp_path / "b.arrow"]
    before = pa.total_allocated_bytes()

    def read_all(some: list[pathlib.Path], ceiling: int) -> int:
        tables = [map_arrow_file(path, ["x"], ceiling) for path in some]
        return sum(table.num_rows for table in tables)

    assert read_all(paths, before + 2**26) == 6 * 2**20
    for some in (paths, paths[:1]):
        ceiling = pa.total_allocated_bytes() + 10_000_000 * len(some)
        if compression is None:
            assert read_all(some, ceiling) == 3 * 2**20 * len(some)
            continue
        with pytest.raises(SizeError, match=r"is compressed and takes more memory than may be used.*--max-memory"):
            read_all(some, ceiling)
    with open_data(paths, schema, engine="duckdb") as counts:
        assert counts.total == 6 * 2**20


def test_the_limit_of_memory_is_read_back() -> None:
    for limit in (2**27, 300_000_000, 5 * 10**9):
        with connect_duckdb(limit) as connection:
            assert abs(read_memory_limit(connection) - limit) < limit / 20
            assert find_ceiling(connection) >= read_memory_limit(connection)


def test_databases_that_are_none(tmp_path: pathlib.Path) -> None:
    found = database(tmp_path)
    assert "no table 'peple'; did you mean 'people'?" in problem(Database(found.url, "peple", "survey"))
    assert "no table 'people'; it has none that can be seen" in problem(Database(found.url, "people"))
    assert "no table was named; known: people" in problem(Database(found.url, "", "survey"))
    assert "no such file" in problem(Database(str(tmp_path / "none.duckdb"), "people"))
    assert "named like a DuckDB database; say which table of it" in problem(found.url)
    (tmp_path / "text.db").write_text("no database at all" * 1000)
    assert "cannot be opened as a DuckDB database" in problem(Database(str(tmp_path / "text.db"), "people"))
    assert "cannot open mysql://me@host/x as a database; give a URL" in problem(
        Database("mysql://me:secret@host/x", "t")
    )
    assert "engine='spark' cannot count a DuckDB table" in problem(found, "spark")


def test_a_database_file_is_only_read(tmp_path: pathlib.Path) -> None:
    found = database(tmp_path)
    before = pathlib.Path(found.url).read_bytes()
    with open_data(found, SCHEMA, [("age",)], engine="database") as counts:
        assert counts.table(("age",)).tolist() == AGES
    assert pathlib.Path(found.url).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["people.duckdb"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@host:5432/people?sslpassword=secret", "postgresql://me@host:5432/people"),
        ("postgresql://:secret@host", "postgresql://host"),
        ("postgresql://me:sec:ret@host:port/x", "postgresql://..."),
        ("postgresql:///people", "postgresql:///people"),
        ("people.duckdb", "people.duckdb"),
        ("/home/me@host/a:b/people.duckdb", "the address"),
        ("C:\\data\\people.duckdb", "C:\\data\\people.duckdb"),
        ("/home/me@host/people.duckdb", "/home/me@host/people.duckdb"),
        ("duckdb:///data/people.duckdb", "duckdb:///data/people.duckdb"),
        ("postgresql://me:12/secret@host/db", "postgresql://..."),
        ("postgresql://me:12?secret=1@host/db", "postgresql://..."),
        ("postgresql://me:12#secret@host/db", "postgresql://..."),
        ("postgresql://me:s@secret@host/db", "postgresql://..."),
        ("postgresql://host/db?password=secret@1", "postgresql://..."),
        ("postgresql://host/db?password=secret", "postgresql://host/db"),
        ("postgresql://me:secret@[::1]:5432/db", "postgresql://me@[::1]:5432/db"),
        ("postgresql://me%40uni:secret@host", "postgresql://me%40uni@host"),
        ("postgresql://me:secret", "postgresql://..."),
        ("postgres:/me:secret@host/db", "postgres://..."),
        ("postgresql:me:secret@h/db", "postgresql://..."),
        ("me:secret@host/db", "the address"),
        ("secret@host", "the address"),
        ("host=h password=secret", "the address"),
        ("me:secret@host/db.db", "the address"),
    ],
)
def test_passwords_are_not_shown(url: str, shown: str) -> None:
    assert redact_url(url) == shown
    assert "secret" not in repr(Database(url, "t"))


@given(st.text("ab12:/@?#=.%& ", min_size=1, max_size=12))
def test_no_password_is_shown_whatever_its_signs(signs: str) -> None:
    secret = f"Q{signs}Q"
    for url in (f"postgresql://me:{secret}@host:5432/db", f"postgres:/me:{secret}@host/db", f"me:{secret}@host/db"):
        shown = redact_url(url)
        assert "Q" not in shown, (url, shown)


@pytest.mark.parametrize("address", ["me:secret@host/db", "postgresql:me:secret@h/db", "postgres:/me:secret@host/db"])
def test_an_address_without_a_table_is_not_repeated(address: str) -> None:
    assert "is the address of a database, but no table in it is named" in problem(address)
    assert "secret" not in problem(address)
    assert "secret" not in problem(Database(address, "t"))


def test_a_lazy_frame_is_not_computed() -> None:
    assert problem(pl.LazyFrame(DATA)) == (
        "the data is a LazyFrame, which polars has not computed yet; pass data.collect()"
    )


def test_an_unbound_table_has_no_connection() -> None:
    with pytest.raises(OptionError, match="not bound to one connection"):
        preflight(ibis.table({"age": "int64", "sex": "string", "pay": "float64"}), SCHEMA)


def test_columns_of_other_types_in_a_database(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "odd.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT DATE '2026-11-30' AS age, 'f' AS sex, 1.0 AS pay")
    with pytest.raises(DataError, match="attribute 'age': the column is of type date, but the schema declares numbers"):
        preflight(Database(str(path), "t"), SCHEMA)
