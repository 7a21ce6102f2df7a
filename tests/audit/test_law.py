"""Every released number, the empty cells' too, has noise of its own with the predicted covariance.

Silent absence of noise, and noise that is shared, are the worst faults of neighbouring tools (smartnoise-sdk#317 and
#128, opendp/opendp#2344, diffprivlib#31), noise off by a factor the most common one (smartnoise#472). That the bits
below the grid say nothing is opendp/opendp#414.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from qcompile.api import Plan, compile
from qcompile.privacy.budget import Budget
from qcompile.queries.factors import Abs, Circular, Marginal, Prefix, Range
from qcompile.support.arrays import Array
from tests.audit.designs import random_design
from tests.audit.law import (
    answers,
    check_answers,
    check_cells,
    check_covariance,
    check_gaussian,
    check_measurements,
    check_own_noise,
    linear_map,
    predicted_covariance,
)
from tests.conformance.helpers import family, integers, workload

SEED = 7

CHARGE = Fraction(1, 2)

A, B, C = integers(3, 4, 2)

TABLES = {
    "no rows": np.zeros(24, dtype=np.int64),
    "many cells empty": np.where(np.arange(24) % 3 == 1, 10_007 * np.arange(24), 0),
}


def small(**options: Any) -> Plan:
    families = (
        family(Prefix(A), Marginal(B)),
        family(Range(B), name="b", weight=20),
        family(Circular(C), Abs([A, B], [1, -1]), name="abs"),
    )
    return compile(workload([A, B, C], *families), **options)


CASES: dict[str, dict[str, Any]] = {
    **{s: {"solver": s} for s in ("auto", "exact", "conic", "rp", "rp+", "wff")},
    "optimised centring": {"centring": "optimised"},
    "blocks": {"blocks": [["b"], ["abs"]]},
    "replaced": {"neighbours": "replace-one"},
    "two rows": {"contributions": 2},
}

QUICK = ("auto", "blocks")


def cases() -> list[Any]:
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in CASES]


@pytest.mark.parametrize("rows", TABLES)
@pytest.mark.parametrize("name", cases())
def test_every_measurement_has_its_own_gaussian_noise_of_the_declared_variance(name: str, rows: str) -> None:
    """smartnoise-sdk#317, smartnoise-sdk#128, opendp/opendp#2344, diffprivlib#31, opendp/opendp#414."""
    check_measurements(small(**CASES[name]), CHARGE, TABLES[rows], 12_000, SEED, f"{name}, {rows}")


@pytest.mark.parametrize("rows", TABLES)
@pytest.mark.parametrize("name", cases())
def test_answers_have_the_predicted_covariance(name: str, rows: str) -> None:
    """smartnoise#472: the noise of every family within 4 sigma of its prediction, each covariance within its own."""
    check_answers(small(**CASES[name]), CHARGE, TABLES[rows], 12_000, SEED, f"{name}, {rows}")


@pytest.mark.parametrize("rows", TABLES)
@pytest.mark.parametrize("name", [p for p in cases() if p.values != ("blocks",)])
def test_cells_of_marginals_have_their_own_noise(name: str, rows: str) -> None:
    """smartnoise-sdk#317: also the cells that no row falls into."""
    for attributes in (("a", "b"), ("b",)):
        check_cells(small(**CASES[name]), CHARGE, TABLES[rows], 12_000, SEED, attributes, f"{name}, {rows}")


@pytest.mark.parametrize("rows", TABLES)
def test_no_cell_of_a_real_run_is_without_noise(rows: str) -> None:
    """smartnoise-sdk#128: with the system's randomness, through `Plan.run`; no cell exact, no two errors the same."""
    plan = small()
    data = {("a", "b", "c"): TABLES[rows].reshape(3, 4, 2)}
    exact = plan.run(data, Budget(rho=CHARGE), noise="none").marginal(("a", "b")).array
    released = plan.run(data, Budget(rho=CHARGE)).marginal(("a", "b"))
    z = ((released.array - exact) / released.std_error).ravel()
    assert (np.abs(z) > 1e-9).all()
    assert len(np.unique(z)) == z.size
    assert np.abs(z).max() < 8


def test_answers_are_linear_in_the_measurements() -> None:
    """What the checks above rely on: the map found from unit vectors is what a release applies."""
    plan = small()
    for seed in range(3):
        data = {("a", "b", "c"): TABLES["many cells empty"].reshape(3, 4, 2)}
        release = plan.run(data, Budget(rho=CHARGE), test_seed=seed)
        measured = np.concatenate([release.measured(i) for i, v in enumerate(release.values) if v.size])
        for name in ("b", "abs"):
            np.testing.assert_allclose(linear_map(release, name) @ measured, answers(release, name), rtol=1e-9)


def test_the_prediction_of_one_total_is_its_variance() -> None:
    plan = compile(workload([A], family()))
    [m] = plan.measurements(Budget(rho=CHARGE))
    found = predicted_covariance(plan, CHARGE, np.ones((1, 3)))
    assert found == pytest.approx(np.array([[m.scale**2 + m.grid**2 / 12]]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_random_plans_deliver_what_they_predict(seed: int) -> None:
    """smartnoise#472, on plans of all solvers; the answers of those whose queries are few."""
    design = random_design(2000 + seed)
    plan = design.plan()
    check_measurements(plan, design.charge, design.counts.ravel(), 3_000, SEED, design)
    if plan.queries <= 200:
        check_answers(plan, design.charge, design.counts.ravel(), 3_000, SEED, design)


WRONG: dict[str, tuple[Callable[[Array], Array], str]] = {
    "3 % more noise": (lambda z: 1.03 * z, "covariance of"),
    "one number without noise": (lambda z: np.where(np.arange(5) == 2, 0.0, z), "hardly any noise"),
    "two with the same noise": (lambda z: z[:, [0, 1, 2, 3, 3]], "noise of another one"),
    "two that are correlated": (lambda z: z + 0.1 * np.roll(z, 1, axis=1), "covariance of"),
    "a shift": (lambda z: z + 0.1, "a mean is"),
    "sometimes without noise": (lambda z: np.where(np.abs(z) < 0.1, 0.0, z), "often released without noise"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_the_checks_have_power(wrong: str) -> None:
    """20,000 draws of five numbers by NumPy: right as they are, wrong in one respect each."""
    z = np.random.default_rng(SEED).normal(size=(20_000, 5))
    change, says = WRONG[wrong]

    def check(errors: Array) -> None:
        check_own_noise(errors)
        check_covariance(errors, np.eye(5))
        check_gaussian(errors)

    check(z)
    with pytest.raises(AssertionError, match=says):
        check(change(z))


@pytest.mark.parametrize("law", ["uniform", "laplace"])
def test_other_laws_of_the_same_variance_are_seen(law: str) -> None:
    rng = np.random.default_rng(SEED)
    drawn = {"uniform": rng.uniform(-1, 1, (8_000, 3)) * 3**0.5, "laplace": rng.laplace(size=(8_000, 3)) / 2**0.5}
    with pytest.raises(AssertionError, match="from Gaussian"):
        check_gaussian(drawn[law])
