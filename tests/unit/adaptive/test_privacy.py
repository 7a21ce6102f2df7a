"""What is promised of adaptive runs, with bugs planted to show that each check would notice."""

from __future__ import annotations

import pathlib
import warnings
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import qcompile as qc
from qcompile.adaptive import aim, candidates
from qcompile.adaptive.candidates import Candidates, candidate_nodes
from qcompile.adaptive.history import SelectionStep
from qcompile.adaptive.objective import Objective
from qcompile.api import Plan, compile
from qcompile.cli.app import execute
from qcompile.data.engines.given_counts import GivenCounts
from qcompile.errors import InternalError
from qcompile.privacy.unit import PrivacyUnit
from qcompile.queries.factors import Prefix
from qcompile.support.arrays import IntArray
from tests.conformance.helpers import family, integers, workload
from tests.conformance.test_side_channels import NEIGHBOURS, WORKLOAD
from tests.unit.adaptive.worlds import Instrument, adapted, full_table, marginals

CHARGE = Fraction(1, 7)


def faults() -> list[str]:
    """Everything that is wrong with adaptive runs of two small plans, found from outside."""
    found = []
    for neighbours in ("add-remove", "replace-one"):
        plan = marginals(2, 3, 2, neighbours=neighbours)
        chance = Instrument(seed=3)
        try:
            history, _ = adapted(plan, CHARGE, chance)
        except (qc.QCompileError, InternalError) as e:
            found.append(str(e))
            continue
        drawn = [(scale.sigma, label.split(": ")[0]) for _, scale, label in chance.drawn if scale.sigma]
        recorded = [s.scale.sigma for s in history.steps if s.scale.sigma]
        if [sigma for sigma, _ in drawn] != recorded:
            found.append("what was drawn is not what is recorded")
        if neighbours == "add-remove" and chance.cost > CHARGE * (1 + Fraction(1, 10**9)):
            found.append("the noise that was drawn costs more than the charge")
        if history.cost > CHARGE or len(chance.selected) != sum(r.selection is not None for r in history.rounds):
            found.append("the account does not hold")
        if most_moved(plan) > Candidates(plan, counts(plan, 0), inherited=True).sensitivity:
            found.append("a neighbour moves a score by more than its sensitivity")
    return found


def counts(plan: Plan, change: IntArray | int) -> Any:
    table = full_table(plan, 200)[plan.workload.schema.names] + 2 + change  # so that any row can be taken away
    return GivenCounts.of({plan.workload.schema.names: table}, plan.workload.schema)


def most_moved(plan: Plan) -> int:
    """Over all neighbours of a table, how far the score of any candidate moves."""
    objective, unit = Objective(plan, plan.strategies), [plan.unit.sensitivity_squared(s) for s in plan.strategies]
    levels = {i: objective.levels(i, unit, shrunk=True) for i in candidate_nodes(plan)}

    base = Candidates(plan, counts(plan, 0), inherited=True)

    def scores(change: IntArray | int) -> IntArray:
        candidate = Candidates(plan, counts(plan, change), inherited=True)
        for i in candidate.nodes:
            flat = np.full(base.counts(i).shape, base.counts(0) / base.counts(i).size)
            candidate.note(i, candidate.distances(i, flat, levels[i]))
        return candidate.scores({i: [5.0] * len(v) for i, v in levels.items()})

    sizes = [a.size for a in plan.workload.schema]
    one = np.eye(int(np.prod(sizes)), dtype=np.int64).reshape(-1, *sizes)
    moves = list(one) if plan.options.neighbours == "add-remove" else [e - f for e in one for f in one]
    return max(int(np.abs(scores(c) - scores(0)).max()) for c in moves)


def test_nothing_is_wrong() -> None:
    assert faults() == []


def twice(patch: pytest.MonkeyPatch) -> None:
    original = aim._Run._measure

    def measure(self: Any, node: int, scale: Any, label: str) -> Any:
        original(self, node, scale, label)
        return original(self, node, scale, label)

    patch.setattr(aim._Run, "_measure", measure)


def quieter(patch: pytest.MonkeyPatch) -> None:
    original = Instrument.noise

    def noise(self: Instrument, strategy: Any, x: Any, scale: Any, label: str) -> Any:
        return original(self, strategy, x, replace(scale, sigma=0.8 * scale.sigma), label)

    patch.setattr(Instrument, "noise", noise)


def free_selection(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SelectionStep, "of", staticmethod(lambda sensitivity, scale: SelectionStep(scale / 100, Fraction(0))))


