"""The page on data works as it stands: its files, its commands, what they print, and its table of values."""

from __future__ import annotations

import contextlib
import pathlib
import re
import shlex

import pytest

import qcompile as qc
from qcompile.cli.app import execute
from qcompile.data import read
from qcompile.errors import DataError

PAGE = (pathlib.Path(__file__).resolve().parents[3] / "docs" / "data.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def tables() -> list[list[list[str]]]:
    """The page's tables as rows of cells, without their heads' rules; backquotes and what is in them stay."""
    found: list[list[list[str]]] = []
    for lines in re.findall(r"(?:^\|.*\|\n)+", PAGE, re.MULTILINE):
        rows = [
            [cell.removeprefix(" ").removesuffix(" ") for cell in line[1:-1].split("|")] for line in lines.splitlines()
        ]
        found.append([row for row in rows if set("".join(row)) != {"-"}])
    return found


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    (raw,) = blocks("csv")
    visits, strict = blocks("text")
    for name, text in {"visits.csv": raw, "visits.q": visits, "strict.q": strict}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_and_what_they_print(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = ""
    for line in "".join(blocks("sh")).splitlines():
        assert execute(shlex.split(line)[1:]) == 0, line
        shown += capsys.readouterr().err
    facts, refusal = blocks("console")
    assert facts in shown
    command, _, message = refusal.partition("\n")
    assert execute(shlex.split(command)[2:]) == 2
    assert message in capsys.readouterr().err


def test_two_rows_of_a_person_count_and_errors_double(folder: pathlib.Path) -> None:
    plan = qc.compile(folder / "visits.q", contributions=2)
    assert plan.rmse() == pytest.approx(2 * qc.compile(folder / "visits.q").rmse())
    schema = plan.workload.schema
    assert read(folder / "visits.csv", schema, unit="person", contributions=2, leave_out=True).total == 7
    assert read(folder / "visits.csv", schema, unit="person", contributions=1, leave_out=True).total == 5


def test_bins_are_cut_at_their_edges(folder: pathlib.Path) -> None:
    release = qc.compile(folder / "visits.q").run({n: [] for n in ("age", "ward", "days", "smoker")}, qc.Budget(rho=1))
    assert release.ask("count(days < 3)").std_error > 0
    with pytest.raises(qc.WorkloadError, match="can be cut at its edges only"):
        release.ask("count(days < 2)")


def labels(domain: str, policy: str, fields: list[str], folder: pathlib.Path) -> list[str]:
    """The cells of the fields of a CSV file."""
    path = folder / "fields.csv"
    path.write_text("x,y\n" + "".join(f"{field},\n" for field in fields), encoding="utf-8")
    (attribute,) = schema = qc.parse(f"schema {{ x : {domain} {policy} }}\nworkload {{ total }}").schema
    return [attribute.label(code) for code in read(path, schema).codes["x"].tolist()]


ENDS = {
    "integer 0..9": {"0": "below", "9": "above"},
    "numeric [0, 2.5, 10)": {"[0, 2.5)": "below", "[2.5, 10)": "above"},
}


def places(domain: str, fields: list[str], folder: pathlib.Path) -> list[str]:
    """A column of the page's first table: what `other` leaves in its cell is below or above if `clip` can place it."""
    found = labels(domain, 'other "nowhere"', fields, folder)
    for i, field in enumerate(fields):
        if domain in ENDS and found[i] == "nowhere":
            with contextlib.suppress(DataError):
                found[i] = ENDS[domain][labels(domain, "clip", [field], folder)[0]]
    return found


def test_the_table_of_values(tmp_path: pathlib.Path) -> None:
    head, *rows = tables()[0]
    assert len(rows) >= 13
    fields = ["" if row[0] == "(nothing)" else row[0].strip("`") for row in rows]
    for column, title in enumerate(head[1:], start=1):
        assert places(title.strip("`"), fields, tmp_path) == [row[column] for row in rows], title


def test_the_table_of_policies(tmp_path: pathlib.Path) -> None:
    """For whole numbers from 0 to 9: -1 is below, 10 above, an empty field nowhere."""
    head, *rows = tables()[1]
    assert head == ["policy", "below", "above", "nowhere"]
    outcomes = {
        "the first cell": "0",
        "the last cell": "9",
        'the cell "label"': "label",
        "the row is dropped": "dropped",
    }
    for policy, *expected in rows:
        text = policy.strip("`").replace("none", "")
        (attribute,) = schema = qc.parse(f"schema {{ x : integer 0..9 {text} }}\nworkload {{ total }}").schema
        for field, outcome in zip(("-1", "10", ""), expected, strict=True):
            (tmp_path / "one.csv").write_text(f"x,y\n{field},\n")
            if outcome.startswith("refused"):
                with pytest.raises(DataError, match="attribute 'x' has nulls or values"):
                    read(tmp_path / "one.csv", schema)
                continue
            codes = read(tmp_path / "one.csv", schema).codes["x"].tolist()
            assert [attribute.label(c) for c in codes] == (
                [] if outcomes[outcome] == "dropped" else [outcomes[outcome]]
            )
        if "with a ledger" in expected[2]:
            assert read(tmp_path / "one.csv", schema, leave_out=True).total == 0
