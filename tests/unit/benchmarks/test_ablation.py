"""The page on adaptive runs: baselines that compute the same, honest sections, and a small page from end to end."""

from __future__ import annotations

import itertools
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from benchmarks import ablation, adaptive, costs, curves
from benchmarks.ablation import ALLOCATORS, FOLLOWERS
from benchmarks.followers import ReconMarginals, iid
from benchmarks.fresh import Job, fresh, here
from benchmarks.routes import residual_planner
from benchmarks.settings import SETTINGS, Errors, World
from benchmarks.targets import Target
from qcompile.adaptive import conditional_planner as crp
from qcompile.adaptive.objective import Objective
from qcompile.estimates.grem import Estimates, LazyMarginals
from qcompile.plan.basis import basis_strategies
from qcompile.support.arrays import Array
from tests.conformance.cases import Case
from tests.unit.adaptive.worlds import marginals

ABSENT = Path("absent")
"""A folder that the made-up table does not look at."""


@pytest.fixture(scope="module")
def world() -> World:
    return World.of("made-up-2", ABSENT)


@pytest.mark.parametrize("basis", ["compiled", "residual"])
def test_no_prior_means_independent_noise_on_the_cells(basis: str) -> None:
    """The cost that each node gets is that of IID noise, whatever is known already."""
    plan = marginals(3, 4, 1, 5, ways=3)
    strategies = basis_strategies(plan, basis)
    objective, stream = Objective(plan, strategies), np.random.default_rng(2)
    for i, node in enumerate(plan.closure.nodes):
        losses = objective.losses(i) if node else {}
        if not losses:
            continue
        below = [tuple(node.index(a) for a in plan.closure.nodes[j]) for j in losses]
        cost = np.array([float(plan.unit.sensitivity_squared(strategies[plan.closure.class_of[j]])) for j in losses])
        prior = stream.uniform(0, 10, len(below))
        found = cost * iid(prior, cost, np.array([*losses.values()]), 0.3)
        shape = plan.closure.shape(node)
        expected = residual_planner.costs(shape, below) * residual_planner.allocate_iid(shape, below, 0.3)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        np.testing.assert_allclose(found.sum(), 0.3)


@pytest.mark.parametrize("basis", ["compiled", "residual"])
@pytest.mark.parametrize("follower", FOLLOWERS)
def test_all_reconstructions_are_the_same(follower: str, basis: str) -> None:
    """After any measurements, some of them repeated, some missing; also where an axis has one value."""
    plan = marginals(3, 1, 4, 2, ways=3)
    stream = np.random.default_rng(1)
    estimates = Estimates(plan.closure, basis_strategies(plan, basis))
    usable = [i for i, c in enumerate(plan.closure.class_of.tolist()) if c >= 0]

    def measured() -> dict[int, Array]:
        nodes = stream.choice(usable, 3, replace=False).tolist()
        rows = {i: estimates.strategies[int(plan.closure.class_of[i])].rows for i in nodes}
        return {i: estimates.add(i, stream.normal(9, 5, n), float(stream.uniform(0.1, 9))) for i, n in rows.items()}

    measured()  # what is there before the marginals are first asked for counts, too
    wanted = list(range(1, len(plan.closure.nodes)))
    found, lazy = FOLLOWERS[follower](estimates, wanted), LazyMarginals(estimates, wanted)
    for _ in range(6):
        changes = measured()
        assert set(found.update(changes)) >= set(lazy.update(changes))
        for i in wanted:
            np.testing.assert_allclose(found.estimate(i), lazy.estimate(i), atol=1e-9)


def test_recon_is_for_uniform_centring() -> None:
    plan = Case("hybrid", "exact", skewed=True).plan()
    with pytest.raises(ValueError, match="uniform centring"):
        ReconMarginals(Estimates(plan.closure, plan.strategies), [0])


