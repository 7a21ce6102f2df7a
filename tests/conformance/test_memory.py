"""The promise that what does not fit in memory is refused beforehand, kept by processes with little of it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from qcompile.cli.app import execute
from qcompile.support import archive

SPACE = 4 * 10**9
"""Bytes of address space that a process may have."""

PEAK = 400 * 10**6
"""Bytes that a refusal may take: program and libraries are 60 MB of them."""


def limited(folder: pathlib.Path, *arguments: str) -> tuple[int, str, str, int]:
    """Exit code, stdout, stderr and peak memory of a command in a process of limited address space."""
    measure = (
        "import re, resource, sys; from qcompile.cli.app import execute\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({SPACE}, {SPACE}))\n"
        "code = execute(sys.argv[1:])\n"
        # Not ru_maxrss, which begins with the memory of the process that started this one.
        "peak = re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]\n"
        "print(peak, file=open('peak', 'w'))\n"
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", measure, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr, 1024 * int((folder / "peak").read_text())


THREE = "; ".join(f"a{i} : integer 0..99 clip" for i in range(3))

NASTY = {
    "billion": ("a : integer 0..1000000000 clip", "prefix(a)"),
    "hundreds of millions": ("a : integer 0..300000000 clip", "prefix(a)"),
    "identity": ("a : integer 0..300000000 clip", "marginal(a)"),
    "three axes": (THREE, "affine(a0 + a1 + a2 <= *)"),
}


@pytest.mark.parametrize("case", NASTY)
@pytest.mark.parametrize("command", ["compile", "inspect"])
def test_workloads_that_do_not_fit_are_refused_at_once(command: str, case: str, tmp_path: pathlib.Path) -> None:
    schema, query = NASTY[case]
    (tmp_path / "w.q").write_text(f"schema {{ {schema} }}\nworkload {{ m : {query} }}\n")
    code, _, errors, peak = limited(tmp_path, command, "w.q")
    assert code == 2
    assert "of memory, the limit is" in errors
    assert "use bins" in errors
    assert peak < PEAK


def test_check_warns_of_what_compile_will_refuse(tmp_path: pathlib.Path) -> None:
    (tmp_path / "w.q").write_text("schema { a : integer 0..1000000000 clip }\nworkload { m : prefix(a) }\n")
    code, out, errors, _ = limited(tmp_path, "check", "w.q")
    assert code == 0
    assert "w.q: ok" in out
    assert "warning: it cannot be compiled here: the Gram matrix of prefix(a)" in errors


def test_a_limit_holds_for_compile(tmp_path: pathlib.Path) -> None:
    (tmp_path / "w.q").write_text("schema { a : integer 0..2999 clip }\nworkload { m : prefix(a) }\n")
    code, _, errors, _ = limited(tmp_path, "compile", "w.q", "--max-memory", "100MB")
    assert code == 2
    assert "needs 144.0 MB of memory, the limit is 100.0 MB" in errors
    assert not (tmp_path / "w.plan").exists()


def test_memory_that_runs_out_is_no_internal_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def exhausted(path: object) -> None:
        raise MemoryError

    (tmp_path / "w.q").write_text("")
    monkeypatch.setattr(archive, "kind_of", exhausted)
    assert execute(["inspect", str(tmp_path / "w.q")]) == 2
    assert "error: there is not enough memory" in capsys.readouterr().err
