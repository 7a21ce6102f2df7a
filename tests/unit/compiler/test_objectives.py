"""Targets and largest variances: against an optimum over explicit matrices, and certificates from both sides.

`least_cost_of_any` shares nothing with the compiler: it works on query matrices over the whole domain, and its
mechanism is any information matrix. A plan with everything in one block must reach it; a lattice may lie above.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from qcompile.api import Plan, compile
from qcompile.errors import OptionError
from qcompile.plan.standing import family_share, family_targets, gap_of, least_cost, value_of
from qcompile.queries.workload import Family
from qcompile.support.arrays import Array
from tests.conformance.helpers import UNIT, least_squares_variances, mechanism, product_matrix


def rows_of(plan: Plan, family: Family) -> Array:
    """The queries of a family on the full domain."""
    return np.concatenate([product_matrix(plan.workload.schema, p) for p in family.products()])


def least_cost_of_any(queries: Array, shares: Array, limit_of: Array, limits: Array) -> tuple[float, float]:
    """The least cost of any mechanism with ``sum of shares * variance <= limits`` per limit, and a lower bound.

    Multiplicative updates of dual weights on cells and limits at once, from one eigendecomposition a step.

    Args:
      queries: ``(m, n)``.
      shares: of each query in the mean that is limited, ``(m,)``.
      limit_of: the number of each query's limit, ``(m,)``.
      limits: allowed variances.
    """
    scale = np.sqrt(shares / limits[limit_of])
    _, s, vt = np.linalg.svd(queries * scale[:, None], full_matrices=False)
    span = vt[s > 1e-10 * s[0]]
    z = (queries * scale[:, None]) @ span.T
    w, mu = np.full(len(limits), 1 / len(limits)), np.full(queries.shape[1], 1 / queries.shape[1])
    best, bound = math.inf, 0.0
    for _ in range(4000):
        g, u = np.linalg.eigh((z * w[limit_of, None]).T @ z)
        root = (u * np.sqrt(np.maximum(g, 1e-14 * g.max()))) @ u.T
        k, e = np.linalg.eigh(root @ ((span * mu) @ span.T) @ root)
        k = np.maximum(k, 1e-300)
        information = root @ (e / np.sqrt(k)) @ e.T @ root
        loads = np.einsum("ij,ij->j", information @ span, span)
        used = np.bincount(limit_of, np.einsum("ij,ij->i", z @ np.linalg.inv(information), z), len(limits))
        total = np.sqrt(k).sum()
        best, bound = min(best, used.max() * loads.max()), max(bound, total**2)
        if best / bound - 1 < 1e-3:
            break
        mu *= loads / total
        w *= used / (w @ used)
        mu, w = mu / mu.sum(), w / w.sum()
    return best, bound


def optimum(plan: Plan) -> tuple[float, float]:
    """The same for the limits of a plan."""
    rows, shares, limit_of, limits = [], [], [], list[float]()
    for f in plan.workload.families:
        matrix, limit = rows_of(plan, f), plan.limits[f.name]
        each = len(matrix) if limit.largest else 1
        rows.append(matrix)
        shares.append(np.full(len(matrix), 1.0 if limit.largest else 1 / len(matrix)))
        limit_of.append(len(limits) + (np.arange(len(matrix)) if limit.largest else np.zeros(len(matrix), dtype=int)))
        limits += [limit.variance] * each
    return least_cost_of_any(np.concatenate(rows), np.concatenate(shares), np.concatenate(limit_of), np.array(limits))


def delivered(plan: Plan) -> float:
    """The cost that a plan needs, from its exported measurements over the whole domain."""
    noisy = mechanism(plan.workload.schema, plan.measurements(UNIT))
    worst = 0.0
    for f in plan.workload.families:
        variances, limit = least_squares_variances(rows_of(plan, f), noisy), plan.limits[f.name]
        worst = max(worst, (variances.max() if limit.largest else variances.mean()) / limit.variance)
    return float(worst * (noisy**2).sum(axis=0).max())


def text(attributes: dict[str, int], *families: str) -> str:
    lines = [f"  {name} : integer 0..{n - 1}" for name, n in attributes.items()]
    return "\n".join(["schema {", *lines, "}", "workload {", *(f"  {f}" for f in families), "}"])


A, AB = {"a": 8}, {"a": 5, "b": 5}
LARGEST = {
    "prefix": text({"a": 16}, "prefix(a)"),
    "range": text(A, "range(a)"),
    "all kinds": text(A, "prefix(a)", "marginal(a)", "total"),
    "two prefixes": text(AB, "prefix(a) * prefix(b)"),
    "affine": text({"a": 6, "b": 6}, "affine(a + b <= *)"),
    "across": text(AB, "total", "prefix(a) * prefix(b)", "abs(a - b <= *)"),
    "two ranges": text({"a": 4, "b": 4}, "range(a) * range(b)"),
    "prefixes of a cube": text({"a": 3, "b": 3, "c": 3}, "each 1..2 of all"),
    "weights": text(A, "prefix(a) weight 4", "marginal(a)"),
}


@pytest.mark.parametrize("name", LARGEST)
def test_in_one_block_the_largest_variance_is_that_of_the_best_mechanism(name: str) -> None:
    names = [f.name for f in compile(LARGEST[name]).workload.families]
    plan = compile(LARGEST[name], objective="max", blocks=[names])
    best, bound = optimum(plan)
    assert delivered(plan) == pytest.approx(least_cost(plan), rel=1e-6)
    assert bound * (1 - 1e-9) <= least_cost(plan) <= 1.0101 * best
    assert plan.solved is not None
    assert plan.solved.bound <= best * (1 + 1e-9)
    assert gap_of(plan) <= 0.01


@pytest.mark.parametrize("families", [("each 1..3 of all",), ("each 1..2 of all",)])
def test_marginals_need_no_block(families: tuple[str, ...]) -> None:
    """Marginals of different sizes: the residual basis with weights per marginal reaches any mechanism's optimum."""
    schema = 'category {"0", "1"}', 'category {"0", "1", "2", "3"}', 'category {"0", "1", "2", "3", "4", "5"}'
    lines = "; ".join(f"{name} : {domain}" for name, domain in zip("abc", schema, strict=True))
    plan = compile(f"schema {{ {lines} }}\nworkload {{ {'; '.join(families)} }}", objective="max")
    best, _ = optimum(plan)
    assert delivered(plan) == pytest.approx(least_cost(plan), rel=1e-6)
    assert least_cost(plan) <= 1.0101 * best
    total = compile(f"schema {{ {lines} }}\nworkload {{ {'; '.join(families)} }}")
    largest = max(total.family_errors(f).largest for f in total.workload.families)
    assert largest > 1.3 * least_cost(plan)


