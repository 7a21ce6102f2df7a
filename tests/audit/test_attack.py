"""The attack stays under what was promised, and comes close to it where the promise is tight."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from qcompile.api import Plan, compile
from qcompile.privacy.budget import Budget
from qcompile.queries.factors import Circular, Marginal, Prefix
from qcompile.queries.schema import Attribute, IntegerDomain, Policy
from qcompile.queries.workload import Family
from qcompile.support.arrays import Array, IntArray
from tests.audit.attack import (
    among_others,
    attack,
    black_box,
    check_attack,
    check_evidence,
    delivered_worst_pair,
    lower_chance,
    random_pair,
)
from tests.audit.designs import random_design
from tests.audit.exported import pair_cost, worst_pair
from tests.audit.law import predicted_covariance
from tests.conformance.helpers import family, integers, product_matrix, workload

SEED = 11

CHARGE = Fraction(1, 2)

A, B, C = integers(3, 4, 2)
DROPPED = Attribute("a", IntegerDomain(0, 2), Policy("drop"))

OPTIONS: dict[str, dict[str, Any]] = {
    "add-remove": {},
    "replace-one": {"neighbours": "replace-one"},
    "two rows": {"contributions": 2},
    "two rows replaced": {"neighbours": "replace-one", "contributions": 2},
}

BLOCKS: dict[str, Any] = {"blocks": [["b"], ["ca"]], "centring": "optimised"}


def small(a: Attribute = A, **options: Any) -> Plan:
    families = (family(Prefix(a), Marginal(B)), family(Prefix(B), name="b"), family(Circular(C), Prefix(a), name="ca"))
    return compile(workload([a, B, C], *families), **options)


CASES = {
    **{
        f"{s}, {o}": {"solver": s, **OPTIONS[o]}
        for s in ("auto", "exact", "conic", "rp", "rp+", "wff")
        for o in OPTIONS
    },
    **{f"blocks, {o}": {**BLOCKS, **OPTIONS[o]} for o in OPTIONS},
    "dropped rows": {"a": DROPPED, "neighbours": "replace-one"},
}

QUICK = ("auto, add-remove", "wff, replace-one", "blocks, two rows")


def cases() -> list[Any]:
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in CASES]


@pytest.mark.parametrize("name", cases())
def test_the_attack_stays_under_the_promise_and_finds_what_there_is(name: str) -> None:
    """The estimate of mu is that of the pair, to 4 %: nothing is lost by the adversary."""
    plan = small(**CASES[name])
    pairs = {
        "worst by the exported matrices": worst_pair(plan, CHARGE),
        "worst by what the code computes": delivered_worst_pair(plan, CHARGE),
        "any": random_pair(plan, SEED),
    }
    for number, (kind, pair) in enumerate(pairs.items()):
        found = check_attack(
            plan, CHARGE, pair, 30_000 if name in QUICK else 100_000, SEED + number, note=f"{name}, {kind}"
        )
        assert found.estimate == pytest.approx(math.sqrt(pair_cost(plan, CHARGE, pair)), abs=0.04)


@pytest.mark.parametrize("solver", ["auto", "wff"])
def test_where_one_cell_attains_every_maximum_the_promise_is_reached(solver: str) -> None:
    """Equal column norms in every node: the declared cost is the true one, and the attack comes within 4 % of it."""
    for rho in ("1/8", "1/2", "2"):
        plan, charge = compile(workload([B, C], family(Circular(B), Circular(C))), solver=solver), Fraction(rho)
        pair = worst_pair(plan, charge)
        assert pair_cost(plan, charge, pair) == pytest.approx(float(2 * charge), rel=1e-6)
        mu = math.sqrt(2 * charge)
        found = check_attack(plan, charge, pair, 60_000, SEED, note=f"{solver}, rho {rho}")
        assert 0.88 * mu < found.mu
        assert found.estimate == pytest.approx(mu, rel=0.04)


@pytest.mark.slow
@pytest.mark.parametrize("accounting", ["gaussian", "zcdp"])
def test_the_promised_delta_is_kept_and_in_gaussian_accounting_nearly_used_up(accounting: str) -> None:
    """(epsilon, delta) = (1, 0.05): large enough for delta itself to be measured."""
    budget = Budget(epsilon=1, delta="0.05")
    charge = budget.charge(accounting)
    plan = compile(workload([B, C], family(Circular(B), Circular(C))))
    found = check_attack(plan, charge, worst_pair(plan, charge), 400_000, SEED, note=accounting)
    assert found.delta(1.0) <= 0.05
    assert (found.delta(1.0) > 0.036) == (accounting == "gaussian")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(36))
def test_random_plans_stay_under_the_promise(seed: int) -> None:
    design = random_design(1000 + seed)
    plan = design.plan()
    for pair in (worst_pair(plan, CHARGE), random_pair(plan, seed)):
        check_attack(plan, CHARGE, pair, 8_000, SEED, note=design)


@pytest.mark.parametrize(
    ("families", "repetitions"),
    [pytest.param([family()], 1_500, id="total"), pytest.param([family(Prefix(A))], 6_000, marks=pytest.mark.slow)],
)
def test_opendp_stays_under_the_promise(families: list[Family], repetitions: int) -> None:
    """The cross-check of the noise: few draws, from a generator without a seed."""
    plan = compile(workload([A], *families))
    pair = worst_pair(plan, CHARGE)
    found = check_attack(plan, CHARGE, pair, repetitions, SEED, noise="opendp")
    # Six standard errors of the estimate, 1.9 over the root of the number of releases.
    expected = math.sqrt(pair_cost(plan, CHARGE, pair))
    assert found.estimate == pytest.approx(expected, abs=6 * 1.9 / math.sqrt(repetitions))


def public_answers(plan: Plan, budget: Budget, names: tuple[str, ...]) -> Any:
    """What a user sees: the cells of a marginal and the answers of a family, run after run."""
    schema = plan.workload.schema
    shape = schema.shape(schema.names)

    def sample(table: IntArray, repetitions: int, seed: int) -> Array:
        data = {schema.names: table.reshape(shape)}
        runs = (plan.run(data, budget, test_seed=10**6 * seed + i) for i in range(repetitions))
        return np.array([[*r.marginal(names).array.ravel(), *r.answers("b")["estimate"].to_numpy()] for r in runs])

    return sample


@pytest.mark.slow
def test_answers_through_the_public_path_stay_under_the_promise() -> None:
    """`Plan.run`, `Release.marginal` and `Release.answers`, a few hundred times on either table."""
    plan = compile(workload([A, B], family(Prefix(A), Marginal(B)), family(Prefix(B), name="b")))
    schema, budget = plan.workload.schema, Budget(rho=CHARGE)
    pair = worst_pair(plan, CHARGE)
    queries = np.concatenate([np.eye(12), product_matrix(schema, next(plan.workload.family("b").products()))])
    covariance = predicted_covariance(plan, CHARGE, queries)
    direction = np.linalg.pinv(covariance, rcond=1e-9) @ queries @ (pair[0] - pair[1])
    found = attack(public_answers(plan, budget, ("a", "b")), *among_others(pair), 400, SEED, direction)
    check_evidence(found, CHARGE)
    assert found.estimate == pytest.approx(math.sqrt(pair_cost(plan, CHARGE, pair)), abs=0.3)


def test_bounds_of_chances_are_those_of_clopper_and_pearson() -> None:
    """0 of 10 and 10 of 10 by hand; 3 of 10 from the binomial law itself."""
    low = lower_chance(np.array([0, 10, 3]), 10, 0.05)
    assert low[0] == 0
    assert low[1] == pytest.approx(0.05**0.1)
    at_least_three = sum(math.comb(10, k) * low[2] ** k * (1 - low[2]) ** (10 - k) for k in range(3, 11))
    assert at_least_three == pytest.approx(0.05)


def test_the_attack_on_a_known_mechanism_neither_convicts_nor_sleeps() -> None:
    """A Gaussian with mu exactly 1, and one with mu 1.1 that claims 1."""
    rng = np.random.default_rng(SEED)

    def mechanism(scale: float) -> Any:
        return lambda table, n, seed: table[0] + scale * rng.normal(size=(n, 1))

    first, second = np.array([1]), np.array([0])
    check_evidence(attack(mechanism(1.0), first, second, 300_000, SEED), CHARGE)
    with pytest.raises(AssertionError, match="mu is at least"):
        check_evidence(attack(mechanism(1 / 1.1), first, second, 300_000, SEED), CHARGE)
    assert black_box(small(), CHARGE)(np.zeros(24, dtype=np.int64), 2, SEED).shape[0] == 2
