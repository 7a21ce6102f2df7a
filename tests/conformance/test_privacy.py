"""The rules that make a release private: what is refused before what, what is stamped, and where randomness lives."""

from __future__ import annotations

import ast
import math
import os
import pathlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from qcompile.api import Plan, compile, load_release, prepare
from qcompile.data.datasets.opened import OpenedCounts, OpenedTable
from qcompile.errors import BudgetError, DataError, OptionError, OverspendError, QCompileError, SizeError, StorageError
from qcompile.privacy.budget import Budget
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.privacy.noise.random_bytes import SystemSource
from qcompile.queries.factors import Marginal, Prefix
from qcompile.release.files import KIND, VERSION
from qcompile.run import randomness
from qcompile.support import archive
from tests.conformance.cases import Case
from tests.conformance.helpers import UNIT, family, integers, some_counts, workload

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = sorted(p for folder in ("qcompile", "grammar", "solvers") for p in (ROOT / folder).rglob("*.py"))
SOURCES = {
    "qcompile.privacy.noise.random_bytes",
    "qcompile.privacy.noise.rounded_gaussian",
    "qcompile.privacy.noise.opendp_gaussian",
}
SELECTION = "qcompile.privacy.noise.exponential_mechanism"


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
def test_randomness_is_imported_by_one_module(path: pathlib.Path) -> None:
    """All noise and selections of a run come through `qcompile.run.randomness`."""
    name = name_of(path)
    if not name.startswith("qcompile.privacy."):
        assert (SELECTION in imported(path)) == (name == "qcompile.run.randomness")
    # `doctor` draws a few numbers around zero to see that the sampler is installed; it has no data.
    allowed = name.startswith("qcompile.privacy.") or name == "qcompile.run.randomness"
    assert allowed or not imported(path) & SOURCES


def test_the_module_that_sees_randomness_is_found() -> None:
    """The test above would notice: the one permitted module does import the sources."""
    assert imported(ROOT / "qcompile" / "run" / "randomness.py") & SOURCES == SOURCES


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_other_generator_is_used(path: pathlib.Path) -> None:
    found = imported(path)
    assert not {m.split(".")[0] for m in found} & {"random", "secrets"}
    assert not any(m.startswith("numpy.random") for m in found)
    calls = {ast.unparse(n) for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Attribute)}
    assert not {c for c in calls if c.startswith(("np.random", "numpy.random", "os.getrandom", "uuid."))}
    assert ("os.urandom" in calls) == (name_of(path) == "qcompile.privacy.noise.random_bytes")


@pytest.fixture
def plan() -> Plan:
    a, b = integers(3, 4)
    return compile(workload([a, b], family(Prefix(a), Marginal(b)), family(Prefix(b), name="b")))


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Ledger:
    return Ledger.create(tmp_path / "l", Budget(rho=1))


DATA: dict[Any, Any] = {("a", "b"): np.arange(12).reshape(3, 4)}


