"""Division of an adaptive run's budget: every share is an exact fraction, and all together are the charge.

AIM (arXiv 2201.12677, algorithm 1) in the constants of AIM+GReM (arXiv 2602.05674): a first measurement of every
attribute, then rounds that begin at ``charge / T`` each and grow fourfold whenever a round changes little, and a last
round that takes what is left as soon as that is no more than two rounds' budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from qcompile.errors import InternalError

MEASURING = Fraction(9, 10)
"""Part of a round's budget that measures; the rest selects."""

ROUNDS_A_NODE = 2
"""T, the number of rounds that the first round's budget is meant for, per node of the closure."""

GROWTH = 4
"""Factor of a round's budget after one that changed little: epsilon of the selection doubles, sigma is halved."""


@dataclass(frozen=True, slots=True)
class RoundBudget:
    """The budget of one round, in rho.

    Attributes:
      selection: for the exponential mechanism.
      measurement: for the measurements.
      last: whether nothing is left afterwards.
    """

    selection: Fraction
    measurement: Fraction
    last: bool


class Spending:
    """The account of one run.

    Attributes:
      charge: rho of the whole run.
      left: what no share was made of yet.
      spent: the exact cost of everything that was drawn; never above what was shared out.
    """

    def __init__(self, charge: Fraction, nodes: int, rounds: int | None = None) -> None:
        self.charge = self.left = charge
        self.spent = Fraction(0)
        self._shared = Fraction(0)
        self._first = MEASURING * charge / (2 * nodes)
        self._round = charge / (ROUNDS_A_NODE * nodes if rounds is None else rounds)

    def initial(self) -> Fraction:
        """The share of one attribute's first measurement: ``0.9 rho / (2 nodes)``, at most once per attribute."""
        return self._take(self._first)

    def next_round(self) -> RoundBudget:
        """The share of the next round; all that is left where it is no more than two rounds' budget."""
        last = self.left <= 2 * self._round
        amount = self._take(self.left if last else self._round)
        return RoundBudget(amount * (1 - MEASURING), amount * MEASURING, last)

    def grow(self) -> None:
        """Enlarge the budget of the next rounds, after one that changed little."""
        self._round *= GROWTH

    def reserve(self, cost: Fraction, share: Fraction) -> None:
        """Reserve the cost of a draw, before it is drawn.

        Args:
          cost: its exact cost in rho, from the noise that it will have.
          share: its part of the budget, in rho.

        Raises:
          InternalError: it costs more than its share, or the shares are used up; nothing may be drawn.
        """
        self.spent += cost
        if cost > share or self.spent > self._shared:
            raise InternalError(f"a draw costs rho {float(cost)!r}, its share is {float(share)!r}")

    def _take(self, amount: Fraction) -> Fraction:
        if not 0 < amount <= self.left:
            raise InternalError("an adaptive run asked for more than its budget")
        self.left -= amount
        self._shared += amount
        return amount
