"""The check of a ledger: what charges cannot have made is found, releases are compared with their entries."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sqlite3
from fractions import Fraction
from typing import Any

import pytest

import qcompile as qc
from qcompile.cli.app import execute
from qcompile.errors import StorageError
from qcompile.privacy.ledger.charges import Charge
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.release import files
from qcompile.release.files import KIND
from qcompile.run import execute as executing
from qcompile.run.unfinished import TERMS, folder_of
from qcompile.run.verification import verify
from qcompile.support.archive import stated_hash
from tests.unit.plan.test_files import members, rewrite

FORMAT_1 = pathlib.Path(__file__).parents[2] / "formats/ledger-1.ledger"
DATA = {"a": [0, 1, 1]}
BUDGET = qc.Budget(rho="1/9")


@pytest.fixture(scope="module")
def plan() -> qc.Plan:
    return qc.compile("schema { a : integer 0..4 clip } workload { m : marginal(a) }")


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Ledger:
    made = Ledger.create(tmp_path / "l", qc.Budget(rho=1), dataset="survey")
    for _ in range(3):
        made.charge("1/7")
    return made


class Stopped(Exception):
    """Stands for the end of the process."""


def crash(plan: qc.Plan, ledger: Ledger, output: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave an unfinished run that was charged."""

    def stop(*_: Any, **__: Any) -> Any:
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(executing, "publish", stop)
        with pytest.raises(Stopped):
            plan.run(DATA, BUDGET, ledger=ledger, dataset="survey", output=output)


