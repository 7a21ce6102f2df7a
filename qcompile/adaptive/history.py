"""The record of an adaptive run, round by round: private output, and part of the release.

Nothing here depends on the data but through the mechanism's own releases: which marginal was selected, which nodes were
measured for it and how precisely, and whether the estimate moved by more than noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy.typing as npt

from qcompile.privacy.noise.scale import Scale


@dataclass(frozen=True, slots=True)
class Step:
    """One measurement.

    Attributes:
      node: position in the lattice.
      scale: its noise, with its exact cost.
    """

    node: int
    scale: Scale

    @property
    def precision(self) -> float:
        """1 / variance of each entry; infinite for a public node."""
        return 1 / self.scale.variance if self.scale.sigma else float("inf")


@dataclass(frozen=True, slots=True)
class SelectionStep:
    """One use of the exponential mechanism.

    Attributes:
      scale: of its noise, in score steps.
      cost: its exact cost in rho.
    """

    scale: float
    cost: Fraction

    @staticmethod
    def of(sensitivity: int, scale: float) -> SelectionStep:
        """The step with a noise scale: rho = epsilon^2 / 8, epsilon = 2 sensitivity / scale.

        References:
          Cesar, Rogers 2021, arXiv 2004.07223.
        """
        return SelectionStep(scale, Fraction(sensitivity) ** 2 / (2 * Fraction(scale) ** 2))


@dataclass(frozen=True, slots=True)
class Round:
    """One round: a marginal is chosen, and nodes below it are measured.

    Attributes:
      marginal: position of the chosen node; every attribute by itself comes first, without selection.
      budget: rho that was set aside for it.
      selection: how it was chosen; None where nothing was selected.
      steps: what was measured.
      skipped: nodes below it that were already known well enough.
      grown: True if the estimate moved by no more than noise, so that the next rounds get more budget.
    """

    marginal: int
    budget: Fraction
    selection: SelectionStep | None
    steps: tuple[Step, ...]
    skipped: tuple[int, ...]
    grown: bool = False

    @property
    def cost(self) -> Fraction:
        """The exact cost in rho, at most the budget."""
        chosen = Fraction(0) if self.selection is None else self.selection.cost
        return chosen + sum((s.scale.cost for s in self.steps), Fraction(0)) / 2


@dataclass(frozen=True, eq=False)
class MeasuredRound:
    """A round with what was drawn in it: all that the next rounds depend on.

    Attributes:
      round: what was done.
      values: of each step the measurements as they were drawn, ``(rows,)``: multiples of the grid as whole numbers, or
        doubles.
    """

    round: Round
    values: tuple[npt.NDArray[Any], ...]


@dataclass(frozen=True)
class History:
    """All rounds.

    Attributes:
      basis: "compiled" or "residual".
      rounds: in their order.
    """

    basis: str
    rounds: tuple[Round, ...]

    @property
    def steps(self) -> Iterator[Step]:
        """All measurements in their order."""
        return (s for r in self.rounds for s in r.steps)

    @property
    def cost(self) -> Fraction:
        """The exact cost of all draws, in rho."""
        return sum((r.cost for r in self.rounds), Fraction(0))

    def precisions(self) -> dict[int, float]:
        """1 / variance of each measured node's average."""
        found: dict[int, float] = {}
        for step in self.steps:
            found[step.node] = found.get(step.node, 0.0) + step.precision
        return found
