"""What a benchmark should show, beside what it showed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A figure with the bound that it should keep.

    Attributes:
      title: what it is.
      value: the figure.
      at_least: its lower bound.
      at_most: its upper bound.
    """

    title: str
    value: float
    at_least: float = -math.inf
    at_most: float = math.inf

    @property
    def met(self) -> bool:
        """Whether the figure, as it is, keeps its bounds; NaN does not."""
        return self.at_least <= self.value <= self.at_most

    def __str__(self) -> str:
        bounds = [(f"at least {self.at_least:g}", self.at_least), (f"at most {self.at_most:g}", self.at_most)]
        wanted = " and ".join(text for text, bound in bounds if math.isfinite(bound))
        return f"{self.title}: {self.value:.3g} (target: {wanted}; {'met' if self.met else '**not met**'})"


def listed(targets: Iterable[Target]) -> str:
    """A list of targets."""
    return "\n".join(f"- {target}" for target in targets)
