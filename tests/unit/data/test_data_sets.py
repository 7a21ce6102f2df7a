"""Data sets of several files: folders, keys in their names, patterns, and what would count rows wrongly."""

from __future__ import annotations

import csv
import gzip
import io
import json
import pathlib
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from qcompile.data import Reading, open_data, preflight, recognise
from qcompile.data.curator.draft import draft
from qcompile.data.sources.csv import locate_csv_columns
from qcompile.errors import DataError, OptionError
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, NumericDomain, Policy, Schema

REST = Policy("other", "rest")
YEAR = Attribute("year", IntegerDomain(2020, 2022), REST)
ZONE = Attribute("zone", CategoryDomain(("a b", "01", "")), REST)
SCHEMA = Schema((Attribute("x", IntegerDomain(0, 3), REST), Attribute("g", CategoryDomain(("u", "v")), REST)))


def count(data: Any, schema: Schema = SCHEMA, engine: str = "auto", **reading: Any) -> Any:
    """The exact table of all attributes, as a list."""
    with open_data(data, schema, [schema.names], Reading(**reading), engine=engine) as counts:
        return counts.table(schema.names).tolist()


def problem(data: Any, schema: Schema = SCHEMA) -> str:
    with pytest.raises(DataError) as caught:
        preflight(data, schema)
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return str(caught.value)


def write(path: pathlib.Path, *rows: tuple[Any, Any], names: tuple[str, ...] = ("x", "g")) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table([list(column) for column in zip(*rows, strict=True)], names=names), path)
    return path


# What is refused, as rows would count that are deleted, or twice, or not at all.


@pytest.mark.parametrize(
    ("log", "table"),
    [
        ("_delta_log/00000000000000000000.json", "a Delta Lake table"),
        ("metadata/v1.metadata.json", "an Iceberg table"),
        ("metadata/00000-5f0c.gz.metadata.json", "an Iceberg table"),
        (".hoodie/hoodie.properties", "a Hudi table"),
        ("_spark_metadata/0", "the output of a Spark stream"),
    ],
)
def test_a_table_with_a_log_is_refused(log: str, table: str, tmp_path: pathlib.Path) -> None:
    file = write(tmp_path / "lake" / "year=2020" / "part-0.parquet", (1, "u"), (2, "v"))
    preflight(tmp_path, SCHEMA)
    path = tmp_path / "lake" / log
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    link = tmp_path / "link.parquet"
    link.symlink_to(file)
    for data in (tmp_path / "lake", tmp_path, file, str(tmp_path / "lake" / "*" / "*.parquet"), link, file.parent):
        assert problem(data).startswith(
            f"{tmp_path / 'lake'} is {table}: its files hold deleted and replaced rows, too"
        )
        assert recognise(data).files() == []


def test_a_delta_table_can_be_passed_as_its_arrow_table(tmp_path: pathlib.Path) -> None:
    assert "read it with DeltaTable(path).to_pyarrow_table(), of the package deltalake, and pass the table" in problem(
        write(tmp_path / "_delta_log" / "0.checkpoint.parquet", (1, "u"))
    )


def test_the_same_file_twice_is_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "d" / "a.parquet", (1, "u"))
    assert problem([file, file]) == f"{file} is named twice, so its rows would count twice; leave one of them out"
    monkeypatch.chdir(tmp_path)
    assert "are the same file, so its rows would count twice" in problem([file, "d/a.parquet"])
    assert "are the same file" in problem([file, "d/../d/a.parquet"])
    assert "is named twice" in problem([tmp_path / "d", str(tmp_path / "d" / "*.parquet")])
    (tmp_path / "d" / "b.parquet").hardlink_to(file)
    assert problem(tmp_path / "d").startswith(f"{tmp_path / 'd' / 'b.parquet'} and {file} are the same file")
    (tmp_path / "d" / "b.parquet").unlink()
    (tmp_path / "d" / "b.parquet").symlink_to(file)
    assert "are the same file" in problem(tmp_path / "d")


