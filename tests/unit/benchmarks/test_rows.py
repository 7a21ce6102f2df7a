"""The benchmark of counting many rows, on few."""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))

from benchmarks import many_rows


def test_it_counts_the_same_with_both_engines(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_rows, "PIECE", 700)
    path = tmp_path / "rows.parquet"
    many_rows.generate(path, 2000)
    one, other = (many_rows.count(path, engine) for engine in ("memory", "duckdb"))
    assert (one.total, one.tables) == (other.total, other.tables)
    assert 1800 < one.total < 2000  # four attributes drop a row in a hundred
