"""What a conic solver says of its result, what is made of it, and that nothing else comes out of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from qcompile.errors import OptionError, SizeError
from qcompile.lattice.decompose import decompose
from qcompile.lattice.lattice import Problem
from qcompile.queries.factors import Abs, Factor, Prefix, Range
from qcompile.solvers.exact import conic
from qcompile.solvers.exact.conic import BACKENDS, OUTCOMES, Backend, Conic, ConicResult, Posed, outcome
from qcompile.solvers.shared import Exact
from qcompile.solvers.solver import solve
from qcompile.support.arrays import Array
from tests.conformance.helpers import family, integers, workload

LABELS = {"conic, Clarabel", "conic, SCS"}


def posed(*factors: Factor) -> Problem:
    attributes = list({a.name: a for f in factors for a in f.attributes}.values())
    closure = decompose(workload(attributes, family(*factors)))
    return closure.classes[int(closure.class_of[-1])]


@pytest.fixture
def problem() -> Problem:
    return posed(Prefix(integers(6)[0]))


@pytest.fixture
def optimum(problem: Problem) -> float:
    return solve((problem,), Exact(1e-9))[0].loss


def say(monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    """Every program ends with this status, whatever it found."""
    import cvxpy as cp

    monkeypatch.setattr(cp.Problem, "status", property(lambda self: status))


def answer(monkeypatch: pytest.MonkeyPatch, *answers: ConicResult) -> list[str]:
    """The solvers' answers in turn; returns the names of those that were asked."""
    asked: list[str] = []

    def fake(program: Posed, backend: Backend, gap: float) -> ConicResult:
        asked.append(backend.name)
        return answers[len(asked) - 1]

    monkeypatch.setattr(conic, "_ask", fake)
    return asked


def test_every_status_of_cvxpy_is_in_the_table() -> None:
    """A release with a new status fails here, and is "inaccurate" until someone decides."""
    import cvxpy.settings as s

    known = {*s.SOLUTION_PRESENT, *s.INF_OR_UNB, *s.INACCURATE, *s.ERROR}
    assert known == set(OUTCOMES)
    assert {status for status, word in OUTCOMES.items() if word == "optimal"} == {s.OPTIMAL}
    assert {status for status, word in OUTCOMES.items() if word == "inaccurate"} == {*s.SOLUTION_PRESENT} - {s.OPTIMAL}


@pytest.mark.parametrize("status", ["something new", "Optimal", "optimal ", "", "None"])
def test_an_unknown_status_is_never_optimal(status: str) -> None:
    assert outcome(status) == "inaccurate"


