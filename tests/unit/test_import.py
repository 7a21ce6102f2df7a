"""``import qcompile`` is cheap: nothing heavy loads before it is used."""

from __future__ import annotations

import pathlib
import subprocess
import sys

HEAVY = [
    *("cvxpy", "sympy", "pandas", "opendp", "ibis", "scipy", "matplotlib"),
    *("duckdb", "networkx", "pyarrow", "lark", "typer", "flint"),
]

PROGRAM = f"""
import sys, time
start = time.perf_counter()
import qcompile
seconds = time.perf_counter() - start
print(seconds, *[m for m in {HEAVY!r} if m in sys.modules])
"""


def test_import_is_light_and_quick() -> None:
    runs = [
        subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True) for _ in range(3)
    ]
    seconds, loaded = zip(*((float(r.stdout.split()[0]), r.stdout.split()[1:]) for r in runs), strict=True)
    assert loaded == ([], [], [])
    print(f"import qcompile: {min(seconds):.2f} s, best of 3")
    assert min(seconds) < 1.0  # under 0.4 on a quiet machine


def test_compiling_loads_no_optional_solver() -> None:
    program = (
        "import sys, qcompile as qc\n"
        "qc.compile('schema { a : integer 0..4 }\\nworkload { p : prefix(a) }').explain()\n"
        f"print([m for m in {['cvxpy', 'sympy', 'pandas', 'opendp', 'ibis', 'duckdb']!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_csv_file_needs_neither_pandas_nor_opendp(tmp_path: pathlib.Path) -> None:
    """With DuckDB and Ibis, a unit column included."""
    (tmp_path / "t.csv").write_text("id,a,b\n1,1,x\n1,2,y\n2,3,x\n")
    program = f"""
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {{"pandas", "opendp"}}:
            raise ImportError(f"{{name}} is not installed")
sys.meta_path.insert(0, Blocker())
import qcompile as qc
plan = qc.compile('schema {{ a : integer 0..4\\n b : category {{"x", "y"}} }}\\nworkload {{ e : each 1..2 of all }}')
for options in ({{}}, {{"engine": "memory"}}, {{"engine": "duckdb"}}, {{"engine": "duckdb", "unit": "id"}}):
    release = plan.run({str(tmp_path / "t.csv")!r}, qc.Budget(rho=1), **options)
    release.answers("e")
print(round(plan.run({str(tmp_path / "t.csv")!r}, qc.Budget(rho=1), noise="none").ask('count(b = "x")').estimate))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "2"), done.stderr
