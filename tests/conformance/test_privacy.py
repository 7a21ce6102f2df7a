"""The rules that make a release private: what is refused before what, what is stamped, and where randomness lives."""

from __future__ import annotations

import ast
import math
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from qcompile.compiler import compile
from qcompile.data import counts as counting
from qcompile.errors import DataError, OptionError, QCompileError, SizeError, StorageError
from qcompile.factors import Marginal, Prefix
from qcompile.plan import Plan
from qcompile.privacy.budget import Budget
from qcompile.privacy.source import SystemSource
from qcompile.release import measure as measuring
from tests.conformance.cases import Case
from tests.conformance.helpers import UNIT, family, integers, some_counts, workload

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = sorted(p for folder in ("qcompile", "grammar", "solvers") for p in (ROOT / folder).rglob("*.py"))
SOURCES = {"qcompile.privacy.source", "qcompile.privacy.rounded", "qcompile.privacy.opendp_noise"}


def name_of(path: pathlib.Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imported(path: pathlib.Path) -> set[str]:
    """Every module, and every name in a module, that a file imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{a.name}" for a in node.names}
    return found


def test_there_are_modules_to_look_at() -> None:
    assert len(MODULES) > 60


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_randomness_is_imported_by_measure_alone(path: pathlib.Path) -> None:
    name = name_of(path)
    # `doctor` draws a few numbers around zero to see that the sampler is installed; it has no data.
    allowed = name.startswith("qcompile.privacy.") or name == "qcompile.release.measure"
    assert allowed or not imported(path) & SOURCES


def test_the_module_that_sees_randomness_is_found() -> None:
    """The test above would notice: the one permitted module does import the sources."""
    assert imported(ROOT / "qcompile" / "release" / "measure.py") & SOURCES == SOURCES


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_other_generator_is_used(path: pathlib.Path) -> None:
    found = imported(path)
    assert not {m.split(".")[0] for m in found} & {"random", "secrets"}
    assert not any(m.startswith("numpy.random") for m in found)
    calls = {ast.unparse(n) for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Attribute)}
    assert not {c for c in calls if c.startswith(("np.random", "numpy.random", "os.getrandom", "uuid."))}
    assert ("os.urandom" in calls) == (name_of(path) == "qcompile.privacy.source")


@pytest.fixture
def plan() -> Plan:
    a, b = integers(3, 4)
    return compile(workload([a, b], family(Prefix(a), Marginal(b)), family(Prefix(b), name="b")))


DATA: dict[Any, Any] = {("a", "b"): np.arange(12).reshape(3, 4)}


class Log:
    """What a run did, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        self._watch(monkeypatch, counting, "open_data", "data")
        self._watch(monkeypatch, measuring, "rounded_gaussian", "noise")
        self._watch(monkeypatch, Plan, "scales", "charge")

    def _watch(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, step: str) -> None:
        original = getattr(owner, name)

        def watched(*args: Any, **options: Any) -> Any:
            self.steps.append(step)
            return original(*args, **options)

        monkeypatch.setattr(owner, name, watched)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    return Log(monkeypatch)


def test_the_charge_is_fixed_before_data_is_read_and_noise_drawn(plan: Plan, log: Log) -> None:
    plan.run(DATA, UNIT)
    first = {step: log.steps.index(step) for step in ("charge", "data", "noise")}
    assert first["charge"] < first["data"] < first["noise"]
    assert log.steps.count("noise") == sum(1 for c in plan.closure.class_of if c >= 0)
    assert "charge" not in log.steps[first["data"] :]


REFUSED: dict[str, tuple[type[QCompileError], dict[str, Any]]] = {
    "mechanism": (OptionError, {"mechanism": "other"}),
    "noise": (OptionError, {"noise": "laplace"}),
    "accounting": (OptionError, {"accounting": "pure"}),
    "gaussian curve for OpenDP's noise": (OptionError, {"accounting": "gaussian", "noise": "opendp"}),
    "seed of the wrong type": (OptionError, {"test_seed": 1.0}),
    "negative seed": (OptionError, {"test_seed": -1}),
    "true as a seed": (OptionError, {"test_seed": True}),
    "seed for OpenDP's noise": (OptionError, {"test_seed": 1, "noise": "opendp"}),
    "too little memory": (SizeError, {"max_memory": 10}),
    "memory of the wrong type": (OptionError, {"max_memory": "4GB"}),
    "memory that is no number": (OptionError, {"max_memory": math.nan}),
    "no such folder": (StorageError, {"output": "/nowhere/at/all/x.release"}),
    "a folder as output": (StorageError, {"output": "."}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_can_be_refused_is_refused_before_data_is_read(case: str, plan: Plan, log: Log) -> None:
    error, options = REFUSED[case]
    with pytest.raises(error):
        plan.run(DATA, UNIT, **options)
    assert not {"data", "noise"} & set(log.steps)


@pytest.mark.parametrize("budget", [1, 1.0, "1", None])
def test_a_number_is_no_budget(budget: Any, plan: Plan, log: Log) -> None:
    with pytest.raises(OptionError, match="must be a Budget"):
        plan.run(DATA, budget)
    assert log.steps == []


WRONG_DATA: dict[str, Callable[[], Any]] = {
    "a view is missing": lambda: {("a",): np.ones(3, dtype=np.int64), ("b",): np.array([1, 1, 1, 0])},
    "wrong shape": lambda: {("a", "b"): np.ones((4, 3))},
    "not a number": lambda: {("a", "b"): np.full((3, 4), math.nan)},
    "not whole": lambda: {("a", "b"): np.full((3, 4), 0.5)},
    "different rows": lambda: {("a", "b"): np.ones((3, 4)), ("b",): np.ones(4)},
    "a value outside a strict domain": lambda: {"a": [0, 1, 7], "b": [0, 1, 2]},
    "a missing column": lambda: {"a": [0, 1, 2]},
    "nothing": dict,
}


@pytest.mark.parametrize("case", WRONG_DATA)
def test_data_is_refused_before_noise_is_drawn(case: str, plan: Plan, log: Log) -> None:
    with pytest.raises(DataError):
        plan.run(WRONG_DATA[case](), UNIT)
    assert "noise" not in log.steps


def test_every_node_draws_from_the_system_once_per_row(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The draws are those that the dry run announces: no node is without noise and none shares it."""
    from qcompile.execute import dry_run

    taken: list[int] = []
    original = SystemSource.take

    def take(self: SystemSource, n: int) -> bytes:
        taken.append(n)
        return original(self, n)

    monkeypatch.setattr(SystemSource, "take", take)
    plan.run(DATA, UNIT)
    assert sum(taken) >= 8 * dry_run(plan, UNIT).draws
    taken.clear()
    plan.run(DATA, UNIT, noise="none")
    plan.run(DATA, UNIT, test_seed=3)
    assert taken == []


def test_two_runs_differ_and_a_test_seed_repeats() -> None:
    plan = Case("hybrid", "auto").plan()
    data = {plan.workload.schema.names: some_counts(plan.workload.schema)}
    private = [np.concatenate(plan.run(data, UNIT).values) for _ in range(2)]
    assert (private[0] != private[1]).mean() > 0.9
    seeded = [np.concatenate(plan.run(data, UNIT, test_seed=s).values) for s in (1, 1, 2)]
    assert (seeded[0] == seeded[1]).all()
    assert (seeded[0] != seeded[2]).mean() > 0.9


def test_what_is_not_private_says_so(plan: Plan) -> None:
    assert plan.run(DATA, UNIT).provenance.stamps == ()
    assert plan.run(DATA, UNIT, accounting="gaussian").provenance.stamps == ()
    assert plan.run(DATA, UNIT, noise="none").provenance.stamps == ("NOT PRIVATE: made without noise",)
    assert plan.run(DATA, UNIT, test_seed=0).provenance.stamps == ("NOT PRIVATE: made with a test seed",)
    assert len(plan.run(DATA, UNIT, noise="none", test_seed=0).provenance.stamps) == 2


def test_provenance_states_the_charge_and_the_terms() -> None:
    plan = Case("hybrid", "auto", contributions=3).plan()
    data = {plan.workload.schema.names: some_counts(plan.workload.schema)}
    budget = Budget(epsilon=1, delta="1e-9")
    for accounting, rho in (("zcdp", 0.0149731), ("gaussian", 0.016557)):
        found = plan.run(data, budget, accounting=accounting).provenance
        assert found.charge == budget.charge("gaussian" if accounting == "gaussian" else "zcdp")
        assert float(found.charge) == pytest.approx(rho, rel=1e-4)
        assert found.accounting == accounting
        assert f"({accounting})" in found.budget
        assert (found.neighbours, found.contributions, found.noise) == ("add-remove", 3, "rounded")


def test_rows_per_person_scale_the_noise() -> None:
    """k rows of one person: standard errors k times those of one row, at the same charge."""
    one, three = Case("hybrid", "auto").plan(), Case("hybrid", "auto", contributions=3).plan()
    assert three.rmse() == pytest.approx(3 * one.rmse(), rel=1e-9)
    for s, t in zip(one.scales(UNIT.rho), three.scales(UNIT.rho), strict=True):
        assert t.sigma == pytest.approx(3 * s.sigma, rel=1e-12)
    (a,) = integers(3)
    for wrong in (0, -1, 1.5, True, "2"):
        with pytest.raises(OptionError, match="contributions"):
            compile(workload([a], family(Prefix(a))), contributions=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("contributions", [1, 2])
def test_no_pair_of_neighbouring_tables_is_farther_apart_than_charged(contributions: int) -> None:
    """Brute force over all sets of at most k added rows: squared distance over the noise at most 2 rho."""
    import itertools

    from tests.conformance.helpers import mechanism

    plan = Case("mixed on one pair", "auto", contributions=contributions).plan()
    rows = mechanism(plan.workload.schema, plan.measurements(UNIT))
    largest = 0.0
    for chosen in itertools.combinations_with_replacement(range(rows.shape[1]), contributions):
        largest = max(largest, float((rows[:, list(chosen)].sum(axis=1) ** 2).sum()))
    assert largest <= 1 + 1e-12
    assert largest > 0.8
