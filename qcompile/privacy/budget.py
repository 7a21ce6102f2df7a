"""The privacy budget of a run, as it was asked for, and its equivalent in every other privacy definition.

Everything is a fraction: parts of a budget add up to it exactly, and a request is converted once, to the safe side.
An equivalent is an upper bound of the privacy loss, rounded up in every definition and in print.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeAlias

from qcompile.errors import BudgetError, OptionError
from qcompile.privacy.accounting import (
    cost_from_epsilon,
    delta_from_cost,
    delta_from_rho,
    epsilon_from_cost,
    epsilon_from_rho,
    exact_delta,
    rho_from_epsilon,
)
from qcompile.privacy.exact_numbers import LARGEST, SMALLEST, Number, exact, exact_text, rounded_text
from qcompile.privacy.noise.scale import root_up

Kind: TypeAlias = Literal["epsilon", "rho", "cost", "mu"]

ACCOUNTINGS = ("zcdp", "gaussian")

USUAL_DELTA = Fraction(1, 10**9)
"""The delta at which the epsilon of a budget is shown that names none."""

USUAL_EPSILON = Fraction(1)
"""The epsilon at which the delta of such a budget is shown."""

_ONE_OF = "give exactly one of: epsilon with delta, rho, cost, mu"


def has_gaussian_curve(mechanism: str, noise: str) -> bool:
    """True if a run satisfies the curve of one Gaussian mechanism with its mu: a batch with rounded noise.

    The exponential mechanism of an adaptive run is accounted in zCDP, which does not imply that curve; OpenDP proves
    zCDP. Without noise there is no guarantee at all.
    """
    return mechanism == "batch" and noise == "rounded"


def without_mu(text: str) -> str:
    """Leave mu out of a text by `Budget.describe`."""
    return re.sub(r", mu [^,]*", "", text)


@dataclass(frozen=True, init=False, repr=False)
class Budget:
    """An immutable request for privacy loss: epsilon with delta, or rho (zCDP), or cost (2 rho), or mu (Gaussian DP).

    Each value is an int, Fraction, Decimal, float (read by its repr: 0.1 is 1/10), NumPy scalar or text ("1/49").
    Equal requests are equal budgets; ``Budget(rho=1)`` and ``Budget(cost=2)`` permit the same loss and are not equal.

    Attributes:
      kind: which parameter was given; "epsilon" stands for epsilon with delta.
      amount: its exact value, in 1e-100..1e100, equivalent to a rho in 1e-100..5e99; an epsilon is at most 1e9.
      delta: between 0 and 1, exclusive; None unless ``kind`` is "epsilon".

    Raises:
      BudgetError: a value is not a finite number in its range, or the parameters are not one complete request.

    Example:
      >>> budget = Budget(epsilon=1, delta=1e-9)
      >>> print(budget)
      epsilon 1 at delta 1e-9 (zcdp), rho 0.0149731, mu 0.17305, cost 0.0299462
    """

    kind: Kind
    amount: Fraction
    delta: Fraction | None

    def __init__(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        cost: Number | None = None,
        mu: Number | None = None,
    ) -> None:
        named: dict[Kind, Number | None] = {"epsilon": epsilon, "rho": rho, "cost": cost, "mu": mu}
        request = {kind: exact(kind, value) for kind, value in named.items() if value is not None}
        exact_d = None if delta is None else exact_delta(delta)
        _require_one_request(request, exact_d)
        [(kind, amount)] = request.items()
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "amount", amount)
        object.__setattr__(self, "delta", exact_d)
        _require_worth(self)

    @property
    def epsilon(self) -> Fraction | None:
        """The requested epsilon; None if the request was made in another currency."""
        return self.amount if self.kind == "epsilon" else None

    @property
    def rho(self) -> Fraction:
        """The request in zCDP: an (epsilon, delta) request rounded down, the others exactly."""
        return self.charge("zcdp")

    @property
    def cost(self) -> Fraction:
        """Twice `rho`: squared sensitivity over variance of Gaussian noise, the sum over all that is measured."""
        return 2 * self.rho

    @property
    def mu(self) -> Fraction:
        """The request in Gaussian differential privacy: the root of `cost`, rounded up to a double where not exact.

        It holds for batches with rounded noise, see `has_gaussian_curve`.
        """
        return self._mu(self.rho)

    def charge(self, accounting: str = "zcdp") -> Fraction:
        """The rho that a run may spend.

        Args:
          accounting: "zcdp" (what a ledger adds up), or "gaussian": for one batch of Gaussian noise, whose own curve
            grants an (epsilon, delta) request more than the zCDP bound does. The other requests are worth the same
            either way.

        Returns:
          rho, half the cost; an (epsilon, delta) request is rounded down, the others are exact.

        Raises:
          OptionError: another accounting.
        """
        _require_accounting(accounting)
        if self.delta is not None:
            return _convert(self.amount, self.delta, accounting)
        if self.kind == "mu":
            return self.amount**2 / 2
        return self.amount / 2 if self.kind == "cost" else self.amount

    def epsilon_at(self, delta: Number, accounting: str = "zcdp") -> Fraction:
        """The epsilon that this budget, spent under an accounting, guarantees at a delta, rounded up.

        Raises:
          BudgetError: delta is not between 0 and 1.
          OptionError: another accounting.
        """
        rho = self.charge(accounting)
        return epsilon_from_cost(2 * rho, delta) if accounting == "gaussian" else epsilon_from_rho(rho, delta)

    def delta_at(self, epsilon: Number, accounting: str = "zcdp") -> Fraction:
        """The delta that this budget, spent under an accounting, guarantees at an epsilon, rounded up, 1e-100 to 1.

        Raises:
          BudgetError: epsilon is not > 0 and at most 1e9.
          OptionError: another accounting.
        """
        rho = self.charge(accounting)
        return delta_from_cost(2 * rho, epsilon) if accounting == "gaussian" else delta_from_rho(rho, epsilon)

    def describe(self, accounting: str = "zcdp", gaussian: bool = True) -> str:
        """The budget in every currency, on one line; what was asked for is exact, the rest six digits, rounded up.

        Args:
          accounting: see `charge`.
          gaussian: whether it is spent where mu holds, see `has_gaussian_curve`; otherwise mu is left out.
        """
        rho = self.charge(accounting)
        shown = {"rho": rho, "mu": self._mu(rho), "cost": 2 * rho}
        texts = {k: exact_text(v) if k == self.kind else rounded_text(v, up=True) for k, v in shown.items()}
        views = ", ".join(f"{name} {text}" for name, text in texts.items())
        text = f"{self._describe_curve(accounting)}, {views}"
        return text if gaussian else without_mu(text)

    def _describe_curve(self, accounting: str) -> str:
        """Epsilon at a delta: as requested; else at the usual delta, and delta at the usual epsilon."""
        if self.delta is not None:
            return f"epsilon {exact_text(self.amount)} at delta {exact_text(self.delta)} ({accounting})"
        epsilon = rounded_text(self.epsilon_at(USUAL_DELTA, accounting), up=True)
        delta = rounded_text(self.delta_at(USUAL_EPSILON, accounting), up=True)
        usual = f"epsilon {epsilon} at delta {exact_text(USUAL_DELTA)} ({accounting})"
        return f"{usual}, delta {delta} at epsilon {exact_text(USUAL_EPSILON)}"

    def _mu(self, rho: Fraction) -> Fraction:
        return self.amount if self.kind == "mu" else Fraction(root_up(2 * rho))

    @property
    def request(self) -> dict[str, str]:
        """The parameters as exact text: ``Budget(**budget.request) == budget``."""
        texts = {str(self.kind): exact_text(self.amount)}
        return texts if self.delta is None else {**texts, "delta": exact_text(self.delta)}

    def __repr__(self) -> str:
        return f"Budget({', '.join(f'{name}={text!r}' for name, text in self.request.items())})"

    def __str__(self) -> str:
        return self.describe()


@lru_cache(maxsize=128)
def _convert(epsilon: Fraction, delta: Fraction, accounting: str) -> Fraction:
    """The rho of an (epsilon, delta) request; the search takes milliseconds, and every text about a budget needs it."""
    if accounting == "gaussian":
        return cost_from_epsilon(epsilon, delta) / 2
    return rho_from_epsilon(epsilon, delta)


def _require_one_request(request: dict[Kind, Fraction], delta: Fraction | None) -> None:
    if "epsilon" in request and delta is None and len(request) == 1:
        raise BudgetError("epsilon needs a delta, as Gaussian noise never has delta 0; give delta=1e-9, or rho alone")
    if delta is not None and not request:
        raise BudgetError("delta needs an epsilon; give both, e.g. epsilon=1")
    if not request:
        raise BudgetError(f"no budget is given; {_ONE_OF}")
    if len(request) > 1 or (delta is not None and "epsilon" not in request):
        names = [*request, *(["delta"] if delta is not None else [])]
        raise BudgetError(f"{', '.join(names)} are more than one request; {_ONE_OF}")


def _require_worth(budget: Budget) -> None:
    """Refuse a budget that cannot be converted to rho and cost, where the user writes it."""
    if not SMALLEST <= budget.rho <= LARGEST / 2:
        names = ", ".join(f"{name}={text}" for name, text in budget.request.items())
        raise BudgetError(
            f"{names} is equivalent to rho={rounded_text(budget.rho)}, outside 1e-100..5e99; give a budget nearer to 1"
        )


def _require_accounting(accounting: str) -> None:
    if accounting not in ACCOUNTINGS:
        raise OptionError(f"accounting={accounting!r} is unknown; choose 'zcdp' or 'gaussian'")
