"""Files of earlier formats keep their meaning: plan 3 and release 5, whose ordered factors ran through other cells.

The files were written by the last commit before that changed, from the workload below and `counts`. Their answers, as
they were printed then, are beside them. Release 6 is of the last commit before releases had a column of counts.
"""

from __future__ import annotations

import json
import math
import pathlib
import shutil
from typing import Any

import numpy as np
import pytest

import qcompile as qc
from qcompile.api import Plan, compile, load_plan, load_release
from qcompile.errors import BudgetError, StorageError
from qcompile.grammar import parse
from qcompile.inspection.diff import diff
from qcompile.plan import files as storage
from qcompile.plan.document import PlanDocument
from qcompile.privacy.budget import Budget
from qcompile.queries.factors.ordered import Ordered
from qcompile.release import files
from qcompile.run.verification import verify
from qcompile.support import archive
from tests.unit.plan.test_files import edit, members, reseal, rewrite

FORMATS = pathlib.Path(__file__).resolve().parents[1] / "formats"
PLAN, RELEASE, LEDGER = FORMATS / "plan-3.plan", FORMATS / "release-5.release", FORMATS / "ledger-1.ledger"
ANSWERS = json.loads((FORMATS / "answers-5.json").read_text())
RELEASES = {"5": RELEASE, "6": FORMATS / "release-6-ordered.release", "adaptive 6": FORMATS / "adaptive-6.release"}

WORKLOAD = """schema {
  hour : integer 0..5 cyclic other "unknown"
  pay  : numeric [0, 10, 20, 40] other "none"
  size : category {"s", "m", "l"} other "?"
}
workload {
  cumulated : prefix(pay) * marginal(size)
  spans     : range(pay)
  arcs      : circular(hour)
  sizes     : range(size) * prefix(hour)
  pairs     : each 1..2 of all
}
"""


def counts() -> dict[Any, Any]:
    shape = (7, 4, 4)
    return {("hour", "pay", "size"): (np.arange(math.prod(shape)) * 7 % 11).reshape(shape)}


def exact(plan: Plan) -> dict[str, list[float]]:
    release = plan.run(counts(), Budget(rho="1/8"), noise="none")
    return {f.name: release.answers(f.name).column("estimate").to_pylist() for f in plan.workload.families}


def ordered(plan: Plan) -> list[Ordered]:
    return [x for f in plan.workload.families for x in f.factors if isinstance(x, Ordered)]


def test_a_plan_of_format_3_runs_through_other_cells() -> None:
    plan = load_plan(PLAN)
    assert {x.kind for x in ordered(plan)} == {"prefix", "range", "circular"}
    assert not any(x.leaves_other for x in ordered(plan))
    found = exact(plan)
    assert found.keys() == ANSWERS.keys()
    for name, answers in ANSWERS.items():
        np.testing.assert_allclose(found[name], answers["exact"], atol=1e-8)
    assert plan.run(counts(), Budget(rho="1/8"), noise="none").answers("arcs").column("hour").to_pylist()[5:8] == [
        "0..5",
        "0..unknown",
        "1..1",
    ]


def test_a_release_of_format_5_answers_as_it_did() -> None:
    release = load_release(RELEASE)
    for name, answers in ANSWERS.items():
        table = release.answers(name)
        np.testing.assert_allclose(table.column("estimate").to_numpy(), answers["estimate"], atol=1e-7)
        np.testing.assert_allclose(table.column("std_error").to_numpy(), answers["std_error"], rtol=1e-9)


def test_a_release_of_format_6_answers_as_it_did() -> None:
    release = load_release(RELEASES["6"])
    assert release.provenance.counted is release.plan.counted is None
    for name, answers in json.loads((FORMATS / "answers-6.json").read_text()).items():
        table = release.answers(name)
        np.testing.assert_allclose(table.column("estimate").to_numpy(), answers["estimate"], atol=1e-7)
        np.testing.assert_allclose(table.column("std_error").to_numpy(), answers["std_error"], rtol=1e-6)


def test_an_adaptive_release_of_format_6_states_no_mu_any_more(tmp_path: pathlib.Path) -> None:
    """It was stored with mu = sqrt(2 rho), which its selections may exceed."""
    release = load_release(RELEASES["adaptive 6"])
    assert b", mu " in members(RELEASES["adaptive 6"])["document.json"]
    assert "mu" not in release.provenance.budget
    release.save(tmp_path / "r")
    assert load_release(tmp_path / "r").provenance == release.provenance
    assert release.answers("arcs").equals(load_release(tmp_path / "r").answers("arcs"))


