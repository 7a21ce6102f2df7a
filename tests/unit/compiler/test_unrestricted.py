"""The best of any matrix mechanism: bounds against brute force on the whole domain, and how far plans are from it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from qcompile.api import compile
from qcompile.compiler.separable_bound import separable_bound, too_large
from qcompile.compiler.unrestricted import unrestricted, unrestricted_problem
from qcompile.inspection.explain import as_json
from qcompile.lattice.decompose import decompose
from qcompile.queries.factors import Abs, Affine, Circular, Marginal, Predicate, Prefix, Random
from qcompile.queries.workload import Workload
from qcompile.solvers.bounds.roots import dense_gram
from qcompile.solvers.exact.optimal import Optimal
from qcompile.support.arrays import Array, outer
from tests.conformance.cases import WORKLOADS
from tests.conformance.helpers import family, integer, integers, product_matrix, workload


def whole_gram(w: Workload) -> Array:
    """The weighted Gram of all queries on the whole domain, from their definitions."""
    matrices = [(f.weight, product_matrix(w.schema, p)) for f in w.families for p in f.products()]
    return np.asarray(sum(weight * m.T @ m for weight, m in matrices), dtype=np.float64)


def root(gram: Array) -> Array:
    values, vectors = np.linalg.eigh(gram)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T)


def prefixes(n: int, d: int, low: int, high: int) -> Workload:
    a = integers(*[n] * d)
    return workload(a, family(*map(Prefix, a), choose=(low, high), name="prefixes"))


def pairs(kind: type[Affine] | type[Abs], sign: int) -> Workload:
    a = integers(8, 8, 8)
    each = (family(kind([x, y], [1, sign])) for x, y in itertools.combinations(a, 2))
    return workload(a, family(*map(Prefix, a), choose=(1, 1), name="prefixes"), *each)


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_problem_is_that_of_all_queries_on_the_whole_domain(name: str) -> None:
    w = WORKLOADS[name]()
    closure = decompose(w, blocks=[[f.name for f in w.families]])
    problem, node, order = unrestricted_problem(w), closure.nodes[-1], closure.orders[-1]
    k = len(problem.shape)
    tensor = dense_gram(problem).reshape((*problem.shape, *problem.shape))
    back = [order.index(i) for i in range(k)]
    found = tensor.transpose((*back, *(k + i for i in back))).reshape(problem.cells, problem.cells)
    spread: Array = np.ones((1, 1))
    for i, a in enumerate(w.schema):  # attributes that no family mentions are left out
        kept = np.eye(a.size) if i in node else np.ones((a.size, 1)) / a.size
        spread = np.asarray(np.kron(spread, kept))
    np.testing.assert_allclose(found, spread.T @ whole_gram(w) @ spread, rtol=1e-10, atol=1e-9 * found.max())


@pytest.mark.parametrize("name", WORKLOADS)
def test_bounds_are_below_the_optimum_and_near_it(name: str) -> None:
    w = WORKLOADS[name]()
    problem = unrestricted_problem(w)
    optimum = Optimal(1e-6).solve(problem) if problem.shape else None
    least = problem.trace if optimum is None else optimum.loss
    found = unrestricted(w).loss_lower_bound
    assert found is not None
    assert least * (1 - 1e-3) <= found <= least * (1 + 1e-12)
    assert 0.6 * least <= separable_bound(w).bound <= least


@pytest.mark.parametrize(
    "name", ["prefixes up to three ways", "hybrid", "affine of three", "mixed on one pair", "random", "repeated sizes"]
)
def test_the_separable_bound_is_proved_by_a_feasible_point(name: str) -> None:
    """The formula, with projections and roots on the whole domain written out, and the inequality that it rests on."""
    w = WORKLOADS[name]()
    found = separable_bound(w)
    mu = outer(list(found.mu)).ravel()
    assert mu.min() >= 0
    assert mu.sum() == pytest.approx(1, abs=1e-9)
    ds = [np.sqrt(m) for m in found.mu]
    projections = []
    for kept in itertools.product((False, True), repeat=len(ds)):
        e = np.ones((1, 1))
        for keep, d in zip(kept, ds, strict=True):
            e = np.kron(e, np.eye(len(d)) - np.outer(d, d) if keep else np.outer(d, d))
        projections.append(e)
    d = np.sqrt(mu)
    roots = []
    for f in w.families:
        for p in f.products():
            m = product_matrix(w.schema, p)
            roots.append((f.weight, root(d[:, None] * (m.T @ m) * d)))
    total = sum(math.sqrt(sum(c * float((e * r).sum()) ** 2 for c, r in roots)) for e in projections)
    assert found.bound == pytest.approx(total**2, rel=1e-6)
    dual = float(np.trace(root(d[:, None] * whole_gram(w) * d)))
    assert found.bound <= dual**2


TABLE = [
    ("prefix n=4 d=3, 1-2-way", lambda: prefixes(4, 3, 1, 2), 1.042),
    ("prefix n=4 d=4, 1-3-way", lambda: prefixes(4, 4, 1, 3), 1.063),
    ("prefix n=6 d=3, 3-way", lambda: prefixes(6, 3, 3, 3), 1.104),
    ("prefix n=6 d=3, 1-way", lambda: prefixes(6, 3, 1, 1), 1.025),
    ("prefix n=8 d=3, 1-2-way", lambda: prefixes(8, 3, 1, 2), 1.058),
    ("prefix n=5 d=4, 1-2-way", lambda: prefixes(5, 4, 1, 2), 1.047),
    ("one affine family, 8x8", lambda: workload(integers(8, 8), family(Affine(integers(8, 8), [1, 1]))), 1.268),
    ("one abs family, 8x8", lambda: workload(integers(8, 8), family(Abs(integers(8, 8), [1, -1]))), 1.291),
    ("1-way prefix + affine, n=8 d=3", lambda: pairs(Affine, 1), 1.073),
    ("1-way prefix + abs, n=8 d=3", lambda: pairs(Abs, -1), 1.084),
]


@pytest.mark.parametrize(("make", "ratio"), [t[1:] for t in TABLE], ids=[t[0] for t in TABLE])
def test_ratios_to_the_optimum_over_the_whole_domain(make: Callable[[], Workload], ratio: float) -> None:
    """RMSE of the decomposed plan over that of the best matrix mechanism, as published with the design."""
    plan = compile(make(), gap=1e-5)
    found = unrestricted(plan.workload)
    excess = found.excess(plan.sse())
    assert excess is not None
    assert found.method.startswith("optimum")
    assert math.sqrt(1 + excess) == pytest.approx(ratio, abs=1.1e-3)


def test_a_single_product_is_solved_factor_by_factor() -> None:
    a = integers(20, 30, 25)
    w = workload(a, family(*map(Prefix, a), weight=3.0))
    each = [unrestricted(workload([x], family(Prefix(x)))).loss_lower_bound or 0.0 for x in a]
    found = unrestricted(w)
    assert found.method == "optimum of every factor"
    assert found.loss_lower_bound == pytest.approx(3 * math.prod(each), rel=1e-12)
    assert separable_bound(w).bound == pytest.approx(found.loss_lower_bound, rel=1e-3)


@pytest.mark.parametrize("kind", [Marginal, Circular])
def test_symmetric_workloads_of_any_size_have_the_optimum_as_bound(kind: type[Marginal] | type[Circular]) -> None:
    a = [integer(f"x{i}", 30) for i in range(30)]
    plan = compile(workload(a, family(*map(kind, a), choose=(0, 2), name="x")))
    excess = unrestricted(plan.workload).excess(plan.sse())
    assert excess is not None
    assert excess < 1e-6
    assert "within 1e-5 % of the best of any matrix mechanism (separable bound, the domain has 2.1e44 cells)" in (
        plan.explain()
    )


def test_a_marginal_of_many_categories() -> None:
    a, b = integer("a", 1_500), integer("b", 5)
    plan = compile(workload([a, b], family(Marginal(a), Marginal(b), choose=(1, 2), name="x")))
    excess = unrestricted(plan.workload).excess(plan.sse())
    assert excess is not None
    assert excess < 1e-6


def test_what_would_take_too_long_is_said_to_be_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [integer(f"x{i}", 3) for i in range(60)]
    triples = workload(many, family(*map(Marginal, many), choose=(3, 3), name="x"))
    assert too_large(triples) == "273,760 pairs of a product and a subset of its attributes, limit 200,000"
    found = unrestricted(triples)
    assert found.loss_lower_bound is None
    assert found.excess(1.0) is None
    assert found.method.startswith("the domain has 4.2e28 cells, and 273,760 pairs")
    assert too_large(workload([integer("a", 5000)], family(Circular(integer("a", 5000))))) == (
        "the factors need 1e+11 multiplications, limit 5e+08"
    )
    monkeypatch.setattr("qcompile.compiler.separable_bound.PIECES", 10)
    plan = compile(prefixes(11, 3, 1, 2))
    assert "best of any matrix mechanism not known: the domain has 1,331 cells, and 18 pairs" in plan.explain()
    entry = as_json(plan)["unrestricted"]
    assert (entry["bound"], entry["excess"]) == (None, None)
    assert "18 pairs" in entry["method"]


def test_a_small_domain_with_large_factors_has_the_bound_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search then starts from uniform weights, where its bound is that of the singular values."""
    monkeypatch.setattr("qcompile.compiler.separable_bound.WORK", 1e7)
    a, b = integers(15, 20)
    w = workload([a, b], family(Random([a, b], 0.3, 400, 5)))
    assert too_large(w) is not None
    found = unrestricted(w).loss_lower_bound
    svd = np.sqrt(np.maximum(np.linalg.eigvalsh(whole_gram(w)), 0)).sum() ** 2 / 300
    assert found is not None
    assert svd < found