BUGS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "grid steps are forgotten in the sensitivity": lambda p: p.setattr(
        candidates, "score_sensitivity", lambda plan, weights: int(weights.max()) * plan.unit.most_rows
    ),
    "weights are forgotten in the sensitivity": lambda p: p.setattr(
        candidates, "score_sensitivity", lambda plan, weights: candidates.STEPS * plan.unit.most_rows
    ),
    "a replaced row counts as one": lambda p: p.setattr(PrivacyUnit, "most_rows", 1),
    "a node is drawn twice": twice,
    "noise is at 0.8 of its scale": quieter,
    "selections cost nothing": free_selection,
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_noticed(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[bug](monkeypatch)
    assert faults()


@pytest.mark.parametrize("pair", NEIGHBOURS)
@pytest.mark.parametrize("options", [[], ["--ledger", "l"], ["--reference", "none"]], ids=str)
def test_nothing_is_printed_that_depends_on_the_data(
    pair: str, options: list[str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    """Which rounds there were is private output and in the release; its size follows from them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.q").write_text(WORKLOAD)
    assert execute(["compile", "w.q"]) == 0
    capfd.readouterr()
    seen = []
    for place, rows in enumerate(NEIGHBOURS[pair]):
        (tmp_path / "d.csv").write_text("\n".join(["person,age,kind,size", *rows]) + "\n")
        (tmp_path / "l").unlink(missing_ok=True)
        assert execute(["ledger", "create", "l", "--rho", "1"]) == 0
        capfd.readouterr()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            line = ["run", "w.plan", "--data", "d.csv", "--rho", "1/8", "--mechanism", "adaptive", *options]
            code = execute([*line, "-o", f"{place}.release"])
        seen.append((code, *(text.replace(f"{place}.release", "x") for text in capfd.readouterr())))
        assert (tmp_path / f"{place}.release").exists()
    assert seen[0] == seen[1]


@pytest.mark.parametrize("rho", ["1e-24", "1e-40", "1e-99"])
@pytest.mark.parametrize("reference", ["none", "auto"])
def test_budgets_that_tell_nothing_end_like_others(rho: str, reference: str) -> None:
    """Noise of 10^12 and more: scores are cut off where they would no longer be exact, and nothing fails on the way."""
    plan = marginals(2, 2)
    data = full_table(plan)
    for seed in range(3):
        release = plan.run(data, qc.Budget(rho=rho), mechanism="adaptive", reference=reference, test_seed=seed)
        assert release.history is not None
        assert sum(r.budget for r in release.history.rounds) == Fraction(rho)
        assert np.isfinite(release.marginal(("a", "b")).array).all()


def test_distances_are_cut_off_before_they_lose_digits() -> None:
    """Neighbours under estimates so large that doubles would round: the difference stays within a row's steps."""
    plan = marginals(2, 2)
    node = candidate_nodes(plan)[-1]
    [level] = Objective(plan, plan.strategies).levels(node, [Fraction(1)] * len(plan.strategies), shrunk=True)
    for size in (1e3, 1e12, 1e13, 1e15, 1e30):
        estimate = np.full((2, 2), size)
        found = [Candidates(plan, counts(plan, c), True).distances(node, estimate, [level])[0] for c in (0, UNIT)]
        assert abs(found[0] - found[1]) <= candidates.STEPS
        assert max(found) <= 2**51


@pytest.mark.parametrize("size", [1e3, 1e9, 1e13, 1e16, 1e30])
def test_blocks_of_large_cells_that_cancel_lose_no_digits(size: float) -> None:
    """Cells of both signs add up to little in a block: their sum is exact all the same, and a row moves it by 1."""
    a, b = integers(9, 9)
    plan = compile(workload([a, b], family(Prefix(a), Prefix(b))))
    node = candidate_nodes(plan)[-1]
    levels = Objective(plan, plan.strategies).levels(node, [Fraction(1)] * len(plan.strategies), shrunk=True)
    assert len(levels) == 2
    stream = np.random.default_rng(3)
    estimate = size * stream.normal(size=(9, 9))
    estimate[:, 1::3], estimate[:, 2::3] = -estimate[:, 0::3], 0  # each block adds up to nothing
    base = Candidates(plan, counts(plan, 0), True).distances(node, estimate, levels)
    for cell in range(0, 81, 5):
        change = np.eye(81, dtype=np.int64)[cell].reshape(9, 9)
        moved = Candidates(plan, counts(plan, change), True).distances(node, estimate, levels)
        assert all(abs(x - y) <= candidates.STEPS for x, y in zip(moved, base, strict=True))


UNIT = np.array([[1, 0], [0, 0]])


@pytest.mark.parametrize("workers", [1, 3])
def test_threads_change_nothing(workers: int) -> None:
    """Of a table large enough for several threads."""
    plan = marginals(40, 30, 25, 12, ways=3)
    stream = np.random.default_rng(1)
    data = {n: stream.integers(0, a.size, 2000) for n, a in zip("abcd", plan.workload.schema, strict=True)}
    rho = qc.Budget(rho="1/10")
    release = plan.run(data, rho, mechanism="adaptive", test_seed=1, workers=workers)
    again = plan.run(data, rho, mechanism="adaptive", test_seed=1, workers=2)
    assert release.history == again.history
    assert all(np.array_equal(x, y) for x, y in zip(release.values, again.values, strict=True))
