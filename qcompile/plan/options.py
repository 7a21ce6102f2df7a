"""The choices that a plan is compiled with, and their allowed values."""

from __future__ import annotations

from dataclasses import dataclass

from qcompile.privacy.unit import MOST_CONTRIBUTIONS, NEIGHBOURS
from qcompile.solvers.solver import solver_class
from qcompile.support.options import one_of, positive, share, whole

CENTRINGS = ("uniform", "optimised")
"""Centring weights by name."""

SEARCHES = ("no", "auto", "yes")
"""Efforts of the search for blocks."""

OBJECTIVES = ("total", "max", "targets")
"""What a plan minimises: the total squared error, the largest variance of a query, the budget that targets need."""
DESIGNS = ("nodes", "oblique", "auto")
"""What a node measures: its own residual only, or that and some of the nodes below it."""

GIVEN = "given"
"""In place of a name: centring weights and blocks that the user wrote out."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The choices a plan was compiled with.

    Attributes:
      solver: one of `qcompile.solvers.SOLVERS`.
      gap: tolerance of each class's certified relative gap.
      centring: "uniform", "optimised" or "given".
      blocks: "no", "auto", "yes" (searched for) or "given".
      strategies: per attribute the label of its strategy, for a solver that takes strategies.
      neighbours: "add-remove" or "replace-one": how tables differ in one privacy unit's rows.
      contributions: rows that one privacy unit may have.
      objective: one of `OBJECTIVES`.
      objective_gap: tolerance of the certified relative gap of the objectives "max" and "targets".
      total: the number of rows that targets in per cent refer to; None where there are none.
      design: "nodes", "oblique" or "auto": what was asked for; the strategies say what was taken.

    Raises:
      OptionError: a choice has a value it cannot take.
    """

    solver: str = "auto"
    gap: float = 1e-3
    centring: str = "uniform"
    blocks: str = "no"
    strategies: tuple[tuple[str, str], ...] = ()
    neighbours: str = "add-remove"
    contributions: int = 1
    objective: str = "total"
    objective_gap: float = 0.01
    total: float | None = None
    design: str = "nodes"

    def __post_init__(self) -> None:
        """Check every choice; numbers become Python's own."""
        solver_class(self.solver)
        object.__setattr__(self, "gap", share("gap", self.gap, "1e-3 means 0.1 %"))
        one_of("centring", self.centring, (*CENTRINGS, GIVEN))
        one_of("blocks", self.blocks, (*SEARCHES, GIVEN))
        one_of("design", self.design, DESIGNS)
        one_of("neighbours", self.neighbours, NEIGHBOURS)
        rows = whole("contributions", self.contributions, 1, "rows", MOST_CONTRIBUTIONS)
        object.__setattr__(self, "contributions", rows)
        one_of("objective", self.objective, OBJECTIVES)
        object.__setattr__(self, "objective_gap", share("objective_gap", self.objective_gap, "0.01 means 1 %"))
        if self.total is not None:
            object.__setattr__(self, "total", positive("total", self.total, "the number of rows, such as 48842"))
