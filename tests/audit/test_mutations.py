"""Thousands of forged plans and releases are read, inspected and tried out, or refused with a typed error."""

from __future__ import annotations

import json
import pathlib
import tracemalloc
from typing import Any

import pytest

import qcompile as qc
from qcompile.api import Plan, compile, load_plan, load_release
from qcompile.errors import QCompileError
from qcompile.inspection.explain import as_json, dot
from qcompile.plan.document import PlanDocument
from qcompile.privacy.budget import Budget
from qcompile.support.arrays import cells
from tests.audit.mutations import counts_for, mutants
from tests.unit.plan.test_files import edit, members, rewrite

FORMATS = pathlib.Path(__file__).resolve().parents[1] / "formats"
FEW, MANY = 8, 700
"""Mutants of each file in the quick test and in the long one."""

LARGEST = 10**5
"""Cells of a mutant's table up to which it is run."""

FOURIER = """schema { m : integer 1..8 cyclic
  b : category {"x", "y"} other "?" }
workload { c : circular(m)
  p : marginal(m) * marginal(b) }
"""

KINDS = """schema { a : integer 0..3
  b : integer 0..2 clip
  n : numeric [0, 1, 2.5) drop }
workload { r : random(a; p = 0.5, count = 2, seed = 7)
  f : affine(a + b <= *)
  g : abs(a - b <= 1)
  q : count(a = b)
  p : range(n) * prefix(a)
  e : each 1..2 of all }
"""

SMALL = """schema { a : integer 0..3
  b : category {"x", "y", "z"} }
workload { p : prefix(a) * marginal(b)
  s : range(a) }
"""


def plans() -> dict[str, Plan]:
    return {
        "fourier": compile(FOURIER, solver="wff"),
        "kinds": compile(KINDS),
        "blocks": compile(SMALL, blocks=[["p"]]),
        "weighted": compile(SMALL, centring="optimised", neighbours="replace-one"),
        "strategies": compile(SMALL, solver="rp+", strategies={"a": "prefix"}),
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    """Plans of every kind, with a release of each, and an adaptive one."""
    folder = tmp_path_factory.mktemp("mutations")
    found: dict[str, pathlib.Path] = {}
    for name, plan in plans().items():
        found[f"{name}.plan"], found[f"{name}.release"] = folder / f"{name}.plan", folder / f"{name}.release"
        plan.save(found[f"{name}.plan"])
        plan.run(counts_for(plan), Budget(rho="1/3")).save(found[f"{name}.release"])
    for old in ("plan-1.plan", "plan-2.plan", "release-1.release", "release-3.release", "release-4-adaptive.release"):
        found[old] = FORMATS / old
    found["adaptive.release"] = FORMATS / "release-6-adaptive.release"
    return found


def use_plan(plan: Plan) -> None:
    """All that is done with a plan without data."""
    plan.explain()
    as_json(plan)
    dot(plan)
    plan.summary(Budget(rho=1))
    qc.prepare(plan, Budget(rho=1))


def use_release(release: qc.Release) -> None:
    use_plan(release.plan)
    release.coverage()
    for family in release.plan.workload.families:
        if family.count < LARGEST:
            release.answers(family.name)


def try_mutants(source: pathlib.Path, folder: pathlib.Path, count: int, seed: int) -> tuple[int, list[str]]:
    """The number of mutants that were read, and what went wrong with any."""
    target, faults, read = folder / f"mutant{source.suffix}", list[str](), 0
    for place, value in mutants(source, target, count, seed):
        try:
            if source.suffix == ".plan":
                plan = load_plan(target)
                use_plan(plan)
                _check_same_meaning(plan, folder)
            else:
                use_release(load_release(target))
            read += 1
        except QCompileError:
            pass
        except Exception as e:  # any other is a finding
            faults.append(f"{source.name}: {place} = {str(value)[:40]!a}: {type(e).__name__}: {e}")
    return read, faults


def _check_same_meaning(plan: Plan, folder: pathlib.Path) -> None:
    """Written again, it is the same plan."""
    plan.save(folder / "again.plan")
    assert PlanDocument.of(load_plan(folder / "again.plan")).hash == PlanDocument.of(plan).hash


def test_a_few_mutants(files: dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    found = [try_mutants(path, tmp_path, FEW, seed) for seed, path in enumerate(files.values())]
    assert not [fault for _, faults in found for fault in faults]
    assert 0 < sum(read for read, _ in found) < FEW * len(files)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(16))
def test_many_mutants(number: int, files: dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    _, faults = try_mutants(list(files.values())[number], tmp_path, MANY, 1000 + number)
    assert not faults


def charge_and_run(plan: Plan, folder: pathlib.Path, number: int) -> str | None:
    """The fault of a run with a ledger, if there is one: after the charge nothing may end untyped."""
    ledger = qc.Ledger.create(folder / f"{number}.ledger", Budget(rho=1))
    try:
        data: Any = counts_for(plan)
        plan.run(data, Budget(rho="1/2"), ledger=ledger, output=folder / f"{number}.release")
        load_release(folder / f"{number}.release")
    except QCompileError:
        return None if not ledger.entries else "a charge without a release"
    except Exception as e:  # any other is a finding
        return f"{type(e).__name__}: {e}"
    return None


@pytest.mark.parametrize("count", [25, pytest.param(300, marks=pytest.mark.slow)])
def test_a_mutant_that_is_read_is_charged_and_run(
    count: int, files: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    faults, target = [], tmp_path / "mutant.plan"
    for name in ("blocks.plan", "weighted.plan"):
        for number, (place, value) in enumerate(mutants(files[name], target, count, 7)):
            try:
                plan = load_plan(target)
            except QCompileError:
                continue
            if cells(plan.workload.schema.shape(plan.workload.schema.names)) <= LARGEST:
                fault = charge_and_run(plan, tmp_path, number + 1000 * len(name))
                faults += [f"{name}: {place} = {str(value)[:40]!a}: {fault}"] if fault else []
    assert not faults


def test_the_mutants_of_a_seed_are_the_same(files: dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    first, second = (list(mutants(files["blocks.plan"], tmp_path / "m", 5, 3)) for _ in range(2))
    assert [place for place, _ in first] == [place for place, _ in second]


def test_memory_of_a_plan_with_many_values_is_bounded(files: dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    """An attribute of 1.3e8 values, asked about or not, takes no array as long as it."""
    contents = members(files["blocks.plan"])
    assert json.loads(contents["document.json"])["workload"]["schema"][0]["domain"] == {"integer": [0, 3]}

    def widen(document: dict[str, Any]) -> None:
        document["workload"]["schema"][0]["domain"] = {"integer": [0, 130_000_000]}

    def add(document: dict[str, Any]) -> None:
        wide = {**document["workload"]["schema"][0], "name": "unused", "domain": {"integer": [0, 130_000_000]}}
        document["workload"]["schema"].append(wide)

    for change, read in ((widen, False), (add, True)):
        rewrite(tmp_path / "x.plan", edit(contents, change))
        tracemalloc.start()
        try:
            plan = load_plan(tmp_path / "x.plan")
            assert read
            assert plan.workload.schema["unused"].size == 130_000_001
        except QCompileError:
            assert not read
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert peak < 2**28
