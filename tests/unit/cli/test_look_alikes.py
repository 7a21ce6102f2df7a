"""Attributes and labels of several scripts that look the same."""

from __future__ import annotations

import pathlib

import pytest

from qcompile.cli.app import execute


def test_check_warns_of_names_that_look_the_same(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "w.q"
    path.write_text(
        'schema { a : integer 0..9\n \u0430 : integer 0..9\n b : category {"COP", "\u0421\u041e\u0420", "x", "y"} }\n'
        "workload { t : marginal(a, \u0430) }\n"
    )
    assert execute(["check", str(path)]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "warning: attributes 'a' and '\\u0430' look the same, as '\u0430', but have letters of different scripts",
        "warning: labels of 'b': 'COP' and '\\u0421\\u041e\\u0420' look the same, as '\u0421\u041e\u0420', but have "
        "letters of different scripts",
    ]


def test_names_of_one_script_are_no_warning(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "w.q"
    path.write_text(
        "schema { \u0430 : integer 0..9\n \u0431 : integer 0..9 } workload { t : marginal(\u0430, \u0431) }\n"
    )
    assert execute(["check", str(path)]) == 0
    assert capsys.readouterr().err == ""
