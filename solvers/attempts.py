"""The attempts on one problem: the best solution, the best lower bound, and the reasons against other routes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from qcompile.solvers.solution import Solution
from qcompile.support.text import excess_text


@dataclass(eq=False)
class Attempts:
    """The attempts so far.

    Attributes:
      tolerance: the certified relative gap wanted.
      bound: the best lower bound of the problem's loss from any route.
      best: the solution with the smallest loss.
    """

    tolerance: float
    bound: float = 0.0
    best: Solution | None = None
    _reasons: list[tuple[str, str]] = field(default_factory=list)
    _losses: list[tuple[str, float]] = field(default_factory=list)
    _best_label: str = ""

    def refuse(self, label: str, reason: str) -> None:
        """Note the reason against a route."""
        self._reasons.append((label, reason))

    def add(self, label: str, solution: Solution) -> None:
        """Note a route's solution."""
        self.bound = max(self.bound, solution.bound)
        self._losses.append((label, solution.loss))
        if self.best is None or solution.loss < self.best.loss:
            self.best, self._best_label = solution, label

    @property
    def certified(self) -> bool:
        """True if the best solution is within the tolerance."""
        return self.best is not None and self.certifies(self.best.loss)

    def certifies(self, loss: float) -> bool:
        """True if the bound certifies a loss to the tolerance."""
        return loss <= self.bound * (1 + self.tolerance)

    def reason(self, loss: float) -> str:
        """The certified gap of a loss, in words."""
        if self.bound <= 0:
            return "no lower bound is known"
        return f"its error is only proven to be at most {excess_text(loss / self.bound - 1)} above the optimum"

    def result(self, solution: Solution) -> Solution:
        """A solution with the best bound and all refused routes."""
        tried = [(label, self.reason(loss)) for label, loss in self._losses if label != self._best_label]
        refused = tuple(r for r in (*self._reasons, *tried) if r[0] != solution.solver)
        # The strategy attains its loss up to rounding; a bound must not contradict it.
        return replace(solution, bound=min(self.bound, solution.loss), refused=refused)
