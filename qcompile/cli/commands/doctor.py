"""``qcompile doctor``: a check of the installation."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import typer

from qcompile.cli.output import result

DEPENDENCIES = {
    "numpy": "numpy",
    "scipy": "scipy",
    "networkx": "networkx",
    "lark": "lark",
    "sympy": "sympy",
    "cvxpy": "cvxpy",
    "clarabel": "clarabel",
    "scs": "scs",
    "python-flint": "flint",
    "pyarrow": "pyarrow",
    "pyarrow-hotfix": "pyarrow_hotfix",
    "ibis-framework": "ibis",
    "duckdb": "duckdb",
    "packaging": "packaging",
    "typer": "typer",
    "rich": "rich",
}

OPTIONAL = {
    "opendp": "optional, for adaptive runs: pip install 'qcompile[adaptive]'",
    "psycopg": "optional, for PostgreSQL: pip install 'qcompile[postgres]'",
    "pyspark": "optional, for --engine spark: pip install 'qcompile[spark]'",
}
"""Packages that some mechanisms, sources and engines need."""

JAVA = 17
"""The oldest version of Java that Spark runs on."""

JAVA_SECONDS = 20

WORKLOAD = """
schema { a : integer 0..4
         b : category {"x", "y"} }
workload { all : each 1..2 of all
           gap : count(a in 1..3 and b = "y") }
"""


def doctor() -> None:
    """Check the installation: packages, noise, a run on a tiny table, a ledger; exit 1 if something is broken.

    Example: qcompile doctor
    """
    checks: list[tuple[str, Callable[[], str]]] = [("python", _python)]
    checks += [(name, partial(_package, name, module)) for name, module in DEPENDENCIES.items()]
    checks += [("noise sampler", _noise), ("compile and run", _pipeline), ("ledger", _ledger)]
    broken = 0
    for name, check in checks:
        try:
            result(f"  ok      {name:<18} {check()}")
        except Exception as e:  # any exception is a finding
            broken += 1
            result(f"  BROKEN  {name:<18} {type(e).__name__}: {e}")
    for name, extra in OPTIONAL.items():
        result(f"  {'ok     ' if importlib.util.find_spec(name) else 'absent '} {name:<18} {extra}")
    found = _java_version()
    state = "absent " if found is None else "ok     " if found >= JAVA else "too old"
    version = "" if not found else f"; version {found} is installed"
    result(f"  {state} {'java':<18} optional, for --engine spark: Java {JAVA} or newer{version}")
    if broken:
        result(f"{broken} of {len(checks)} checks failed; pip install --force-reinstall qcompile usually helps")
        raise typer.Exit(1)
    result("everything works")


def _java_version() -> int | None:
    """Return the major version that ``java -version`` prints, 8 for 1.8; None where it does not run.

    A program called java may stand for one that is not installed, as on macOS, so it is asked.
    """
    program = shutil.which("java")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "-version"], capture_output=True, text=True, errors="replace", timeout=JAVA_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d{1,5})', done.stderr + done.stdout)
    return int(match[1]) if match else None


def _python() -> str:
    return sys.version.split()[0]


def _package(name: str, module: str) -> str:
    importlib.import_module(module)
    return importlib.metadata.version(name)


def _noise() -> str:
    """Measure a table of zeros: noise with the right mean and spread, never the same twice."""
    import numpy as np

    import qcompile as qc

    plan = qc.compile("schema { a : integer 0..1999 }\nworkload { m : marginal(a) }")
    zeros = {("a",): np.zeros(2000, dtype=np.int64)}
    first, second = (plan.run(zeros, qc.Budget(rho=1)).answers("m") for _ in range(2))
    z = np.asarray(first["estimate"]) / np.asarray(first["std_error"])
    n = len(z)
    if abs(z.std() - 1) * (2 * n) ** 0.5 > 7 or abs(z.mean()) > 7 or first["estimate"].equals(second["estimate"]):
        raise RuntimeError(f"{n} answers have mean {z.mean():.2f} and spread {z.std():.2f} instead of 0 and 1")
    return f"{n:,} noisy answers with the right mean and spread"


def _pipeline() -> str:
    """Compile a text, count a table with DuckDB, compare answers without noise with known counts."""
    import qcompile as qc

    plan = qc.compile(WORKLOAD)
    data = {"a": [0, 1, 2, 3, 4, 2], "b": ["x", "y", "x", "y", "y", "y"]}
    release = plan.run(data, qc.Budget(rho=1), noise="none")
    count = release.ask('count(a in 1..3 and b = "y")').estimate
    if abs(count - 3) > 1e-9:
        raise RuntimeError(f"a count of 3 came out as {count}")
    return f"{plan.queries} queries answered exactly without noise"


def _ledger() -> str:
    """Charge a ledger three thirds, and check that it refuses more."""
    import tempfile
    from pathlib import Path

    import qcompile as qc

    with tempfile.TemporaryDirectory() as folder:
        ledger = qc.Ledger.create(Path(folder) / "doctor.ledger", qc.Budget(rho=1))
        for _ in range(3):
            ledger.charge("1/3")
        try:
            ledger.charge("1e-9")
        except qc.OverspendError:
            return "three thirds spend exactly one"
    raise RuntimeError("a ledger granted more than it had")
