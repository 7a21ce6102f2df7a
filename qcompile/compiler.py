"""The compiler: parse, decompose, solve, allocate; a tuple of passes over one growing context."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from qcompile import grammar
from qcompile.arrays import Array
from qcompile.decompose import decompose
from qcompile.errors import OptionError, did_you_mean
from qcompile.lattice import Lattice
from qcompile.plan import Options, Plan
from qcompile.solvers.choose import SOLVERS
from qcompile.solvers.choose import solve as solve_classes
from qcompile.solvers.solution import Solution
from qcompile.workload import Workload

NEIGHBOURS = ("add-remove",)


@dataclass(frozen=True)
class Compilation:
    """What is known so far.

    Attributes:
      source: the workload, or where to find it.
      options: of the plan.
      centring: weights per attribute name; empty for uniform.
      blocks: names of the families of each unsplit block.
      progress: told how many problems are solved.
      workload: after `read`.
      closure: after `split`.
      solutions: after `solve`.
    """

    source: Workload | str | Path
    options: Options
    centring: Mapping[str, Array]
    blocks: Sequence[Sequence[str]]
    progress: Callable[[int, int], None]
    workload: Workload | None = None
    closure: Lattice | None = None
    solutions: tuple[Solution, ...] | None = None


def read(state: Compilation) -> Compilation:
    """Source to workload: a Workload as it is, a Path or a string that ends in .q as a file, other strings as text."""
    source = state.source
    if isinstance(source, Workload):
        return replace(state, workload=source)
    if isinstance(source, Path) or (source.strip().endswith(".q") and "\n" not in source.strip()):
        return replace(state, workload=grammar.load(source))
    return replace(state, workload=grammar.parse(source))


def split(state: Compilation) -> Compilation:
    """Workload to the closure lattice and its classes."""
    assert state.workload is not None
    closure = decompose(state.workload, state.centring, state.blocks)
    if not closure.classes:
        raise OptionError("every query of the workload is 0 whatever the data, so there is nothing to measure")
    return replace(state, closure=closure)


def solve(state: Compilation) -> Compilation:
    """Classes to strategies with certificates."""
    assert state.closure is not None
    o = state.options
    return replace(state, solutions=solve_classes(state.closure.classes, o.solver, o.gap, state.progress))


PASSES: tuple[Callable[[Compilation], Compilation], ...] = (read, split, solve)


def compile(
    workload: Workload | str | Path,
    *,
    solver: str = "auto",
    gap: float = 1e-3,
    centring: str | Mapping[str, Array] = "uniform",
    blocks: bool | str | Sequence[Sequence[str]] = False,
    neighbours: str = "add-remove",
    contributions: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Plan:
    """Compile a workload into a plan.

    Args:
      workload: a Workload, the path of a ``.q`` file (a Path, or a string ending in ``.q``), or its text.
      solver: "auto", "exact", "rp" (ResidualPlanner basis) or "wff" (Weighted Fourier Factorization).
      gap: certified relative gap wanted for every class, of the squared error.
      centring: "uniform", or weights per attribute name (each of the attribute's size, sum 1).
      neighbours: "add-remove": neighbouring tables differ in the rows of one privacy unit.
      contributions: the largest number of rows of one privacy unit.
      progress: called after every solved problem with the number done and of all.

    Raises:
      WorkloadError: the text has errors; carries all of them with positions.
      OptionError: an option has a value it cannot take.
      SizeError: the problem does not fit in memory.
    """
    weights: Mapping[str, Array] = {} if isinstance(centring, str) else centring
    options = Options(
        solver=_one_of("solver", solver, SOLVERS),
        gap=gap,
        centring=_one_of("centring", centring, ("uniform",)) if isinstance(centring, str) else "given",
        neighbours=_one_of("neighbours", neighbours, NEIGHBOURS),
        contributions=_rows("contributions", contributions),
    )
    state = Compilation(workload, options, weights, blocks if isinstance(blocks, Sequence) else (), progress)
    for step in PASSES:
        state = step(state)
    assert state.workload is not None
    assert state.closure is not None
    assert state.solutions is not None
    return Plan(state.workload, state.closure, state.solutions, options)


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise OptionError(f"{name} cannot be {value!r}; {did_you_mean(str(value), allowed)}")
    return value


def _rows(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise OptionError(f"{name} must be a whole number of rows, at least 1, got {value!r}")
    return value
