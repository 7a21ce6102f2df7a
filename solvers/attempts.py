"""Solutions of one problem as they are found: the best one, the best lower bound, and why others were not taken."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from qcompile.solvers.solution import Solution


@dataclass(eq=False)
class Trial:
    """What was tried so far.

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
        """Note why a route was not taken."""
        self._reasons.append((label, reason))

    def add(self, label: str, solution: Solution) -> None:
        """Take note of a route's solution."""
        self.bound = max(self.bound, solution.bound)
        self._losses.append((label, solution.loss))
        if self.best is None or solution.loss < self.best.loss:
            self.best, self._best_label = solution, label

    @property
    def certified(self) -> bool:
        """Whether the best solution is within the tolerance."""
        return self.best is not None and self.within(self.best.loss)

    def within(self, loss: float) -> bool:
        """Whether the bound certifies a loss."""
        return loss <= self.bound * (1 + self.tolerance)

    def reason(self, loss: float) -> str:
        """How good the bound says a loss is."""
        if self.bound <= 0:
            return "no lower bound is known"
        return f"certified only within {100 * (loss / self.bound - 1):.2g} %"

    def result(self, solution: Solution) -> Solution:
        """A solution with everything that is known about the problem."""
        tried = [(label, self.reason(loss)) for label, loss in self._losses if label != self._best_label]
        refused = tuple(r for r in (*self._reasons, *tried) if r[0] != solution.solver)
        # The strategy attains its loss up to rounding; a bound must not contradict it.
        return replace(solution, bound=min(self.bound, solution.loss), refused=refused)