def test_variants_differ_in_time_alone(world: World) -> None:
    """The same allocation measures the same marginals, with the same errors, whoever reconstructs."""
    for allocator in ALLOCATORS:
        found = [ablation.run("made-up-2", ABSENT, 1.0, (f, allocator), 3) for f in FOLLOWERS]
        for other in found[1:]:
            assert other.rounds == found[0].rounds
            assert other.errors.raw == pytest.approx(found[0].errors.raw, rel=1e-9)
        assert all(o.seconds > 0 < o.a_round for o in found)
        assert len(found[0].rounds) > 6
        assert 6 < found[0].nodes <= len(world.plan.closure.nodes)


def test_the_predicted_error_of_independent_noise_is_its_scale(world: World) -> None:
    plan = world.plan
    pair = plan.closure.index[0, 1]
    assert ablation.predicted(plan, [(pair, 0.25)], iid) == pytest.approx(2)
    assert ablation.predicted(plan, [(pair, 0.25), (pair, 0.75)], iid) == pytest.approx(1)
    rounds = [(plan.closure.index[node], 0.1) for node in [(0,), (1,), (0, 1), (0, 2), (1, 2), (0, 1)]]
    assert ablation.predicted(plan, rounds, crp.allocate) < 0.99 * ablation.predicted(plan, rounds, iid)


def test_errors_are_those_of_the_public_estimates(world: World) -> None:
    """Projected here is what a release calls non-negative."""
    release = world.adaptive(1.0, "auto", 0)
    exact = world.table.exact(world.plan.workload.views)

    def mean(processing: str) -> float:
        found = [release.marginal(v, processing=processing).array for v in exact]
        return float(np.mean([np.abs(m - x).sum() / x.sum() for m, x in zip(found, exact.values(), strict=True)]))

    errors = world.errors(lambda view: release.marginal(view, processing="none").array)
    assert errors.raw == pytest.approx(mean("none"))
    assert errors.projected == pytest.approx(mean("nonnegative"), rel=1e-6)
    assert errors.projected < errors.raw
    assert world.errors(lambda view: exact[view].astype(np.float64)) == Errors(0.0, 0.0)
    assert str(Errors(1.25, 0.0625)) == "1.250 / 0.062"


def test_curves_are_means_over_the_seeds() -> None:
    def fake(jobs: Any, at_once: int) -> list[Any]:
        return [{"x": Errors(j.arguments[2] + j.arguments[3], j.arguments[3])} for j in jobs]

    found = curves.measured(fake, ["made-up-2"], ABSENT, [1.0, 10.0])
    assert SETTINGS["made-up-2"].seeds == 2
    assert found == {"made-up-2": {1.0: {"x": Errors(1.5, 0.5)}, 10.0: {"x": Errors(10.5, 0.5)}}}


LINES = [*curves.ADAPTIVE, *curves.BATCH]


def _curves() -> curves.Curves:
    """Errors that grow with the place of a line, so that the first one is the best."""
    return {e: {line: Errors(2 / e, (0.3 + i) / e) for i, line in enumerate(LINES)} for e in (1.0, 10.0)}


def test_curves_have_a_table_and_a_plot_that_is_always_the_same(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra bench)")
    text = curves.section({"adult-2": _curves()}, tmp_path / "new", "p")
    row = next(line for line in text.splitlines() if line.startswith("| adaptive, independence"))
    assert [c.strip() for c in row.strip("|").split("|")][1:] == ["2.000 / 1.300", "0.200 / 0.130"]
    assert "![L1/N over epsilon](p-adult-2.svg)" in text
    assert "1: adaptive, none; 10: adaptive, none" in text
    assert "- projected error of auto at epsilon 1: 4.3 (target: at most 0.08; **not met**)" in text
    image = (tmp_path / "new" / "p-adult-2.svg").read_bytes()
    assert all(f">{line}</text>".encode() in image for line in LINES)
    curves.section({"adult-2": _curves()}, tmp_path, "p")
    assert (tmp_path / "p-adult-2.svg").read_bytes() == image
    assert len(image) < 60_000


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (Target("a", 7.0, at_least=7), "a: 7 (target: at least 7; met)"),
        (Target("a", 6.99, at_least=7), "a: 6.99 (target: at least 7; **not met**)"),
        (Target("b", 0.08, at_most=0.08), "b: 0.08 (target: at most 0.08; met)"),
        (Target("b", 0.0801, at_most=0.08), "b: 0.0801 (target: at most 0.08; **not met**)"),
        (Target("b", math.nan, at_most=0.08), "b: nan (target: at most 0.08; **not met**)"),
    ],
)
def test_targets_say_whether_they_are_met(target: Target, text: str) -> None:
    assert str(target) == text


