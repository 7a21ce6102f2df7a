"""Budgets: what may be written, exactness, and the views of one budget in other currencies."""

from __future__ import annotations

import ast
import copy
import itertools
import math
import pathlib
import pickle
import subprocess
import sys
import time
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
from qcompile.privacy import accounting
from qcompile.privacy.budget import Budget
from qcompile.privacy.exact_numbers import exact_text, rounded_text

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
    (np.longdouble("0.1"), Fraction(1, 10)),
    (np.str_("0.1"), Fraction(1, 10)),
    ("+1e+1", Fraction(10)),
    ("0." + "1" * 800, Fraction(int("1" * 800), 10**800)),
]

WRONG: list[Any] = [
    *(0, -1, 0.0, -0.1, "0", "-1/2", "0/5", Decimal(0), Fraction(0), np.float64(0), np.int64(-3)),
    *(float("nan"), float("inf"), -float("inf"), Decimal("NaN"), Decimal("Infinity"), np.float64("nan"), "nan", "inf"),
    *("x", "", " ", "1/0", "1//2", "0x10", "1_000", "1,5", "٣", "1e", "1e99999", "1e-999999999", "9" * 5000),
    *(True, False, np.True_, b"1", [1], 1j, np.array([1.0, 2.0]), object()),
    *(10**5000, Decimal("1e999999"), Decimal("1e-999999"), 1e-200, 1e200, "1e-400", "1e-101", "1e101"),
    *(Decimal("sNaN"), Decimal("-NaN"), Decimal("1." + "1" * 10**6), Fraction(10**5000 + 1, 10**5000)),
    *(
        "0." + "1" * 1000,
        "1" * 1000 + "/" + "1" * 999,
        "1/-2",
        "1/2/3",
        "0.1/2",
        "\uff11",
        "1e5_0",
        "½",
        "∞",
        "0b1",
        "1%",
    ),
    *(np.longdouble("1e4000"), np.complex128(1), np.timedelta64(5, "s"), np.datetime64(5, "s"), np.bytes_(b"1")),
    *(np.array(1.0), {}, (), bytearray(b"1"), float),
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


def short(value: object) -> str:
    return type(value).__name__ if isinstance(value, int | Fraction | Decimal) else repr(value)[:20]


@pytest.mark.parametrize("parameter", PARAMETERS)
@pytest.mark.parametrize("value", WRONG, ids=short)
def test_wrong_values_are_refused_by_name(parameter: str, value: Any) -> None:
    """opendp#429, for every parameter, and what other types and texts can be thought of; at once."""
    start = time.process_time()
    with pytest.raises(BudgetError, match=rf"^{parameter}=") as caught:
        PARAMETERS[parameter](value)
    message = str(caught.value)
    assert "give" in message
    assert len(message) < 300
    assert time.process_time() - start < 0.5


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, "x", "", None, True], ids=repr)
def test_impossible_epsilons(epsilon: Any) -> None:
    """opendp#429: the error names the parameter, at once."""
    with pytest.raises(BudgetError, match="epsilon"):
        Budget(epsilon=epsilon, delta=1e-9)


UNDER_O = """
import math, sys
from qcompile.errors import BudgetError
from qcompile.privacy.budget import Budget
assert sys.flags.optimize == 0, "never runs: python -O removes it"
left = []
for name in ("epsilon", "delta", "rho", "cost", "mu"):
    for value in (math.nan, -math.nan, math.inf, 0, -1, True, "nan", "x", ""):
        others = {"epsilon": {"delta": 1e-9}, "delta": {"epsilon": 1}}.get(name, {})
        try:
            Budget(**others, **{name: value})
        except BudgetError as error:
            if name in str(error):
                continue
        left.append((name, value))
print("optimised", sys.flags.optimize, "accepted", left)
"""


def test_validation_does_not_need_assertions() -> None:
    """PipelineDP validators: nan passes ``<= 0`` checks, and asserts vanish under ``python -O``; refused anyway."""
    done = subprocess.run([sys.executable, "-O", "-c", UNDER_O], capture_output=True, text=True, check=False)
    assert done.stdout.split("\n")[0] == "optimised 1 accepted []", done.stderr


def test_no_module_validates_by_assert() -> None:
    folder = pathlib.Path(accounting.__file__).parent
    trees = [ast.parse(path.read_text()) for path in folder.rglob("*.py")]
    assert len(trees) > 6
    assert not [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Assert)]


@pytest.mark.parametrize("delta", [1, 1.0, "1", 2, Fraction(7, 2)])
def test_delta_is_below_one(delta: Any) -> None:
    """AIM codes: delta 1 and above."""
    with pytest.raises(BudgetError, match=r"delta=.* must be < 1"):
        Budget(epsilon=1, delta=delta)


@pytest.mark.parametrize("delta", [-1, -1e-9, "-0.1", Fraction(-1, 2)])
def test_delta_is_not_negative(delta: Any) -> None:
    """AIM codes: delta below 0."""
    with pytest.raises(BudgetError, match=r"^delta=.* must be > 0"):
        Budget(epsilon=1, delta=delta)


