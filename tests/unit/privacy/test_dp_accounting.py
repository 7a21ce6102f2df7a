"""Conversions against dp-accounting, the library of Google's differential privacy team: other people's code and math.

Where both compute the same quantity they must agree; where its bound is looser, ours must be on the tight side of it,
and never by more than the difference explains.
"""

from __future__ import annotations

import importlib
import itertools
import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from qcompile.privacy import accounting
from qcompile.support.arrays import Array

REQUESTS = list(
    itertools.product([1e-6, 1e-4, 0.01, 0.1, 1.0, 5.0, 20.0, 100.0, 1000.0], [1e-18, 1e-12, 1e-9, 1e-5, 0.01, 0.1])
)
each = pytest.mark.parametrize(("epsilon", "delta"), REQUESTS)
# Its search evaluates log(0) on the way.
gaussian = pytest.mark.filterwarnings("ignore:divide by zero encountered in log1p:RuntimeWarning")


@pytest.fixture(scope="module")
def library() -> ModuleType:
    return importlib.import_module("dp_accounting")


def composed(library: ModuleType, rho: float, orders: Array | None = None) -> Any:
    """Its Renyi accountant after one event of rho zCDP; without orders of ours, with its default ones."""
    accountant = library.rdp.RdpAccountant() if orders is None else library.rdp.RdpAccountant(orders=orders)
    accountant.compose(library.ZCDpEvent(rho))
    return accountant


def fine_orders(rho: float, delta: float) -> Array:
    """4000 orders around the optimal one, which is near ``1 + sqrt(log(1/delta)/rho)`` and below it."""
    return 1 + math.sqrt(math.log(1 / delta) / rho) * np.geomspace(0.02, 1, 4000)


@gaussian
@each
def test_gaussian_cost(library: ModuleType, epsilon: float, delta: float) -> None:
    """The same curve. It subtracts in doubles, relative 2^-52 over 1/sigma: that is all that is allowed here."""
    theirs = library.get_sigma_gaussian(epsilon, delta) ** -2
    ours = accounting.cost_from_epsilon(epsilon, delta)
    assert float(ours) == pytest.approx(theirs, rel=1e-10 if epsilon > 1e-3 else 1e-8)


@gaussian
@each
def test_gaussian_epsilon(library: ModuleType, epsilon: float, delta: float) -> None:
    """The same curve the other way; its search stops at 1e-12 absolute."""
    cost = float(accounting.cost_from_epsilon(epsilon, delta))
    theirs = library.get_epsilon_gaussian(cost**-0.5, delta)
    assert float(accounting.epsilon_from_cost(cost, delta)) == pytest.approx(theirs, rel=1e-10, abs=2e-12)


@each
def test_zcdp_epsilon_is_at_most_theirs(library: ModuleType, epsilon: float, delta: float) -> None:
    """Theirs is the same bound (Canonne, Kamath, Steinke, proposition 12) at a list of orders only: looser.

    So ours may be smaller, and at orders as fine as ours must be the same. It leaves out orders up to 1.01, which are
    the best ones where epsilon is far below delta.
    """
    rho = float(accounting.rho_from_epsilon(epsilon, delta))
    ours = float(accounting.epsilon_from_rho(rho, delta))
    assert ours == pytest.approx(epsilon, rel=1e-8)
    assert ours <= composed(library, rho).get_epsilon(delta) * (1 + 1e-12)
    fine = composed(library, rho, fine_orders(rho, delta)).get_epsilon(delta)
    assert ours <= fine * (1 + 1e-12)
    if epsilon > 0.1 * delta:
        assert fine == pytest.approx(ours, rel=1e-5)


@each
def test_zcdp_delta_is_at_most_theirs(library: ModuleType, epsilon: float, delta: float) -> None:
    rho = float(accounting.rho_from_epsilon(epsilon, delta))
    ours = float(accounting.delta_from_rho(rho, epsilon))
    assert ours == pytest.approx(delta, rel=1e-9)
    assert ours <= composed(library, rho).get_delta(epsilon) * (1 + 1e-12)
    assert composed(library, rho, fine_orders(rho, delta)).get_delta(epsilon) == pytest.approx(ours, rel=2e-5)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-9), (1.0, 1e-5), (4.0, 0.01)])
def test_privacy_loss_distributions_enclose_the_curve(library: ModuleType, epsilon: float, delta: float) -> None:
    """A third way: it discretises the privacy loss, rounded up or down, so the true delta lies between the two."""
    cost = float(accounting.cost_from_epsilon(epsilon, delta))
    ours = float(accounting.delta_from_cost(cost, epsilon))
    assert ours == pytest.approx(delta, rel=1e-9)
    upper, lower = (
        library.pld.privacy_loss_distribution.from_gaussian_mechanism(
            cost**-0.5, pessimistic_estimate=side, value_discretization_interval=1e-4, use_connect_dots=False
        ).get_delta_for_epsilon(epsilon)
        for side in (True, False)
    )
    assert lower * (1 - 1e-10) <= ours <= upper * (1 + 1e-10)
    assert upper - lower < 0.01 * ours


def test_a_wrong_conversion_would_be_noticed(library: ModuleType) -> None:
    """The basic bound ``epsilon = rho + 2 sqrt(rho log(1/delta))`` is valid and 4 % looser: not taken for the same."""
    rho, delta = 0.0149731, 1e-9
    basic = rho + 2 * math.sqrt(rho * math.log(1 / delta))
    theirs = composed(library, rho, fine_orders(rho, delta)).get_epsilon(delta)
    assert basic > 1.04 * theirs
    assert float(accounting.epsilon_from_rho(rho, delta)) == pytest.approx(theirs, rel=1e-6)
