"""Oblique nodes against brute force: what a plan exports, laid out on the whole domain, and nothing of the compiler."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

from qcompile.api import Plan, compile, load_plan, load_release, prepare
from qcompile.errors import NotEstimableError, OptionError, StorageError
from qcompile.plan.document import PlanDocument
from qcompile.plan.encoding import ArrayStore
from qcompile.plan.files import read_plan
from qcompile.privacy.budget import Budget
from qcompile.queries.factors import Abs, Affine, Marginal, Matrix, Prefix, Range
from qcompile.queries.workload import Workload
from qcompile.strategy.oblique import ObliqueStrategy
from qcompile.support.json_fields import Field
from tests.audit.designs import random_design
from tests.audit.exported import check_costs as check_exported_costs
from tests.audit.exported import check_same
from tests.audit.witness import check_draws, check_ledger
from tests.conformance.helpers import UNIT, family, integer, integers, some_counts, workload
from tests.conformance.test_brute_force import check_answers_without_noise, check_costs, check_variances


def affine(*attributes: object) -> Affine:
    return Affine(attributes, [1] * len(attributes))  # type: ignore[arg-type]


def sums() -> Workload:
    """Single attributes and sums of all pairs: all pairs are one class, with exchangeable axes."""
    a, b, c = integers(4, 4, 4)
    one = [family(Prefix(x), weight=2.0) for x in (a, b, c)]
    return workload([a, b, c], *one, *(family(affine(x, y)) for x, y in ((a, b), (c, a), (b, c))))


def chain() -> Workload:
    """Differences along a chain of different sizes, beside a family of many cells that stays a product."""
    a, b, c, d = integers(3, 5, 5, 4)
    pairs = [family(Abs((x, y), (1, -1)), weight=w) for (x, y), w in (((a, b), 1.0), ((b, c), 3.0), ((c, d), 1.0))]
    return workload([a, b, c, d], *pairs, family(Marginal(b)))


def three_way() -> Workload:
    """A sum of three attributes above pairs and single ones that are asked about, too."""
    a, b, c = integers(3, 3, 4)
    return workload([a, b, c], family(affine(a, b, c)), family(Prefix(a), Range(b)), family(Prefix(c)))


def parts() -> Workload:
    """Queries of which one says nothing about pairs, and one attribute with an other cell."""
    a, b = integer("a", 3), integer("b", 4)
    rows = np.array([np.repeat([1, 1, 0], 4), np.arange(12) % 3 == 0, np.arange(12) < 7], dtype=float)
    return workload([a, b], family(Matrix((a, b), rows, "m")), family(Prefix(a)), family(Abs((a, b), (1, -1))))


WORKLOADS = {"sums": sums, "chain": chain, "three-way": three_way, "parts": parts}


def is_oblique(plan: Plan) -> bool:
    return any(isinstance(s, ObliqueStrategy) for s in plan.strategies)


@pytest.mark.parametrize("neighbours", ["add-remove", pytest.param("replace-one", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", WORKLOADS)
def test_cost_variances_and_answers(name: str, neighbours: str) -> None:
    given = WORKLOADS[name]()
    plan = compile(given, design="oblique", neighbours=neighbours)
    assert is_oblique(plan) or neighbours == "replace-one"
    assert plan.sse() <= compile(given, neighbours=neighbours).sse()
    check_costs(plan)
    check_variances(plan)
    check_answers_without_noise(plan)


@pytest.fixture(scope="module")
def plan() -> Plan:
    found = compile(sums(), design="oblique")
    assert is_oblique(found)
    return found


def test_the_single_questions_of_a_release_agree_with_its_tables(plan: Plan) -> None:
    counts = some_counts(plan.workload.schema)
    release = plan.run({plan.workload.schema.names: counts}, UNIT, test_seed=5)
    table = release.answers("affine(c, a)")
    asked = [release.ask(f"affine(c + a <= {t})") for t in range(7)]
    np.testing.assert_allclose([a.estimate for a in asked], table.column("estimate").to_numpy(), rtol=1e-9)
    np.testing.assert_allclose([a.std_error for a in asked], table.column("std_error").to_numpy(), rtol=1e-6)
    with pytest.raises(NotEstimableError):
        release.ask("count(a = 1 and b = 2)")
    wide = release.answers("affine(c, a)", simultaneous=True)
    assert (wide.column("upper").to_numpy() > table.column("upper").to_numpy()).all()


def test_best_estimates_start_from_the_same_residuals(plan: Plan) -> None:
    counts = some_counts(plan.workload.schema)
    release = plan.run({plan.workload.schema.names: counts}, UNIT, test_seed=5, reference="none")
    best = release.answers("affine(a, b)", estimate="best", processing="none").column("estimate").to_numpy()
    np.testing.assert_allclose(best, release.answers("affine(a, b)").column("estimate").to_numpy(), rtol=1e-9)


@pytest.mark.slow
def test_errors_of_many_runs_have_the_stated_size(plan: Plan) -> None:
    """Also where what lower nodes got wrong is taken off an oblique node's measurements."""
    schema = plan.workload.schema
    counts = some_counts(schema)
    names = ["affine(a, b)", "prefix(a)"]
    exact = plan.run({schema.names: counts}, UNIT, noise="none")
    errors = []
    for seed in range(400):
        release = plan.run({schema.names: counts}, UNIT, test_seed=seed)
        tables = [(release.answers(n), exact.answers(n)) for n in names]
        z = [(t["estimate"].to_numpy() - e["estimate"].to_numpy()) / t["std_error"].to_numpy() for t, e in tables]
        errors.append(np.concatenate(z))
    spread, mean = np.square(errors).mean(axis=0), np.mean(errors, axis=0)
    assert np.abs(spread - 1).max() < 4.5 * (2 / 400) ** 0.5
    assert np.abs(mean).max() < 4.5 / 400**0.5


