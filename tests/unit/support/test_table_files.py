"""Tables on disk: every format holds the same rows, in pieces of whatever size, and is whole or not there."""

from __future__ import annotations

import csv
import json
import math
import pathlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from qcompile.errors import OptionError, StorageError
from qcompile.support import table_files as writers
from qcompile.support.table_files import open_table, require_format, write_table

LABELS = ["<= 1", "", "null", 'a "quoted", name', "two\nlines", "caf\xe9 \U0001f600", "back\\slash", "tab\t", "true"]
NUMBERS = [0.0, -1.5, 1e300, 5e-324, 0.1, 1 / 3, 12.0, -123456789.25, 2.0**53]
METADATA = {"family": "f", "estimate": "unbiased", "interval": "pointwise 95 %"}
FORMATS = ("csv", "parquet", "arrow", "jsonl")


def table(metadata: dict[str, str] | None = METADATA) -> Any:
    labels = pa.DictionaryArray.from_arrays(pa.array(range(9), pa.int32()), pa.array(LABELS, pa.string()))
    some = pa.DictionaryArray.from_arrays(pa.array([0, None, 1] * 3, pa.int32()), pa.array(["x", "y"]))
    nothing = pa.DictionaryArray.from_arrays(pa.nulls(9, pa.int32()), pa.array(["z"]))
    columns = {"age": labels, "some": some, 'no "thing"': nothing, "estimate": NUMBERS}
    columns["std_error"] = pa.array([None if i == 4 else float(i) for i in range(9)], pa.float64())
    return pa.table(columns).replace_schema_metadata(metadata)


def write(path: pathlib.Path, whole: Any, rows: int) -> None:
    with open_table(path, whole.schema) as writer:
        for batch in whole.to_batches(max_chunksize=rows):
            writer.write(batch)


def read(path: pathlib.Path) -> list[dict[str, Any]]:
    """The rows, by readers that are not ours."""
    if path.suffix == ".parquet":
        return list(pyarrow.parquet.read_table(path).to_pylist())
    if path.suffix == ".arrow":
        return list(pyarrow.feather.read_table(path).to_pylist())
    with path.open(encoding="utf-8", newline="") as stream:
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in stream.read().removesuffix("\n").split("\n")]
        numbers = {"estimate", "std_error"}
        return [
            {c: (float(v) if v else None) if c in numbers else v for c, v in r.items()} for r in csv.DictReader(stream)
        ]


@pytest.mark.parametrize("rows", [1, 2, 100])
@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_holds_every_row(ending: str, rows: int, tmp_path: pathlib.Path) -> None:
    whole, path = table(), tmp_path / f"t.{ending}"
    write(path, whole, rows)
    expected = whole.to_pylist()
    if ending == "csv":  # it cannot tell an empty text from none
        expected = [{c: "" if v is None and c != "std_error" else v for c, v in row.items()} for row in expected]
    assert read(path) == expected
    assert list(read(path)[0]) == whole.column_names


@pytest.mark.parametrize("ending", FORMATS)
def test_a_table_without_rows_is_a_table(ending: str, tmp_path: pathlib.Path) -> None:
    write_table(table().slice(0, 0), tmp_path / f"t.{ending}")
    if ending == "csv":
        assert (tmp_path / "t.csv").read_text().count("\n") == 1
    elif ending == "jsonl":
        assert (tmp_path / "t.jsonl").read_bytes() == b""
    else:
        assert read(tmp_path / f"t.{ending}") == []


def test_metadata_and_dictionaries_are_kept_where_the_format_can(tmp_path: pathlib.Path) -> None:
    for ending, reader in (("parquet", pyarrow.parquet.read_table), ("arrow", pyarrow.feather.read_table)):
        write(tmp_path / f"t.{ending}", table(), 2)
        found = reader(tmp_path / f"t.{ending}")
        assert found.schema.metadata.items() >= {k.encode(): v.encode() for k, v in METADATA.items()}.items()
        assert pa.types.is_dictionary(found["age"].type)
        assert found.column_names == table().column_names  # no note: the metadata say it


