"""The result of a solver: a strategy and its certificate."""

from __future__ import annotations

from dataclasses import dataclass, field

from qcompile.strategy import Strategy


@dataclass(frozen=True, eq=False)
class Solution:
    """A strategy of unit cost for one problem.

    Attributes:
      strategy: the matrix B; its largest squared column norm is 1 up to rounding.
      loss: ``tr(G V^+)``, the node's weighted squared error at cost 1, attained by the strategy.
      bound: a proven lower bound of that error over all strategies.
      solver: the route taken, for people.
      refused: routes considered before it, each with the reason it was not taken.
    """

    strategy: Strategy
    loss: float
    bound: float
    solver: str
    refused: tuple[tuple[str, str], ...] = field(default=())

    @property
    def gap(self) -> float:
        """``loss / bound - 1``, at least 0; infinite where nothing is proven."""
        if self.loss == 0:
            return 0.0
        return max(0.0, self.loss / self.bound - 1) if self.bound > 0 else float("inf")
