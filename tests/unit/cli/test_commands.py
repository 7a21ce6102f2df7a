"""The command line on good input, and its last line of defence."""

from __future__ import annotations

import csv
import importlib.metadata
import io
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
from fractions import Fraction

import pyarrow.feather
import pyarrow.parquet
import pytest

from qcompile.cli import output
from qcompile.cli.app import execute, main
from qcompile.cli.commands import check as check_command
from qcompile.cli.commands import doctor as doctor_command
from qcompile.errors import InternalError
from qcompile.privacy.budget import Budget
from qcompile.privacy.exact_numbers import rounded_text
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.version import __version__

WORKLOAD = """# a comment
schema { age : integer 0..9
         job : category {"cook", "smith"} }
workload { ages : prefix(age)
           both : each 2 of all }
"""
COMMAND = pathlib.Path(sys.executable).with_name("qcompile")
COMMANDS = ("check", "fmt", "compile", "inspect", "run", "answers", "ask", "budget", "diff", "doctor")


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    (tmp_path / "w.q").write_text(WORKLOAD)
    rows = [f"{i % 10},{'cook' if i % 3 else 'smith'}" for i in range(100)]
    (tmp_path / "data.csv").write_text("age,job\n" + "\n".join(rows) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def good(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    capsys.readouterr()
    assert execute(arguments) == 0
    return capsys.readouterr()


@pytest.fixture
def released(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> pathlib.Path:
    good(capsys, "run", "w.q", "--data", "data.csv", "--rho", "100000", "--test-seed", "3", "-o", "w.release")
    return folder / "w.release"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--centring", "optimised"], "weighted centring, no blocks"),
        (["--blocks", "auto"], "uniform centring, 1 block: total squared error"),
        (["--centring", "optimised", "--blocks", "yes", "--workers", "1"], "total squared error 7.6 % below"),
        (["--solver", "conic", "--gap", "1e-4"], ""),
        (["--solver", "rp+", "--strategy", "age=haar", "--strategy", "job=identity"], ""),
    ],
)
def test_designs(folder: pathlib.Path, capsys: pytest.CaptureFixture[str], options: list[str], found: str) -> None:
    good(capsys, "compile", "w.q")
    shown = good(capsys, "compile", "w.q", *options, "-o", "other.plan")[0]
    assert found in shown
    changes = json.loads(good(capsys, "diff", "w.plan", "other.plan", "--json")[0])
    assert changes["same"] is False
    assert "design" in good(capsys, "inspect", "other.plan")[0]
    good(capsys, "run", "other.plan", "--data", "data.csv", "--rho", "1", "-o", "w.release")
    assert good(capsys, "answers", "w.release", "ages")[0]


def test_check(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert good(capsys, "check", "w.q") == ("w.q: ok, 30 queries in 2 families over 2 views\n", "")
    assert json.loads(good(capsys, "check", "w.q", "--json")[0]) == []
    (folder / "w.q").write_text(WORKLOAD.replace("prefix(age)", "prefix(agee)"))
    assert execute(["check", "w.q", "--json"]) == 2
    (finding,) = json.loads(capsys.readouterr().out)
    assert (finding["line"], finding["column"], finding["hint"]) == (4, 26, "did you mean 'age'?")


def test_fmt(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "w.q"
    assert execute(["fmt", "w.q", "--check"]) == 2
    assert file.read_text() == WORKLOAD
    shown = good(capsys, "fmt", "w.q", "--stdout")[0]
    assert file.read_text() == WORKLOAD
    assert good(capsys, "fmt", "w.q")[0] == "w.q: rewritten\n"
    assert file.read_text() == shown
    assert "# a comment" in shown
    assert good(capsys, "fmt", "w.q")[0] == "w.q: already in canonical form\n"
    good(capsys, "fmt", "w.q", "--check")


def test_fmt_as_a_filter(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(WORKLOAD))
    assert good(capsys, "fmt", "-") == good(capsys, "fmt", "w.q", "--stdout")
    assert [f.name for f in folder.iterdir() if f.suffix == ".q"] == ["w.q"]


def test_compile_and_inspect(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "saved in w.plan" in good(capsys, "compile", "w.q")[0]
    text = good(capsys, "inspect", "w.plan")[0]
    assert text == good(capsys, "inspect", "w.q")[0]
    found = json.loads(good(capsys, "inspect", "w.plan", "--json")[0])
    assert {"version", "schema", "queries", "views", "nodes", "classes", "sse", "rmse", "gap"} <= set(found)
    assert found["queries"] == 30
    wanted = {"attributes", "members", "cells", "rank", "solver", "loss", "bound", "gap"}
    assert all(wanted <= set(c) for c in found["classes"])
    assert good(capsys, "inspect", "w.plan", "--dot")[0].startswith("digraph lattice {")
    assert "predicted errors at epsilon 1" in good(capsys, "inspect", "w.plan", "--epsilon", "1", "--delta", "1e-9")[0]


def test_run_says_its_charge_first(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = good(capsys, "run", "w.q", "--data", "data.csv", "--rho", "1/49", "-o", "w.release")
    assert out.startswith("charge: rho 1/49 (epsilon 1.17565 at delta 1e-9)\n")
    assert err == ""
    assert "charge       rho 1/49" in good(capsys, "inspect", "w.release")[0]


def test_run_on_a_header_alone(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "none.csv").write_text("age,job\n")
    good(capsys, "run", "w.q", "--data", "none.csv", "--rho", "1e9", "--test-seed", "1", "-o", "w.release")
    found = json.loads(good(capsys, "ask", "w.release", "total", "--json")[0])
    assert abs(found["estimate"]) < 1


def test_compile_where_asked(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {f.name for f in folder.iterdir()}
    assert "saved in other.plan" in good(capsys, "compile", "w.q", "-o", "other.plan", "--contributions", "2")[0]
    assert {f.name for f in folder.iterdir()} - before == {"other.plan"}


def test_inputs_are_never_written_over(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither by their name nor through a link to them."""
    (folder / "link.csv").symlink_to("data.csv")
    before = (folder / "data.csv").read_bytes()
    for name in ("data.csv", "link.csv", "../" + folder.name + "/data.csv"):
        assert execute(["run", "w.q", "--data", "data.csv", "--rho", "1", "-o", name]) == 2
        assert "would overwrite data.csv" in capsys.readouterr().err
    assert (folder / "data.csv").read_bytes() == before
    assert (folder / "link.csv").is_symlink()
    assert execute(["compile", "w.q", "-o", "w.q"]) == 2
    assert (folder / "w.q").read_text() == WORKLOAD


def test_dry_run_touches_nothing(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(folder.iterdir())
    out, _ = good(capsys, "run", "w.q", "--epsilon", "1", "--delta", "1e-9", "--dry-run")
    assert out.startswith("charge: epsilon 1, delta 1e-9 (rho 0.0149731)\n")
    verbose, _ = good(capsys, "run", "w.q", "--epsilon", "1", "--delta", "1e-9", "--dry-run", "-v")
    assert "exactly: rho 8631380090799389/576460752303423488; epsilon 1 at delta 1e-9 (zcdp), rho 0.0149731" in verbose
    assert out.endswith("dry run: nothing was read, nothing was spent\n")
    assert sorted(folder.iterdir()) == before


def test_not_private_is_said(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ("run", "w.q", "--data", "data.csv", "--rho", "1", "-o", "w.release")
    assert "NOT PRIVATE: made without noise" in good(capsys, *run, "--noise", "none")[1]
    assert "NOT PRIVATE" in good(capsys, "ask", "w.release", "total")[1]


def test_output_does_not_depend_on_the_data(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ("run", "w.q", "--data", "data.csv", "--rho", "1", "-o", "w.release")
    first = good(capsys, *run)
    (folder / "data.csv").write_text("age,job\n0,cook\n")
    (folder / "w.release").unlink()
    assert good(capsys, *run) == first


def test_answers(released: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "ages" in good(capsys, "answers", "w.release")[0]
    out, err = good(capsys, "answers", "w.release", "ages")
    assert len(out.splitlines()) == 11
    assert "pointwise 95 %" in err
    assert "simultaneous 95 %" in good(capsys, "answers", "w.release", "ages", "--simultaneous")[1]
    assert "... 8 more rows" in good(capsys, "answers", "w.release", "ages", "--limit", "2")[0]


def test_answers_in_every_format(released: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = ["age", "estimate", "std_error", "lower", "upper"]
    for ending in ("csv", "parquet", "arrow", "jsonl"):
        good(capsys, "answers", "w.release", "ages", "-o", f"ages.{ending}")
    folder = released.parent
    with (folder / "ages.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [r["age"] for r in rows] == [f"<= {i}" for i in range(10)]
    assert [round(float(r["estimate"])) for r in rows] == [10 * (i + 1) for i in range(10)]  # rho is huge
    assert pyarrow.parquet.read_table(folder / "ages.parquet").column_names == columns
    assert pyarrow.feather.read_table(folder / "ages.arrow").column_names == columns
    assert list(json.loads((folder / "ages.jsonl").read_text().splitlines()[0])) == columns


def test_ask(released: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "std error" in good(capsys, "ask", "w.release", "count(age in 2..5)")[0]
    found = json.loads(good(capsys, "ask", "w.release", "count(age in 2..5)", "--json")[0])
    assert found["lower"] < found["estimate"] < found["upper"]
    assert round(found["estimate"]) == 40
    assert found["notes"] == []


def test_ask_says_where_values_outside_of_a_domain_are(
    released: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note = "'age' holds 0..9, and no row has another value"
    assert f"note: {note}\n" in good(capsys, "ask", "w.release", "count(age in 2..50)")[1]
    out, err = good(capsys, "ask", "w.release", "count(age in 2..50)", "--json")
    assert (json.loads(out)["notes"], note in err) == ([note], False)
    for options in ([], ["--json"]):
        assert execute(["ask", "w.release", "count(age > 9)", *options]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "<query>:1:7: error: no row can meet age > 9, so its count is always 0" in err


def test_compile_prints_the_notes_of_the_workload(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "w.q").write_text('schema { a : integer 0..9 other "?" }\nworkload { count(a != 1); prefix(a) }')
    err = good(capsys, "compile", "w.q")[1]
    assert "w.q:2:18: note: a != 1 also counts the rows where 'a' is \"?\"" in err


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert good(capsys, "doctor")[0].endswith("everything works\n")


def test_doctor_reports_what_is_broken(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clarabel", None)
    assert execute(["doctor"]) == 1
    assert "BROKEN  clarabel" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("script", "state"),
    [
        ("echo 'openjdk version \"21.0.2\" 2024-01-16' >&2", "ok      java"),
        ("echo 'java version \"1.8.0_292\"' >&2", "too old java"),
        ("echo 'openjdk version \"11.0.1\"'", "too old java"),
        ("echo 'Unable to locate a Java Runtime' >&2; exit 1", "absent  java"),
        ("sleep 60", "absent  java"),
        ("echo nothing", "absent  java"),
    ],
)
def test_doctor_asks_java_for_its_version(
    script: str, state: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program of that name may be old, or stand for one that is not installed."""
    program = tmp_path / "java"
    program.write_text(f"#!/bin/sh\n{script.replace('sleep', 'exec sleep')}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(doctor_command, "JAVA_SECONDS", 1)
    monkeypatch.setattr(doctor_command, "DEPENDENCIES", {})
    for check in ("_noise", "_pipeline", "_ledger"):
        monkeypatch.setattr(doctor_command, check, lambda: "")
    assert state in good(capsys, "doctor")[0]


def test_one_measurement_is_one(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.q").write_text("schema { a : integer 0..4 clip } workload { t : total }")
    out = good(capsys, "run", str(tmp_path / "t.q"), "--rho", "1/2", "--dry-run")[0]
    assert "1 measurement on 1 node, noise scale 1;" in out


def test_doctor_checks_every_dependency() -> None:
    needed = importlib.metadata.requires("qcompile") or []
    names = {re.split(r"[^A-Za-z0-9_-]", text)[0] for text in needed if "extra ==" not in text}
    assert names == set(doctor_command.DEPENDENCIES)


def test_doctor_finds_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert doctor_command._java_version() is None


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Example: qcompile" in " ".join(good(capsys, command, "--help")[0].split())


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert good(capsys, "--version")[0] == f"qcompile {__version__}\n"


def test_internal_error(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(text: str) -> None:
        raise RuntimeError("a secret of the data")

    monkeypatch.setattr(check_command, "result", broken)
    assert execute(["check", "w.q"]) == 1
    err = capsys.readouterr().err
    assert "internal error: RuntimeError; please report it" in err
    assert "secret" not in err
    monkeypatch.setenv("QCOMPILE_DEBUG", "1")
    with pytest.raises(RuntimeError):
        execute(["check", "w.q"])


def test_internal_error_as_a_process() -> None:
    """Exit code 1 either way; the traceback only for who asks for it."""
    program = (
        "import sys; from qcompile.cli import app, output\n"
        "import qcompile.grammar\n"
        "def broken(file): raise RuntimeError('a secret of the data')\n"
        "qcompile.grammar.read_text = broken\n"
        "app.main(['check', 'w.q'])"
    )
    for debug, traceback in (("0", False), ("1", True)):
        environment = {**os.environ, "QCOMPILE_DEBUG": debug}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        assert done.returncode == 1
        assert done.stdout == ""
        assert ("Traceback" in done.stderr, "secret" in done.stderr) == (traceback, traceback)


def test_streams_of_a_process(folder: pathlib.Path) -> None:
    """Results on stdout, messages on stderr, no colours in either."""
    (folder / "bad.q").write_text(WORKLOAD.replace("prefix(age)", "prefix(agee)"))
    done = subprocess.run([COMMAND, "check", "bad.q"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bad.q:4:26: error: unknown attribute 'agee'")
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_early_is_no_error(folder: pathlib.Path, unbuffered: str) -> None:
    """Whether the pipe turns out closed while the command prints or at the last flush."""
    source, sink = os.pipe()
    os.close(source)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with os.fdopen(sink, "wb") as closed:
        done = subprocess.run([COMMAND, "check", "w.q"], stdout=closed, stderr=subprocess.PIPE, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("streams", [("stdout",), ("stdout", "stderr")])
def test_a_run_whose_reader_leaves_early_is_finished(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str], unbuffered: str, streams: tuple[str, ...]
) -> None:
    good(capsys, "ledger", "create", "l.ledger", "--rho", "1")
    source, sink = os.pipe()
    os.close(source)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    words = ["run", "w.q", "--data", "data.csv", "--rho", "1/2", "--ledger", "l.ledger", "--strict-values", "-o", "r"]
    with os.fdopen(sink, "wb") as closed:
        done = subprocess.run([COMMAND, *words], **dict.fromkeys(streams, closed), env=environment)  # type: ignore[call-overload]
    assert done.returncode == 0
    assert (folder / "r").exists()
    assert Ledger("l.ledger").snapshot.spent == Fraction(1, 2)


def test_a_help_text_without_a_reader_is_no_success() -> None:
    source, sink = os.pipe()
    os.close(source)
    with os.fdopen(sink, "wb") as closed:
        done = subprocess.run([COMMAND, "run", "--help"], stdout=closed, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (1, b"")


def test_interrupt(folder: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(check_command, "result", interrupted)
    assert execute(["check", "w.q"]) == 130
    assert capsys.readouterr() == ("", "interrupted\n")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("", "Usage: qcompile"),
        ("no-such-command", "no-such-command"),
        ("check", "FILE"),
        ("run w.q --rho 1 --no-such-option", "--no-such-option"),
        ("compile w.q --gap small", "--gap"),
        ("compile w.q --contributions 1.5", "--contributions"),
        ("run w.q --rho 1 --test-seed x", "--test-seed"),
        ("answers w.release ages --limit -1", "--limit"),
    ],
)
def test_usage_errors(line: str, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The parser words these, in its own way in every version; only what they name is ours."""
    assert execute(line.split()) == 2
    out, err = capsys.readouterr()
    assert named in out + err
    assert "Traceback" not in out + err


def test_main_exits_with_the_code() -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["no-such-command"])


def test_check_is_quick_as_a_process(folder: pathlib.Path) -> None:
    """Under a second of processor time for a page-long file, start-up included; clocks on a busy machine say less."""
    shutil.copy(pathlib.Path(__file__).resolve().parents[3] / "examples" / "couples" / "couples.q", folder / "page.q")
    command = pathlib.Path(sys.executable).with_name("qcompile")
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([command, "check", "page.q"], capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert done.stdout.startswith("page.q: ok")
    assert done.stderr == ""
    assert min(seconds) < 1


@pytest.mark.parametrize(
    "option", [("--noise", "laplace"), ("--mechanism", "magic"), ("--test-seed", "-1"), ("--max-memory", "10B")]
)
def test_dry_run_refuses_what_the_run_would(folder: pathlib.Path, option: tuple[str, str]) -> None:
    assert execute(["run", "w.q", "--rho", "1", "--dry-run", *option]) == 2


def test_plans_are_not_called_like_workloads(folder: pathlib.Path) -> None:
    assert execute(["compile", "w.q", "-o", "other.q"]) == 2
    assert not (folder / "other.q").exists()


def test_huge_workloads_are_checked_at_once(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    attributes = "\n".join(f"a{i} : integer 0..9" for i in range(60))
    (folder / "big.q").write_text(f"schema {{\n{attributes}\n}}\nworkload {{ e : each 1..5 of all }}\n")
    assert "over at most 5,985,197 views" in good(capsys, "check", "big.q")[0]


def test_labels_cannot_control_the_terminal(folder: pathlib.Path) -> None:
    (folder / "esc.q").write_text(
        'schema { c : category {"\\u001b[31m", "caf\\u00e9"} }\nworkload { m : marginal(c) }\n', encoding="utf-8"
    )
    (folder / "esc.csv").write_text("c\n", encoding="utf-8")
    command = str(pathlib.Path(sys.executable).with_name("qcompile"))
    run = [command, "run", "esc.q", "--data", "esc.csv", "--rho", "1", "-o", "esc.release"]
    subprocess.run(run, check=True, capture_output=True)
    done = subprocess.run(
        [command, "answers", "esc.release", "m"],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert b"\x1b" not in done.stdout
    assert b"\\x1b[31m" in done.stdout
    assert b"caf\\xe9" in done.stdout


def test_a_broken_promise_is_an_internal_error(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cost that does not match its charge stops the run before data is read, with exit code 1."""

    def mismatch(*arguments: object) -> None:
        raise InternalError("the plan costs 2, its budget is 1")

    monkeypatch.setattr("qcompile.plan.allocation.check_cost", mismatch)
    assert execute(["run", "w.q", "--data", "data.csv", "--rho", "1", "-o", "w.release"]) == 1
    assert not (folder / "w.release").exists()


def test_budgets_that_protect_nobody_are_refused(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["run", "w.q", "--rho", "1e32", "--dry-run"]) == 3
    assert "protects nobody" in capsys.readouterr().err


def test_json_takes_no_budget(folder: pathlib.Path) -> None:
    assert execute(["inspect", "w.q", "--json", "--rho", "1"]) == 2


def test_the_first_line_of_a_run_is_the_charge(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """lomas#179: typed epsilon 1, charged 2: the first line is the total charge and equals the request."""
    good(capsys, "ledger", "create", "l", "--epsilon", "1", "--delta", "1e-9")
    budget = ["--epsilon", "1", "--delta", "1e-9"]
    options = [*budget, "--ledger", "l", "--strict-values", "-o", "x", "-v"]
    out, _ = good(capsys, "run", "w.q", "--data", "data.csv", *options)
    first, exactly, second, third = out.splitlines()[:4]
    assert first == "charge: epsilon 1, delta 1e-9 (rho 0.0149731)"
    assert second == "privacy: neighbouring tables differ in one row added or removed"
    assert third == "ledger: l will have rho 0 left"
    shown = json.loads(good(capsys, "ledger", "show", "l", "--json")[0])
    assert (shown["remaining"], len(shown["entries"])) == ("0", 1)
    assert shown["entries"][0]["rho"] == exactly.split()[2].rstrip(";") == shown["spent"]
    assert (
        execute(["run", "w.q", "--data", "data.csv", "--rho", "1/9", "--ledger", "l", "--strict-values", "-o", "y"])
        == 3
    )
    assert "short by 1/9" in capsys.readouterr().err
    assert not (folder / "y").exists()


def test_ledger_show_explains_every_entry(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    good(capsys, "ledger", "create", "l", "--rho", "1", "--neighbours", "add-remove")
    assert "no charges yet" in good(capsys, "ledger", "show", "l")[0]
    run = ["run", "w.q", "--data", "data.csv", "--rho", "1/49", "--ledger", "l", "--strict-values", "-o", "x.release"]
    good(capsys, *run)
    Ledger.open("l").charge("1/7")
    shown = good(capsys, "ledger", "show", "l")[0]
    assert "dataset    not named: a run on any dataset may charge it" in shown
    spent, left = (Budget(rho=rho).epsilon_at("1e-9") for rho in ("8/49", "41/49"))
    assert f"spent      epsilon {rounded_text(spent, up=True)} at delta 1e-9 (rho 8/49)" in shown
    assert f"remaining  epsilon {rounded_text(left, down=True)} at delta 1e-9 (rho 41/49)" in shown
    first, second = shown.splitlines()[-2:]
    assert first.split()[:3] == ["1", Ledger.open("l").entries[0].charge.time.removesuffix("+00:00"), "1/49"]
    assert first.split()[-2:] == ["x.release", str(Ledger.open("l").entries[0].content)[:12]]
    assert second.endswith("none recorded (spent all the same)")
    assert "the old one becomes x.release.1" in good(capsys, *run)[1]


def test_a_drafted_schema_is_marked_to_the_end(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "as confidential as the data" in good(capsys, "schema", "draft", "data.csv", "-o", "d.q")[1]
    good(capsys, "compile", "d.q")
    _, err = good(capsys, "run", "d.plan", "--data", "data.csv", "--rho", "1", "-o", "d.release")
    assert "warning: the schema was read from the data" in err
    assert "WARNING      the schema was read from the data" in good(capsys, "inspect", "d.release")[0]


def test_only_run_and_inspect_say_which_rows_are_left_out(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "clip.q").write_text(
        "schema { age : integer 0..9 clip; job : integer 0..1 clip; sex : integer 0..1 drop }\n"
        "workload { ages : prefix(age) }\n"
    )
    (folder / "clip.csv").write_text("age,job,sex\n1,0,0\n12,1,1\n")
    good(capsys, "ledger", "create", "l", "--rho", "1")
    good(capsys, "run", "clip.q", "--data", "clip.csv", "--rho", "1", "--ledger", "l", "-o", "c.release")
    assert good(capsys, "answers", "c.release", "ages")[1].startswith("estimates: unbiased")
    assert good(capsys, "ask", "c.release", "total")[1] == ""
    shown = good(capsys, "inspect", "c.release")[0]
    assert "NOTE         rows with a missing value in age, job are not counted (clip cannot place them)" in shown
    assert "WARNING" not in shown


def test_counts_agree_with_their_nouns(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "one.q").write_text("schema { a : integer 0..9 }\nworkload { t : total }\n")
    assert good(capsys, "check", "one.q")[0] == "one.q: ok, 1 query in 1 family over 1 view\n"
    assert "1 query over 1 view: rmse" in good(capsys, "compile", "one.q")[0]
    assert "1 query in 1 family, 1 view, 1 attribute\n" in good(capsys, "inspect", "one.plan")[0]
    assert "1 cell, rank 1" in good(capsys, "inspect", "one.plan", "--dot")[0]


def test_shares_are_in_per_cent_everywhere(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = good(capsys, "inspect", "w.q", "--rho", "1")[0]
    heads = [line.split() for line in shown.splitlines() if line.split()[:1] == ["family"]]
    assert [("max_std_error" in head, "share" in head) for head in heads] == [(True, True)] * 2
    assert shown.startswith("predicted errors at "), "the errors at the budget come first"
    shares = [line.split()[-2:] for line in shown.splitlines()[2:4]]
    assert all(float(share) > 1 and unit == "%" for share, unit in shares)


def test_the_ledger_advice_is_a_whole_command(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["ledger", "create", "x.ledger"]) == 2
    advice = capsys.readouterr().err.partition(": qcompile ")[2].partition(" (")[0]
    assert good(capsys, *advice.split())[0].startswith("x.ledger: may spend")


def test_biased_answers_are_explained(released: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = good(capsys, "ask", "w.release", "total", "--estimate", "best")[0]
    assert shown.startswith("100.0, no standard error: it is biased (estimate: best")


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    output.message("error: plain")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    output.message("error: red")
    output.message("note: plain")
    monkeypatch.setenv("NO_COLOR", "1")
    output.message("error: plain again")
    assert capsys.readouterr().err == "error: plain\n\x1b[31merror: red\x1b[0m\nnote: plain\nerror: plain again\n"