def test_seeds_differ_and_their_spread_is_shown() -> None:
    found = costs.spread("made-up-2", ABSENT, 1.0, 3)
    assert len(set(found.errors)) == len(found.errors) == len(found.seconds) == 3
    again = costs.spread("made-up-2", ABSENT, 1.0, 1)
    assert again.errors == found.errors[:1]
    text = costs.spread_section(costs.Spread([0.07, 0.08, 0.12], [1.0, 1.0, 4.0]), "made-up-2", 1.0)
    rows = [[c.strip() for c in row.strip("|").split("|")] for row in text.splitlines() if row.startswith("| ")]
    assert rows[-2] == ["L1/N", "0.0900", "0.0216", "0.0700", "0.1200", "0.0800"]
    assert rows[-1] == ["seconds", "2.000", "1.414", "1.000", "4.000", "1.000"]
    assert "mean error: 0.09 (target: at most 0.08; **not met**)" in text
    assert "median seconds: 1 (target: at most 2; met)" in text


def test_jobs_have_processes_of_their_own_or_none(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [Job("one", os.getpid, ()), Job("two", os.getpid, ())]
    found = fresh(jobs, 2)
    assert len({*found, os.getpid()}) == 3
    assert [line.rpartition(": ")[2] for line in capsys.readouterr().err.splitlines()] == ["one", "two"]
    assert here(jobs) == [os.getpid()] * 2
    with pytest.raises(ValueError, match="math domain error"):
        fresh([Job("three", math.log, (-1.0,))])


def _result(**changes: object) -> Mapping[str, Any]:
    """Of Private-PGM."""
    rounds = [{"selecting": 1.5, "fitting": 20.0}]
    base = {"model_mb": 10.0, "epsilon": 1.0, "error": 0.0795, "seconds": 600.0, "cpu": 700.0, "peak": 5e9, "seed": 0}
    return {**base, "rounds": rounds, "versions": {"mbi": "2.0.0"}, **changes}


def test_the_ratio_of_times_is_that_of_the_two_measurements() -> None:
    spread = costs.Spread([0.07, 0.09], [1.0, 3.0])
    text = adaptive.beside([_result(), _result(model_mb=1.0, cpu=150.0)], spread)
    fast, slow = (line for line in text.splitlines() if line.startswith("- times as fast"))
    assert "limit of 10 MB (700 s of processor time, 600 s on" in fast
    assert fast.endswith("error 0.0795): 300 (target: at least 100; met)")
    assert "limit of 1 MB (150 s of processor time, 600 s on" in slow
    assert slow.endswith("error 0.0795): 75 (target: at least 100; **not met**)")
    assert "in 2.000 s" in text
    assert "mean error of 0.0800" in text
    for nothing in ([], [_result(epsilon=10.0)]):
        assert adaptive.beside(nothing, spread) == adaptive.MISSING


def test_the_quick_page_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra bench)")
    monkeypatch.setattr(adaptive, "fresh", here)
    monkeypatch.setattr(adaptive, "QUICK", replace(adaptive.QUICK, epsilons=(1.0,)))
    monkeypatch.setattr("benchmarks.inaxis.QUICK", 256)
    target = tmp_path / "page.md"
    adaptive.main(["--quick", "-o", str(target)])
    text = target.read_text()
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert titles == [
        "## Ablation: Made up, all 3-way marginals",
        "## Curves",
        "## Speed and memory",
        "## 2 seeds",
        "## In-axis operations",
        "## AIM with Private-PGM",
    ]
    for variant in itertools.product(FOLLOWERS, ALLOCATORS):
        assert f"| {', '.join(variant)} " in text
    for line in LINES:
        assert f"| {line} " in text
    assert "predicted error of CRP over IID on IID's marginals" in text
    assert (tmp_path / "page-made-up-2.svg").exists()
    assert max(map(len, text.splitlines())) < 400
    assert str(tmp_path) not in text