TARGETS = text(
    {"a": 6, "b": 4},
    "prefix(a) target 2",
    "marginal(a, b) target 3 max",
    "affine(a + b <= *) target 1.5",
    "total target 50",
    "range(a) * marginal(b) target 5",
)


def test_targets_in_one_block_need_the_least_cost_of_any_mechanism() -> None:
    names = [f.name for f in compile(TARGETS, objective="total").workload.families]
    plan = compile(TARGETS, blocks=[names])
    best, bound = optimum(plan)
    assert plan.options.objective == "targets"
    assert delivered(plan) == pytest.approx(least_cost(plan), rel=1e-6)
    assert bound * (1 - 1e-9) <= least_cost(plan) <= 1.0101 * best
    assert plan.solved is not None
    assert plan.solved.bound <= best * (1 + 1e-9)


@pytest.mark.parametrize("options", [{}, {"neighbours": "replace-one"}, {"centring": "optimised"}, {"blocks": "auto"}])
def test_targets_are_met_at_a_certified_cost(options: dict[str, str]) -> None:
    plan = compile(TARGETS, **options)  # type: ignore[arg-type]
    plain = compile(TARGETS, objective="total", **options)  # type: ignore[arg-type]
    # Where rows are replaced the strategies are not solved for that relation, and their own gap is most of it.
    assert gap_of(plan) <= (1.1 * (1 + plan.gap) - 1 if plan.options.neighbours == "replace-one" else 0.01)
    needed = max(
        (e.largest if t.largest else e.total / f.count) / t.std_error**2
        for f in plain.workload.families
        if (e := plain.family_errors(f)) and (t := f.target)
    )
    assert least_cost(plan) < needed  # of the plan for the total error
    if not options:
        assert optimum(plan)[1] <= least_cost(plan) * (1 + 1e-9)
        assert delivered(plan) == pytest.approx(least_cost(plan), rel=1e-6)


