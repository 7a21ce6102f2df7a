"""Which route a problem takes, and that products of routes measure the whole product."""

from __future__ import annotations

import itertools
import math
import threading
import time
from functools import partial

import numpy as np
import pytest

from qcompile.api import Plan, compile
from qcompile.errors import OptionError, SizeError
from qcompile.lattice.decompose import decompose
from qcompile.lattice.gram import Gram
from qcompile.lattice.lattice import Group, Problem, Term
from qcompile.plan.encoding import ArrayStore, strategy_data
from qcompile.privacy.budget import Budget
from qcompile.queries.factors import Abs, Affine, Circular, Factor, Marginal, Predicate, Prefix, Random, Range
from qcompile.queries.schema import Attribute, IntegerDomain, Schema
from qcompile.queries.workload import Family, Workload
from qcompile.solvers.bases.fourier import Fourier
from qcompile.solvers.bases.residual import Residual
from qcompile.solvers.bounds.lower_bound import lower_bound
from qcompile.solvers.exact import optimal
from qcompile.solvers.exact.optimal import Optimal
from qcompile.solvers.solution import Solution
from qcompile.solvers.solver import solve
from qcompile.support import threads as parallel
from qcompile.support.text import excess_text

A, B, C = (Attribute(name, IntegerDomain(0, n - 1)) for name, n in (("a", 4), ("b", 4), ("c", 3)))


def workload(*products: tuple[Factor, ...]) -> Workload:
    families = tuple(Family(f"f{i}", f"f{i}", p) for i, p in enumerate(products))
    return Workload(Schema((A, B, C)), families)


def solvers(plan: Plan) -> dict[tuple[str, ...], str]:
    return {c.attributes: c.solver for c in plan.classes}


def test_marginal_and_circular_nodes_take_their_closed_forms() -> None:
    taken = solvers(compile(workload((Circular(A),), (Marginal(B),), (Circular(A), Marginal(B)))))
    assert taken["a",] == "closed form, Fourier basis"
    assert taken["b",] == "closed form, residual basis"
    assert taken["a", "b"] == "Kronecker of closed form"


@pytest.mark.parametrize("basis", ["rp", "wff"])
@pytest.mark.parametrize("reach", [(), (Prefix(C),)], ids=["alone", "in a product"])
def test_a_large_group_that_falls_back_to_a_basis_is_measured_whole(
    basis: str, reach: tuple[Factor, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optimal, "DENSE_CELLS", 10)
    monkeypatch.setattr(optimal, "SHORT_ENTRIES", 50)
    if basis == "rp":  # a basis of several matrices for one group
        monkeypatch.setattr(Fourier, "loss", lambda self, problem: math.inf)
    random = Random((A, B), 0.5, 60, 1)
    plan = compile(workload((random, *reach)))
    label = "residual" if basis == "rp" else "Fourier"
    assert label in solvers(plan)["a", "b"]
    x = np.arange(48).reshape(4, 4, 3)
    found = plan.run({("a", "b", "c"): x}, Budget(rho=1), noise="none").answers("f0")
    expected = random.apply(x.astype(float))
    expected = np.cumsum(expected, axis=1) if reach else expected.sum(axis=1)
    np.testing.assert_allclose(np.asarray(found["estimate"]), expected.ravel(), rtol=0, atol=1e-9)


def test_a_single_query_has_a_closed_form() -> None:
    """The loss is the largest squared entry of the centred query, and every cell's variance follows from it."""
    holds = np.arange(16).reshape(4, 4) % 5 == 1
    plan = compile(workload((Predicate((A, B), holds, "some"),)))
    assert set(solvers(plan).values()) <= {"closed form, one query", "closed form, total"}
    for c, s in zip(plan.closure.classes, plan.solutions, strict=True):
        if c.shape:
            (term,) = c.terms
            assert s.loss == pytest.approx(term.weighted * float(np.abs(term.groups[0].gram.root).max()) ** 2)
            assert s.loss == pytest.approx(Optimal(1e-8).solve(c).loss)
    assert plan.gap == 0


def test_routes_not_taken_have_reasons_with_numbers() -> None:
    plan = compile(workload((Prefix(A), Prefix(B)), (Range(A), Range(B))))
    (pair,) = [c for c in plan.classes if c.attributes == ("a", "b")]
    refused = dict(pair.refused)
    assert list(refused) == ["residual basis", "Fourier basis"]
    basis = Residual().loss(plan.closure.classes[-1])
    bound = lower_bound(plan.closure.classes[-1])
    assert refused["residual basis"] == (
        f"its error is only proven to be at most {excess_text(basis / bound - 1)} above the optimum"
    )
    skewed = compile(workload((Prefix(A),)), centring={"a": np.array([0.4, 0.3, 0.2, 0.1])})
    assert dict(skewed.classes[-1].refused)["residual basis"] == "needs uniform centring on every axis"


def test_a_basis_is_taken_where_the_bound_certifies_it() -> None:
    """Fourier is near the optimum of ranges: within 2 % here, which a tolerance of 5 % accepts."""
    loose, tight = (compile(workload((Range(A), Range(B))), gap=gap) for gap in (0.05, 1e-4))
    assert solvers(loose)["a", "b"] == "Fourier basis"
    assert 1e-4 < loose.gap <= 0.05
    assert solvers(tight)["a", "b"] == "Kronecker of optimal"
    assert tight.gap <= 1e-4


@pytest.mark.parametrize("gap", [0.02, 1e-3, 1e-6])
def test_the_plans_total_respects_the_gap(gap: float) -> None:
    plan = compile(
        workload((Prefix(A), Prefix(B), Prefix(C)), (Range(A), Range(B)), (Affine((A, B), (1, 1)),)), gap=gap
    )
    assert plan.gap <= gap


def past_the_dense_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimal, "DENSE_CELLS", 10)
    monkeypatch.setattr(optimal, "SHORT_ENTRIES", 100)


