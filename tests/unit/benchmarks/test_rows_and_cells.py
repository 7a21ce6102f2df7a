"""The benchmark of the noise on many rows, and the promise behind it, on few cells."""

from __future__ import annotations

import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))

from benchmarks import rows_and_cells


@pytest.mark.parametrize("law", ["uniform", "skewed"])
def test_its_tables(law: str) -> None:
    rng = np.random.default_rng(0)
    counts = rows_and_cells.given_counts(rng, 5, 10**6, law)
    columns = [rows_and_cells.draw_column(rng, 5, 10**5, law) for _ in "abc"]
    assert counts.shape == (5, 5, 5)
    assert abs(int(counts.sum()) - 10**6) < (10**4 if law == "uniform" else 2 * 10**4)
    assert all(c.min() >= 0 and c.max() < 5 for c in columns)


def test_it_measures_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_and_cells, "ROWS", (10, 1000))
    monkeypatch.setattr(rows_and_cells, "READ", 100)
    times, read = rows_and_cells.measure(rows_and_cells.make_plan("prefix", 3), 3, "skewed")
    assert len(times) == 2
    assert min(*times, read) > 0
