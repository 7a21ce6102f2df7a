"""Files: every defect has its own message, no message quotes the data, any name works as a column."""

from __future__ import annotations

import gzip
import os
import pathlib
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qcompile.data import read
from qcompile.data.curator.draft import draft
from qcompile.data.datasets.find_parts import find_parts
from qcompile.data.opening import open_data
from qcompile.data.sources import columns, file_formats
from qcompile.data.sources import parquet as parquet_files
from qcompile.data.sources.parts import Part
from qcompile.errors import DataError
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, Policy, Schema

SCHEMA = Schema((Attribute("age", IntegerDomain(0, 99), Policy("drop")), Attribute("sex", CategoryDomain(("f", "m")))))
GOOD = b"age,sex\n41,f\n17,m\n"


def problem(path: pathlib.Path | str, schema: Schema = SCHEMA) -> str:
    with pytest.raises(DataError) as caught:
        read(path, schema)
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return str(caught.value)


# dp-wizard#752: missing and duplicate headers, BOM, UTF-16, semicolons, line ends; dataxid#208: zero bytes.
DEFECTS = {
    "zero bytes": (b"", "is empty (zero bytes)"),
    "blank line": (b"\n41,f\n", "has no header"),
    "only a BOM": (b"\xef\xbb\xbf", "has no header"),
    "no header": (b"4141,f\n17,m\n", "is the header line missing?"),
    "UTF-16": (GOOD.decode().encode("utf-16"), "is encoded in UTF-16; convert it to UTF-8"),
    "UTF-16 big": (b"\xfe\xff" + GOOD.decode().encode("utf-16-be"), "is encoded in UTF-16"),
    "UTF-16 big without BOM": (GOOD.decode().encode("utf-16-be"), "seems to be encoded in UTF-16"),
    "UTF-16 with letters": ("age,sex\n41,caf\u00e9\n".encode("utf-16-le"), "seems to be encoded in UTF-16"),
    "UTF-32": (GOOD.decode().encode("utf-32"), "is encoded in UTF-32; convert it to UTF-8"),
    "UTF-32 big": (b"\0\0\xfe\xff" + GOOD.decode().encode("utf-32-be"), "is encoded in UTF-32"),
    "UTF-32 without BOM": (GOOD.decode().encode("utf-32-le"), "seems to be encoded in UTF-32"),
    "invalid UTF-8 in the header": (b"age,sex,\xff\n41,f,4141\n", "is not encoded in UTF-8"),
    "half a character at the end": (GOOD + b"41,\xc3", "is not encoded in UTF-8"),
    "zero characters": (bytes(1000), "seems to be encoded in UTF-32"),
    "a zero character": (GOOD + b"41,\0\n", "attribute 'sex' has nulls or values outside its domain"),
    "UTF-16 without BOM": (GOOD.decode().encode("utf-16-le"), "seems to be encoded in UTF-16"),
    "Latin-1": (GOOD + b"41,caf\xe9\n", "is not encoded in UTF-8"),
    "Latin-1 far down": (GOOD * 3000 + b"41,caf\xe9\n", "is not encoded in UTF-8"),
    "colons": (GOOD.replace(b",", b":"), "the first line names none of the schema's attributes"),
    "commas and semicolons": (b"age,x;sex\n41,1;f\n", "lacks 1 of the 2 columns of the schema: 'sex'"),
    "rows of another separator": (b"age,sex\n41;f\n", "could not be parsed as CSV"),
    "too many fields": (GOOD + b"4141,f,secret\n", "could not be parsed as CSV"),
    "too few fields": (GOOD + b"4141\n", "could not be parsed as CSV"),
    "open quote": (GOOD + b'41,"secret\n', "could not be parsed as CSV"),
    "text after a quote": (GOOD + b'41,"f"secret\n', "could not be parsed as CSV"),
    "duplicate header": (b"age,sex,age\n41,f,4141\n", "has 2 columns called 'age'"),
    "case": (b"Age,sex\n41,f\n", "lacks 1 of the 2 columns of the schema: 'age', did you mean 'Age'?"),
    "case everywhere": (b"AGE, SEX\n41,f\n", "has no column 'age', only one that differs in case or spaces"),
    "missing": (b"age,4141\n41,f\n", "lacks 1 of the 2 columns of the schema: 'sex'"),
    "binary": (bytes(range(256)), "is not encoded in UTF-8"),
    "half of a gzip file": (gzip.compress(GOOD)[:25], "is compressed with gzip, but damaged or unfinished"),
    "a wrong check sum": (gzip.compress(GOOD)[:-6] + bytes(6), "is compressed with gzip, but damaged or unfinished"),
    "gzip and more": (gzip.compress(GOOD) + b"secret", "is compressed with gzip, but damaged or unfinished"),
    "a spreadsheet": (b"PK\x03\x04" + bytes(100), "is a zip archive or a spreadsheet"),
    "mixed line ends": (b"age,sex\n41,f\r17,m\r\n", "could not be parsed as CSV"),
    "a quote that stays open": (b'age,sex\n41,"secret\n' + b"17,m\n" * 10**6, "could not be parsed as CSV"),
    "a quote open in the header": (b'age,sex,"\n' + b"41,secret\n" * 10**6, "the first line is longer than 4.2 MB"),
    "a header without end": (b"secret" * 10**7, "the first line is longer than 4.2 MB"),
    "10^6 columns": (b"age,sex," + b",".join(b"x%d" % i for i in range(10**6)), "the first line is longer than"),
    "10,001 columns": (b"age,sex" + b",z" * 9_999, "has 10,001 columns, at most 10,000 can be read; save only those"),
    "a long line": (b"age,sex,z\n41,f," + b"4141" * 700_000 + b"\n17,m,\n", "could not be parsed as CSV"),
    "a very long line": (b"age,sex,z\n41,f," + b"4141" * 2_000_000 + b"\n17,m,\n", "has a line longer than 2.1 MB"),
    "a very long last line": (b"age,sex,z\n17,m,\n41,f," + b"4141" * 10**7, "has a line longer than 2.1 MB"),
    "a line of commas": (GOOD + b"," * 10**6, "has nulls or values outside its domain"),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_each_defect_of_a_csv_file_has_its_message(name: str, tmp_path: pathlib.Path) -> None:
    raw, expected = DEFECTS[name]
    path = tmp_path / "people.csv"
    path.write_bytes(raw)
    start = time.process_time()
    message = problem(path)
    assert time.process_time() - start < 3
    assert expected in message
    assert message.startswith((str(path), "attribute 'sex'"))
    for value in ("secret", "caf", "4141"):
        assert value not in message.removeprefix(str(path))


VARIANTS = {
    "plain": GOOD,
    "CRLF": GOOD.replace(b"\n", b"\r\n"),
    "CR": GOOD.replace(b"\n", b"\r"),
    "UTF-8 BOM": b"\xef\xbb\xbf" + GOOD,
    "no final newline": GOOD.rstrip(),
    "blank lines": GOOD.replace(b"17", b"\n17") + b"\n\n",
    "quotes": b'"age","sex"\n"41","f"\n"17","m"\n',
    "order and extras": b"z,sex,Age,age\n?,f,NA,41\n,m,,17\n",
    "empty fields at the end": b"age,sex\n41,f,,,\n17,m\n",
    "duplicate extras": b"sex,z,z,age\nf,1,2,41\nm,1,2,17\n",
    "gzip": gzip.compress(GOOD),
    "gzip in two members": gzip.compress(GOOD[:12]) + gzip.compress(GOOD[12:]),
    "semicolons": GOOD.replace(b",", b";"),
    "tabs": GOOD.replace(b",", b"\t"),
    "bars": GOOD.replace(b",", b"|"),
    "semicolons and commas": b'"x,y";age;sex\n"1,2;";41;f\n3,4;17;m\n',
    "long fields": b'z,sex,age\n"' + b"x\n" * 50_000 + b'",f,41\n,m,17\n',
}


@pytest.mark.parametrize("name", VARIANTS)
def test_harmless_variants_read_alike(name: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(VARIANTS[name])
    rows = read(str(path), SCHEMA)
    assert {n: c.tolist() for n, c in rows.codes.items()} == {"age": [41, 17], "sex": [0, 1]}


def test_a_header_alone_has_no_rows(tmp_path: pathlib.Path) -> None:
    """dataxid#208: zero rows with a header are data."""
    for i, raw in enumerate((b"age,sex", b"age,sex\n", b"sex,age\r\n")):
        path = tmp_path / f"{i}.csv"
        path.write_bytes(raw)
        rows = read(path, SCHEMA)
        assert rows.total == 0
        assert rows.table(("sex", "age")).shape == (2, 100)
        assert rows.table(("sex", "age")).sum() == 0


def test_an_empty_field_is_null_and_an_empty_text_is_text(tmp_path: pathlib.Path) -> None:
    schema = Schema((Attribute("x", CategoryDomain(("", "NA")), Policy("other", "rest")),))
    path = tmp_path / "t.csv"
    path.write_text('y,x\n1,\n1,""\n1,NA\n1, \n')
    assert read(path, schema).codes["x"].tolist() == [2, 0, 1, 2]


def test_what_is_not_a_file_is_told_apart(tmp_path: pathlib.Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "people.xlsx").write_bytes(b"PK")
    (tmp_path / "people").write_bytes(GOOD)
    assert "no such file" in problem(tmp_path / "absent.csv")
    assert "is a directory" in problem(tmp_path / "folder.csv")
    assert "unknown kind of file '.xlsx'" in problem(tmp_path / "people.xlsx")
    assert "unknown kind of file ''" in problem(tmp_path / "people")
    assert "cannot be read" in problem("x" * 5000 + ".csv")


def test_what_may_have_no_end_is_not_opened(tmp_path: pathlib.Path) -> None:
    """A pipe without a writer would block for ever."""
    for suffix in (".csv", ".parquet"):
        os.mkfifo(tmp_path / f"pipe{suffix}")
        (tmp_path / f"zero{suffix}").symlink_to("/dev/zero")
        (tmp_path / f"loop{suffix}").symlink_to(tmp_path / f"loop{suffix}")
        assert "is a pipe or a device; save the data" in problem(tmp_path / f"pipe{suffix}")
        assert "is a pipe or a device" in problem(tmp_path / f"zero{suffix}")
        assert "cannot be read" in problem(tmp_path / f"loop{suffix}")
    assert "is a pipe or a device" in problem("/dev/zero")


def test_a_column_may_be_called_like_the_magic_word_of_parquet(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(b"PAR1,age,sex\n0,41,f\n")
    assert read(path, SCHEMA).total == 1
    pq.write_table(pa.table({"age": [41], "sex": ["f"]}), path)
    assert problem(path) == f"{path} is a Parquet file; rename it to end in .parquet"


def test_as_many_columns_as_are_allowed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MAX_COLUMNS", 50)
    path = tmp_path / "wide.csv"
    for extra in (49, 50):
        path.write_text(",".join([*(f"x{i}" for i in range(extra)), "age"]) + "\n" + "0," * extra + "7\n")
        if extra == 49:
            assert read(path, Schema((SCHEMA["age"],))).codes["age"].tolist() == [7]
    assert "has 51 columns, at most 50 can be read" in problem(path, Schema((SCHEMA["age"],)))


@pytest.mark.parametrize("name", ["a[1]", "b*", "c?", "d{1,2}", "e'f", "age=7/sex=f", "g h", "caf\u00e9", "~i"])
def test_a_path_is_never_a_pattern(name: str, tmp_path: pathlib.Path) -> None:
    target = tmp_path / f"{name}.csv"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(GOOD)
    (tmp_path / "a1.csv").write_bytes(b"age,sex\n1,f\n")
    (tmp_path / "bX.csv").write_bytes(b"age,sex\n1,f\n")
    pq.write_table(pa.table({"age": [41, 17], "sex": ["f", "m"]}), target.with_suffix(".parquet"))
    for path in (target, target.with_suffix(".parquet")):
        assert read(path, SCHEMA).codes["age"].tolist() == [41, 17]


def test_a_relative_path_and_capital_suffix(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "P.CSV").write_bytes(GOOD)
    monkeypatch.chdir(tmp_path)
    assert read("P.CSV", SCHEMA).total == 2


NAMES = ["capital-gain", "hours per week", "a.b", 'say "x"', "it's", "income>50K", "\U0001f600", "select", "union"]
NAMES += ["x" * 300, "rowid", "c0", "c1_number", "A", "a", "\u00e9", "e\u0301", "a,b", "two\tparts", " lead", "`tick`"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_any_name_works_as_a_column(suffix: str, tmp_path: pathlib.Path) -> None:
    """smartnoise-sdk#457, smartnoise-sdk#623: any name, and columns in another order than the schema's."""
    schema = Schema(tuple(Attribute(n, IntegerDomain(0, 99)) for n in NAMES))
    reverse = list(reversed(NAMES))
    path = tmp_path / f"names{suffix}"
    if suffix == ".csv":
        header = ",".join('"' + n.replace('"', '""') + '"' for n in reverse)
        path.write_text(header + "\n" + ",".join(str(NAMES.index(n)) for n in reverse) + "\n", encoding="utf-8")
    else:
        pq.write_table(pa.table([pa.array([NAMES.index(n)]) for n in reverse], names=reverse), path)
    assert {n: c.tolist() for n, c in read(path, schema).codes.items()} == {n: [i] for i, n in enumerate(NAMES)}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", ["secret\npart", "secret\rpart", "secret\r\npart", "\n", "\r", "secret\r"])
def test_a_line_break_in_a_column_name_is_refused(name: str, end: str, tmp_path: pathlib.Path) -> None:
    """DuckDB takes it for the end of all lines, and a file with other ends would have no rows without a word."""
    path = tmp_path / "people.csv"
    path.write_bytes(f'age,sex,"{name}"{end}41,f,1{end}17,m,2{end}'.encode())
    message = problem(path)
    assert "the name of column 3 has a line break in it" in message
    assert "secret" not in message.removeprefix(str(path))


def test_column_names(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(b'\xef\xbb\xbfage,"a,b",age,\n1,2,3,4\n')
    assert file_formats.read_names(Part(path)) == ["age", "a,b", "age", ""]
    pq.write_table(pa.table([[1], [2]], names=["age", "two\nlines"]), tmp_path / "people.parquet")
    assert file_formats.read_names(Part(tmp_path / "people.parquet")) == ["age", "two\nlines"]


UNNAMED = {
    "utf16.csv": (GOOD.decode().encode("utf-16"), "is encoded in UTF-16; convert it to UTF-8"),
    "gzip.csv": (gzip.compress(GOOD)[:9], "is compressed with gzip, but damaged"),
    "latin.csv": (b"age,caf\xe9\n", "is not encoded in UTF-8"),
    "break.csv": (b'age,"a\rb"\n41,1\n', "the name of column 2 has a line break"),
    "empty.csv": (b"", "is empty"),
    "wide.csv": (b"age" + b",z" * columns.MAX_COLUMNS, "has 10,001 columns"),
    "people.txt": (GOOD, "unknown kind of file '.txt'"),
    "text.parquet": (GOOD, "is not a readable Parquet file"),
    "huge.parquet": (b"PAR1" + bytes(100) + b"\xff\xff\xff\x7fPAR1", "is not a readable Parquet file"),
}


@pytest.mark.parametrize("name", UNNAMED)
def test_column_names_of_a_file_that_has_none(name: str, tmp_path: pathlib.Path) -> None:
    raw, expected = UNNAMED[name]
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(DataError) as caught:
        file_formats.read_names(*find_parts(tmp_path / name))
    assert expected in str(caught.value)
    with pytest.raises(DataError) as drafted:
        draft(tmp_path / name)
    assert str(drafted.value) == str(caught.value)


LABELS = ("NO", "null", "1e3", "?", "<=50K", "NULL", "nan", "", " x ", "a,b", '"', "'", "\\", "two\nlines", "%_", "$1")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_any_label_survives(suffix: str, tmp_path: pathlib.Path) -> None:
    schema = Schema((Attribute("x", CategoryDomain(LABELS)), Attribute("y", IntegerDomain(0, 0))))
    path = tmp_path / f"labels{suffix}"
    if suffix == ".csv":
        path.write_text("y,x\n" + "".join('0,"' + x.replace('"', '""') + '"\n' for x in LABELS), encoding="utf-8")
    else:
        pq.write_table(pa.table({"x": LABELS, "y": [0] * len(LABELS)}), path)
    assert read(path, schema).codes["x"].tolist() == list(range(len(LABELS)))


def test_damaged_parquet_files(tmp_path: pathlib.Path) -> None:
    good = tmp_path / "good.parquet"
    pq.write_table(pa.table({"age": list(range(90)) * 50, "sex": ["f", "m"] * 2250}), good, compression="snappy")
    raw = good.read_bytes()
    assert read(good, SCHEMA).total == 4500
    bad = tmp_path / "bad.parquet"
    lies = [raw[:-8] + n.to_bytes(4, "little") + b"PAR1" for n in (0, 5, 2**31, 2**32 - 1, len(raw) - 12)]
    cuts = [raw[:n] for n in range(1, len(raw), len(raw) // 12)]
    parts = [raw[:-9], b"PAR1" + raw[200:], b"PAR1xxxxPAR1", b"PAR1", b"x", GOOD]
    for damaged in (*parts, *cuts, *lies):
        bad.write_bytes(damaged)
        assert problem(bad) == f"{bad} is not a readable Parquet file; it may be damaged or unfinished"


def test_a_parquet_file_without_rows_and_with_extra_types(tmp_path: pathlib.Path) -> None:
    """PipelineDP#508: zero rows keep schema and types."""
    path = tmp_path / "none.parquet"
    extras = {"when": pa.array([], pa.timestamp("ns", "UTC")), "list": pa.array([], pa.list_(pa.int8()))}
    pq.write_table(pa.table({"sex": pa.array([], pa.string()), "age": pa.array([], pa.int16()), **extras}), path)
    assert read(path, SCHEMA).table(("age", "sex")).tolist() == [[0, 0]] * 100


def test_a_parquet_file_with_too_much_to_say(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table([[1]] * 10_001, names=[f"x{i}" for i in range(10_001)]), path)
    assert "has 10,001 columns, at most 10,000 can be read" in problem(path)
    monkeypatch.setattr(parquet_files, "MAX_FOOTER", 1000)
    assert "describes itself in" in problem(path)


def test_missing_and_repeated_columns_of_a_parquet_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table([[1], ["f"]], names=["Age", "sex"]), path)
    lacks = "lacks 1 of the 2 columns of the schema: 'age', did you mean 'Age'?; names must match exactly"
    assert problem(path) == f"{path} {lacks}"
    pq.write_table(pa.table([[1], ["f"], [2]], names=["age", "sex", "age"]), path)
    assert problem(path) == f"{path} has 2 columns called 'age'; keep one of them"


def test_names_that_differ_by_case_are_different_columns(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table([[1], [2], ["f"], [3]], names=["AGE", "age", "sex", "Age"]), path)
    assert read(path, SCHEMA).codes["age"].tolist() == [2]


def test_nothing_is_printed(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(GOOD)
    read(path, SCHEMA)
    path.write_bytes(DEFECTS["open quote"][0])
    problem(path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("header", ["age", "age,other"])
def test_blank_lines_are_no_rows(header: str, end: str, engine: str, tmp_path: pathlib.Path) -> None:
    schema = Schema((Attribute("age", CategoryDomain(("1", "")), Policy("other", "rest")),))
    rest = ",x" if "," in header else ""
    lines = [header, "", f"1{rest}", "", "", f'""{rest}', f"2{rest}", "", ""]
    (tmp_path / "t.csv").write_text(end.join(lines) + end, newline="")
    with open_data(tmp_path / "t.csv", schema, [("age",)], engine=engine) as counts:
        assert dict(counts.tables([("age",)]))[("age",)]().tolist() == [1, 1, 1]


@pytest.mark.parametrize("header", ["cafe\u0301", "cafe\u0301,sex"])
def test_names_in_another_unicode_form(header: str, tmp_path: pathlib.Path) -> None:
    schema = Schema((Attribute("caf\u00e9", CategoryDomain(("1",))), Attribute("sex", CategoryDomain(("f",)))))
    (tmp_path / "t.csv").write_text(f"{header}\n1,f\n")
    assert "in its decomposed Unicode form, 'cafe\\u0301'? It looks the same as 'caf\\xe9'" in problem(
        tmp_path / "t.csv", schema
    )
