"""Budgets: what may be written, exactness, and the views of one budget in other currencies."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcompile.errors import BudgetError, OptionError
from qcompile.privacy.budget import Budget
from qcompile.privacy.exact import exact_text, rounded_text

VALUES: list[tuple[Any, Fraction]] = [
    (1, Fraction(1)),
    ("1", Fraction(1)),
    (0.1, Fraction(1, 10)),
    ("0.1", Fraction(1, 10)),
    (" 1/49 ", Fraction(1, 49)),
    ("1e-9", Fraction(1, 10**9)),
    (1e-9, Fraction(1, 10**9)),
    (".5", Fraction(1, 2)),
    (Fraction(2, 7), Fraction(2, 7)),
    (Decimal("0.3"), Fraction(3, 10)),
    (np.float64(0.1), Fraction(1, 10)),
    (np.float32(0.1), Fraction(1, 10)),
    (np.int64(3), Fraction(3)),
    (np.uint8(3), Fraction(3)),
]

WRONG: list[Any] = [
    *(0, -1, 0.0, -0.1, "0", "-1/2", "0/5", Decimal(0), Fraction(0), np.float64(0), np.int64(-3)),
    *(float("nan"), float("inf"), -float("inf"), Decimal("NaN"), Decimal("Infinity"), np.float64("nan"), "nan", "inf"),
    *("x", "", " ", "1/0", "1//2", "0x10", "1_000", "1,5", "٣", "1e", "1e99999", "1e-999999999", "9" * 5000),
    *(True, False, np.True_, b"1", [1], 1j, np.array([1.0, 2.0]), object()),
    *(10**5000, Decimal("1e999999"), Decimal("1e-999999"), 1e-200, 1e200),
]

PARAMETERS: dict[str, Callable[[Any], Budget]] = {
    "epsilon": lambda value: Budget(epsilon=value, delta=1e-9),
    "delta": lambda value: Budget(epsilon=1, delta=value),
    "rho": lambda value: Budget(rho=value),
    "cost": lambda value: Budget(cost=value),
    "mu": lambda value: Budget(mu=value),
}


@pytest.mark.parametrize(("value", "expected"), VALUES, ids=repr)
def test_values_are_exact(value: Any, expected: Fraction) -> None:
    assert Budget(rho=value).rho == expected
    assert Budget(cost=value).rho == expected / 2
    assert Budget(mu=value).rho == expected**2 / 2
    assert Budget(epsilon=value, delta=1e-9).epsilon == expected


@pytest.mark.parametrize("parameter", PARAMETERS)
@pytest.mark.parametrize("value", WRONG, ids=lambda value: repr(value)[:20] if not isinstance(value, int) else "int")
def test_wrong_values_are_refused_by_name(parameter: str, value: Any) -> None:
    with pytest.raises(BudgetError, match=rf"^{parameter}=") as caught:
        PARAMETERS[parameter](value)
    message = str(caught.value)
    assert "give" in message
    assert len(message) < 300


@pytest.mark.parametrize("delta", [1, 1.0, "1", 2, Fraction(7, 2)])
def test_delta_is_below_one(delta: Any) -> None:
    with pytest.raises(BudgetError, match=r"delta=.* must be < 1"):
        Budget(epsilon=1, delta=delta)


@pytest.mark.parametrize("delta", [0, 0.0, "0", "0.0", Decimal(0), np.float64(0)])
def test_delta_zero_names_both_ways_out(delta: Any) -> None:
    with pytest.raises(BudgetError, match=r"give a small delta such as 1e-9, or give rho"):
        Budget(epsilon=1, delta=delta)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "no budget is given; give exactly one of"),
        ({"rho": None}, "no budget is given; give exactly one of"),
        ({"epsilon": 1}, "epsilon needs a delta"),
        ({"epsilon": 1, "delta": None}, "epsilon needs a delta"),
        ({"delta": 0.1}, "delta needs an epsilon"),
        ({"epsilon": None, "delta": 0.1}, "delta needs an epsilon"),
        ({"epsilon": 1, "delta": 0.1, "rho": 1}, "epsilon, rho, delta are more than one request"),
        ({"rho": 1, "delta": 0.1}, "rho, delta are more than one request"),
        ({"cost": 1, "mu": 1}, "cost, mu are more than one request"),
        ({"epsilon": "1e10", "delta": 0.1}, "beyond 1e9"),
    ],
)
def test_exactly_one_request(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(BudgetError, match=message):
        Budget(**parameters)


def test_refusals_carry_the_exit_code_of_budgets() -> None:
    with pytest.raises(BudgetError) as caught:
        Budget(rho=-1)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("parts", [["0.1", "0.2", "0.7"], [0.1, 0.2, 0.7], ["1/3"] * 3, ["1/7"] * 7, ["1/49"] * 49])
def test_parts_add_up_to_the_whole(parts: list[Any]) -> None:
    assert sum(Budget(rho=part).rho for part in parts) == Budget(rho=1).rho


def test_conversion_is_safe_and_known() -> None:
    budget = Budget(epsilon=1, delta="1e-9")
    assert float(budget.rho) == pytest.approx(0.0149731, abs=5e-8)
    assert float(budget.charge("gaussian")) == pytest.approx(0.016557, abs=5e-7)
    assert budget.rho == budget.charge() == budget.charge("zcdp")
    for accounting in ("zcdp", "gaussian"):
        assert budget.epsilon_at("1e-9", accounting) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("budget", [Budget(rho="1/49"), Budget(cost="2/49"), Budget(mu=0.2)], ids=repr)
def test_other_requests_are_worth_the_same_in_both_accountings(budget: Budget) -> None:
    assert budget.charge("gaussian") == budget.charge("zcdp") == budget.rho
    assert budget.epsilon_at(1e-9, "gaussian") < budget.epsilon_at(1e-9, "zcdp")


def test_unknown_accounting_is_refused() -> None:
    with pytest.raises(OptionError, match="accounting='renyi' is unknown; choose"):
        Budget(rho=1).charge("renyi")


def test_budgets_are_immutable_values() -> None:
    budget = Budget(epsilon=1, delta=1e-9)
    with pytest.raises(FrozenInstanceError):
        budget.amount = Fraction(2)  # type: ignore[misc]
    same = Budget(epsilon="1", delta="1/1000000000")
    assert {budget: 1}[same] == 1
    assert budget == pickle.loads(pickle.dumps(budget)) == copy.deepcopy(budget)
    assert budget != Budget(epsilon=1, delta=1e-8)
    assert Budget(rho=1) != Budget(cost=2)
    assert Budget(rho=1).epsilon is None
    assert Budget(rho=1).delta is None


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        (Budget(epsilon=1, delta=1e-9), "epsilon 1 at delta 1e-9 (zcdp), rho 0.0149731, mu 0.173049, cost 0.0299461"),
        (Budget(rho="1/49"), "epsilon 1.17565 at delta 1e-9 (zcdp), rho 1/49, mu 0.202031, cost 0.0408163"),
        (Budget(mu=0.3), "epsilon 1.78008 at delta 1e-9 (zcdp), rho 0.045, mu 0.3, cost 0.09"),
        (Budget(cost=1), "epsilon 6.47408 at delta 1e-9 (zcdp), rho 0.5, mu 1, cost 1"),
    ],
    ids=repr,
)
def test_description_shows_every_view_on_one_line(budget: Budget, text: str) -> None:
    assert budget.describe() == str(budget) == text


def test_repr_reads_back() -> None:
    budget = Budget(epsilon=0.1, delta="1/7")
    assert repr(budget) == "Budget(epsilon='0.1', delta='1/7')"
    assert eval(repr(budget)) == budget


@given(st.fractions(min_value=Fraction(1, 10**12), max_value=10**12))
def test_request_is_exact_text(value: Fraction) -> None:
    budget = Budget(rho=value)
    assert Budget(**budget.request) == budget
    assert Fraction(exact_text(value)) == value


@given(st.floats(min_value=1e-90, max_value=1e90))
def test_floats_are_read_by_their_repr(value: float) -> None:
    assert Budget(rho=value).rho == Fraction(repr(value)) == Budget(rho=str(value)).rho


@given(st.fractions(min_value=Fraction(1, 10**12), max_value=10**12))
def test_six_digits_round_the_way_asked(value: Fraction) -> None:
    up, near = Fraction(rounded_text(value, up=True)), Fraction(rounded_text(value))
    assert value <= up <= value * (1 + Fraction(1, 10**5))
    assert abs(near - value) <= value / 10**5
