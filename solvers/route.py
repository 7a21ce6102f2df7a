"""The protocol of all solvers: a route takes the problem of one class of nodes to a strategy with a certificate.

A new solver is a subclass in a file of its own and a line in `qcompile.solvers.solver`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self, TypeAlias

from qcompile.errors import QCompileError, SizeError
from qcompile.lattice.lattice import Problem
from qcompile.solvers.attribute_strategies import AttributeStrategy
from qcompile.solvers.solution import Solution
from qcompile.strategy import KroneckerStrategy

Bound: TypeAlias = Callable[[Problem], float]
"""A proven lower bound of a problem's loss over all strategies."""


@dataclass(frozen=True, eq=False)
class RouteOptions:
    """The options of the compiler that a route may use.

    Attributes:
      gap: relative tolerance of the certified gap, between 0 and 1.
      strategies: per attribute name the user's strategy; empty except for routes that take strategies.
    """

    gap: float = 1e-3
    strategies: Mapping[str, AttributeStrategy] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Job:
    """Work that several classes may share.

    Attributes:
      key: equal for the same problem.
      gap: the certified relative gap that it is solved to; what is solved to a smaller one need not be done again.
      run: does the work; the route remembers the result.
      cells: of the problem that is solved.
    """

    key: Hashable
    gap: float
    run: Callable[[], object]
    cells: int


class RouteFailed(Exception):
    """A route turned out to lead nowhere while it was taken; carries the reason."""


class Route(ABC):
    """A way to solve the problem of one class of nodes; its options are its fields.

    Attributes:
      name: for people, as in `Solution.refused`.
      option: value of the option ``solver`` that selects the route; None for a step inside other routes.
      needs_uniform: True if every axis must be centred uniformly.
      splits_only: True if its strategies span centred queries only, so that it cannot measure unsplit blocks.
      takes_strategies: True if the user gives a strategy per attribute; `Problem.axes` then names the attributes.
      one_thread: True if its library keeps state of its own, so that problems are solved one at a time.
    """

    name: ClassVar[str]
    option: ClassVar[str | None] = None
    needs_uniform: ClassVar[bool] = False
    splits_only: ClassVar[bool] = False
    takes_strategies: ClassVar[bool] = False
    one_thread: ClassVar[bool] = False

    @classmethod
    def of(cls, options: RouteOptions) -> Self:
        """The route with the compiler's options; most use some of them."""
        return cls()

    @abstractmethod
    def why_not(self, problem: Problem) -> str | None:
        """The reason against this route, known without solving the problem; None if there is none."""

    @abstractmethod
    def solve(self, problem: Problem) -> Solution:
        """A strategy of unit cost with its loss and a proven lower bound.

        Raises:
          QCompileError: `why_not` has a reason against it, see `refusal`; or a route that this one takes has.
          RouteFailed: a reason appeared while solving.
        """

    def refusal(self, reason: str) -> QCompileError:
        """The error of a problem that this route cannot take."""
        kind = self.option or self.name
        return SizeError(f"no {kind} solver fits this node: {reason}; use solver='auto', or fewer or coarser cells")

    def require(self, problem: Problem) -> None:
        """Raise the refusal of a problem that this route cannot take."""
        reason = self.why_not(problem)
        if reason is not None:
            raise self.refusal(reason)

    def label(self, problem: Problem) -> str:
        """The name in a list of refused routes."""
        return self.name

    def jobs(self, problem: Problem) -> list[Job]:
        """Parts of a problem that other problems may share; solved first, each once."""
        return []


def solve_total(problem: Problem) -> Solution:
    """The optimum of a node without axes: its count is the only thing to measure."""
    return Solution(KroneckerStrategy((), ()), problem.trace, problem.trace, "closed form, total")
