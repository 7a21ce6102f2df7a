"""sdist -> wheel -> clean environment outside the repository: what a user installs."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import sysconfig
import venv
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

PROGRAM = """
schema { a : integer 0..3
         b : category {"x", "y"} }
workload { all : each 1..2 of all }
"""


def run(*command: object, cwd: pathlib.Path) -> str:
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def clean_environment(folder: pathlib.Path) -> pathlib.Path:
    """A new environment with the dependencies of this one, but not its editable install; returns its Python.

    Another path in a .pth file brings packages, and none of the hooks that lie there.
    """
    venv.create(folder, with_pip=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The wheel built from the sdist, as an index would serve it."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", out, ROOT, cwd=out)
    assert len(list(out.glob("qcompile-*.tar.gz"))) == 1
    (built,) = out.glob("qcompile-*.whl")
    return built


def test_wheel_holds_one_import_root(wheel: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as z:
        names = z.namelist()
    assert {n.split("/")[0] for n in names if "dist-info" not in n} == {"qcompile"}
    for expected in ("qcompile/py.typed", "qcompile/grammar/workload.lark", "qcompile/solvers/solver.py"):
        assert expected in names


def test_installed_wheel_works_alone(wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    python = clean_environment(tmp_path / "clean")
    run(python, "-m", "pip", "install", "-q", "--no-deps", wheel, cwd=tmp_path)
    (tmp_path / "w.q").write_text(PROGRAM)
    (tmp_path / "data.csv").write_text("a,b\n0,x\n3,y\n3,x\n")
    command = tmp_path / "clean" / "bin" / "qcompile"
    run(command, "compile", "w.q", "-o", "w.plan", cwd=tmp_path)
    run(command, "run", "w.plan", "--data", "data.csv", "--rho", "1/2", "-o", "w.release", cwd=tmp_path)
    assert "std" in run(command, "ask", "w.release", 'count(a in 2..3 and b = "x")', cwd=tmp_path)
    assert "ok" in run(command, "doctor", cwd=tmp_path)
    top = subprocess.run([python, "-c", "import grammar"], cwd=tmp_path, capture_output=True, check=False)
    assert top.returncode != 0, "grammar must not be installed as a package of its own"
