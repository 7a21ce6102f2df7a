"""The compiler: parse, design, decompose, solve, allocate; a tuple of passes over one growing context."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from qcompile import grammar
from qcompile.compiler.attribute_strategies import AttributeStrategy, attribute_strategies, solve_with_strategies
from qcompile.compiler.designs import Design, designs
from qcompile.errors import OptionError, SizeError
from qcompile.lattice.decompose import centring_weights, checked_blocks, decompose
from qcompile.lattice.lattice import Lattice, Problem
from qcompile.lattice.projection import is_uniform
from qcompile.plan.plan import Options, Plan
from qcompile.privacy.unit import MOST_CONTRIBUTIONS, NEIGHBOURS
from qcompile.queries.workload import Workload
from qcompile.solvers.solution import Solution
from qcompile.solvers.solver import SOLVERS
from qcompile.solvers.solver import solve as solve_classes
from qcompile.support.arrays import Array
from qcompile.support.options import one_of, share, whole

CENTRINGS = ("uniform", "optimised")

BLOCKS: dict[object, str] = {False: "no", True: "yes", "auto": "auto"}

BETTER = 1 - 1e-9
"""A design replaces the plain one only where its error is below this share of it."""

Blocks = bool | str | Sequence[Sequence[str]]


@dataclass(frozen=True)
class Compilation:
    """What is known so far.

    Attributes:
      source: the workload, or where to find it.
      options: of the plan.
      given: centring weights and blocks that the caller gave.
      strategies: of ``solver="rp+"``, as given.
      workers: threads for solving.
      progress: told how many problems are solved.
      workload: after `read`.
      designs: after `design`.
      plan: after `solve`.
    """

    source: Workload | str | Path
    options: Options
    given: Design
    strategies: Mapping[str, str | Path | Array]
    workers: int | None
    progress: Callable[[int, int], None]
    workload: Workload | None = None
    designs: tuple[Design, ...] = ()
    plan: Plan | None = None


def read(state: Compilation) -> Compilation:
    """Source to workload: a Workload as it is, a Path or a string that ends in .q as a file, other strings as text."""
    source = state.source
    if isinstance(source, Workload):
        return replace(state, workload=source)
    if isinstance(source, Path) or (source.strip().endswith(".q") and "\n" not in source.strip()):
        return replace(state, workload=grammar.load(source))
    return replace(state, workload=grammar.parse(source))


def design(state: Compilation) -> Compilation:
    """Workload to the designs that will be compared, the plain one first."""
    assert state.workload is not None
    o = state.options
    weights = centring_weights(state.workload.schema, state.given.centring)
    centring = {name: u for name, u in zip(state.workload.schema.names, weights, strict=True) if not is_uniform(u)}
    plain = Design(centring, checked_blocks(state.workload, state.given.blocks))
    search = o.blocks if o.blocks in ("auto", "yes") else "no"
    found = designs(state.workload, plain, optimise=o.centring == "optimised", search=search, progress=state.progress)
    return replace(state, designs=tuple(found))


def solve(state: Compilation) -> Compilation:
    """Designs to plans with certificates, of which the best is kept."""
    assert state.workload is not None
    strategies = attribute_strategies(state.workload.schema, state.strategies) if state.options.solver == "rp+" else {}
    labels = {name: s.label for name, s in strategies.items()}
    options = replace(state.options, strategies=tuple(labels.items()))
    cache: dict[Hashable, Solution] = {}
    best: Plan | None = None
    for d in state.designs:
        closure = decompose(state.workload, d.centring, d.blocks, labels)
        if not closure.classes:
            raise OptionError("every query of the workload is 0 whatever the data, so there is nothing to measure")
        try:
            solutions = _solutions(state, closure, strategies, cache)
        except SizeError:
            if best is None:
                raise
            continue  # what the plain design takes in its stride may be too large without its symmetry
        plan = Plan(state.workload, closure, solutions, options)
        plan = plan if best is None else replace(plan, plain_sse=best.plain_sse or best.sse())
        best = plan if best is None or plan.sse() < best.sse() * BETTER else replace(best, plain_sse=plan.plain_sse)
    assert best is not None
    if not best.sensitivities.any() and len(best.solutions):
        raise OptionError(
            "every query of this workload counts all rows, and their number is public when neighbouring tables differ "
            "by one row replaced: publish it without a budget, or compile with neighbours='add-remove'"
        )
    return replace(state, plan=best)


def _solutions(
    state: Compilation,
    closure: Lattice,
    strategies: Mapping[str, AttributeStrategy],
    cache: dict[Hashable, Solution],
) -> tuple[Solution, ...]:
    """One solution per class; problems that an earlier design shares are not solved again."""
    if state.options.solver == "rp+":
        return solve_with_strategies(closure, strategies)
    new: dict[Hashable, Problem] = {p.key: p for p in closure.classes if p.key not in cache}
    o = state.options
    solved = solve_classes(tuple(new.values()), o.solver, o.gap, state.progress, state.workers)
    cache.update(zip(new, solved, strict=True))
    return tuple(cache[p.key] for p in closure.classes)


PASSES: tuple[Callable[[Compilation], Compilation], ...] = (read, design, solve)


def compile(
    workload: Workload | str | Path,
    *,
    solver: str = "auto",
    gap: float = 1e-3,
    centring: str | Mapping[str, Array] = "uniform",
    blocks: Blocks = False,
    neighbours: str = "add-remove",
    contributions: int = 1,
    strategies: Mapping[str, str | Path | Array] | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Plan:
    """Compile a workload into a plan.

    Args:
      workload: a Workload, the path of a ``.q`` file (a Path, or a string ending in ``.q``), or its text.
      solver: "auto", "exact", "rp" (ResidualPlanner basis), "rp+" (ResidualPlanner+ with `strategies`), "wff" (Weighted
        Fourier Factorization) or "conic" (the semidefinite program through CVXPY, for small nodes).
      gap: certified relative gap wanted for every class, of the squared error; looser stops earlier.
      centring: "uniform"; "optimised" to minimise the total error over the weights (never worse than uniform); or
        weights per attribute name (each of the attribute's size, sum 1).
      blocks: False; "auto" or True to answer families unsplit where that is better (True searches longer and in larger
        blocks; neither is ever worse than without); or lists of family names, one per block.
      neighbours: "add-remove": neighbouring tables differ in the rows of one privacy unit, which one of them lacks;
        "replace-one": its rows are replaced by others. With one row a unit, and no attribute that drops rows, the
        number of rows is then public: it is released exactly. Strategies, centring and blocks are searched for as if
        rows were added or removed; the budget is divided, and designs are compared, as the chosen relation has it.
      contributions: the largest number of rows of one privacy unit.
      strategies: for ``solver="rp+"``, per attribute name "identity" (the default), "prefix", "haar", "hierarchical",
        the path of a .npy or .csv matrix, or a matrix.
      workers: threads that solve; by default one per core. The plan does not depend on it.
      progress: called after every step with the number done and of all.

    Raises:
      WorkloadError: the text has errors; carries all of them with positions.
      OptionError: an option has a value it cannot take.
      SizeError: the problem does not fit in memory.
    """
    options = Options(
        solver=one_of("solver", solver, (*SOLVERS, "rp+")),
        gap=share("gap", gap, "1e-3 means 0.1 %"),
        centring=one_of("centring", centring, CENTRINGS) if isinstance(centring, str) else "given",
        blocks=_block_search(blocks),
        neighbours=one_of("neighbours", neighbours, NEIGHBOURS),
        contributions=whole("contributions", contributions, 1, "rows", MOST_CONTRIBUTIONS),
    )
    _check_combination(options, strategies)
    given = Design(_weights(centring), _given_blocks(blocks))
    threads = None if workers is None else whole("workers", workers, 1, "threads")
    state = Compilation(workload, options, given, strategies or {}, threads, progress)
    for step in PASSES:
        state = step(state)
    assert state.plan is not None
    return state.plan


FIXED_BASES = ("rp", "rp+", "wff")
"""Solvers whose strategies span centred queries only; two of them need uniform centring."""


def _check_combination(o: Options, strategies: Mapping[str, str | Path | Array] | None) -> None:
    if strategies is not None and o.solver != "rp+":
        raise OptionError(f"strategies are for solver='rp+', not {o.solver!r}; leave them out, or choose it")
    if strategies is not None and not isinstance(strategies, Mapping):
        raise OptionError(f"strategies must map attribute names to strategies, got {strategies!r}")
    if o.solver in FIXED_BASES and o.blocks != "no":
        raise OptionError(f"solver={o.solver!r} cannot measure unsplit blocks; use solver='auto', or leave blocks out")
    if o.solver in ("rp", "wff") and o.centring == "optimised":
        raise OptionError(f"solver={o.solver!r} needs uniform centring; use solver='auto' with centring='optimised'")


def _block_search(blocks: Blocks) -> str:
    if isinstance(blocks, bool) or blocks == "auto":
        return BLOCKS[blocks]
    if isinstance(blocks, str) or not isinstance(blocks, Sequence):
        raise OptionError(f"blocks must be True, False, 'auto' or lists of family names, got {blocks!r}")
    return "given"


def _given_blocks(blocks: Blocks) -> tuple[tuple[str, ...], ...]:
    if isinstance(blocks, bool | str):
        return ()
    for names in blocks:
        if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(n, str) for n in names):
            raise OptionError(f"a block is a list of family names, and blocks are lists like [['ages']]; got {names!r}")
    return tuple(tuple(names) for names in blocks)


def _weights(centring: str | Mapping[str, Array]) -> Mapping[str, Array]:
    if isinstance(centring, str):
        return {}
    if not isinstance(centring, Mapping):
        raise OptionError(f"centring must be 'uniform', 'optimised' or weights per attribute name, got {centring!r}")
    return centring
