"""The privacy budget of a run, as it was asked for, and what that request is worth in every other currency.

Everything is a fraction: parts of a budget add up to it exactly, and a request is converted once, to the safe side.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

from qcompile.allocation import root_up
from qcompile.errors import BudgetError, OptionError
from qcompile.privacy.accounting import (
    cost_from_epsilon,
    epsilon_from_cost,
    epsilon_from_rho,
    exact_delta,
    rho_from_epsilon,
)
from qcompile.privacy.exact import Number, exact, exact_text, rounded_text

"""How (epsilon, delta) and noise are related: by the zCDP bound, or by the Gaussian mechanism's own curve."""

Kind: TypeAlias = Literal["epsilon", "rho", "cost", "mu"]

USUAL_DELTA = Fraction(1, 10**9)
"""The delta at which the epsilon of a budget is shown that names none."""

_ONE_OF = "give exactly one of: epsilon with delta, rho, cost, mu"


@dataclass(frozen=True, init=False, repr=False)
class Budget:
    """An immutable request for privacy loss: epsilon with delta, or rho (zCDP), or cost (2 rho), or mu (Gaussian DP).

    Each value is an int, Fraction, Decimal, float (read by its repr: 0.1 is 1/10), NumPy scalar or text ("1/49").
    Equal requests are equal budgets; ``Budget(rho=1)`` and ``Budget(cost=2)`` are worth the same and are not equal.

    Attributes:
      kind: which parameter was given; "epsilon" stands for epsilon with delta.
      amount: its exact value, > 0; an epsilon is at most 1e9.
      delta: between 0 and 1, exclusive; None unless ``kind`` is "epsilon".

    Raises:
      BudgetError: a value is not a finite number in its range, or the parameters are not one complete request.
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
        given = {kind: exact(kind, value) for kind, value in named.items() if value is not None}
        exact_d = None if delta is None else exact_delta(delta)
        _require_one_request(given, exact_d)
        [(kind, amount)] = given.items()
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "amount", amount)
        object.__setattr__(self, "delta", exact_d)
        if exact_d is not None:
            rho_from_epsilon(amount, exact_d)  # what cannot be converted is refused here, where it is written

    @property
    def epsilon(self) -> Fraction | None:
        """The requested epsilon; None if the request was made in another currency."""
        return self.amount if self.kind == "epsilon" else None

    @property
    def rho(self) -> Fraction:
        """The request in zCDP: an (epsilon, delta) request rounded down, the others exactly."""
        return self.charge("zcdp")

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
            if accounting == "gaussian":
                return cost_from_epsilon(self.amount, self.delta) / 2
            return rho_from_epsilon(self.amount, self.delta)
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

    def describe(self, accounting: str = "zcdp") -> str:
        """The budget in every currency, on one line; what was asked for is exact, the rest to six digits."""
        rho = self.charge(accounting)
        delta = USUAL_DELTA if self.delta is None else self.delta
        epsilon = exact_text(self.amount) if self.delta else rounded_text(self.epsilon_at(delta, accounting), up=True)
        mu = Fraction(root_up(2 * rho))
        shown = {"rho": rounded_text(rho), "mu": rounded_text(mu), "cost": rounded_text(2 * rho)}
        if self.delta is None:
            shown[self.kind] = exact_text(self.amount)
        views = ", ".join(f"{name} {text}" for name, text in shown.items())
        return f"epsilon {epsilon} at delta {exact_text(delta)} ({accounting}), {views}"

    @property
    def request(self) -> dict[str, str]:
        """The parameters as exact text: ``Budget(**budget.request) == budget``."""
        texts = {str(self.kind): exact_text(self.amount)}
        return texts if self.delta is None else {**texts, "delta": exact_text(self.delta)}

    def __repr__(self) -> str:
        return f"Budget({', '.join(f'{name}={text!r}' for name, text in self.request.items())})"

    def __str__(self) -> str:
        return self.describe()


def _require_one_request(given: dict[Kind, Fraction], delta: Fraction | None) -> None:
    if "epsilon" in given and delta is None and len(given) == 1:
        raise BudgetError("epsilon needs a delta, as Gaussian noise never has delta 0; give delta=1e-9, or rho alone")
    if delta is not None and not given:
        raise BudgetError("delta needs an epsilon; give both, e.g. epsilon=1")
    if not given:
        raise BudgetError(f"no budget is given; {_ONE_OF}")
    if len(given) > 1 or (delta is not None and "epsilon" not in given):
        names = [*given, *(["delta"] if delta is not None else [])]
        raise BudgetError(f"{', '.join(names)} are more than one request; {_ONE_OF}")


def _require_accounting(accounting: str) -> None:
    if accounting not in ("zcdp", "gaussian"):
        raise OptionError(f"accounting={accounting!r} is unknown; choose 'zcdp' or 'gaussian'")