@pytest.mark.parametrize("status", ["optimal_inaccurate", "user_limit", "something new"])
def test_a_doubtful_status_is_in_the_label_and_another_solver_is_asked(
    status: str, problem: Problem, optimum: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Conic(1e-6).solve(problem)
    assert (plain.solver, plain.refused) == ("conic, Clarabel", ())
    say(monkeypatch, status)
    found = Conic(1e-6).solve(problem)
    doubtful = {f"{label}, inaccurate" for label in LABELS}
    assert {found.solver, *(label for label, _ in found.refused)} == doubtful
    assert "optimal" not in found.solver
    assert found.loss == pytest.approx(optimum, rel=1e-6)  # what is certified stays so


@pytest.mark.parametrize("status", [s for s, word in OUTCOMES.items() if word == "failed"])
def test_a_failed_status_gives_no_strategy_even_with_numbers(
    status: str, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(monkeypatch, status)
    with pytest.raises(OptionError, match=rf"Clarabel: status '{status}'.*SCS: status '{status}'.*use solver='exact'"):
        Conic(1e-6).solve(problem)


def test_a_solver_that_breaks_down_hands_over(
    problem: Problem, optimum: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cvxpy as cp

    original = cp.Problem.solve

    def breaks(self: Any, solver: str, **options: Any) -> Any:
        if solver == "CLARABEL":
            raise cp.SolverError("no")
        return original(self, solver=solver, **options)

    monkeypatch.setattr(cp.Problem, "solve", breaks)
    found = Conic(1e-6).solve(problem)
    assert found.solver == "conic, SCS"
    assert found.refused == (("conic, Clarabel", "status 'solver_error' without a usable strategy"),)
    assert found.loss == pytest.approx(optimum, rel=1e-6)


RANK, CELLS = 5, 6
UNUSABLE: dict[str, Array | None] = {
    "nothing": None,
    "not a number": np.full((RANK, RANK), np.nan),
    "infinite": np.full((RANK, RANK), np.inf),
    "zero": np.zeros((RANK, RANK)),
    "negative": -np.eye(RANK),
    "indefinite": np.diag([1.0, 1, 1, 1, -0.1]),
    "singular": np.diag([1.0, 1, 1, 1, 0]),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_matrix_that_spans_too_little_is_no_strategy(
    case: str, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = ConicResult("optimal", UNUSABLE[case], np.ones(CELLS))
    good = ConicResult("optimal", np.eye(RANK), np.ones(CELLS))
    assert answer(monkeypatch, bad, good) == []
    found = Conic(0.5).solve(problem)
    assert found.solver == "conic, SCS"
    assert found.refused == (("conic, Clarabel", "status 'optimal' without a usable strategy"),)
    answer(monkeypatch, bad, bad)
    with pytest.raises(OptionError, match="found no strategy for a node of 6 cells"):
        Conic(0.5).solve(problem)


DUALS: dict[str, Array | None] = {
    "none": None,
    "zero": np.zeros(CELLS),
    "negative": -np.ones(CELLS),
    "not a number": np.full(CELLS, np.nan),
    "one cell": np.eye(CELLS)[2] * 1e9,
    "cancelling": np.array([50.0, -49, 50, -49, 0.1, 0.1]),
    "mixed": np.array([3.0, -7, 0, 1, 1e-3, np.inf]),
}


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("dual", DUALS)
def test_loss_and_bound_hold_whatever_the_solver_claims(
    dual: str, scale: float, problem: Problem, optimum: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong answer with the best of statuses: its cost is 1, its loss true, its bound below the optimum."""
    x = scale * np.diag([1.0, 5, 2, 9, 3])
    asked = answer(monkeypatch, *[ConicResult("optimal", x, DUALS[dual])] * 2)
    found = Conic(1e-6).solve(problem)
    assert asked == ["Clarabel", "SCS"]
    assert found.loss > 1.01 * optimum
    assert 0 < found.bound < 1.000001 * optimum
    assert found.gap > 0.01
    (rows,) = found.strategy.factors([0])
    assert (rows**2).sum(axis=0).max() == pytest.approx(1, rel=1e-12)


def test_the_better_certificate_wins(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    good = ConicResult("optimal_inaccurate", np.eye(RANK), np.ones(CELLS))
    bad = ConicResult("optimal", np.diag([1.0, 5, 2, 9, 3]), np.ones(CELLS))
    for answers, winner in (((good, bad), "conic, Clarabel, inaccurate"), ((bad, good), "conic, SCS, inaccurate")):
        answer(monkeypatch, *answers)
        found = Conic(1e-6).solve(problem)
        assert found.solver == winner
        ((label, reason),) = found.refused
        assert label in LABELS
        assert reason.startswith("certified gap ")


def test_a_loose_gap_is_content_with_the_first(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ConicResult("optimal", np.eye(RANK), np.ones(CELLS))
    asked = answer(monkeypatch, first, first)
    Conic(0.9).solve(problem)
    assert asked == ["Clarabel"]
    asked = answer(monkeypatch, replace(first, status="user_limit"), first)
    Conic(0.9).solve(problem)
    assert asked == ["Clarabel", "SCS"]


def test_stopped_early_the_solvers_warn_nobody_and_print_nothing(
    problem: Problem, optimum: float, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Warnings are errors in these tests; the certificate is what tells how far the solvers got."""
    early = [replace(BACKENDS[0], options={"max_iter": 4}), replace(BACKENDS[1], options={"max_iters": 20})]
    for backend in early:
        monkeypatch.setattr(conic, "BACKENDS", (backend,))
        found = Conic(1e-6).solve(problem)
        assert found.solver == f"conic, {backend.name}, inaccurate"
        assert found.gap > 1e-6
        assert found.bound <= optimum <= found.loss * (1 + 1e-9)
    assert capfd.readouterr() == ("", "")


def test_a_full_run_prints_nothing(problem: Problem, capfd: pytest.CaptureFixture[str]) -> None:
    Conic(1e-6).solve(problem)
    assert capfd.readouterr() == ("", "")


def test_the_tolerance_follows_the_gap_within_limits() -> None:
    scs = BACKENDS[1]
    assert [scs.settings(gap)["eps_abs"] for gap in (1e-3, 1e-6, 1e-12)] == [1e-6, 1e-7, 1e-9]
    assert scs.settings(1e-3)["max_iters"] == scs.options["max_iters"]


def test_size_limits_before_any_work() -> None:
    assert Conic().why_not(posed(Prefix(integers(200)[0]))) is None
    assert Conic().why_not(posed(Abs(integers(30, 30), [1, -1]))) is None
    for large in (posed(Range(integers(210)[0])), posed(Abs(integers(40, 40), [1, -1]))):
        reason = Conic().why_not(large)
        assert reason is not None
        assert str(large.cells) in reason
        with pytest.raises(SizeError, match=f"{large.cells} cells at rank .*use solver='auto'"):
            Conic(1e-3).solve(large)
