"""No control character of a plan, a release or a ledger reaches the terminal, whichever field it is in."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import sqlite3
from typing import Any

import numpy as np
import pytest

import qcompile as qc
from qcompile.api import compile
from qcompile.cli.app import execute
from qcompile.cli.output import workload_text
from qcompile.privacy.ledger.sqlite_file import triggers_sql
from qcompile.queries.factors import Marginal, Matrix, Predicate, Prefix
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, Policy, Schema
from qcompile.queries.workload import Family, Workload
from qcompile.support.text import printable_lines
from tests.unit.plan.test_files import edit, members, rewrite

EVIL = "\x1b[2J\u202e\x07\u2066\r\x9b31m\u200b"
"""Escape sequences, directions of writing, a bell, a carriage return, and a character without width."""

A = Attribute(f"a{EVIL}", IntegerDomain(0, 3), Policy("clip"))
B = Attribute(f"b{EVIL}", CategoryDomain((f"x{EVIL}", f"y{EVIL}")), Policy("other", f"z{EVIL}"))
COUNTS: dict[Any, Any] = {(A.name, B.name): np.arange(12).reshape(4, 3)}


def workload(weight: float = 1.0) -> Workload:
    families = (
        Family(f"one{EVIL}", f"text{EVIL}", (Prefix(A), Marginal(B)), weight, aliases=(f"alias{EVIL}",)),
        Family(f"two{EVIL}", f"text{EVIL}", (Matrix([A], np.eye(4), f"path{EVIL}"),)),
        Family(f"three{EVIL}", f"text{EVIL}", (Predicate([B], np.array([True, False, True]), f"q{EVIL}"),)),
    )
    return Workload(Schema((A, B)), families)


def forge_plan(document: dict[str, Any]) -> None:
    """Every text that qcompile writes itself."""
    for solution in document["solutions"]:
        solution["solver"] += EVIL
        solution["refused"] = [[f"route{EVIL}\nplan of", f"reason{EVIL}"]]
    document["options"]["strategies"] = []


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        plan = compile(workload(number), blocks=[[f"two{EVIL}"]] if number == 2 else False)
        plan.save(f"{number}.plan")
        rewrite(tmp_path / f"{number}.plan", edit(members(tmp_path / f"{number}.plan"), forge_plan))
    qc.Ledger.create("x.ledger", qc.Budget(rho=1))
    plan = qc.load_plan("2.plan")
    plan.run(COUNTS, qc.Budget(rho="1/2"), ledger="x.ledger", output="x.release", strict_values=True)
    rewrite(
        tmp_path / "x.release",
        edit(members(tmp_path / "x.release"), lambda d: d["provenance"].update(unit=f"unit{EVIL}")),
    )
    forge_ledger(tmp_path / "x.ledger")
    return tmp_path


def forge_ledger(path: pathlib.Path) -> None:
    """Every text of a ledger with its seals taken off and put back."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (name,) in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE facts SET value = value || ? WHERE name IN ('budget', 'time', 'version')", [EVIL])
        for column in ("time", "budget", "mechanism", "noise", "plan", "version", "release", "content", "folder"):
            connection.execute(f"UPDATE entries SET {column} = ? || {column}", [EVIL])
        connection.executescript(triggers_sql(2))
        connection.commit()


COMMANDS = [
    ["inspect", "2.plan"],
    ["inspect", "2.plan", "--json"],
    ["inspect", "2.plan", "--dot"],
    ["inspect", "2.plan", "--rho", "1"],
    ["inspect", "x.release"],
    ["inspect", "x.release", "--json"],
    ["diff", "1.plan", "2.plan"],
    ["diff", "1.plan", "2.plan", "--json"],
    ["answers", "x.release"],
    *(["answers", "x.release", f"{name}{EVIL}"] for name in ("one", "two", "three", "alias", "none")),
    ["ask", "x.release", "count(`a` = 1)"],
    ["ledger", "show", "x.ledger"],
    ["ledger", "show", "x.ledger", "--json"],
    ["run", "2.plan", "--rho", "1/4", "--dry-run", "--verbose"],
    ["run", "2.plan", "--rho", "1/4", "--dry-run", "--ledger", "x.ledger"],
    ["run", "1.plan", "--rho", "1/4", "--dry-run", "--mechanism", "adaptive", "-o", f"o{EVIL}"],
    ["check", f"no{EVIL}.q"],
]


def test_no_command_prints_a_control_character(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes = []
    for command in COMMANDS:
        codes.append(execute(command))
        for text in capsys.readouterr():
            assert text.replace("\n", "").replace("\t", "").isprintable(), (command, text)
            assert "\nplan of not used" not in text
    assert codes.count(0) >= 12
    assert not {1} & {*codes}


def test_a_workload_is_printed_as_it_is_but_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, expected in ((io.StringIO(), f"a{EVIL}\n"), (Terminal(), printable_lines(f"a{EVIL}\n"))):
        monkeypatch.setattr("sys.stdout", stream)
        workload_text(f"a{EVIL}\n")
        assert stream.getvalue() == expected


def test_lines_and_tabs_stay() -> None:
    text = "one\n\ttwo\n"
    assert printable_lines(text) == text
    assert json.loads(f'"{printable_lines(chr(27))}"'.replace("\\x", "\\u00")) == "\x1b"