class Log:
    """What a run did, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        for kind in (OpenedTable, OpenedCounts):
            self._watch(monkeypatch, kind, "counts", "data")
        self._watch(monkeypatch, randomness, "rounded_gaussian", "noise")
        self._watch(monkeypatch, Plan, "scales", "scales")
        self._watch(monkeypatch, Ledger, "charge", "charge")

    def _watch(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, step: str) -> None:
        original = getattr(owner, name)

        def watched(*args: Any, **options: Any) -> Any:
            self.steps.append(step)
            return original(*args, **options)

        monkeypatch.setattr(owner, name, watched)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    return Log(monkeypatch)


def test_the_charge_is_made_before_noise_is_drawn(plan: Plan, log: Log, ledger: Ledger) -> None:
    """What is measured is fixed before data is read; the data is checked before it is paid for; then noise is drawn."""
    plan.run(DATA, UNIT, ledger=ledger)
    first = {step: log.steps.index(step) for step in ("scales", "data", "charge", "noise")}
    assert first["scales"] < first["data"] < first["charge"] < first["noise"]
    assert log.steps.count("charge") == 1
    assert log.steps.count("noise") == sum(1 for c in plan.closure.class_of if c >= 0)
    assert "scales" not in log.steps[first["data"] :]


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
    "no threads": (OptionError, {"workers": 0}),
    "half a thread": (OptionError, {"workers": 0.5}),
    "no such ledger": (StorageError, {"ledger": "nowhere.ledger"}),
    "no noise with a ledger": (OptionError, {"ledger": "nowhere.ledger", "noise": "none"}),
    "a seed with a ledger": (OptionError, {"ledger": "nowhere.ledger", "test_seed": 0}),
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
    taken: list[int] = []
    original = SystemSource.take

    def take(self: SystemSource, n: int) -> bytes:
        taken.append(n)
        return original(self, n)

    monkeypatch.setattr(SystemSource, "take", take)
    plan.run(DATA, UNIT)
    drawn = prepare(plan, UNIT).prediction.draws
    assert drawn is not None
    assert sum(taken) >= 8 * drawn
    taken.clear()
    plan.run(DATA, UNIT, noise="none")
    plan.run(DATA, UNIT, test_seed=3)
    assert taken == []


def test_two_runs_differ_and_a_test_seed_repeats() -> None:
    """DataSynthesizer#46: there is no default seed."""
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
    """OpenDP units: k rows of one person, standard errors k times those of one row, at the same charge; no other k."""
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
    """google/differential-privacy#428: brute force over all sets of at most k added rows; the joint cost, not a sum."""
    import itertools

    from tests.conformance.helpers import mechanism

    plan = Case("mixed on one pair", "auto", contributions=contributions).plan()
    rows = mechanism(plan.workload.schema, plan.measurements(UNIT))
    largest = 0.0
    for chosen in itertools.combinations_with_replacement(range(rows.shape[1]), contributions):
        largest = max(largest, float((rows[:, list(chosen)].sum(axis=1) ** 2).sum()))
    assert largest <= 1 + 1e-12
    assert largest > 0.8


@pytest.mark.parametrize("parts", [3, 7, 49])
def test_equal_parts_are_spent_to_the_end(parts: int, plan: Plan, ledger: Ledger) -> None:
    """opendp#2131: rho = 1 in 3, 7 or 49 equal parts: all run; the ledger ends at exactly 1."""
    for _ in range(parts):
        assert plan.run(DATA, Budget(rho=f"1/{parts}"), ledger=ledger).provenance.charge == Fraction(1, parts)
    assert ledger.spent == 1
    with pytest.raises(OverspendError):
        plan.run(DATA, Budget(rho="1e-9"), ledger=ledger.path)


def test_unequal_parts_are_spent_to_the_end(plan: Plan, ledger: Ledger) -> None:
    """opendp#2131: 0.1, 0.2, 0.7 as floats."""
    for part in (0.1, 0.2, 0.7):
        plan.run(DATA, Budget(rho=part), ledger=ledger)
    assert ledger.remaining == 0


@pytest.mark.parametrize(("accounting", "noise"), [("zcdp", "rounded"), ("gaussian", "rounded"), ("zcdp", "opendp")])
def test_the_ledger_has_what_the_release_says(
    accounting: str, noise: str, plan: Plan, ledger: Ledger, tmp_path: pathlib.Path
) -> None:
    options: dict[str, Any] = {"accounting": accounting, "noise": noise}
    release = plan.run(DATA, Budget(epsilon=1, delta="1e-9"), ledger=ledger, output=tmp_path / "x", **options)
    (entry,) = ledger.entries
    found = release.provenance
    assert (entry.charge.rho, entry.charge.plan) == (found.charge, found.plan_hash)
    assert (entry.charge.budget, entry.charge.noise) == (f"epsilon 1, delta 1e-9 ({accounting})", noise)
    assert found.budget.startswith("epsilon 1 at delta 1e-9")
    assert (entry.charge.neighbours, entry.charge.contributions) == (found.neighbours, found.contributions)
    assert entry.release == "x"
    assert entry.content == archive.read(tmp_path / "x", KIND, VERSION)[2]