def test_links_in_a_circle_are_refused_and_others_followed(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "d" / "sub" / "a.parquet", (1, "u"))
    write(tmp_path / "elsewhere" / "b.parquet", (1, "u"))
    (tmp_path / "d" / "more").symlink_to(tmp_path / "elsewhere")
    assert count(tmp_path / "d")[1][0] == 2
    (tmp_path / "d" / "sub" / "up").symlink_to(tmp_path / "d")
    assert "is a link to a folder that it is in; remove it" in problem(tmp_path / "d")


@pytest.mark.parametrize(
    "name", ["b.csv", "b.pq", "notes.txt", "b.xlsx", "b.parquet.gz", "b", "sub/b.csv", "b.feather"]
)
def test_other_files_in_a_folder_are_refused(name: str, tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a.parquet", (1, "u"))
    (tmp_path / "sub").mkdir()
    (tmp_path / name).write_text("x,g\n1,u\n")
    message = problem(tmp_path)
    assert name in message
    assert "the files are of several kinds" in message or "all files of a folder are data, but those" in message
    assert count(str(tmp_path / "*.parquet"))[1][0] == 1


@pytest.mark.parametrize("name", ["_SUCCESS", "_metadata.csv", ".a.parquet.crc", ".hidden/b.parquet", "_temporary/0/b"])
def test_hidden_and_auxiliary_files_are_not_read(name: str, tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a.parquet", (1, "u"))
    (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
    (tmp_path / name).write_text("left by a program")
    assert count(tmp_path) == count(str(tmp_path / "*")) == count(tmp_path / "a.parquet")
    assert count(str(tmp_path / "**")) == count(tmp_path)


def test_an_output_is_no_part_of_the_data(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "d" / "a.parquet", (1, "u"))
    (tmp_path / "d" / "r.release").write_bytes(b"PK")
    assert "r.release: unknown kind of file '.release'" in problem(tmp_path / "d")
    (tmp_path / "d" / "r.release").rename(tmp_path / "d" / "r.release.unfinished")
    assert "is of a run whose release goes into the folder of the data; write it elsewhere" in problem(tmp_path / "d")


# Folders and keys


def test_folders_are_read_with_all_that_is_below_them(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a.parquet", (1, "u"))
    write(tmp_path / "2020" / "b.parquet", (1, "u"), (2, "v"))
    write(tmp_path / "2020" / "12" / "c.parquet", (1, "u"))
    assert count(tmp_path) == count(str(tmp_path)) == count([tmp_path / "a.parquet", tmp_path / "2020"])
    assert count(tmp_path) == [[0, 0, 0], [3, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert len(recognise(tmp_path).identity()) == 3
    assert recognise(tmp_path).known_rows() == recognise(tmp_path).most_rows() == 4


KEYS = ["2020", "2021", "__HIVE_DEFAULT_PARTITION__"]
ENDS: dict[str, Callable[[pathlib.Path], Any]] = {
    ".parquet": lambda path: pq.write_table(pa.table({"x": [1, 2]}), path),
    ".feather": lambda path: feather.write_feather(pa.table({"x": [1, 2]}), path),
    ".csv": lambda path: path.write_text("x\n1\n2\n"),
    ".tsv.gz": lambda path: path.write_bytes(gzip.compress(b"y\tx\n\t1\n\t2\n")),
    ".jsonl": lambda path: path.write_text('{"x": 1}\n{"x": 2}\n'),
    ".ndjson.gz": lambda path: path.write_bytes(gzip.compress(b'{"x": 1}\n{"x": 2}\n')),
}


@pytest.mark.parametrize(
    ("end", "engine"), [*((end, "memory") for end in ENDS), (".csv", "duckdb"), (".parquet", "duckdb")]
)
def test_keys_of_folders_are_columns(end: str, engine: str, tmp_path: pathlib.Path) -> None:
    for year in KEYS:
        for zone in ("a%20b", "01", "NULL"):
            folder = tmp_path / "out=side" / "data" / f"year={year}" / f"zone={zone}"
            folder.mkdir(parents=True)
            ENDS[end](folder / f"p[{zone}]'s{end}")
    data = tmp_path / "out=side" / "data"
    assert count(data, Schema((YEAR, ZONE)), engine) == [[2, 2, 0, 2], [2, 2, 0, 2], [0] * 4, [2, 2, 0, 2]]
    assert count(data, Schema((SCHEMA["x"], YEAR)), engine) == [[0] * 4, [3, 3, 0, 3], [3, 3, 0, 3], [0] * 4, [0] * 4]
    units = count(data, Schema((ZONE,)), engine, unit="year")
    assert sum(units) == 2, "one row of each year, none without"
    some = f"{data}/year=202*"
    assert count(some, Schema((YEAR,)), engine) == count(f"{some}/**/*{end}", Schema((YEAR,)), engine) == [6, 6, 0, 0]
    text = Schema((Attribute("year", CategoryDomain(("2020", "2021"))),))
    assert count(f"{some}/*/*", text, engine) == [6, 6]
    (tmp_path / "link").symlink_to(data)
    for same in (
        f"{data}/../data/",
        f"//{data}",
        data / "year=2020" / "..",
        tmp_path / "link",
        tmp_path / "link" / ".",
    ):
        assert sum(count(same, Schema((YEAR,)), engine)[:2]) == 12, (
            "no key is lost where DuckDB writes a path otherwise"
        )
    wrong = Schema((SCHEMA["x"], Attribute("out", YEAR.domain)))
    assert "lacks 1 of the 2 columns of the schema: 'out'" in problem(data, wrong)
    assert "lacks 1 of" in problem(f"{data}/year=2020", Schema((SCHEMA["x"], YEAR)))


def test_keys_are_as_duckdb_reads_them(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "w"
    odd = ["a b", "a/b", "50%", "x=y", "\u00e9", "it's", "'", "[1]*", "NULL", "a+b"]
    rows = [(i, i % 3 or None, odd[i % len(odd)]) for i in range(40)]
    with duckdb.connect() as connection:
        connection.register("given", pa.table(list(zip(*rows, strict=True)), names=["x", "n", "t"]))
        query = f"COPY (SELECT * FROM given) TO '{path}' (FORMAT parquet, PARTITION_BY (n, t))"
        connection.execute(query)
        back = f"SELECT n, t, count(*) FROM read_parquet('{path}/**/*.parquet', hive_partitioning = true) GROUP BY ALL"
        theirs = {(n, t): rows for n, t, rows in connection.execute(back).fetchall()}
    assert theirs == Counter((n, t) for _, n, t in rows)
    schema = Schema((Attribute("n", IntegerDomain(1, 2), REST), Attribute("t", CategoryDomain(tuple(odd)), REST)))
    ours = {
        (n, t): c
        for n, row in zip([1, 2, None], count(path, schema), strict=True)
        for t, c in zip(odd, row[:-1], strict=True)
        if c
    }
    assert ours == theirs


def test_keys_are_typed_by_the_schema_not_by_each_other(tmp_path: pathlib.Path) -> None:
    for month in ("1", "01", "x"):
        write(tmp_path / f"m={month}" / "a.parquet", (1, "u"))
    texts = Schema((Attribute("m", CategoryDomain(("01", "1", "x"))),))
    assert count(tmp_path, texts) == [1, 1, 1]
    numbers = Schema((Attribute("m", IntegerDomain(0, 2), REST),))
    assert "attribute 'm': the folder 'm=x' names no whole number, but the schema declares numbers" in problem(
        tmp_path, numbers
    )
    assert count(f"{tmp_path}/m=*1", numbers) == [0, 2, 0, 0]
    assert "the column is of type string, but the schema declares true/false" in problem(
        tmp_path, Schema((Attribute("m", CategoryDomain((True, False))),))
    )


@pytest.mark.parametrize("end", ENDS)
def test_a_column_in_the_file_and_in_a_folder_is_refused(end: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x=7" / "z=1" / f"p{end}"
    path.parent.mkdir(parents=True)
    ENDS[end](path)
    z = Attribute("z", IntegerDomain(0, 1), REST)
    assert f"{path}: 'x' is a column of the file and a key in the name of a folder" in problem(
        tmp_path, Schema((SCHEMA["x"], z))
    )
    assert count(tmp_path, Schema((z,))) == [0, 2, 0]
    assert count([path], Schema((SCHEMA["x"],))) == [0, 1, 1, 0, 0]
    (path.parent / "z=2").mkdir()
    ENDS[end](path.parent / "z=2" / f"p{end}")
    assert "has 2 columns called 'z'" in problem(tmp_path, Schema((z,)))


@pytest.mark.parametrize("name", ["part", "key0", "f0", "f1", "file", "filename", "path", "c0"])
def test_columns_may_have_any_name_beside_keys(name: str, tmp_path: pathlib.Path) -> None:
    others = [other for other in ("part", "key0", "f0", "f1", "file", "filename", "path", "c0") if other != name]
    folder = tmp_path / f"{name}=2"
    folder.mkdir()
    data = pa.table({**{other: [7] for other in others}, "x": [1]})
    pq.write_table(data, folder / "a.parquet")
    key = Attribute(name, IntegerDomain(0, 3), REST)
    assert count(tmp_path, Schema((key, SCHEMA["x"])))[2] == [0, 1, 0, 0, 0]
    in_file = Attribute(others[1], IntegerDomain(5, 7), REST)
    assert count(tmp_path, Schema((in_file, key)))[2] == [0, 0, 1, 0, 0]


def test_parts_may_lack_a_key_that_the_schema_does_not_name(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a.parquet", (1, "u"))
    write(tmp_path / "year=2020" / "b.parquet", (1, "v"))
    assert count(tmp_path)[1] == [1, 1, 0]
    assert "a.parquet lacks 1 of the 1 columns of the schema: 'year'" in problem(tmp_path, Schema((YEAR,)))


def test_a_draft_of_a_folder_has_its_keys(tmp_path: pathlib.Path) -> None:
    for year in range(2010, 2022):
        write(tmp_path / f"year={year}" / "zone=n" / "a.parquet", (1, "u"), (2, "v"))
    text = draft(tmp_path)
    assert "year : integer 2010..2021 clip" in text
    assert 'zone : category {"n"}' in text


# Names


def test_patterns(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a1", "a2", "b1", "a[1]"):
        write(tmp_path / f"{name}.parquet", (1, "u"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    known = {
        "*.parquet": 4,
        "a?.parquet": 2,
        "a[12].parquet": 2,
        "a[1].parquet": 1,
        "~/[ab]1.parquet": 2,
        "~/a1.parquet": 1,
    }
    known |= {f"{tmp_path}/*1.parquet": 2, f"file://{tmp_path}/a?.parquet": 0, f"file://{tmp_path}/a%5B1%5D.parquet": 1}
    for pattern, files in known.items():
        assert len(recognise(pattern).files()) == files, pattern
    assert problem("z*.parquet") == "z*.parquet: no such file, and no file matches it as a pattern"
    assert problem(pathlib.Path("*.parquet")) == "*.parquet: no such file"
    assert len(recognise(["a1.parquet", "b*.parquet"]).files()) == 2
    pathlib.Path("~x.csv").write_text("x,g\n1,u\n")
    assert count("~x.csv") == count(pathlib.Path("~x.csv")) == count("a1.parquet")
    assert count(f"file://localhost{tmp_path}/a1.parquet") == count(pathlib.Path("~/a1.parquet")) == count("a1.parquet")
    for nothing in ("", "a\0.csv", [""]):
        assert "the data is an empty text, or one with a zero character" in problem(nothing)
    assert problem("~nobody-at-all/x.csv") == "~nobody-at-all/x.csv: no such file"


@pytest.mark.parametrize("address", ["https://h/x.csv?token=s3cret", "s3://key:s3cret@b/x.parquet", "HTTP://h/s3cret"])
def test_addresses_on_a_network_are_refused(address: str) -> None:
    for data in (address, pathlib.Path(address), [address]):
        message = problem(data)
        assert "is at an address on a network" in message
        assert "download it and give its path, or read it with another library and pass the Arrow table" in message
        assert "s3cret" not in message
    assert "no table in it is named" in problem("postgresql://me:s3cret@h/x")
    assert "address of a database" in problem("file://host/x.csv")


# Parts that differ

WHOLE = Attribute("a", IntegerDomain(0, 3), REST)
N = Attribute("a", NumericDomain((0.0, 0.7, 1.0)), REST)
T = Attribute("a", CategoryDomain(("u", "v")), REST)
F = Attribute("a", CategoryDomain((True, False)), REST)

ALIKE: dict[str, tuple[Attribute, list[Any], list[int]]] = {
    "widths": (WHOLE, [pa.array([1], t) for t in (pa.int8(), pa.uint32(), pa.int64(), pa.int32())], [0, 4, 0, 0, 0]),
    "unsigned": (WHOLE, [pa.array([1, None], pa.uint64()), pa.array([-1, 1], pa.int8())], [0, 2, 0, 0, 2]),
    "nulls": (WHOLE, [pa.nulls(2), pa.array([1], pa.int32()), pa.nulls(1)], [0, 1, 0, 0, 3]),
    "nulls only": (WHOLE, [pa.nulls(2), pa.nulls(1)], [0, 0, 0, 0, 3]),
    "nulls and flags": (F, [pa.nulls(2), pa.array([True])], [1, 0, 2]),
    "nulls in pandas": (WHOLE, [pa.array([1]), pa.array([1.0, float("nan"), 1.5])], [0, 2, 0, 0, 2]),
    "decimals": (N, [pa.array([0.7]), pa.array(["0.7", "0.6"]).cast(pa.decimal128(9, 3))], [1, 2, 0]),
    "decimals of other widths": (N, [pa.array(["0.7"]).cast(pa.decimal128(9, k)) for k in (1, 3)], [0, 2, 0]),
    "texts": (T, [pa.array(["u"], t) for t in (pa.string(), pa.large_string(), pa.string_view())], [3, 0, 0]),
    "dictionaries": (T, [pa.array(["u", "v"]).dictionary_encode(), pa.array(["v", None, "w"])], [1, 2, 2]),
}


def table(array: Any, i: int) -> Any:
    """A column among others, whose types, number and order differ from part to part."""
    value: Any = ("x", 1, 1.5)[i % 3]
    other = pa.array([value] * len(array))
    return pa.table({"other": other, "a": array} if i % 2 else {"a": array, "other": other, f"extra {i}": other})


def parts(folder: pathlib.Path, arrays: list[Any], end: str) -> pathlib.Path:
    for i, array in enumerate(arrays):
        writer = pq.write_table if end == ".parquet" else feather.write_feather
        writer(table(array, i), folder / f"part {i}{end}")
    return folder


@pytest.mark.parametrize("end", [".parquet", ".feather"])
@pytest.mark.parametrize("name", ALIKE)
def test_parts_that_differ_in_width_order_and_other_columns(name: str, end: str, tmp_path: pathlib.Path) -> None:
    attribute, arrays, expected = ALIKE[name]
    assert count(parts(tmp_path, arrays, end), Schema((attribute,))) == expected


@pytest.mark.parametrize("end", [".parquet", ".feather"])
def test_floats_of_32_bits_are_compared_as_in_one_file(end: str, tmp_path: pathlib.Path) -> None:
    array = pa.array([0.7, 0.3, 1.0], pa.float32())
    parts(tmp_path, [array, array, pa.nulls(1)], end)
    one = count(tmp_path / f"part 1{end}", Schema((N,)))
    assert count(tmp_path, Schema((N,))) == [2 * n + rest for n, rest in zip(one, (0, 0, 1), strict=True)]


DIFFERENT: dict[str, tuple[Attribute, list[Any]]] = {
    "float and double": (N, [pa.array([0.7], pa.float32()), pa.array([0.7])]),
    "float and integer": (WHOLE, [pa.array([1]), pa.array([1.0], pa.float32())]),
    "half and float": (WHOLE, [pa.array([1.0], pa.float16()), pa.array([1.0], pa.float32())]),
    "text and number": (T, [pa.array(["u"]), pa.nulls(1), pa.array([1])]),
    "flag and number": (F, [pa.array([True]), pa.array([1])]),
}


@pytest.mark.parametrize("end", [".parquet", ".feather"])
@pytest.mark.parametrize("name", DIFFERENT)
def test_parts_of_other_kinds_are_refused(name: str, end: str, tmp_path: pathlib.Path) -> None:
    attribute, arrays = DIFFERENT[name]
    message = problem(parts(tmp_path, arrays, end), Schema((attribute,)))
    assert f"differ in the type of column 'a', {arrays[-1].type} and {arrays[0].type}; files read together" in message


@pytest.mark.parametrize("end", [".parquet", ".feather"])
def test_large_ids_are_not_rounded(end: str, tmp_path: pathlib.Path) -> None:
    arrays = [pa.array([2**60, 2**60 + 1]), pa.array([2**60, 2**60 + 2]), pa.array([1, 2], pa.int32())]
    folder = parts(tmp_path, arrays, end)
    for i in range(3):
        writer = pq.write_table if end == ".parquet" else feather.write_feather
        writer(table(arrays[i], i).append_column("b", pa.array([1, 1])), folder / f"part {i}{end}")
    schema = Schema((Attribute("b", IntegerDomain(1, 1), REST),))
    assert count(folder, schema, unit="a") == [5, 0]
    writer(pa.table({"a": [1.0], "b": [1]}), folder / f"part 3{end}")
    with pytest.raises(DataError, match="differ in the type of column 'a', double and int64"):
        preflight(folder, schema, Reading("a"))


def test_columns_for_geography_are_no_trouble(tmp_path: pathlib.Path) -> None:
    """GeoParquet, as ibis#11978 and geosnap#436 met it."""
    meta = {
        "version": "1.0.0",
        "primary_column": "geometry",
        "columns": {"geometry": {"encoding": "WKB", "geometry_types": []}},
    }
    point = bytes.fromhex("0101000000000000000000f03f0000000000000040")
    data = pa.table({"x": [1], "geometry": [point], "g": ["u"]}).replace_schema_metadata({"geo": json.dumps(meta)})
    pq.write_table(data, tmp_path / "a.parquet")
    assert count(tmp_path / "a.parquet")[1] == [1, 0, 0]


# Text


def test_headers_may_differ_in_order_separator_and_compression(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text("x,g\n1,u\n")
    (tmp_path / "b.csv").write_text("g;more;x\r\nu;1,5;1\r\n")
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(b"more|g|x\n|u|1\n"))
    (tmp_path / "d.csv").write_bytes(gzip.compress(b"g\tx\nu\t1\n"))
    (tmp_path / "e.csv.gz").write_text("g,x\nu,1\n")
    for engine in ("memory", "duckdb"):
        assert count(tmp_path, engine=engine)[1] == [5, 0, 0]
    (tmp_path / "f.tsv").write_text("g\tx\nu\t1\n")
    assert "the files are of several kinds" in problem(tmp_path)
    assert count(tmp_path / "f.tsv")[1] == [1, 0, 0]


def test_a_single_column_has_no_separator(tmp_path: pathlib.Path) -> None:
    schema = Schema((SCHEMA["x"],))
    for name in ("a.csv", "a.tsv"):
        (tmp_path / name).write_text("x\n1\n2;1\n")
        assert count(tmp_path / name, schema) == [0, 1, 0, 0, 1]


def test_decimal_commas_are_not_misread(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x;g;pay\n1;u;3,5\n2;v;1.234\n")
    pay = Attribute("pay", NumericDomain((0.0, 2.0, 10.0)), REST)
    message = problem(path, Schema((*SCHEMA, pay)))
    assert (
        "is separated by semicolons, where decimals often have commas, so that the numeric attribute 'pay'" in message
    )
    assert count(path) == [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]]


def test_the_last_line_of_a_compressed_file_is_not_lost(tmp_path: pathlib.Path) -> None:
    """DuckDB loses one that is longer than its buffer."""
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"x,g\n1,u\n1," + b"u" * 10**7))
    assert "has a line longer than 2.1 MB" in problem(path)


JSON_ROWS = (
    '{"x": 1, "g": "u", "X": 3}\n\n{"g": "v"}\r\n{"x": "2", "g": null}\n'
    '{"x": 3.0, "g": ["u"], "other": {"x": 1}}\n{"x": true, "g": "\\u0075", "x": 1}\n'
)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_json_lines(engine: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.jsonl"
    for raw in (JSON_ROWS.encode(), b"\xef\xbb\xbf" + JSON_ROWS.rstrip().encode(), gzip.compress(JSON_ROWS.encode())):
        path.write_bytes(raw)
        assert count(path, engine=engine) == [[0, 0, 0], [1, 0, 0], [0, 0, 1], [0, 0, 1], [1, 1, 0]]
    assert recognise(path).columns() == ["x", "g", "X"]
    assert recognise(path).most_rows() == 7


BAD_JSON = {
    "no object": "[1]\n",
    "no object further down": '{"x": 1, "g": "secret"}\n"secret"\n',
    "two in a line": '{"x": 1, "g": "u"}\n{"x": 1, "g": "secret"} {"x": 1}\n',
    "open": '{"x": 1, "g": "u"}\n{"x": 1, "g": "secret',
    "pretty": '{\n"x": 1, "g": "secret"\n}\n',
    "no name": "{}\n",
    "too long": '{"x": 1, "g": "u"}\n{"x": 1, "g": "' + "secret" * 6_000_000 + '"}\n',
    "blank": "\n\n",
    "UTF-16": "\0{\0}\0",
}


@pytest.mark.parametrize("name", BAD_JSON)
def test_damaged_json_lines(name: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(BAD_JSON[name])
    with pytest.raises(DataError) as caught:
        count(path)
    assert str(caught.value).startswith(str(path))
    assert "secret" not in str(caught.value).removeprefix(str(path))


NAMES = ("capital-gain", 'say "x"', "it's", "0", "a/b", "a~b", "$.x", "A", "a", "*", "two\nlines", "\\", "\U0001f600")


def test_any_name_works_in_json_lines(tmp_path: pathlib.Path) -> None:
    schema = Schema(tuple(Attribute(name, IntegerDomain(0, 99)) for name in NAMES))
    (tmp_path / "it's.jsonl").write_text(json.dumps({name: i for i, name in enumerate(NAMES)}) + "\n")
    with open_data(tmp_path / "it's.jsonl", schema, engine="memory") as counts:
        assert [counts.table((name,)).tolist().index(1) for name in NAMES] == list(range(len(NAMES)))


# Anything in any form, against a reader in plain Python

Row: TypeAlias = tuple[Any, Any, Any]
NAMED = ("x", "g", "year")


def text(rows: list[Row], order: list[str], separator: str) -> bytes:
    lines = io.StringIO(newline="")
    writer = csv.writer(lines, delimiter=separator)
    writer.writerow(order)
    writer.writerows([["" if row[NAMED.index(n)] is None else row[NAMED.index(n)] for n in order] for row in rows])
    return lines.getvalue().encode()


def lines(rows: list[Row], order: list[str], _: str) -> bytes:
    return b"".join(json.dumps({n: row[NAMED.index(n)] for n in order}).encode() + b"\n" for row in rows)


def arrow(rows: list[Row], order: list[str], rng: random.Random) -> Any:
    types = {"g": rng.choice([pa.string(), pa.large_string()]), "year": rng.choice([pa.int16(), pa.int64()])}
    types["x"] = rng.choice([pa.int8(), pa.int32(), pa.float64()])
    columns = {n: [row[NAMED.index(n)] for row in rows] for n in order}
    empty = {n for n, column in columns.items() if not any(v is not None for v in column) and rng.random() < 0.5}
    return pa.table({n: pa.array(c, pa.null() if n in empty else types[n]) for n, c in columns.items()})


def save(path: pathlib.Path, rows: list[Row], order: list[str], rng: random.Random) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in (".parquet", ".feather"):
        (pq.write_table if path.suffix == ".parquet" else feather.write_feather)(arrow(rows, order, rng), path)
        return
    maker, separators = (lines, "x") if ".jsonl" in path.name else (text, ",;|\t")
    raw = maker(rows, order, rng.choice(separators))
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


@pytest.mark.parametrize("seed", range(16))
def test_random_parts_against_a_reader_in_python(seed: int, tmp_path: pathlib.Path) -> None:
    rng = random.Random(seed)
    end = rng.choice([".csv", ".csv.gz", ".tsv", ".jsonl", ".jsonl.gz", ".parquet", ".feather"])
    keyed = rng.random() < 0.5
    years = [2020, 2021, 2023, None]
    parts: list[list[Row]] = []
    for i in range(rng.randrange(1, 6)):
        year = rng.choice(years)
        rows = [
            (
                rng.choice([0, 1, 2, 3, 4, None]),
                rng.choice(["u", "v", "w,;|", None]),
                year if keyed else rng.choice(years),
            )
            for _ in range(rng.randrange(1, 5))
        ]
        order = ["x", "g"] if keyed else list(NAMED)
        rng.shuffle(order)
        key = "__HIVE_DEFAULT_PARTITION__" if year is None else year
        folder = tmp_path / "d" / (f"year={key}" if keyed else rng.choice(["", "sub", "sub/sub"]))
        save(folder / f"part {i}{end}", rows, order, rng)
        parts.append(rows)
    data = rng.choice([tmp_path / "d", f"{tmp_path}/d/**/*{end}", f"file://{tmp_path}/d"])
    cells: Counter[tuple[int, int, int]] = Counter()
    for x, g, year in (row for rows in parts for row in rows):
        cells[
            x if x in (0, 1, 2, 3) else 4, {"u": 0, "v": 1}.get(g, 2), year - 2020 if year in (2020, 2021, 2022) else 3
        ] += 1
    expected = [[[cells[x, g, y] for y in range(4)] for g in range(3)] for x in range(5)]
    assert count(data, Schema((*SCHEMA, YEAR)), rng.choice(["memory", "duckdb"])) == expected


SPARK = {
    "JSON lines": ["a.jsonl"],
    "Arrow": ["a.feather"],
    "a key": ["year=2020/a.csv"],
    "compressed": ["a.csv.gz"],
    "semicolons": ["a;.csv"],
    "other headers": ["a.csv", "b.csv"],
}


@pytest.mark.parametrize("name", SPARK)
def test_files_that_spark_does_not_read_alike_are_refused(name: str, tmp_path: pathlib.Path) -> None:
    rows: list[Row] = [(1, "u", 2020), (2, "v", 2020)]
    for i, file in enumerate(SPARK[name]):
        order = [n for n in NAMED if n != "year" or "year" not in file]
        (tmp_path / file).parent.mkdir(exist_ok=True)
        if file.endswith(".feather"):
            feather.write_feather(arrow(rows, order, random.Random(0)), tmp_path / file)
            continue
        raw = (lines if ".jsonl" in file else text)(rows, order[:: 1 - 2 * i], ";" if ";" in file else ",")
        (tmp_path / file).write_bytes(gzip.compress(raw) if file.endswith(".gz") else raw)
    assert count(tmp_path, Schema((SCHEMA["x"], YEAR)))[1] == [len(SPARK[name]), 0, 0, 0]
    if name in ("JSON lines", "Arrow", "a key"):
        with pytest.raises(OptionError, match=r"engine='spark' .*use engine='duckdb'"):
            preflight(tmp_path, Schema((SCHEMA["x"], YEAR)), engine="spark")
        return
    paths = sorted(tmp_path.iterdir())
    with pytest.raises(DataError, match="which Spark cannot read; use engine='duckdb'"):
        locate_csv_columns(paths, SCHEMA)