def test_families_with_slack_are_named_and_shares_add_up() -> None:
    plan = compile(TARGETS)
    found = {t.family: t for t in family_targets(plan)}
    assert found["total"].slack
    assert found["total"].std_error < 25
    assert max(t.used for t in found.values()) == 1
    for t in found.values():
        assert t.allowed is not None
        assert t.std_error == pytest.approx(t.allowed * math.sqrt(t.used))
    assert sum(family_share(plan, f) for f in plan.workload.families) == pytest.approx(1, rel=1e-9)
    assert value_of(plan) == least_cost(plan)


def test_weights_per_query_where_products_of_weights_are_not_enough() -> None:
    """A prefix product beside an absolute difference, split: the optimum's weights are no product."""
    families = ("total", "prefix(a) * prefix(b)", "abs(a - b <= *)")
    plan = compile(text({"a": 6, "b": 6}, *families), objective="max", objective_gap=0.02)
    assert gap_of(plan) <= 0.02
    assert delivered(plan) == pytest.approx(least_cost(plan), rel=1e-6)


def test_without_a_lower_bound_the_weights_are_solved_for_and_no_gap_is_claimed() -> None:
    text_ = text({"a": 4}, "prefix(a) target 2", "total target 3")
    plan = compile(text_, solver="rp+", strategies={"a": "haar"}, neighbours="replace-one", contributions=2)
    assert (gap_of(plan) == math.inf) == (plan.gap == math.inf)
    assert plan.solved is not None
    assert least_cost(plan) <= plan.solved.bound * (1 + plan.gap) * 1.01
    assert "every target is met" in plan.explain()


def test_targets_in_per_cent_are_of_the_total() -> None:
    relative = text(A, "prefix(a) target 2 %", "marginal(a) target 10 max")
    absolute = relative.replace("2 %", "20")
    assert least_cost(compile(relative, total=1000)) == least_cost(compile(absolute))
    with pytest.raises(OptionError, match="per cent of a total that nobody stated"):
        compile(relative)
    with pytest.raises(OptionError, match="total must be the number of rows"):
        compile(relative, total=0)


def test_wrong_objectives() -> None:
    with pytest.raises(OptionError, match="no family has a target"):
        compile(text(A, "prefix(a)"), objective="targets")
    with pytest.raises(OptionError, match="without a target beside others that have one: total; give each one"):
        compile(text(A, "prefix(a) target 2", "total"))
    with pytest.raises(OptionError, match="objective cannot be 'maximum'"):
        compile(text(A, "prefix(a)"), objective="maximum")
    with pytest.raises(OptionError, match="objective_gap must be between 0 and 1"):
        compile(text(A, "prefix(a)"), objective="max", objective_gap=0)
    with pytest.raises(OptionError, match="compiled for the total error and has no targets"):
        least_cost(compile(text(A, "prefix(a)")))


def test_slack_families_do_not_loosen_the_bound() -> None:
    """A family that is met for free keeps a little weight, so that it is measured; the bound needs none."""
    families = ("prefix(a) target 5", "marginal(a) * marginal(b) target 1000 max")
    plan = compile(text({"a": 50, "b": 2}, *families))
    assert gap_of(plan) < 1e-3
    alone = compile(text({"a": 50, "b": 2}, families[0]))
    assert least_cost(alone) <= least_cost(plan) * (1 + 1e-9) <= least_cost(alone) * 1.001
