"""Adaptive releases: what they answer, what they say about it, and what is refused."""

from __future__ import annotations

import itertools
import json
import math
import pathlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import qcompile as qc
from qcompile.api import Plan, Release, compile
from qcompile.queries.factors import Marginal, Prefix
from qcompile.release.files import KIND, VERSION
from qcompile.support import archive
from tests.conformance.cases import WORKLOADS, Case
from tests.conformance.helpers import family, integers, some_weights, workload
from tests.unit.adaptive.worlds import Instrument, adapted, counts_of, full_table, marginals

SMALL = qc.Budget(rho="1/200")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return marginals(6, 5, 4, 3, ways=2)


@pytest.fixture(scope="module")
def data(plan: Plan) -> dict[Any, Any]:
    return full_table(plan)


@pytest.fixture(scope="module")
def release(plan: Plan, data: dict[Any, Any]) -> Release:
    """A budget so small that some pairs are never measured."""
    return plan.run(data, SMALL, mechanism="adaptive", test_seed=1)


def measured(release: Release) -> set[tuple[str, ...]]:
    closure = release.plan.closure
    return {closure.names(closure.nodes[i]) for i in range(len(closure.nodes)) if math.isfinite(release.variances[i])}


def test_what_was_not_measured_has_a_best_estimate_only(release: Release, plan: Plan) -> None:
    missing = [v for v in plan.workload.views if v not in measured(release)]
    assert missing
    first = missing[0]
    best = release.marginal(first)
    assert (best.estimate, best.processing) == ("best", "nonnegative")
    assert np.isnan(best.std_error).all()
    assert best.array.min() >= 0
    with pytest.raises(qc.NotEstimableError, match="did not measure"):
        release.marginal(first, estimate="unbiased")
    with pytest.raises(qc.NotEstimableError, match="did not measure"):
        release.ask(f"count({first[0]} = 0 and {first[1]} = 1)", estimate="unbiased")
    answer = release.ask(f"count({first[0]} = 0 and {first[1]} = 1)", processing="nonnegative")
    assert answer.estimate == pytest.approx(best.array[0, 1])
    assert math.isnan(answer.std_error)
    with pytest.raises(qc.OptionError, match="no interval holds"):
        answer.interval()
    with pytest.raises(qc.OptionError, match="no intervals hold"):
        release.answers("all", simultaneous=True)


def test_answers_are_null_where_nothing_was_measured(release: Release, plan: Plan) -> None:
    table = release.answers("all", estimate="unbiased")
    estimates, errors = table.column("estimate").to_pylist(), table.column("std_error").to_pylist()
    assert [e is None for e in estimates] == [e is None for e in errors]
    place = 0
    for product in plan.workload.families[0].products():
        held = product.names in measured(release)
        assert all((e is not None) == held for e in estimates[place : place + product.count])
        place += product.count
    assert place == len(estimates)
    assert b"nominal" in table.schema.metadata[b"interval"]
    best = release.answers("all")
    assert best.column("estimate").null_count == 0
    assert best.column("std_error").null_count == len(estimates)
    assert best.schema.metadata[b"estimate"] == b"best, reference auto, nonnegative"


def test_unbiased_answers_are_the_measurements(release: Release, plan: Plan) -> None:
    """By hand: residuals of what was measured, added up."""
    names = next(v for v in plan.workload.views if v in measured(release))
    found = release.marginal(names, estimate="unbiased")
    node = plan.closure.index[tuple(plan.closure.schema.positions[n] for n in names)]
    expected = release._measurements.best._estimates.marginal(node)
    np.testing.assert_allclose(found.array, expected)
    assert (found.std_error > 0).all()
    one = release.ask(f"count({names[0]} = 1 and {names[1]} = 0)", estimate="unbiased")
    assert one.estimate == pytest.approx(expected[1, 0])
    assert one.std_error == pytest.approx(found.std_error[1, 0])
    assert "nominal" in one.method


