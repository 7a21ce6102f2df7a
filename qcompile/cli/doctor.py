"""``qcompile doctor``: is this installation sound?"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from collections.abc import Callable

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
    "opendp": "opendp",
    "python-flint": "flint",
    "pyarrow": "pyarrow",
    "ibis-framework": "ibis",
    "duckdb": "duckdb",
    "typer": "typer",
    "rich": "rich",
    "joblib": "joblib",
}

WORKLOAD = """
schema { a : integer 0..4
         b : category {"x", "y"} }
workload { all : each 1..2 of all
           gap : count(a in 1..3 and b = "y") }
"""


def doctor() -> None:
    """Check the installation: packages, the noise sampler, and a run on a tiny table; exit 1 if something is broken.

    Example: qcompile doctor
    """
    checks: list[tuple[str, Callable[[], str]]] = [("python", _python)]
    checks += [(name, lambda name=name, module=module: _package(name, module)) for name, module in DEPENDENCIES.items()]  # type: ignore[misc]
    checks += [("noise sampler", _noise), ("compile and run", _pipeline)]
    broken = 0
    for name, check in checks:
        try:
            result(f"  ok      {name:<18} {check()}")
        except Exception as e:  # whatever it is, it is the finding
            broken += 1
            result(f"  BROKEN  {name:<18} {type(e).__name__}: {e}")
    if broken:
        result(f"{broken} of {len(checks)} checks failed; pip install --force-reinstall qcompile usually helps")
        raise typer.Exit(1)
    result("everything works")


def _python() -> str:
    return sys.version.split()[0]


def _package(name: str, module: str) -> str:
    importlib.import_module(module)
    return importlib.metadata.version(name)


def _noise() -> str:
    """A few thousand draws: in the right place, of the right spread."""
    from fractions import Fraction

    import numpy as np

    from qcompile.privacy.rounded import rounded_gaussian
    from qcompile.privacy.source import SystemSource

    n, s = 20_000, 300.0
    drawn = rounded_gaussian(np.zeros(n), 0.0, s, lambda i: Fraction(0), SystemSource())
    z = float(drawn.mean()) / s * n**0.5, (float(drawn.std()) / s - 1) * (2 * n) ** 0.5
    if max(map(abs, z)) > 7:  # once in 10^11 sound installations
        raise RuntimeError(f"{n} draws have mean and spread {z[0]:.1f} and {z[1]:.1f} standard errors off")
    return f"{n:,} draws as they should be"


def _pipeline() -> str:
    """A plan from text, a table through DuckDB, answers without noise against known counts."""
    import qcompile as qc

    plan = qc.compile(WORKLOAD)
    data = {"a": [0, 1, 2, 3, 4, 2], "b": ["x", "y", "x", "y", "y", "y"]}
    release = plan.run(data, qc.Budget(rho=1), noise="none")
    found = release.ask('count(a in 1..3 and b = "y")').estimate
    if abs(found - 3) > 1e-9:
        raise RuntimeError(f"a count of 3 came out as {found}")
    return f"{plan.queries} queries answered exactly without noise"
