"""Routes whose strategy is a fixed basis: its loss is known without building the strategy."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from qcompile.errors import OptionError, QCompileError
from qcompile.lattice.lattice import Problem
from qcompile.solvers.bounds.lower_bound import lower_bound
from qcompile.solvers.route import Bound, Route
from qcompile.support.arrays import require_memory
from qcompile.support.memory import has_room

REMEDY = "use fewer or coarser cells, or raise the limit (--max-memory, max_memory=...)"


@dataclass(frozen=True, eq=False)
class Basis(Route):
    """A fixed basis on uniformly centred axes.

    Attributes:
      bound: the lower bound that solutions carry where the basis is not known to be optimal.
    """

    needs_uniform: ClassVar[bool] = True
    splits_only: ClassVar[bool] = True

    bound: Bound = lower_bound

    def why_not(self, problem: Problem) -> str | None:
        """A reason where some axis is not centred uniformly."""
        return None if problem.uniform else "needs uniform centring on every axis"

    def refusal(self, reason: str) -> QCompileError:
        """Another solver may take what this basis cannot."""
        return OptionError(f"solver={self.option!r} {reason}; use solver='exact' or 'auto'")

    @abstractmethod
    def numbers(self, problem: Problem) -> int:
        """Numbers that live at once while the loss is computed and the strategy is made."""

    def has_room(self, problem: Problem) -> bool:
        """True if the strategy fits in memory."""
        return has_room(8 * self.numbers(problem))

    def require_room(self, problem: Problem) -> None:
        """Refuse a strategy that does not fit.

        Raises:
          SizeError: names the basis and the bytes.
        """
        require_memory(f"the {self.name} of a node of {problem.cells:,} cells", self.numbers(problem), REMEDY)

    @abstractmethod
    def is_exact(self, problem: Problem) -> bool:
        """True if the basis is optimal for every Gram of the problem."""

    @abstractmethod
    def loss(self, problem: Problem) -> float:
        """The basis's loss, without building its strategy."""