@pytest.mark.parametrize("processing", ["none", "nonnegative", "consistent", "integer"])
def test_processing_does_what_it_says(plan: Plan, processing: str) -> None:
    """On a table so small beside its noise that many cells come out negative."""
    release = plan.run(full_table(plan, 150), qc.Budget(rho="1/50"), mechanism="adaptive", test_seed=1)
    total = float(release._measurements.best._estimates.rows)
    tables = {v: release.marginal(v, processing=processing) for v in plan.workload.views}
    assert {t.processing for t in tables.values()} == {processing}
    for t in tables.values():
        expected = round(total) if processing == "integer" else total
        assert t.array.sum() == pytest.approx(expected, rel=1e-6)
        assert t.array.min() >= (-math.inf if processing == "none" else -1e-6 * total)
        if processing == "integer":
            assert (t.array == np.rint(t.array)).all()
    pairs = itertools.combinations(tables, 2)
    gaps = [disagreement(tables[one].array, tables[other].array, one, other) for one, other in pairs]
    assert min(t.array.min() for t in tables.values()) < -1 or processing != "none"
    assert (max(gaps) < 1e-5 * total) == (processing in ("none", "consistent"))


def disagreement(x: Any, y: Any, one: tuple[str, ...], other: tuple[str, ...]) -> float:
    common = set(one) & set(other)
    sums = [t.sum(axis=tuple(i for i, n in enumerate(v) if n not in common)) for t, v in ((x, one), (y, other))]
    return float(np.abs(sums[0] - sums[1]).max())


def test_axes_come_in_the_order_asked(release: Release) -> None:
    np.testing.assert_array_equal(release.marginal(("a", "b")).array, release.marginal(("b", "a")).array.T)


def test_a_release_survives_its_file(release: Release, tmp_path: pathlib.Path) -> None:
    release.save(tmp_path / "r")
    found = qc.load_release(tmp_path / "r")
    assert found.history == release.history
    assert found.provenance == release.provenance
    for estimate in ("best", "unbiased"):
        assert found.answers("all", estimate=estimate).equals(release.answers("all", estimate=estimate))
    assert found.rounds().equals(release.rounds())
    np.testing.assert_array_equal(found.variances, release.variances)