def test_what_is_refused_costs_nothing(plan: Plan, ledger: Ledger, log: Log) -> None:
    before = ledger.path.read_bytes()
    refused: list[tuple[Any, Budget, dict[str, Any]]] = [
        (DATA, Budget(rho=2), {}),
        ({("a",): [1, 2, 3]}, UNIT, {}),
        ({"a": [0, 7], "b": [1, 1]}, UNIT, {"strict_values": True}),
        ({"a": [0], "b": [1]}, UNIT, {}),
        (DATA, UNIT, {"unit": "a"}),
        (DATA, UNIT, {"noise": "none"}),
        (DATA, UNIT, {"test_seed": 1}),
    ]
    for data, budget, options in refused:
        with pytest.raises(QCompileError):
            plan.run(data, budget, ledger=ledger, **options)
    assert ledger.path.read_bytes() == before
    assert "noise" not in log.steps
    plan.run({"a": [0], "b": [1]}, UNIT, ledger=ledger, strict_values=True)


def test_what_fails_after_the_charge_is_spent(
    plan: Plan, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """A crash between noise and write counts as spent: the entry stays, without a release until it is resumed."""

    def fails(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.link", fails)
    with pytest.raises(StorageError, match="No space left"):
        plan.run(DATA, UNIT, ledger=ledger, output=tmp_path / "x")
    (entry,) = ledger.entries
    assert (entry.charge.rho, entry.content) == (Fraction(1, 2), None)
    assert not (tmp_path / "x").exists()
    monkeypatch.undo()  # there is room again: what was paid for can be had
    with pytest.raises(StorageError, match="finish it with --resume"):
        plan.run(DATA, UNIT, ledger=ledger, output=tmp_path / "x")
    plan.run(DATA, UNIT, ledger=ledger, output=tmp_path / "x", resume=True)
    (entry,) = ledger.entries
    assert (entry.charge.rho, entry.release) == (Fraction(1, 2), "x")


def test_an_earlier_release_is_kept(plan: Plan, ledger: Ledger, tmp_path: pathlib.Path) -> None:
    """It was paid for."""
    kept = [plan.run(DATA, Budget(rho="1/9"), ledger=ledger, output=tmp_path / "x") for _ in range(3)]
    for release, name in zip(kept, ("x.1", "x.2", "x"), strict=True):
        for one, other in zip(release.values, load_release(tmp_path / name).values, strict=True):
            np.testing.assert_array_equal(one, other)
    plan.run(DATA, UNIT, output=tmp_path / "x", noise="none")  # not even a run for tests writes over it
    assert sorted(p.name for p in tmp_path.iterdir()) == ["l", "x", "x.1", "x.2", "x.3"]


@pytest.mark.parametrize("name", ["l", "l-journal", "l-wal", "l-shm", "sub/../l"])
def test_a_release_is_never_written_to_the_ledger_s_own_files(
    name: str, plan: Plan, ledger: Ledger, tmp_path: pathlib.Path
) -> None:
    """SQLite would take a file of such a name for its own, and remove it."""
    (tmp_path / "sub").mkdir()
    before = ledger.path.read_bytes()
    with pytest.raises(OptionError, match="would overwrite"):
        plan.run(DATA, UNIT, ledger=ledger, output=tmp_path / name)
    assert ledger.path.read_bytes() == before
    table = tmp_path / "d.csv"
    table.write_text("a,b\n0,0\n")
    with pytest.raises(OptionError, match="would overwrite"):
        plan.run(table, UNIT, output=tmp_path / "sub" / ".." / "d.csv")
    assert table.read_text() == "a,b\n0,0\n"


def test_names_that_cannot_be_written_cost_nothing(plan: Plan, ledger: Ledger, tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "dangling").symlink_to(tmp_path / "no folder" / "x")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for name in ("y" * 250, "z" * 300, "y\udcff", "dangling", "circle", "fifo", "no folder/x"):
        with pytest.raises(StorageError, match="cannot write"):
            plan.run(DATA, UNIT, ledger=ledger, output=tmp_path / name)
    assert ledger.spent == 0
    (tmp_path / "link").symlink_to(tmp_path / "real")
    plan.run(DATA, UNIT, ledger=ledger, output=tmp_path / "link")
    assert load_release(tmp_path / "real").provenance.charge == Fraction(1, 2)
    assert ledger.entries[0].release == "real"


def test_budgets_too_large_for_some_tables_are_refused_for_all(plan: Plan, ledger: Ledger) -> None:
    """A budget that protects nobody: measurements of 10^12 rows would be past 64 bits. Any refusal is the same."""
    large = Ledger.create(ledger.path.with_name("large"), Budget(rho="1e30"))
    counts = {("a", "b"): np.full((3, 4), 9 * 10**10)}
    for data in (DATA, counts):
        with pytest.raises(BudgetError, match="64 bits"):
            plan.run(data, Budget(rho=2e13), ledger=large)
    assert large.spent == 0
    plan.run(DATA, Budget(rho=2e13))
    plan.run(counts, Budget(rho=1), ledger=large)


def test_public_totals_up_to_the_largest_count_are_exact() -> None:
    (a,) = integers(2)
    plan = compile(workload([a], family(name="t"), family(Marginal(a))), neighbours="replace-one")
    release = plan.run({("a",): [2**53 - 1, 1]}, UNIT)
    assert release.answers("t")["estimate"].to_pylist() == [2.0**53]


def test_more_memory_than_usual_does_not_fail_after_the_charge(
    plan: Plan, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qcompile.run.prediction.DEFAULT_MEMORY", 70)
    with pytest.raises(SizeError):
        plan.run(DATA, UNIT, ledger=ledger, max_memory=10**9)
    assert ledger.spent == 0


@pytest.mark.parametrize("workers", [1, 2, 5, None])
def test_noise_is_the_same_for_any_number_of_threads(workers: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams belong to nodes, not to threads."""
    monkeypatch.setattr("qcompile.support.threads.LEAST_EFFORT", 0)
    plan = Case("hybrid", "auto").plan()
    data = {plan.workload.schema.names: some_counts(plan.workload.schema)}
    steps: list[tuple[str, int, int]] = []
    options: dict[str, Any] = {"workers": workers, "progress": lambda *step: steps.append(step)}
    one, other = plan.run(data, UNIT, test_seed=3, workers=1), plan.run(data, UNIT, test_seed=3, **options)
    for y, z in zip(one.values, other.values, strict=True):
        np.testing.assert_array_equal(y, z)
    total = len([c for c in plan.closure.class_of if c >= 0])
    assert steps == [("reading", 0, 0), *(("measuring", i, total) for i in range(1, total + 1))]


def test_rows_of_a_unit_are_cut_before_they_count() -> None:
    """A person with many rows counts as many times as the plan says, and the release says by which column."""
    (a,) = integers(3)
    plan = compile(workload([a], family(Prefix(a))), contributions=2)
    data = {"who": ["x"] * 5 + ["y", "z", "z"], "a": [0] * 8}
    release = plan.run(data, UNIT, unit="who", noise="none")
    assert release.marginal("a").array == pytest.approx([2 + 1 + 2, 0, 0])
    assert release.provenance.unit == "who"
    assert plan.run(data, UNIT, noise="none").provenance.unit is None


def test_a_drafted_schema_warns_and_stamps() -> None:
    """google/dpsynth#34, dpmm#24, smartnoise-sdk#473: domains are declared, never read off private data."""
    text = "{ a: integer 0..3 } workload { p: prefix(a) }"
    drafted = compile(f"schema read_from_data {text}").run({"a": [1]}, UNIT)
    assert [s for s in drafted.provenance.stamps if "read from the data" in s]
    assert compile(f"schema {text}").run({"a": [1]}, UNIT).provenance.stamps == ()


def test_units_may_be_empty_so_their_number_is_not_public() -> None:
    """A unit whose rows all lack a value that counts looks like no unit: an exact total would tell it apart."""
    (a,) = integers(3)
    plan = compile(workload([a], family(Prefix(a))), neighbours="replace-one")
    data = {"who": ["x", "y", None], "a": [0, 1, 2]}
    with pytest.raises(OptionError, match="not public"):
        plan.run(data, UNIT, unit="who")
    two = compile(workload([a], family(Prefix(a))), neighbours="replace-one", contributions=2)
    assert all(s.sigma > 0 for s in two.run(data, UNIT, unit="who").scales)


def test_charges_of_a_ledger_are_for_one_unit_column(tmp_path: pathlib.Path) -> None:
    """Rows of one person and rows of one household do not protect the same."""
    (a,) = integers(3)
    plan = compile(workload([a], family(Prefix(a))))
    data = {"person": ["x", "y"], "home": [1, 1], "a": [0, 1]}
    ledger = Ledger.create(tmp_path / "l", Budget(rho=9))
    options: dict[str, Any] = {"ledger": ledger, "strict_values": True}
    plan.run(data, UNIT, unit="person", **options)
    for other in ("home", None):
        with pytest.raises(BudgetError, match="with unit 'person', this one has unit"):
            plan.run(data, UNIT, unit=other, **options)
    plan.run(data, UNIT, unit="person", **options)
    assert [e.charge.unit for e in ledger.entries] == ["person", "person"]


def test_a_ledger_behind_a_link_keeps_its_files(plan: Plan, ledger: Ledger, tmp_path: pathlib.Path) -> None:
    (tmp_path / "link").symlink_to(ledger.path)
    with pytest.raises(OptionError, match="would overwrite"):
        plan.run(DATA, UNIT, ledger=tmp_path / "link", output=tmp_path / "l-journal")
    assert ledger.spent == 0


@pytest.mark.parametrize("name", ["per\u00a0son", "per\tson", "p\u200bx"])
def test_a_unit_of_any_name_comes_back(name: str, ledger: Ledger, tmp_path: pathlib.Path) -> None:
    (a,) = integers(3)
    plan = compile(workload([a], family(Prefix(a))))
    data = {name: ["x", "y"], "a": [0, 1]}
    plan.run(data, UNIT, unit=name, ledger=ledger, strict_values=True, output=tmp_path / "x")
    assert load_release(tmp_path / "x").provenance.unit == name


def test_a_release_that_cannot_get_its_name_is_not_lost(
    plan: Plan, ledger: Ledger, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: Any) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("qcompile.support.numbered_backup.keep_aside", refuses)
    with pytest.raises(StorageError, match=r"everything is in .*\.part: move it; the budget is spent: entry 1"):
        plan.run(DATA, UNIT, ledger=ledger, output=tmp_path / "x")
    (hidden,) = tmp_path.glob("x.unfinished/*.part")
    assert load_release(hidden).provenance.charge == Fraction(1, 2)


def test_a_release_that_cannot_be_noted_is_there(
    plan: Plan, ledger: Ledger, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: Any) -> None:
        raise StorageError("in use")

    monkeypatch.setattr(Ledger, "record", refuses)
    with pytest.warns(UserWarning, match="is written and paid for, but the ledger could not be updated: in use"):
        plan.run(DATA, UNIT, ledger=ledger, output=tmp_path / "x")
    assert load_release(tmp_path / "x").provenance.charge == Fraction(1, 2)