def test_files_hold_all_of_it(plan: Plan, tmp_path: Path) -> None:
    plan.save(tmp_path / "a.plan")
    stored = load_plan(tmp_path / "a.plan")
    check_same(plan, stored, UNIT.charge("zcdp"), "sums")
    stored.save(tmp_path / "b.plan")
    assert (tmp_path / "a.plan").read_bytes() == (tmp_path / "b.plan").read_bytes()
    assert stored.options.design == "oblique"
    assert "3 oblique nodes" in stored.explain()
    release = plan.run({plan.workload.schema.names: some_counts(plan.workload.schema)}, UNIT, test_seed=1)
    release.save(tmp_path / "a.release")
    again = load_release(tmp_path / "a.release")
    assert again.answers("affine(a, b)").equals(release.answers("affine(a, b)"))


def test_forged_files_are_refused(plan: Plan) -> None:
    document = PlanDocument.of(plan)
    arrays = ArrayStore.check(dict(document.arrays))
    places = {s["strategy"]["kind"]: i for i, s in enumerate(document.data["solutions"])}
    pair = document.data["solutions"][places["oblique"]]["strategy"]
    for change in (
        {"own": pair["measured"]},  # not centred
        {"own": arrays.put(np.zeros((2, 16)))},  # of another shape
        {"measured": arrays.put(np.ones((2, 9))), "own": arrays.put(np.zeros((2, 9))), "shape": [3, 3]},
    ):
        data = copy.deepcopy(dict(document.data))
        data["solutions"][places["oblique"]]["strategy"].update(change)
        with pytest.raises(StorageError):
            read_plan(Field(data), arrays)
    lower = copy.deepcopy(dict(document.data))
    matrix = arrays.put(np.eye(4) - 0.25)
    lower["solutions"][1]["strategy"] = {"kind": "oblique", "shape": [4], "measured": matrix, "own": matrix}
    with pytest.raises(StorageError):  # a node that others contain
        read_plan(Field(lower), arrays)
    short = copy.deepcopy(dict(document.data)) | {"orders": arrays.put(np.zeros(2, dtype=np.int64))}
    with pytest.raises(StorageError):
        read_plan(Field(short), arrays)
    assert read_plan(Field(dict(document.data)), arrays).sse() == plan.sse()


def test_adaptive_runs_are_refused_before_anything_is_charged(plan: Plan) -> None:
    for basis in ("compiled", "residual"):
        with pytest.raises(OptionError, match="--design nodes"):
            prepare(plan, Budget(rho=1), mechanism="adaptive", basis=basis)


@pytest.mark.parametrize("seed", [0, 7, *(pytest.param(s, marks=pytest.mark.slow) for s in (6, 12, 18, 43, 49))])
def test_random_plans_cost_and_draw_what_they_say(seed: int, tmp_path: Path) -> None:
    design = random_design(seed)
    plan = compile(
        design.workload, design="oblique", gap=design.gap, blocks=design.blocks, neighbours=design.neighbours,
        contributions=design.contributions,
    )  # fmt: skip
    check_exported_costs(plan, design.charge, design)
    check_draws(plan, design.data, design.budget, design, design.accounting)
    check_ledger(plan, design.data, design.budget, tmp_path, design, accounting=design.accounting)


def test_solvers_of_other_kinds_have_none() -> None:
    for solver in ("rp", "wff", "conic"):
        with pytest.raises(OptionError, match="oblique"):
            compile(sums(), solver=solver, design="oblique")
    with pytest.raises(OptionError, match="design"):
        compile(sums(), design="views")