def test_a_seed_repeats_a_run_and_another_does_not(plan: Plan, data: dict[Any, Any], release: Release) -> None:
    again, other = (plan.run(data, SMALL, mechanism="adaptive", test_seed=s) for s in (1, 2))
    assert again.history == release.history
    assert all(np.array_equal(a, b) for a, b in zip(again.values, release.values, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(other.values, release.values, strict=True))
    assert "NOT PRIVATE: made with a test seed" in release.provenance.stamps


def test_runs_from_the_operating_system_differ(plan: Plan, data: dict[Any, Any]) -> None:
    one, other = (plan.run(data, SMALL, mechanism="adaptive") for _ in range(2))
    assert one.provenance.stamps == ()
    assert one.values[0] != other.values[0]


def test_the_ledger_is_charged_once_and_first(
    plan: Plan, data: dict[Any, Any], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from qcompile.run import randomness as chance

    book = qc.Ledger.create(tmp_path / "l", qc.Budget(rho=1))
    seen: list[Fraction] = []
    original = chance.Chance.noise

    def watched(self: Any, *args: Any) -> Any:
        seen.append(book.remaining)
        return original(self, *args)

    monkeypatch.setattr(chance.Chance, "noise", watched)
    release = plan.run(data, qc.Budget(rho="1/49"), mechanism="adaptive", ledger=book, strict_values=True)
    assert set(seen) == {Fraction(48, 49)}
    [entry] = book.entries
    assert entry.charge.mechanism == "adaptive"
    assert release.history is not None
    assert sum(r.budget for r in release.history.rounds) == Fraction(1, 49) == entry.charge.rho


def test_a_ledger_with_too_little_is_not_touched(plan: Plan, data: dict[Any, Any], tmp_path: pathlib.Path) -> None:
    book = qc.Ledger.create(tmp_path / "l", qc.Budget(rho="1/1000"))
    with pytest.raises(qc.OverspendError):
        plan.run(data, SMALL, mechanism="adaptive", ledger=book, strict_values=True)
    assert book.entries == ()


@pytest.mark.parametrize("noise", ["none", "opendp"])
def test_other_noises_run_the_same_path(plan: Plan, data: dict[Any, Any], noise: str, tmp_path: pathlib.Path) -> None:
    release = plan.run(data, qc.Budget(rho=2), mechanism="adaptive", noise=noise)
    release.save(tmp_path / "r")
    assert qc.load_release(tmp_path / "r").history == release.history
    assert ("NOT PRIVATE: made without noise" in release.provenance.stamps) == (noise == "none")
    if noise == "none":
        table = full_table(plan)[plan.workload.schema.names]
        for names in sorted(measured(release)):
            gone = tuple(i for i, n in enumerate("abcd") if n not in names)
            np.testing.assert_allclose(
                release.marginal(names, estimate="unbiased").array, table.sum(axis=gone), atol=1e-6
            )


REFUSED: dict[str, tuple[Callable[[], Plan], dict[str, Any], str]] = {
    "gaussian accounting": (lambda: marginals(2, 3), {"accounting": "gaussian"}, "holds for a batch only"),
    "blocks": (lambda: Case("affine", "exact", blocks="dealt").plan(), {}, "blocks=False"),
    "nothing to choose": (lambda: compile(WORKLOADS["total"]()), {}, "mechanism='batch'"),
    "skewed centring": (
        lambda: Case("hybrid", "exact", skewed=True).plan(),
        {"basis": "residual"},
        "centring='uniform'",
    ),
    "reference": (lambda: marginals(2, 3), {"reference": "trees"}, "did you mean 'tree'"),
    "basis": (lambda: marginals(2, 3), {"basis": "residuals"}, "did you mean 'residual'"),
    "mechanism": (lambda: marginals(2, 3), {"mechanism": "adaptiv"}, "did you mean 'adaptive'"),
    "memory": (lambda: marginals(50, 60, 70, ways=3), {"max_memory": 10_000}, "needs"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_adapted_is_refused_beforehand(name: str) -> None:
    made, options, text = REFUSED[name]
    plan = made()
    with pytest.raises(qc.QCompileError, match=text):
        plan.run({}, qc.Budget(rho=1), **({"mechanism": "adaptive"} | options))


def test_a_basis_is_for_adaptive_runs(plan: Plan, data: dict[Any, Any]) -> None:
    with pytest.raises(qc.OptionError, match="mechanism='adaptive'"):
        plan.run(data, SMALL, basis="residual")


def test_best_estimates_of_a_batch(plan: Plan, data: dict[Any, Any]) -> None:
    """Unbiased by default; the best are closer to the truth on average, and have no standard error."""
    table = full_table(plan)[plan.workload.schema.names]
    off: dict[str, list[float]] = {"unbiased": [], "best": []}
    for seed, view in itertools.product(range(3), plan.workload.views):
        release = plan.run(data, SMALL, test_seed=seed)
        truth = table.sum(axis=tuple(i for i, n in enumerate("abcd") if n not in view))
        for estimate, errors in off.items():
            errors.append(float(np.abs(release.marginal(view, estimate=estimate).array - truth).sum()))
    assert np.mean(off["best"]) < 0.95 * np.mean(off["unbiased"])
    assert release.marginal(("a", "b")).estimate == "unbiased"
    assert np.isnan(release.marginal(("a", "b"), estimate="best").std_error).all()
    with pytest.raises(qc.OptionError, match="no rounds"):
        release.rounds()
    with pytest.raises(qc.OptionError, match="makes estimates biased"):
        release.marginal(("a", "b"), processing="nonnegative")
    with pytest.raises(qc.OptionError, match="did you mean 'nonnegative'"):
        release.marginal(("a", "b"), estimate="best", processing="nonegative")
    with pytest.raises(qc.OptionError, match="did you mean 'best'"):
        release.answers("all", estimate="bset")


def test_families_in_blocks_have_no_best_estimate() -> None:
    case = Case("affine", "exact", blocks="dealt")
    plan = case.plan()
    release = plan.run(full_table(plan), qc.Budget(rho=1), test_seed=1)
    name = plan.closure.blocks[0][0]
    with pytest.raises(qc.OptionError, match="unbiased"):
        release.answers(name, estimate="best")
    assert release.answers(name).num_rows


def test_prefixes_are_answered_from_the_best_table() -> None:
    a, b = integers(8, 3)
    plan = compile(workload([a, b], family(Prefix(a), Marginal(b), name="both"), family(Marginal(a), name="one")))
    release = plan.run(full_table(plan), qc.Budget(rho=1), mechanism="adaptive", test_seed=3)
    assert release.answers("both").schema.metadata[b"estimate"] == b"best, reference auto, none"
    table = release.marginal(("a", "b"), processing="none").array
    found = np.array(release.answers("both").column("estimate").to_pylist()).reshape(8, 3)
    np.testing.assert_allclose(found, table.cumsum(axis=0))


def test_queries_outside_the_span_are_refused_whatever_the_estimate(release: Release) -> None:
    for estimate in ("best", "unbiased"):
        with pytest.raises(qc.NotEstimableError):
            release.ask("count(a = 1 and b = 1 and c = 1)", estimate=estimate)
        with pytest.raises(qc.NotEstimableError):
            release.marginal(("a", "b", "c"), estimate=estimate)


def forged(release: Release, path: pathlib.Path, change: Callable[[dict[str, Any]], None]) -> pathlib.Path:
    """A file with right hashes, but for what was changed in its document."""
    release.save(path)
    document, arrays, _ = archive.read(path, KIND, VERSION)
    document = json.loads(json.dumps(document))
    change(document)
    archive.write(path, KIND, VERSION, document, arrays)
    return path


def step(d: dict[str, Any], i: int = 0) -> list[Any]:
    found: list[Any] = d["history"]["rounds"][i]["steps"][0]
    return found


def selected(d: dict[str, Any]) -> dict[str, Any]:
    """The first round that was selected."""
    found: dict[str, Any] = next(r for r in d["history"]["rounds"] if r["selection"])
    return found


FORGERIES: dict[str, Callable[[dict[str, Any]], None]] = {
    "less noise than paid for": lambda d: step(d).__setitem__(1, step(d)[1] / 2),
    "more noise than paid for": lambda d: step(d).__setitem__(1, step(d)[1] * 2),
    "a lower cost": lambda d: step(d).__setitem__(3, "1/100000"),
    "another grid": lambda d: step(d).__setitem__(2, step(d)[2] * 3),
    "no noise": lambda d: step(d).__setitem__(1, 0.0),
    "a node that is not there": lambda d: step(d).__setitem__(0, 10**6),
    "a node before the first": lambda d: step(d).__setitem__(0, -1),
    "a round without its cost": lambda d: d["history"]["rounds"].pop(),
    "a round twice": lambda d: d["history"]["rounds"].append(d["history"]["rounds"][-1]),
    "a larger charge": lambda d: d["provenance"].__setitem__("charge", "1"),
    "a free selection": lambda d: d["history"]["rounds"][-1].__setitem__("selection", [1e12, "1/10"]),
    "selections for nothing": lambda d: d["history"].__setitem__(
        "rounds", [{**r, "selection": None} for r in d["history"]["rounds"]]
    ),
    "one selection for nothing": lambda d: d["history"]["rounds"][-1].__setitem__("selection", None),
    "a round of another marginal": lambda d: d["history"]["rounds"][-1].__setitem__("marginal", 0),
    "growth that was not paid for": lambda d: selected(d).__setitem__("grown", not selected(d)["grown"]),
    "a node both measured and skipped": lambda d: d["history"]["rounds"][0]["skipped"].append(step(d)[0]),
    "a node measured twice in a round": lambda d: d["history"]["rounds"][0]["steps"].append(step(d)),
    "a round without measurements": lambda d: d["history"]["rounds"][-1].__setitem__("steps", []),
    "rounds in another order": lambda d: d["history"]["rounds"].reverse(),
    "accounting of a batch": lambda d: d["provenance"].__setitem__("accounting", "gaussian"),
    "a selection of scale 0": lambda d: d["history"]["rounds"][-1].__setitem__("selection", [0.0, "1/10"]),
    "another basis": lambda d: d["history"].__setitem__("basis", "other"),
    "another reference": lambda d: d["provenance"].__setitem__("reference", "other"),
    "another mechanism": lambda d: d["provenance"].__setitem__("mechanism", "batch"),
    "a budget that is no fraction": lambda d: d["history"]["rounds"][0].__setitem__("budget", "1e9"),
    "growth that is no truth value": lambda d: d["history"]["rounds"][0].__setitem__("grown", 1),
    "no rounds": lambda d: d["history"].__setitem__("rounds", []),
    "no history": lambda d: d.__setitem__("history", None),
    "scales of a batch": lambda d: d.__setitem__("scales", [[1.0, 0.001953125, "1/2"]]),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_rounds_are_refused(release: Release, tmp_path: pathlib.Path, name: str) -> None:
    with pytest.raises(qc.StorageError):
        qc.load_release(forged(release, tmp_path / "r", FORGERIES[name]))


def test_an_unchanged_file_is_not_refused(release: Release, tmp_path: pathlib.Path) -> None:
    assert qc.load_release(forged(release, tmp_path / "r", lambda d: None)).history == release.history


@pytest.mark.slow
def test_nominal_intervals_cover() -> None:
    """Averages of what was measured are nearly unbiased, and their 95 % intervals cover about 95 %.

    A scale that is off by 10 % would be noticed.
    """
    plan = marginals(4, 3, 5, ways=2)
    counts = counts_of(plan, 3000)
    truth = {i: counts.table(plan.closure.names(n)).astype(float) for i, n in enumerate(plan.closure.nodes)}
    scores: dict[int, list[Any]] = {i: [] for i in truth}
    for seed in range(2000):
        _, estimates = adapted(plan, Fraction(1, 200), Instrument(seed), counts)
        for i in estimates.measured:
            c, order = int(plan.closure.class_of[i]), plan.closure.orders[i]
            exact = plan.strategies[c].apply(truth[i].transpose(order))
            scores[i].append((estimates.value(i) - exact) * math.sqrt(estimates.precision(i)))
    for i, found in scores.items():
        z = np.array(found)
        assert len(z) > 300, plan.closure.nodes[i]
        assert np.abs(z.mean(axis=0)).max() < 0.1 + 4 / math.sqrt(len(z))
        assert 0.935 < (np.abs(z) < 1.96).mean() < 0.97
        assert 0.93 < z.std() < 1.05


def test_skewed_centring_can_be_adapted_to() -> None:
    attributes = integers(4, 3, 5)
    w = workload(attributes, family(*map(Prefix, attributes), choose=(2, 2), name="pairs"))
    plan = compile(w, centring={a.name: some_weights(a.size, i) for i, a in enumerate(attributes)})
    release = plan.run(full_table(plan), qc.Budget(rho=50), mechanism="adaptive", noise="none")
    table = full_table(plan)[plan.workload.schema.names]
    for names in sorted(v for v in measured(release) if len(v) == 2):
        gone = tuple(i for i, n in enumerate("abc") if n not in names)
        np.testing.assert_allclose(release.marginal(names, estimate="unbiased").array, table.sum(axis=gone), atol=1e-6)
