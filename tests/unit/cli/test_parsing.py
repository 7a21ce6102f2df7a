"""Options that are given twice, of all commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from qcompile.cli.app import app, execute
from qcompile.cli.parsing import Commands, takes_one_value


def commands(command: Any, *words: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield all commands with the words that call them."""
    children = getattr(command, "commands", {})
    if not children:
        yield words, command
    for name, child in children.items():
        yield from commands(child, *words, name)


OPTIONS = [
    (words, name)
    for words, command in commands(typer.main.get_command(app))
    for parameter in command.params
    if takes_one_value(parameter)
    for name in parameter.opts
]


DATA = typer.Option([], "--data")


def test_all_commands_are_walked() -> None:
    assert {(("run",), "--unit"), (("ledger", "create"), "--rho"), (("schema", "draft"), "-o")} <= set(OPTIONS)
    assert len({words for words, _ in OPTIONS}) > 6


@pytest.mark.parametrize(("words", "option"), OPTIONS)
def test_an_option_with_two_values_is_refused(
    words: tuple[str, ...], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute([*words, option, "1", option, "2"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert option in error
    assert "given 2 times, but takes one value" in error


def test_two_spellings_are_one_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["run", "w.q", "-o", "a", "--output", "b", "--rho=1"]) == 2
    assert capsys.readouterr().err == (
        "error: -o or --output is given 2 times, but takes one value; keep one of them\n"
    )


def test_lists_counters_and_flags_may_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    group = Commands()

    @group.command()
    def show(
        data: list[str] = DATA,
        loud: int = typer.Option(0, "-l", count=True),
        quick: bool = typer.Option(False, "--quick"),
    ) -> None:
        print(data, loud, quick)

    command: Any = typer.main.get_command(group)
    words = ["--data", "a", "--data", "b", "-l", "-l", "--quick", "--quick"]
    assert command.main(words, standalone_mode=False) in (None, 0)
    assert capsys.readouterr().out == "['a', 'b'] 2 True\n"
