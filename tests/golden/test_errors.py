"""Deliberate mistakes with the full text that is printed for each.

A golden file holds cases, each ``=== title``, the input, ``---``, the output. Read the outputs as a newcomer would.
``pytest tests/golden --update-golden`` rewrites them.
"""

from __future__ import annotations

import pathlib
import re

import pytest

from qcompile.grammar import check

FOLDER = pathlib.Path(__file__).parent / "errors"
FILES = sorted(FOLDER.glob("*.txt"))
LEAST_CASES = 45


def cases(text: str) -> list[tuple[str, str, str]]:
    """Title, input and expected output of each case."""
    found = []
    for block in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]:
        title, _, body = block.partition("\n")
        source, _, expected = body.partition("\n---\n")
        found.append((title, source, expected.rstrip("\n")))
    return found


def output(source: str) -> str:
    """All that is printed about an input, with a last line that says whether it was accepted."""
    workload, diagnostics = check(source, "case.q", FOLDER)
    return "\n".join([*map(str, diagnostics), "accepted" if workload is not None else "refused"])


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_messages(file: pathlib.Path, request: pytest.FixtureRequest) -> None:
    found = cases(file.read_text(encoding="utf-8"))
    actual = [(title, source, output(source)) for title, source, _ in found]
    if request.config.getoption("--update-golden", default=False):
        text = "\n".join(f"=== {title}\n{source}\n---\n{out}\n" for title, source, out in actual)
        file.write_text(text, encoding="utf-8")
        return
    assert actual == found


def test_enough_cases() -> None:
    assert sum(len(cases(f.read_text(encoding="utf-8"))) for f in FILES) >= LEAST_CASES
