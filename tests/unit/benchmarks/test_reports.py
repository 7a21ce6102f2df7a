"""The benchmarks: texts that are the published workloads, honest outcomes, and a small page from end to end."""

from __future__ import annotations

import csv
import math
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import qcompile as qc
from benchmarks import growth, workloads
from benchmarks.measure import PHASES, ROOT, Job, measure
from benchmarks.published import FOLDER, published, source
from benchmarks.report import ABSENT, table
from benchmarks.rows import ALL, rows
from benchmarks.sampling import extrapolated_rmse


def test_a_quick_table_from_the_command_line(tmp_path: Path) -> None:
    page = tmp_path / "new" / "tables.md"
    command = [sys.executable, "benchmarks/tables.py", "--quick", "--table", "6", "-o", str(page)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = page.read_text().splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("| workload"))
    row = dict(zip(_cells(lines[head]), _cells(lines[head + 2]), strict=True))
    assert (row["workload"], row["views"], row["QS: seconds"], row["RMSE"]) == ("prefix", "1,275", "37.5", "83.424")
    assert float(row["total"]) < float(row["with start-up"]) < 37.5
    text = page.read_text()
    assert "cores" in text
    assert "NumPy" in text
    assert str(ROOT) not in text


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_job_reports_its_phases_and_its_plan() -> None:
    text = workloads.hybrid("cps", "1")
    values = measure(Job(text), 60).values
    plan = qc.compile(text)
    assert values["rmse"] == pytest.approx(plan.rmse(), rel=1e-9)
    assert (values["queries"], values["views"]) == (plan.queries, plan.views)
    assert set(values["seconds"]) == set(PHASES)
    assert values["seconds"]["total"] == pytest.approx(sum(values["seconds"][p] for p in PHASES[:-1]))
    assert 2e7 < values["peak"] < 1e9  # bytes


def test_jobs_that_do_not_finish_say_why() -> None:
    refused = measure(Job("schema { a : integer 0..9 }\nworkload { p : prefix(b) }"), 60)
    assert not refused.values
    assert "unknown attribute 'b'" in refused.note
    failed = measure(Job(workloads.products("prefix", 3, 1, "1"), {"no_such_option": 1}), 60)
    assert failed.note.startswith("failed: TypeError")
    stopped = measure(Job(workloads.products("prefix", 3, 1, "1")), 0.01)
    assert stopped.note == "stopped after 0.01 s"


@pytest.mark.parametrize(("number", "count"), [(2, 12), (3, 6), (4, 35), (5, 15), (6, 2), (7, 3)])
def test_every_row_is_a_workload_beside_published_figures(number: int, count: int) -> None:
    found = rows(number)
    assert len(found) == count
    assert sum(r.quick for r in found) == 1
    assert "2604.00868" in source(number)
    assert {variant for r in found for variant in r.variants} <= set(ALL)
    first = next(r for r in found if r.quick)
    assert qc.parse(first.job.text).queries > 0


def test_published_figures_are_numbers() -> None:
    keys = {"schema", "ways", "family", "workload"}
    for path in FOLDER.glob("*.csv"):
        for row in published(int(path.stem.removeprefix("table"))):
            figures = [v for k, v in row.items() if k not in keys and v not in ("", "NI")]
            assert all(float(v) > 0 for v in figures)


@pytest.mark.parametrize("number", [2, 3, 4, 5])
def test_published_figures_are_those_of_the_reference_tables(number: int) -> None:
    """Re-typed figures against the reference tables, where those are at hand."""
    folder = ROOT.parent / "shared" / "reference"
    if not folder.exists():
        pytest.skip(f"{folder} is absent")
    (path,) = folder.glob(f"table{number}_*.csv")
    with path.open(newline="") as file:
        reference = list(csv.DictReader(file))
    for row in published(number):
        if row.get("family") == "random":
            continue
        keys = [k for k in row if k in ("schema", "ways", "n", "d", "family")]
        (match,) = (r for r in reference if all(r[k] == row[k] for k in keys))
        assert {k: v for k, v in row.items() if k not in keys} == {k: match[f"paper_{k}"] for k in row if k not in keys}


def test_errors_extrapolated_from_a_sample_of_pairs() -> None:
    width, size = 9, 4
    full = qc.compile(workloads.random_pairs(size, width, width), gap=1e-6)
    assert extrapolated_rmse(full, width) == pytest.approx(full.rmse(), rel=1e-6)
    sample = qc.compile(workloads.random_pairs(size, 6, width), gap=1e-6)
    assert extrapolated_rmse(sample, width) == pytest.approx(full.rmse(), rel=0.01)
    assert sample.rmse() < 0.8 * full.rmse()


def test_pairs_too_large_take_prefixes() -> None:
    families = qc.parse(workloads.hybrid_and_pairs("loans", "affine")).families
    sizes = [*workloads.HYBRIDS["loans"][0], *workloads.HYBRIDS["loans"][1]]
    large = [(a, b) for a, b in combinations(sizes, 2) if a * b > workloads.MOST_CELLS]
    assert len(large) == 6
    assert sum(len(f.factors) == 2 and f.choose is None for f in families) == len(large)


def test_exponents_are_those_of_power_laws() -> None:
    assert growth.exponent({x: 3 * x**1.5 for x in (1, 2, 4, 9)}) == "1.50"
    assert growth.exponent({5: math.e}) == ABSENT


def test_tables_are_aligned() -> None:
    assert table(["a", "b"], [["x", "1.0"], ["longer", "2"]]).splitlines() == [
        "| a      |   b |",
        "| ------ | --: |",
        "| x      | 1.0 |",
        "| longer |   2 |",
    ]