def edit(ledger: Ledger, *statements: str) -> None:
    connection = sqlite3.connect(ledger.path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_a_sound_ledger_with_its_releases(plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path) -> None:
    options: dict[str, Any] = {"ledger": ledger, "dataset": "survey"}
    plan.run(DATA, BUDGET, output=tmp_path / "x", **options)
    plan.run(DATA, BUDGET, mechanism="adaptive", output=tmp_path / "y", **options)
    outcome = verify(ledger.path, tmp_path / "x", tmp_path / "y")
    assert outcome.is_sound
    assert [(r.entry, r.problems) for r in outcome.releases] == [(4, ()), (5, ())]
    assert (outcome.problems, outcome.unfinished) == ((), ())
    assert outcome.snapshot.spent == Fraction(3, 7) + Fraction(2, 9)


TAMPERED: dict[str, tuple[list[str], str]] = {
    "no trigger": (["DROP TRIGGER entries_stay"], "trigger entries_stay is missing, without which"),
    "another trigger": (["CREATE TRIGGER t AFTER INSERT ON entries BEGIN SELECT 1; END"], "trigger t is none of a"),
    "a changed trigger": (
        [
            "DROP TRIGGER facts_stay",
            "CREATE TRIGGER facts_stay BEFORE UPDATE ON facts BEGIN SELECT 1; END",
        ],
        "trigger facts_stay was changed",
    ),
    "a charge removed": (
        ["DROP TRIGGER entries_remain", "DELETE FROM entries WHERE number = 2"],
        "entries were removed or renumbered: 3 charges were made, 2 are there",
    ),
    "the last charge removed": (
        ["DROP TRIGGER entries_remain", "DELETE FROM entries WHERE number = 3"],
        "entries were removed or renumbered: 3 charges were made, 2 are there",
    ),
    "more than the budget": (
        ["DROP TRIGGER entries_stay", "UPDATE entries SET rho = '6/7' WHERE number = 2"],
        "entry 3 exceeds the budget: rho 8/7 of 1",
    ),
    "another unit": (
        ["DROP TRIGGER entries_stay", "UPDATE entries SET contributions = 2 WHERE number = 2"],
        "entry 2 has contributions 2, the ledger has 1",
    ),
    "another dataset": (
        ["DROP TRIGGER entries_stay", "UPDATE entries SET dataset = NULL WHERE number = 2"],
        "entry 2 has dataset None, the ledger has 'survey'",
    ),
    "a row that cannot be": (
        [
            "PRAGMA writable_schema = ON",
            "UPDATE sqlite_master SET sql = replace(sql, 'value TEXT NOT NULL', 'value TEXT') WHERE name = 'facts'",
            "PRAGMA writable_schema = RESET",
            "DROP TRIGGER facts_closed",
            "INSERT INTO facts VALUES ('another', NULL)",
            "PRAGMA writable_schema = ON",
            "UPDATE sqlite_master SET sql = replace(sql, 'value TEXT', 'value TEXT NOT NULL') WHERE name = 'facts'",
        ],
        "the file is damaged: NULL value in facts.value",
    ),
}


@pytest.mark.parametrize("case", TAMPERED)
def test_what_charges_cannot_have_made_is_found(case: str, ledger: Ledger) -> None:
    assert verify(ledger.path).is_sound
    statements, message = TAMPERED[case]
    edit(ledger, *statements)
    outcome = verify(ledger.path)
    assert not outcome.is_sound
    assert any(message in problem for problem in outcome.problems), outcome.problems


def test_a_new_ledger_is_sound(tmp_path: pathlib.Path) -> None:
    Ledger.create(tmp_path / "new", qc.Budget(rho=1))
    assert verify(tmp_path / "new").is_sound


def test_a_ledger_of_format_1_is_checked_by_its_own_layout(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "old"
    shutil.copy(FORMAT_1, path)
    assert verify(path).is_sound
    Ledger(path).charge(Charge(rho=Fraction(1, 100), dataset="any", folder="/f", run="x (run abc)"))
    last = Ledger(path).entries[-1]
    assert (last.charge.dataset, last.charge.folder) == (None, ""), "that format has no place for them"
    (waiting,) = verify(path).unfinished
    assert waiting.folder is None
    assert waiting.looked == (tmp_path / "x.unfinished", pathlib.Path("x.unfinished").absolute())
    for text, found in (("[]", False), ("{", False), ('{"run": "other"}', False), ('{"run": "x (run abc)"}', True)):
        (tmp_path / "x.unfinished").mkdir(exist_ok=True)
        (tmp_path / "x.unfinished" / TERMS).write_text(text)
        assert (verify(path).unfinished[0].folder is not None) == found


def test_a_release_must_have_its_entry_with_the_same_terms(
    plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path
) -> None:
    plan.run(DATA, BUDGET, output=tmp_path / "unpaid")
    (release,) = verify(ledger.path, tmp_path / "unpaid").releases
    assert (release.entry, len(release.problems)) == (None, 1)
    assert "no entry of the ledger has this release" in release.problems[0]
    plan.run(DATA, BUDGET, ledger=ledger, dataset="survey", output=tmp_path / "x")
    trigger = "DROP TRIGGER entries_stay"
    edit(ledger, trigger, "UPDATE entries SET rho = '1/1000', noise = 'opendp' WHERE number = 4")
    (release,) = verify(ledger.path, tmp_path / "x").releases
    assert release.problems == (
        "entry 4 was charged with rho 1/1000, the release states 1/9",
        "entry 4 was charged with noise opendp, the release states rounded",
    )
    with pytest.raises(StorageError):
        verify(ledger.path, tmp_path / "nowhere")


@pytest.mark.parametrize("most", [None, 5])
def test_a_release_of_counts_was_paid_for_by_its_charge(
    most: int | None, plan: qc.Plan, tmp_path: pathlib.Path
) -> None:
    """The ledger notes each unit of the column as the privacy unit; the release states the column."""
    made = Ledger.create(tmp_path / "l", qc.Budget(rho=1))
    counts: dict[str, Any] = {"count_column": "n", "max_count": most}
    plan.run({"a": [0, 1], "n": [2, 3]}, BUDGET, ledger=made, output=tmp_path / "x", **counts)
    (release,) = verify(made.path, tmp_path / "x").releases
    assert (release.entry, release.problems) == (1, ())
    edit(made, "DROP TRIGGER entries_stay", "UPDATE entries SET unit = 'another'")
    (release,) = verify(made.path, tmp_path / "x").releases
    assert "entry 1 was charged with unit another" in release.problems[0]


@pytest.mark.parametrize("version", ["1", "2", "3", "6"])
def test_a_release_of_an_old_format_was_paid_for_by_its_charge(version: str, tmp_path: pathlib.Path) -> None:
    """Its entry has the hash of the plan as it was in that format."""
    path = FORMAT_1.with_name(f"release-{version}.release")
    terms = json.loads(members(path)["document.json"])["provenance"]
    made = Ledger.create(tmp_path / "l", qc.Budget(rho=1))
    charge = Charge(rho=Fraction(terms["charge"]), plan=terms["plan_hash"], mechanism="batch", noise=terms["noise"])
    made.record(made.charge(charge), path.name, stated_hash(path, KIND))
    (release,) = verify(made.path, path).releases
    assert (release.entry, release.problems) == (1, ())


def test_measurements_of_a_large_release_are_verified(
    plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hash is that of what its manifest lists: the measurements must be what the manifest says."""
    plan.run(DATA, BUDGET, ledger=ledger, dataset="survey", output=tmp_path / "x")
    contents = members(tmp_path / "x")
    name = next(n for n in contents if n.startswith("measured"))
    changed = contents[name][:-1] + bytes([contents[name][-1] ^ 1])
    rewrite(tmp_path / "y", {**contents, name: changed})
    monkeypatch.setattr(files, "IN_MEMORY", 0)
    assert verify(ledger.path, tmp_path / "x").is_sound
    with pytest.raises(StorageError, match="has the wrong hash"):
        verify(ledger.path, tmp_path / "y")


def test_a_release_that_could_not_be_noted_is_matched_by_its_name_and_terms(
    plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: Any) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "record", refuses)
        with pytest.warns(UserWarning, match="could not be updated"):
            plan.run(DATA, BUDGET, ledger=ledger, dataset="survey", output=tmp_path / "x")
    (release,) = verify(ledger.path, tmp_path / "x").releases
    assert "entry 4 was charged for a run to this name on the same terms, and has no release" in release.problems[0]
    edit(ledger, "DROP TRIGGER entries_stay", "UPDATE entries SET rho = '1/1000' WHERE number = 4")
    (release,) = verify(ledger.path, tmp_path / "x").releases
    assert release.problems[0].endswith("another ledger paid for it, or none")


def test_what_is_unfinished_says_what_can_be_done(
    plan: qc.Plan,
    ledger: Ledger,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "elsewhere").mkdir()
    output = tmp_path / "elsewhere" / "x"
    crash(plan, ledger, output, monkeypatch)
    folder = folder_of(output)
    (waiting,) = verify(ledger.path).unfinished
    assert (waiting.number, waiting.folder) == (4, folder)
    assert verify(ledger.path).is_sound
    for command in ("show", "verify"):
        assert execute(["ledger", command, str(ledger.path)]) == 0
        shown = capsys.readouterr().out
        assert f"{folder} is there: finish it with the same command and --resume" in shown
        assert execute(["ledger", command, str(ledger.path), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["unfinished"] == [
            {"number": 4, "run": waiting.run, "folder": str(folder)}
        ]
    shutil.rmtree(folder)
    for command in ("show", "verify"):
        assert execute(["ledger", command, str(ledger.path)]) == 0
        assert f"{folder} is gone, so it cannot be resumed: the charge stays spent" in capsys.readouterr().out
    assert execute(["ledger", "verify", str(ledger.path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["unfinished"][0]["folder"] is None
    assert (shown["sound"], shown["spent"], shown["problems"], shown["releases"]) == (True, "34/63", [], [])


def test_the_command_says_what_is_wrong(
    plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan.run(DATA, BUDGET, ledger=ledger, dataset="survey", output=tmp_path / "x")
    command = ["ledger", "verify", str(ledger.path), str(tmp_path / "x")]
    assert execute(command) == 0
    out = capsys.readouterr().out
    assert f"{tmp_path / 'x'}: paid for by entry 4" in out
    assert out.endswith("  no problems\n")
    edit(ledger, "DROP TRIGGER entries_stay", "UPDATE entries SET rho = '1/8' WHERE number = 4")
    assert execute(command) == 2
    shown = capsys.readouterr()
    assert "problem: trigger entries_stay is missing" in shown.out
    assert "entry 4 was charged with rho 1/8, the release states 1/9" in shown.out
    assert "does not pass" in shown.err
    assert execute([*command, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["releases"][0]["entry"] == 4


def test_a_run_must_name_the_dataset_of_its_ledger(plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path) -> None:
    for name in (None, "census"):
        for output in (None, tmp_path / "x"):
            with pytest.raises(qc.BudgetError, match="is the account of the dataset 'survey'"):
                plan.run(DATA, BUDGET, ledger=ledger, dataset=name, output=output)
    assert len(ledger.entries) == 3
    assert os.listdir(tmp_path) == ["l"]
    plan.run(DATA, BUDGET, ledger=ledger, dataset="survey")
    assert [e.charge.dataset for e in ledger.entries] == ["survey"] * 4
