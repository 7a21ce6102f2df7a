"""What the README and the pages of docs show works as it stands."""

from __future__ import annotations

import pathlib
import re
import shlex

import numpy as np
import pytest

from qcompile.cli.app import execute
from qcompile.grammar import check

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted((ROOT / "docs").glob("*.md"))
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def block(language: str, start: str) -> str:
    """The only fenced block of a language that begins like this."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    (text,) = [str(b) for b in found if b.startswith(start)]
    return text


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder with the README's workload and a made table."""
    (tmp_path / "couples.q").write_text(block("text", "schema {"))
    rng = np.random.default_rng(1)  # a made table, not noise
    rows = np.column_stack([rng.integers(18, 80, 500), rng.integers(18, 80, 500), rng.integers(0, 2, 500)])
    lines = [",".join(map(str, row)) for row in rows.tolist()]
    (tmp_path / "couples.csv").write_text("\n".join(["husage,age,kidlt6", *lines]) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_commands(folder: pathlib.Path) -> None:
    commands = block("sh", "qcompile check").splitlines()
    assert len(commands) == 6
    for line in commands:
        assert execute(shlex.split(line)[1:]) == 0, line
    for line in block("sh", "qcompile ledger").splitlines():
        assert execute(shlex.split(line)[1:]) == 0, line


def test_python(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(block("python", "import qcompile"), {})
    assert "plan of qcompile" in capsys.readouterr().out


@pytest.mark.parametrize("page", [p for p in PAGES if PYTHON.search(p.read_text())], ids=lambda page: page.name)
def test_pages(page: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The Python blocks of a page run one after the other, like a session."""
    exec("\n".join(PYTHON.findall(page.read_text(encoding="utf-8"))), {})
    assert capsys.readouterr().out


def test_the_example_of_the_language_has_no_mistake() -> None:
    text = (ROOT / "docs" / "language.md").read_text(encoding="utf-8").split("```text\n")[1].split("```")[0]
    workload, findings = check(text)
    assert workload is not None
    assert findings == ()


def test_what_the_pages_name_exists() -> None:
    """Tests, modules and pages that a page appeals to; a line of the threat model is no better than its test."""
    named = {n for p in PAGES for n in re.findall(r"(?:tests|qcompile|docs|examples)/[\w/.-]*\w", p.read_text())}
    linked = {f"docs/{n}" for p in PAGES for n in re.findall(r"\]\((\w[\w./-]*\.md)\)", p.read_text())}
    assert len(named) > 12
    assert linked
    assert [n for n in sorted(named | linked) if not (ROOT / n).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tests_that_a_page_names_without_a_folder_exist(page: pathlib.Path) -> None:
    text = page.read_text(encoding="utf-8")
    there = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert set(re.findall(r"\btest_\w+\.py", text)) <= there