def test_queries_that_are_never_true_cost_nothing() -> None:
    a, b = integers(5, 3)
    never = family(Predicate([a, b], np.zeros((5, 3), dtype=bool), "never"), name="never")
    one, two = (workload([a, b], *families) for families in ((family(Prefix(a)),), (family(Prefix(a)), never)))
    assert separable_bound(two).bound == pytest.approx(separable_bound(one).bound, rel=1e-3)
    assert unrestricted(two).loss_lower_bound == pytest.approx(unrestricted(one).loss_lower_bound, rel=1e-3)


def test_rows_per_unit_cancel() -> None:
    one, three = (compile(prefixes(4, 2, 1, 2), contributions=k) for k in (1, 3))
    found = [as_json(p)["unrestricted"] for p in (one, three)]
    assert found[1]["bound"] == pytest.approx(9 * found[0]["bound"], rel=1e-12)
    assert found[1]["excess"] == pytest.approx(found[0]["excess"], rel=1e-9)
    lines = [next(x for x in p.explain().splitlines() if "unrestricted" in x) for p in (one, three)]
    assert lines[0] == lines[1]
    assert lines[0].endswith("of the best of any matrix mechanism (optimum over the whole domain)")


def test_a_plan_far_off_is_said_to_be_so() -> None:
    a = integers(32, 32)
    plan = compile(workload(a, family(Abs(a, [1, -1]))), solver="rp")
    assert "total squared error at most " in plan.explain()
    assert " times the best of any matrix mechanism" in plan.explain()


def test_forms_with_exchanged_coefficients_are_told_apart() -> None:
    """The bound once took one for the other, and lay above an error that is attained."""
    a, b, c = integer("a", 5), integer("b", 5), integer("c", 2)
    made = workload(
        [a, b, c],
        family(Affine([a, b], [9, 1]), Prefix(c), name="f", weight=0.01),
        family(Affine([a, b], [1, 9]), name="g"),
        family(Prefix(b), name="h", weight=5.0),
    )
    attained = compile(made, blocks=[["f", "g", "h"]], gap=1e-6).sse()
    bound = unrestricted(made).loss_lower_bound
    assert bound is not None
    assert 0.99 * attained < bound <= attained