def test_the_best_of_all_has_the_best_bound_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    products = (Prefix(A), Prefix(B)), (Affine((A, B), (1, 1)),), (Abs((A, B), (1, -1)),)
    optimum = compile(workload(*products), gap=1e-8).classes[-1]
    past_the_dense_limit(monkeypatch)
    plan = compile(workload(*products))
    best = plan.classes[-1]
    assert best.solver == "mixture of 3 strategies"
    assert list(dict(best.refused)) == ["residual basis", "Fourier basis", "optimal", "alternating Kronecker"]
    assert best.bound <= optimum.loss <= best.loss * (1 + 1e-9)
    assert best.gap < 0.07
    assert not any(f"at most {excess_text(best.gap)} above" in reason for reason in dict(best.refused).values())


def test_a_slow_dense_node_waits_for_approximations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimal, "QUICK_CELLS", 4)
    products = (Prefix(A), Prefix(B)), (Range(A), Range(B))
    assert solvers(compile(workload(*products), gap=0.05))["a", "b"] == "Fourier basis"
    assert solvers(compile(workload(*products), gap=5e-3))["a", "b"] == "alternating Kronecker, 2 factors"
    last = compile(workload(*products), gap=1e-6).classes[-1]
    assert last.solver.startswith("optimal, dense")
    assert [r for r, _ in last.refused] == ["residual basis", "Fourier basis", "mixture", "alternating Kronecker"]


def test_a_large_skewed_axis_is_refused_with_bytes_and_a_remedy() -> None:
    gram = Gram(("large",), (5000,), matrix=np.broadcast_to(np.ones(()), (5000, 5000)))
    problem = Problem((5000,), (Term((Group((0,), gram),), 1.0, 1.0),), uniform=False)
    with pytest.raises(SizeError, match=r"5,000 cells needs 1\.2 GB .* the limit is .* use uniform centring"):
        solve((problem,))


def test_a_prefix_past_the_dense_limit_takes_a_compact_strategy_within_the_tolerance() -> None:
    large = Attribute("large", IntegerDomain(0, 2599))
    plan = compile(Workload(Schema((large,)), (Family("f", "f", (Prefix(large),)),)))
    node = plan.classes[-1]
    assert node.solver == "cosine basis, 24 directions at the ends"
    assert node.gap < 2e-4
    assert float(dict(node.refused)["Fourier basis"].split("at most ")[1].split()[0]) > 65
    assert plan.rmse() ** 2 * 2600 == pytest.approx(plan.sse(), rel=1e-9)


def test_any_number_of_workers_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "LEAST_EFFORT", 0)
    attributes = [Attribute(f"x{i}", IntegerDomain(0, 3 + i)) for i in range(5)]
    families = [
        Family(f"p{a.name}{b.name}", "", (Prefix(a), Range(b))) for a, b in itertools.combinations(attributes, 2)
    ]
    families += [
        Family("f", "", (Affine(attributes[:2], (1, 1)),)),
        Family("g", "", (Range(attributes[0]), Prefix(attributes[1]))),
    ]
    closure = decompose(Workload(Schema(tuple(attributes)), tuple(families)))
    results = []
    for workers in (1, 2, 3):
        seen: list[tuple[int, int]] = []

        def progress(done: int, total: int, seen: list[tuple[int, int]] = seen) -> None:
            seen.append((done, total))

        found = solve(closure.classes, progress=progress, workers=workers)
        assert seen == [(i + 1, len(closure.classes)) for i in range(len(closure.classes))]
        store = ArrayStore()
        data = [strategy_data(s.strategy, store) for s in found]
        results.append((data, [(s.loss, s.bound, s.solver, s.refused) for s in found]))
    assert results[0] == results[1] == results[2]


def test_shared_factors_and_sums_are_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, ...]] = []
    once = Optimal.solve

    def counted(route: Optimal, problem: Problem) -> Solution:
        calls.append(problem.shape)
        return once(route, problem)

    monkeypatch.setattr(Optimal, "solve", counted)
    products: list[tuple[Factor, ...]] = []
    for kind in (Prefix, Range):
        products += [(Affine((A, B), (1, 1)), kind(C)), (Prefix(A), Prefix(B), kind(C))]
    compile(workload(*products))
    assert len(calls) == len(set(calls))


def test_small_work_starts_no_threads() -> None:
    before = threading.active_count()
    jobs = [threading.active_count] * 3
    assert list(parallel.in_order(jobs, 10, 4)) == [before] * 3


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_workers_are_whole_numbers(workers: int) -> None:
    with pytest.raises(OptionError, match="whole number of threads"):
        solve((), workers=workers)


def test_progress_counts_the_problems() -> None:
    seen: list[tuple[int, int]] = []
    plan = compile(workload((Prefix(A), Prefix(B))), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(i + 1, len(plan.classes)) for i in range(len(plan.classes))]
    assert math.isfinite(plan.gap)


def test_no_more_is_begun_than_a_few_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what is made piles up in memory where it is taken slowly."""
    monkeypatch.setattr(parallel, "LEAST_EFFORT", 0)
    begun = list[int]()

    def job(i: int) -> int:
        begun.append(i)
        return i

    results = parallel.in_order((partial(job, i) for i in range(1000)), 1, 3)
    for expected in range(10):
        assert next(results) == expected
        time.sleep(0.01)
        assert len(begun) <= expected + 1 + parallel.AHEAD * 3
    results.close()  # type: ignore[attr-defined]
    assert len(begun) < 30
