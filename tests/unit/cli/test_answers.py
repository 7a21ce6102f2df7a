"""``qcompile answers``: what is selected on the command line, and what is printed or written of it."""

from __future__ import annotations

import csv
import json
import pathlib
import shlex
from collections.abc import Callable
from typing import TypeAlias

import pyarrow.parquet
import pytest

from qcompile.api import Release
from qcompile.cli.app import execute
from qcompile.release.answers import selection

Ask: TypeAlias = Callable[..., tuple[str, str]]

WORKLOAD = """
schema { age : integer 0..4 clip
         job : category {"cook", "smith", "x=y"} other "else"
         pay : numeric [0, 10, 20) clip
         `a,b` : integer 0..1 clip
         `job=x` : category {"y", "n"} other "else" }
workload { ages : prefix(age) * marginal(job)
           two : each 1..2 of all
           odd : marginal(`a,b`) * marginal(`job=x`) * marginal(job) }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("answers")
    (path / "w.q").write_text(WORKLOAD)
    rows = [f"{i % 5},{('cook', 'smith')[i % 2]},{i % 20},{i % 2},{'yn'[i % 2]}" for i in range(100)]
    (path / "d.csv").write_text('age,job,pay,"a,b",job=x\n' + "\n".join(rows) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        assert execute(["run", "w.q", "--data", "d.csv", "--rho", "1e6", "--test-seed", "1", "-o", "w.release"]) == 0
    return path


@pytest.fixture
def ask(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    monkeypatch.chdir(folder)

    def found(line: str, code: int = 0) -> tuple[str, str]:
        capsys.readouterr()
        assert execute(["answers", "w.release", *shlex.split(line)]) == code
        return capsys.readouterr()

    return found


def test_of_and_where(ask: Ask, folder: pathlib.Path) -> None:
    out, err = ask("two --of job,age --where 'age=<= 4' --where job=cook --where job=else")
    assert out.splitlines()[1].split()[:4] == ["<=", "4", "cook", "50.0016"]
    assert len(out.splitlines()) == 3
    assert "pointwise 95 %" in err
    assert len(ask("two --of age")[0].splitlines()) == 6
    assert ask("two --of 'age, job'") == ask("two --of job,age")
    ask("two --of job,age --where 'age=<= 4' -o t.csv")
    with (folder / "t.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [r["job"] for r in rows] == ["cook", "smith", "x=y", "else"]
    assert list(rows[0]) == ["age", "job", "estimate", "std_error", "lower", "upper"]
    out, err = ask("two --of age --simultaneous")
    assert "over the selected answers" in err


def test_names_and_labels_with_commas_and_signs_of_equality(ask: Ask) -> None:
    assert len(ask("two --of a,b")[0].splitlines()) == 3
    assert len(ask("odd --where job=x=y")[0].splitlines()) == 1 + 2 * 4  # the longest column: `job=x`, label y
    assert len(ask("ages --where job=x=y")[0].splitlines()) == 6  # here there is only `job`, label x=y
    assert len(ask("odd --where a,b=1 --where job=cook --where job=x=n")[0].splitlines()) == 2


def test_formats_agree(ask: Ask, folder: pathlib.Path) -> None:
    for ending in ("parquet", "jsonl"):
        ask(f"ages -o t.{ending} --all")
    rows = pyarrow.parquet.read_table(folder / "t.parquet").to_pylist()
    assert [json.loads(line) for line in (folder / "t.jsonl").read_text().splitlines()] == rows
    assert len(rows) == 20
    ask("ages --estimate best -o best.csv")
    with (folder / "best.csv").open() as stream:
        assert next(csv.DictReader(stream))["note"].startswith("best, reference")


def test_a_huge_family_is_printed_by_its_head_and_written_by_intent_only(
    ask: Ask,
    folder: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(selection, "MOST_ROWS", 10)
    assert "... 17 more rows" in ask("ages --limit 3")[0]
    before = sorted(folder.iterdir())
    for line in ("ages -o huge.csv", "ages --limit 0"):
        out, err = ask(line, 2)
        assert not out
        assert "the 20 answers of 'ages' is more than the 10 rows" in err
        assert "--of" in err
        assert "--all -o FILE" in err
    assert sorted(folder.iterdir()) == before
    assert "20 answers written to huge.csv" in ask("ages -o huge.csv --all")[0]
    assert len((folder / "huge.csv").read_text().splitlines()) == 21
    (folder / "huge.csv").unlink()


MISTAKES = {
    "ages --of agee": "unknown attribute 'agee'",
    "ages --of age": "no product over exactly age",
    "ages --where agee=1": "no label column 'agee'; did you mean 'age'?",
    "ages --where age": "'age' must be COLUMN=LABEL",
    "ages --where 'age=<= 7'": "no row has the label '<= 7'",
    "agess --where 'age=<= 7'": "did you mean 'ages'?",
    "ages --all": "say which with -o",
    "--of age": "name it after the release",
    "-o t.csv": "name it after the release",
    "ages -o t.doc --of agee": "cannot tell the format",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_mistakes(line: str, ask: Ask, folder: pathlib.Path) -> None:
    before = sorted(folder.iterdir())
    out, err = ask(line, 2)
    assert MISTAKES[line] in err
    assert not out
    assert sorted(folder.iterdir()) == before


def test_the_list_of_families_computes_what_it_shows(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    from qcompile.api import Plan

    seen, errors = [], Plan.family_errors

    def family_errors(self: Plan, family: object) -> object:
        seen.append(family)
        return errors(self, family)  # type: ignore[arg-type]

    monkeypatch.setattr(Plan, "family_errors", family_errors)
    out, _ = ask("--limit 1")
    assert len(seen) == 1
    assert "ages" in out
    assert "... 2 more rows" in out
    assert "odd" in ask("")[0]


def test_the_head_is_made_of_few_products(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    from qcompile.release.answers import tables

    monkeypatch.setattr(tables, "FIRST", 1)
    nodes, measured = set(), Release.measured

    def watched(self: Release, node: int) -> object:
        nodes.add(self.plan.closure.names(self.plan.closure.nodes[node]))
        return measured(self, node)

    monkeypatch.setattr(Release, "measured", watched)
    ask("two --limit 2")
    assert nodes <= {(), ("age",), ("job",)}
