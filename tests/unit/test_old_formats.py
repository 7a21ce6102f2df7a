"""A file of every format that there was, with the answers that its writer printed: all are read, for ever.

Each was written by the commit that introduced its format. `tests/formats/answers.json` has the answers of the releases,
and per plan the exact answers on `counts`.
"""

from __future__ import annotations

import io
import json
import math
import pathlib
from typing import Any

import numpy as np
import pytest

from qcompile.api import load_plan, load_release
from qcompile.errors import StorageError
from qcompile.plan import files as plan_files
from qcompile.plan.document import PlanDocument
from qcompile.plan.upgrades import upgrade_plan
from qcompile.privacy.budget import Budget
from qcompile.release import files as release_files
from qcompile.release.upgrades import PLAN_FORMATS, upgrade_release
from tests.unit.plan.test_files import edit, members, reseal, rewrite

FORMATS = pathlib.Path(__file__).resolve().parents[1] / "formats"
KNOWN = json.loads((FORMATS / "answers.json").read_text())
QUERY = 'count(hour in 1..2 and size = "m")'
RELEASES = ["1", "2", "3", "4", "6", "6-adaptive"]


def release_file(version: str) -> pathlib.Path:
    return FORMATS / f"release-{version}.release"


def counts() -> dict[Any, Any]:
    shape = (4, 3, 3)
    return {("hour", "pay", "size"): (np.arange(math.prod(shape)) * 7 % 11).reshape(shape)}


def test_there_is_a_file_of_every_earlier_format() -> None:
    assert all((FORMATS / f"plan-{v}.plan").exists() for v in range(1, plan_files.VERSION))
    assert all(release_file(str(v)).exists() for v in range(1, release_files.VERSION))
    assert list(PLAN_FORMATS) == list(range(1, release_files.VERSION + 1))


@pytest.mark.parametrize("version", RELEASES)
def test_a_release_answers_as_its_writer_did(version: str, tmp_path: pathlib.Path) -> None:
    """And once more after it was written in the newest format."""
    path = release_file(version)
    load_release(path).save(tmp_path / "again")
    for file in (path, tmp_path / "again"):
        release, known = load_release(file), KNOWN["releases"][version]
        for family, answers in known["answers"].items():
            table = release.answers(family)
            for column, values in answers.items():
                np.testing.assert_allclose(table.column(column).to_numpy(), values, rtol=1e-6, atol=1e-6)
        assert release.ask(QUERY).estimate == pytest.approx(known["ask"][0], rel=1e-9)


@pytest.mark.parametrize("version", ["1", "2", "4"])
def test_a_plan_measures_as_its_writer_did(version: str, tmp_path: pathlib.Path) -> None:
    plan = load_plan(FORMATS / f"plan-{version}.plan")
    release = plan.run(counts(), Budget(rho=1), noise="none")
    for family, exact in KNOWN["plans"][version].items():
        np.testing.assert_allclose(release.answers(family).column("estimate").to_numpy(), exact, atol=1e-8)
    plan.save(tmp_path / "again")
    assert PlanDocument.of(load_plan(tmp_path / "again")).hash == PlanDocument.of(plan).hash


def test_an_adaptive_release_of_format_4_has_its_measurements() -> None:
    """Its best estimates follow from the model of the version that reads it."""
    path = release_file("4-adaptive")
    release = load_release(path)
    measured = np.load(io.BytesIO(members(path)["measured.npy"]))
    np.testing.assert_array_equal(np.concatenate([v for v in release.values if v.size]), measured)
    assert release.history is not None
    assert release.rounds().num_rows == len(release.history.rounds)
    assert math.isfinite(release.ask(QUERY).estimate)


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("name", ["plan_hash", "schema_hash"])
def test_old_hashes_are_checked_before_they_are_restated(version: str, name: str, tmp_path: pathlib.Path) -> None:
    contents = edit(members(release_file(version)), lambda d: d["provenance"].update({name: "0" * 64}))
    rewrite(tmp_path / "x", contents)
    with pytest.raises(StorageError, match="another plan or schema"):
        load_release(tmp_path / "x")


@pytest.mark.parametrize("version", ["1", "2", "3", "4"])
def test_measurements_of_old_formats_fit_the_plan(version: str, tmp_path: pathlib.Path) -> None:
    contents = members(release_file(version))
    values = np.load(io.BytesIO(contents["measured.npy"]))
    for changed in (values[:-1], values[None], values.astype(np.float64)):
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.ascontiguousarray(changed), allow_pickle=False)
        rewrite(tmp_path / "x", reseal({**contents, "measured.npy": buffer.getvalue()}))
        with pytest.raises(StorageError, match="do not fit its plan"):
            load_release(tmp_path / "x")
    del contents["measured.npy"]
    rewrite(tmp_path / "x", reseal(contents))
    with pytest.raises(StorageError, match="do not fit its plan"):
        load_release(tmp_path / "x")


@pytest.mark.parametrize("value", [None, 1, "text", []])
def test_upgrades_refuse_what_is_no_document(value: Any) -> None:
    for version in (1, 2, 3):
        with pytest.raises(StorageError):
            upgrade_release({"plan": value, "provenance": {}}, version)
    for version in (1, 2):
        with pytest.raises(StorageError):
            upgrade_release({"plan": {"options": {}, "workload": value}, "provenance": value}, version)
    for version in (1, 2):
        with pytest.raises(StorageError):
            upgrade_plan({"options": value}, version)
