"""The types that users see: what a type checker refuses in code that uses the package."""

from __future__ import annotations

import pathlib

USES = """
import qcompile as qc
plan = qc.load_plan("x")
plan.run("d.csv", qc.Budget(rho=1), mechanismm="batch")
plan.run("d.csv", qc.Budget(rho=1), noise=3)
qc.prepare(plan, qc.Budget(rho=1), test_sed=1)
qc.RunOptions(basis=2)
plan.run("d.csv", qc.Budget(rho=1), noise="none", progress=lambda phase, done, total: None)
qc.prepare(plan, qc.Budget(rho=1), ledger="l", output="x").execute({"a": [1]}).answers("m")
"""


def test_a_type_checker_refuses_misspelt_options(tmp_path: pathlib.Path) -> None:
    from mypy import api

    (tmp_path / "uses.py").write_text(USES)
    out, _, _ = api.run(["--strict", "--no-error-summary", str(tmp_path / "uses.py")])
    lines = [line for line in out.splitlines() if ": error:" in line]
    assert [int(line.split(":")[1]) for line in lines] == [4, 5, 6, 7], out
    assert "mechanismm" in lines[0]
    assert "test_sed" in lines[2]
