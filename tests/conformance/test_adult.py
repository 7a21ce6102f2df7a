"""The hybrid workload on the coded Adult table, from file to answers."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pandas as pd
import pytest

import qcompile as qc

NUMERIC = {"age", "fnlwgt", "capital-gain", "capital-loss", "hours-per-week"}


def program(folder: pathlib.Path, ways: str) -> str:
    sizes = json.loads((folder / "adult-domain.json").read_text())
    lines = []
    for name, size in sizes.items():
        labels = ", ".join(map(str, range(size)))
        lines.append(f"`{name}` : " + (f"integer 0..{size - 1}" if name in NUMERIC else f"category {{{labels}}}"))
    schema = "\n".join(lines)
    return f"schema {{\n{schema}\n}}\nworkload {{ hybrid : each {ways} of all }}"


def test_three_way_plan(adult_folder: pathlib.Path) -> None:
    plan = qc.compile(program(adult_folder, "1..3"))
    assert plan.queries == 21_043_261
    assert plan.rmse() == pytest.approx(45.4649, rel=5e-4)


def test_two_way_run(adult_folder: pathlib.Path) -> None:
    plan = qc.compile(program(adult_folder, "1..2"))
    release = plan.run(adult_folder / "adult.csv", qc.Budget(epsilon=1, delta="1e-9"))
    table = release.answers("hybrid")
    assert table.num_rows == plan.queries
    found = release.marginal(("sex", "race"))
    frame = pd.read_csv(adult_folder / "adult.csv")
    truth = pd.crosstab(frame["sex"], frame["race"]).to_numpy()
    z = (found.array - truth) / found.std_error
    assert np.abs(z).max() < 6
    assert release.ask("total").estimate == pytest.approx(len(frame), abs=6 * release.ask("total").std_error)