@pytest.mark.parametrize("delta", [0, 0.0, -0.0, "0", "0.0", Decimal(0), Decimal("0e-999999"), np.float64(0)])
def test_delta_zero_names_both_ways_out(delta: Any) -> None:
    """AIM codes: delta = 0 gave rho = 0."""
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
        ({"mu": "1e-60"}, "mu=1e-60 is equivalent to rho=5e-121, outside 1e-100..5e99; give"),
        ({"mu": "1e60"}, "mu=1e60 is equivalent to rho=5e119, outside"),
        ({"rho": "1e100"}, "rho=1e100 is equivalent to rho=1e100, outside"),
        ({"cost": "1e-100"}, "cost=1e-100 is equivalent to rho=5e-101, outside"),
        (
            {"epsilon": "1e-100", "delta": "1e-100"},
            "epsilon=1e-100, delta=1e-100 is equivalent to rho=3.23811e-200, outside",
        ),
    ],
)
def test_exactly_one_request(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(BudgetError, match=message):
        Budget(**parameters)


def test_refusals_carry_the_exit_code_of_budgets() -> None:
    with pytest.raises(BudgetError) as caught:
        Budget(rho=-1)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    "parts",
    [["0.1", "0.2", "0.7"], [0.1, 0.2, 0.7], ["1/3"] * 3, ["1/7"] * 7, ["1/49"] * 49],
    ids=lambda p: str(len(p)),
)
def test_parts_add_up_to_the_whole(parts: list[Any]) -> None:
    """opendp#2131: 1 in parts of 0.1, 0.2 and 0.7, and in 3, 7 and 49 equal ones; read from print, too."""
    budgets = [Budget(rho=part) for part in parts]
    assert sum(b.rho for b in budgets) == Budget(rho=1).rho
    assert sum(Fraction(b.request["rho"]) for b in budgets) == 1
    assert sum(b.cost for b in budgets) == 2


def test_conversion_is_safe_and_known() -> None:
    budget = Budget(epsilon=1, delta="1e-9")
    assert float(budget.rho) == pytest.approx(0.0149731, abs=5e-8)
    assert float(budget.charge("gaussian")) == pytest.approx(0.016557, abs=5e-7)
    assert budget.rho == budget.charge() == budget.charge("zcdp")
    for curve in ("zcdp", "gaussian"):
        assert budget.epsilon_at("1e-9", curve) == pytest.approx(1, abs=1e-12)


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
    "budget", [Budget(epsilon=1, delta=1e-9), Budget(rho="1/49"), Budget(mu=0.3), Budget(cost=1)], ids=repr
)
@pytest.mark.parametrize("curve", ["zcdp", "gaussian"])
def test_views_are_upper_bounds_of_one_loss(budget: Budget, curve: str) -> None:
    assert budget.cost == 2 * budget.rho
    assert budget.cost <= budget.mu**2 <= budget.cost * (1 + Fraction(1, 2**50))
    epsilon, delta = budget.epsilon_at("1e-7", curve), budget.delta_at("1/3", curve)
    assert budget.delta_at(epsilon, curve) == pytest.approx(1e-7, rel=1e-9)
    assert budget.epsilon_at(delta, curve) == pytest.approx(1 / 3, rel=1e-9)
    largest = Budget(epsilon="1/3", delta=delta).charge(curve)
    assert largest == pytest.approx(budget.charge(curve), rel=1e-12)


def test_requests_keep_their_own_view_exactly() -> None:
    assert Budget(mu="1/3").mu == Fraction(1, 3)
    assert Budget(cost="1/3").cost == Fraction(1, 3)
    assert Budget(epsilon=1, delta="1e-9").delta_at(1) <= Fraction(1, 10**9)


def test_the_gaussian_curve_promises_more_for_the_same_noise() -> None:
    budget = Budget(rho="1/49")
    assert budget.delta_at(1, "gaussian") < budget.delta_at(1) / 4
    with pytest.raises(OptionError, match="accounting='pure'"):
        budget.delta_at(1, "pure")
    with pytest.raises(BudgetError, match=r"^epsilon=0"):
        budget.delta_at(0)


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        (Budget(epsilon=1, delta=1e-9), "epsilon 1 at delta 1e-9 (zcdp), rho 0.0149731, mu 0.17305, cost 0.0299462"),
        (
            Budget(rho="1/49"),
            "epsilon 1.17565 at delta 1e-9 (zcdp), delta 1.15576e-7 at epsilon 1, "
            "rho 1/49, mu 0.202031, cost 0.0408164",
        ),
        (
            Budget(mu=0.3),
            "epsilon 1.78008 at delta 1e-9 (zcdp), delta 0.000200254 at epsilon 1, rho 0.045, mu 0.3, cost 0.09",
        ),
        (
            Budget(cost=1),
            "epsilon 6.47408 at delta 1e-9 (zcdp), delta 0.246847 at epsilon 1, rho 0.5, mu 1, cost 1",
        ),
        (
            Budget(rho="1e-90"),
            "epsilon 0 at delta 1e-9 (zcdp), delta 1e-100 at epsilon 1, rho 1e-90, mu 1.41422e-45, cost 2e-90",
        ),
    ],
    ids=repr,
)
def test_description_shows_every_view_on_one_line(budget: Budget, text: str) -> None:
    assert budget.describe() == str(budget) == text


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=10**4))
def test_no_printed_view_is_below_the_loss(value: Fraction) -> None:
    budget = Budget(rho=value)
    for curve in ("zcdp", "gaussian"):
        words = budget.describe(curve).replace(",", "").split()
        shown = {name: Fraction(text) for name, text in itertools.pairwise(words) if text[0].isdigit()}
        assert shown["rho"] == value
        assert budget.cost <= shown["cost"]
        assert budget.mu <= shown["mu"]
        epsilon, delta = words[1], words[7]
        assert words[2:5:2] == ["at", "1e-9"]
        assert budget.epsilon_at("1e-9", curve) <= Fraction(epsilon)
        assert budget.delta_at(1, curve) <= Fraction(delta)


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