def test_what_was_read_is_written_with_its_meaning(tmp_path: pathlib.Path) -> None:
    """The same document, so the same hashes: a release states that of its plan."""
    load_plan(PLAN).save(tmp_path / "p")
    load_release(RELEASE).save(tmp_path / "r")
    load_release(RELEASES["6"]).save(tmp_path / "s")
    for old, new in ((PLAN, tmp_path / "p"), (RELEASE, tmp_path / "r"), (RELEASES["6"], tmp_path / "s")):
        before, after = members(old), members(new)
        assert {**before, "manifest.json": b""} == {**after, "manifest.json": b""}
    assert load_plan(tmp_path / "p").version == "0.1.0"
    assert exact(load_plan(tmp_path / "p")) == exact(load_plan(PLAN))
    assert load_release(tmp_path / "r").answers("arcs").equals(load_release(RELEASE).answers("arcs"))
    assert load_release(RELEASE).provenance.plan_hash == PlanDocument.of(load_plan(PLAN)).hash


def test_a_ledger_of_format_1_lists_the_release(tmp_path: pathlib.Path) -> None:
    shutil.copy(LEDGER, tmp_path / "l")
    ledger = qc.Ledger.open(tmp_path / "l")
    (entry,) = ledger.entries
    assert entry.content == archive.stated_hash(RELEASE, files.KIND)
    load_plan(PLAN).run(counts(), Budget(rho="1/8"), ledger=ledger, output=tmp_path / "r")
    assert len(ledger.entries) == 2
    assert ledger.remaining == 0.25
    assert load_release(tmp_path / "r").plan.workload == load_plan(PLAN).workload


def test_a_ledger_of_format_2_knows_its_dataset(tmp_path: pathlib.Path) -> None:
    shutil.copy(FORMATS / "ledger-2.ledger", tmp_path / "l")
    ledger = qc.Ledger.open(tmp_path / "l")
    assert ledger.snapshot.dataset == "survey"
    finished, unfinished = ledger.entries
    assert (finished.charge.dataset, finished.release, finished.content) == ("survey", "x.release", "f00")
    assert (unfinished.charge.folder, unfinished.content) == ("/data/y.release.unfinished", None)
    with pytest.raises(BudgetError, match="account of the dataset 'survey'"):
        load_plan(PLAN).run(counts(), Budget(rho="1/8"), ledger=ledger)
    load_plan(PLAN).run(counts(), Budget(rho="1/8"), ledger=ledger, dataset="survey")
    assert ledger.remaining == 0.625
    assert verify(tmp_path / "l").is_sound


def test_the_same_text_means_something_else_today(tmp_path: pathlib.Path) -> None:
    plan = compile(parse(WORKLOAD))
    assert all(x.leaves_other for x in ordered(plan))
    assert PlanDocument.of(plan).hash != PlanDocument.of(load_plan(PLAN)).hash
    plan.save(tmp_path / "p")
    again = load_plan(tmp_path / "p")
    assert again.workload == plan.workload != load_plan(PLAN).workload
    assert PlanDocument.of(again).hash == PlanDocument.of(plan).hash
    table = counts()["hour", "pay", "size"]
    hours = table.sum(axis=(1, 2))
    expected = [
        sum(hours[(start + step) % 6] for step in range(length)) for start in range(6) for length in range(1, 7)
    ]
    np.testing.assert_allclose(exact(again)["arcs"], expected, atol=1e-8)


def test_a_difference_in_meaning_is_a_difference_of_plans() -> None:
    found = diff(load_plan(PLAN), compile(parse(WORKLOAD)))
    assert {change.name for change in found.families if "queries" in change.changes} == set(ANSWERS)


@pytest.mark.parametrize(("path", "oldest", "newest"), [(PLAN, 1, storage.VERSION), (RELEASE, 1, files.VERSION)])
def test_versions_before_and_after_are_refused(
    path: pathlib.Path, oldest: int, newest: int, tmp_path: pathlib.Path
) -> None:
    load = load_plan if path is PLAN else load_release
    for version in (oldest - 1, newest + 1):
        rewrite(tmp_path / "x", reseal(members(path), version=version))
        with pytest.raises(StorageError, match=f"format version {version}, this qcompile reads {oldest} to {newest}"):
            load(tmp_path / "x")


@pytest.mark.parametrize("mark", [0, 1, None, "no", []])
def test_the_mark_of_an_ordered_factor_is_true_or_false(mark: object, tmp_path: pathlib.Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["workload"]["families"][2]["factors"][0]["through_other"] = mark

    rewrite(tmp_path / "x", edit(members(PLAN), change))
    with pytest.raises(StorageError, match="through_other must be true or false"):
        load_plan(tmp_path / "x")