@pytest.mark.parametrize(
    ("made", "interval"),
    [("best, reference tree, none", "none: best estimates are biased"), ("unbiased", "pointwise 95 %, nominal: why")],
)
def test_other_formats_have_a_note_where_numbers_are_not_plain(
    made: str, interval: str, tmp_path: pathlib.Path
) -> None:
    whole = table({"estimate": made, "interval": interval})
    for ending in ("csv", "jsonl"):
        write(tmp_path / f"t.{ending}", whole, 4)
        assert {row["note"] for row in read(tmp_path / f"t.{ending}")} == {f"{made}; intervals: {interval}"}
    named = whole.rename_columns(["note", *whole.column_names[1:]]).replace_schema_metadata(whole.schema.metadata)
    write(tmp_path / "t.jsonl", named, 4)
    assert read(tmp_path / "t.jsonl")[0]["how it was made"].startswith(made)
    assert read(tmp_path / "t.jsonl")[0]["note"] == "<= 1"


def test_a_table_with_other_dictionaries_in_each_chunk(tmp_path: pathlib.Path) -> None:
    parts = [pa.table({"a": pa.array(texts).dictionary_encode()}) for texts in (["x", "y"], ["z", "x"], ["y"])]
    for ending in FORMATS:
        write_table(pa.concat_tables(parts), tmp_path / f"t.{ending}")
        assert [row["a"] for row in read(tmp_path / f"t.{ending}")] == ["x", "y", "z", "x", "y"]


def test_plain_columns_are_written_as_they_are(tmp_path: pathlib.Path) -> None:
    whole = pa.table({"name": ["a", None], "count": [1, 2**62], "yes": [True, False], "x": [math.inf, math.nan]})
    write_table(whole, tmp_path / "t.jsonl")
    rows = [
        {"name": "a", "count": 1, "yes": True, "x": None},  # JSON has no infinity, and readers choke on NaN
        {"name": None, "count": 2**62, "yes": False, "x": None},
    ]
    assert read(tmp_path / "t.jsonl") == rows
    write_table(pa.table({"a": pa.nulls(2, pa.string())}), tmp_path / "t.jsonl")
    assert read(tmp_path / "t.jsonl") == [{"a": None}] * 2


def test_numbers_read_back_to_the_last_bit(tmp_path: pathlib.Path) -> None:
    bits = np.random.default_rng(1).integers(0, 2**63, 20_000).astype(np.int64)
    numbers = bits.view(np.float64)
    whole = pa.table({"estimate": numbers[np.isfinite(numbers)]})
    for ending in FORMATS:
        write_table(whole, tmp_path / f"t.{ending}")
        found = [row["estimate"] for row in read(tmp_path / f"t.{ending}")]
        np.testing.assert_array_equal(found, whole["estimate"].to_numpy())


def test_row_groups_are_gathered(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of a few rows must not become row groups of a few rows, which take more room than the rows."""
    monkeypatch.setattr(writers, "ROWS", 4)
    write(tmp_path / "t.parquet", table(), 1)
    file = pyarrow.parquet.ParquetFile(tmp_path / "t.parquet")
    assert [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)] == [4, 4, 1]


def interrupted(path: pathlib.Path) -> None:
    with open_table(path, table().schema) as writer:
        writer.write(table().to_batches()[0])
        raise ZeroDivisionError


@pytest.mark.parametrize("ending", FORMATS)
def test_a_file_is_whole_or_not_there(ending: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / f"t.{ending}"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError):
        interrupted(path)
    assert [f.name for f in tmp_path.iterdir()] == [path.name]
    assert path.read_text() == "old"
    write(path, table(), 3)
    assert len(read(path)) == 9
    assert [f.name for f in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", FORMATS)
def test_a_full_disk_is_an_error_of_storage(
    ending: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from qcompile.support import files

    if not pathlib.Path("/dev/full").exists():
        pytest.skip("this system has no device that is always full")
    monkeypatch.setattr(files, "create_hidden", lambda target: (target.parent / ".part").absolute())
    (tmp_path / ".part").symlink_to("/dev/full")
    with pytest.raises(StorageError, match=r"cannot write .*t\."):
        write_table(pa.concat_tables([table()] * 20_000).combine_chunks(), tmp_path / f"t.{ending}")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_ending_is_refused_before_anything_is_written(tmp_path: pathlib.Path) -> None:
    for name in ("t.xlsx", "t", "csv"):
        with pytest.raises(OptionError, match=r"cannot tell the format of .*\.csv, \.parquet, \.arrow, \.jsonl"):
            write_table(table(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    assert require_format("T.CSV") == ".csv"
    with pytest.raises(StorageError, match="does not exist"):
        write_table(table(), tmp_path / "nowhere" / "t.csv")
