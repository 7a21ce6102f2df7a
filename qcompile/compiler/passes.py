"""The compiler: parse, design, decompose, solve, allocate.

Each pass maps one frozen stage to the next, Request -> Parsed -> Designed -> Decomposed -> Solved -> Plan. Lattices and
solutions are made one design at a time, so that a design that is not kept is freed before the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from qcompile import grammar
from qcompile.compiler.designs import Design, designs
from qcompile.compiler.objectives import first_workload, solve_weights
from qcompile.compiler.oblique.search import oblique_design
from qcompile.compiler.oblique.span import spans_what_is_left
from qcompile.errors import OptionError, SizeError
from qcompile.lattice.decompose import centring_weights, check_blocks, decompose, require_grams
from qcompile.lattice.lattice import Lattice, Problem
from qcompile.lattice.oblique import Oblique
from qcompile.lattice.projection import is_uniform
from qcompile.plan.allocation import GAP
from qcompile.plan.objective import limits
from qcompile.plan.options import CENTRINGS, DESIGNS, GIVEN, OBJECTIVES, SEARCHES, Options
from qcompile.plan.plan import Plan
from qcompile.plan.standing import value_of
from qcompile.queries.weighting import Weighting
from qcompile.queries.workload import Workload
from qcompile.solvers.attribute_strategies import attribute_strategies
from qcompile.solvers.route import Route, RouteOptions
from qcompile.solvers.solution import Solution
from qcompile.solvers.solver import SOLVERS, solver_class
from qcompile.solvers.solver import solve as solve_classes
from qcompile.support.arrays import Array
from qcompile.support.memory import memory_budget
from qcompile.support.options import one_of, whole

NO_SEARCH, AUTO, FULL_SEARCH = SEARCHES

NODES, OBLIQUE = DESIGNS[:2]
TOTAL = OBJECTIVES[0]

OBLIQUE_SOLVERS = ("auto", "exact")
"""Solvers of the optimum, which oblique nodes are solved for."""

BETTER = 1 - 1e-9
"""A design replaces the plain one only where its error is below this share of it."""

Blocks = bool | str | Sequence[Sequence[str]]

Strategies = Mapping[str, str | Path | Array]


@dataclass(frozen=True, eq=False)
class Request:
    """A workload and how to compile it.

    Attributes:
      source: the workload, its text or its file.
      options: of the plan.
      objective: what was asked for; None where the workload decides.
      plain: the centring weights and blocks that the caller wrote out.
      strategies: per attribute, for a solver that takes strategies.
      workers: threads for solving.
      progress: called with (done, total).
    """

    source: Workload | str | Path
    options: Options
    objective: str | None
    plain: Design
    strategies: Strategies
    workers: int | None
    progress: Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Parsed:
    """A workload to be compiled."""

    request: Request
    workload: Workload


@dataclass(frozen=True, eq=False)
class Designed:
    """A workload and the designs that will be compared, the plain one first."""

    request: Request
    workload: Workload
    designs: tuple[Design, ...]


@dataclass(frozen=True, eq=False)
class Decomposed:
    """The lattice of each design.

    Attributes:
      request: how to compile.
      workload: the families.
      options: with the labels of the strategies.
      route: solves the classes.
      lattices: one per design, for given weights of the queries or those of the families, with its oblique nodes.
      oblique: the solutions of oblique nodes, by the identity of what they measure.
    """

    request: Request
    workload: Workload
    options: Options
    route: Route
    lattices: tuple[tuple[Callable[[Weighting | None], Lattice], tuple[Oblique, ...]], ...]
    oblique: Mapping[str, Solution]


@dataclass(frozen=True, eq=False)
class Solved:
    """The plan of each design that could be solved, the plain one first; each made when it is asked for."""

    plans: Iterator[Plan]


def parse(request: Request) -> Parsed:
    """Source to workload: a Workload as it is, a Path or a string that ends in .q as a file, other strings as text."""
    source = request.source
    if isinstance(source, Workload):
        return Parsed(request, source)
    if isinstance(source, Path) or (source.strip().endswith(".q") and "\n" not in source.strip()):
        return Parsed(request, grammar.load(source))
    return Parsed(request, grammar.parse(source))


def choose_designs(parsed: Parsed) -> Designed:
    """Workload to designs."""
    request, workload = _with_objective(parsed.request, parsed.workload), parsed.workload
    require_grams(workload, request.plain.centring)
    weights = centring_weights(workload.schema, request.plain.centring)
    centring = {name: u for name, u in zip(workload.schema.names, weights, strict=True) if not is_uniform(u)}
    plain = Design(centring, check_blocks(workload, request.plain.blocks))
    options = request.options
    search = NO_SEARCH if options.blocks == GIVEN else options.blocks
    optimise = options.centring == "optimised"
    first = first_workload(workload, limits(workload, options))
    compared = designs(first, plain, optimise=optimise, search=search, progress=request.progress)
    return Designed(request, workload, (*compared, *_oblique(request, workload, compared)))


def _oblique(request: Request, workload: Workload, compared: Sequence[Design]) -> Iterator[Design]:
    """Per choice of blocks the design with oblique nodes, whose centring is its own where it is not given."""
    options = request.options
    if options.design == NODES or options.objective != TOTAL:
        return
    for blocks in dict.fromkeys(d.blocks for d in compared):
        found = oblique_design(workload, compared[0].centring, blocks, options.design, options.gap, request.progress)
        if found is not None:
            yield Design(found.centring, blocks, found.nodes, found.solutions)


def _with_objective(request: Request, workload: Workload) -> Request:
    """The request with its objective: where none was chosen, the targets if there are any."""
    if request.objective is None and any(f.target for f in workload.families):
        request = replace(request, options=replace(request.options, objective="targets"))
    if request.options.design == OBLIQUE and request.options.objective != TOTAL:
        raise OptionError(
            f"oblique nodes are found for the total error, not for objective {request.options.objective!r}; use "
            "design='nodes' or 'auto', or objective='total'"
        )
    return request


def decompose_designs(designed: Designed) -> Decomposed:
    """Designs to lattices, whose axes carry the labels of the user's strategies."""
    request, workload = designed.request, designed.workload
    solver = solver_class(request.options.solver)
    strategies = attribute_strategies(workload.schema, request.strategies) if solver.takes_strategies else {}
    labels = {name: s.label for name, s in strategies.items()}
    options = replace(request.options, strategies=tuple(labels.items()))
    lattices = tuple((partial(_decompose, workload, d, labels), d.oblique) for d in designed.designs)
    solved = {o.identity: s for d in designed.designs for o, s in zip(d.oblique, d.solutions, strict=True)}
    return Decomposed(request, workload, options, solver.of(RouteOptions(options.gap, strategies)), lattices, solved)


def _decompose(workload: Workload, design: Design, labels: Mapping[str, str], weighting: Weighting | None) -> Lattice:
    closure = decompose(workload, design.centring, design.blocks, labels, weighting, design.oblique)
    if not closure.classes:
        raise OptionError("every query of the workload is 0 whatever the data, so there is nothing to measure")
    return closure


def solve(decomposed: Decomposed) -> Solved:
    """Lattices to plans with certificates."""
    return Solved(_plans(decomposed))


def _plans(decomposed: Decomposed) -> Iterator[Plan]:
    cache: dict[Hashable, Solution] = {}
    for number, (lattice, nodes) in enumerate(decomposed.lattices):
        try:
            plan = _plan(decomposed, lattice, cache)
        except SizeError:
            if number == 0:
                raise
            continue  # the plain design fits, but another may be too large without its symmetry
        except OptionError:
            if not nodes:
                raise
            continue  # oblique nodes may leave almost nothing to a lower one
        if not nodes or spans_what_is_left(plan.workload, plan.closure, plan.strategies, nodes):
            yield plan


def _plan(
    decomposed: Decomposed, lattice: Callable[[Weighting | None], Lattice], cache: dict[Hashable, Solution]
) -> Plan:
    """The best plan of one design: solved once, or for the weights that the objective asks for."""
    workload, options = decomposed.workload, decomposed.options

    def compile_with(weighting: Weighting | None) -> Plan:
        closure = lattice(weighting)
        return Plan(workload, closure, _solutions(decomposed, closure, cache), options).divided()

    allowed = limits(workload, options)
    return solve_weights(workload, allowed, compile_with, options.objective_gap) if allowed else compile_with(None)


def _solutions(decomposed: Decomposed, closure: Lattice, cache: dict[Hashable, Solution]) -> tuple[Solution, ...]:
    """One solution per class; problems that an earlier design shares are not solved again."""
    request = decomposed.request
    cache.update((p.key, decomposed.oblique[p.oblique]) for p in closure.classes if p.oblique)
    new: dict[Hashable, Problem] = {p.key: p for p in closure.classes if p.key not in cache}
    solved = solve_classes(tuple(new.values()), decomposed.route, request.progress, request.workers)
    cache.update(zip(new, solved, strict=True))
    return tuple(cache[p.key] for p in closure.classes)


def allocate(solved: Solved) -> Plan:
    """Plans to the one of least error when the budget is divided as well as it can be.

    Raises:
      OptionError: neighbouring tables agree on every query.
    """
    best = next(solved.plans)
    # What the division of the budget over joint costs leaves undecided is no improvement.
    share = BETTER if best.precisions is None else 1 - GAP
    for plan in solved.plans:
        plain_sse = best.plain_sse or value_of(best)
        best = replace(plan if value_of(plan) < value_of(best) * share else best, plain_sse=plain_sse)
    if not best.sensitivities.any() and len(best.solutions):
        raise OptionError(
            "every query of this workload counts all rows, and their number is public when neighbouring tables differ "
            "by one row replaced: publish it without a budget, or compile with neighbours='add-remove'"
        )
    return best


def compile(
    workload: Workload | str | Path,
    *,
    solver: str = "auto",
    gap: float = 1e-3,
    centring: str | Mapping[str, Array] = "uniform",
    blocks: Blocks = False,
    design: str = "nodes",
    neighbours: str = "add-remove",
    contributions: int = 1,
    objective: str | None = None,
    objective_gap: float = 0.01,
    total: float | None = None,
    strategies: Strategies | None = None,
    workers: int | None = None,
    max_memory: int | None = None,
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
      design: what nodes measure: "nodes" their own residual only; "oblique" some of the nodes below them, too, where
        that lowers the error (never worse; seconds to minutes; such a plan cannot be run adaptively); "auto" the
        same where it takes seconds.
      neighbours: "add-remove": neighbouring tables differ in the rows of one privacy unit, which one of them lacks;
        "replace-one": its rows are replaced by others. With one row a unit, and no attribute that drops rows, the
        number of rows is then public: it is released exactly. Strategies, centring and blocks are searched for as if
        rows were added or removed; the budget is divided, and designs are compared, as the chosen relation has it.
      contributions: the largest number of rows of one privacy unit.
      objective: "total": the weighted sum of all variances; "max": the largest weighted variance of a query; "targets":
        the budget at which every family meets its target. By default "targets" where a family has one, else "total".
        Centring and blocks are searched for as if the total were minimised, and compared by the objective.
      objective_gap: certified relative gap wanted for the objectives "max" and "targets", of the budget.
      total: the number of rows that targets in per cent refer to.
      strategies: for ``solver="rp+"``, per attribute name "identity" (the default), "prefix", "haar", "hierarchical",
        the path of a .npy or .csv matrix, or a matrix.
      workers: threads that solve; by default one per core. The plan does not depend on it.
      max_memory: bytes that compiling may take; 80 % of what is free where None. Work that takes more is done another
        way where there is one, and refused otherwise.
      progress: called after every step with (done, total).

    Raises:
      WorkloadError: the text has errors; carries all of them with positions.
      OptionError: an option has a value it cannot take.
      SizeError: the problem does not fit in memory.
    """
    options = Options(
        solver=solver,
        gap=gap,
        centring=one_of("centring", centring, CENTRINGS) if isinstance(centring, str) else GIVEN,
        blocks=_block_search(blocks),
        design=design,
        neighbours=neighbours,
        contributions=contributions,
        objective="total" if objective is None else objective,
        objective_gap=objective_gap,
        total=total,
    )
    _require_compatible(options, strategies)
    plain = Design(_given_weights(centring), _given_blocks(blocks))
    threads = None if workers is None else whole("workers", workers, 1, "threads")
    limit = None if max_memory is None else whole("max_memory", max_memory, 1, "bytes")
    request = Request(workload, options, objective, plain, strategies or {}, threads, progress)
    with memory_budget(limit):
        return allocate(solve(decompose_designs(choose_designs(parse(request)))))


def _require_compatible(options: Options, strategies: Strategies | None) -> None:
    """Refuse choices that the solver's route cannot follow."""
    name, route = options.solver, solver_class(options.solver)
    if strategies is not None and not route.takes_strategies:
        takers = " or ".join(f"solver={option!r}" for option, r in SOLVERS.items() if r.takes_strategies)
        raise OptionError(f"strategies are for {takers}, not {name!r}; leave them out, or choose it")
    if strategies is not None and not isinstance(strategies, Mapping):
        raise OptionError(f"strategies must map attribute names to strategies, got {strategies!r}")
    if route.splits_only and options.blocks != NO_SEARCH:
        raise OptionError(f"solver={name!r} cannot measure unsplit blocks; use solver='auto', or leave blocks out")
    if options.design != NODES and name not in OBLIQUE_SOLVERS:
        raise OptionError(f"solver={name!r} has no oblique nodes; use solver='auto', or design='nodes'")
    if route.needs_uniform and options.centring == "optimised":
        raise OptionError(f"solver={name!r} needs uniform centring; use solver='auto' with centring='optimised'")


def _block_search(blocks: Blocks) -> str:
    if isinstance(blocks, bool):
        return FULL_SEARCH if blocks else NO_SEARCH
    if blocks == AUTO:
        return AUTO
    if isinstance(blocks, str) or not isinstance(blocks, Sequence):
        raise OptionError(f"blocks must be True, False, 'auto' or lists of family names, got {blocks!r}")
    return GIVEN


def _given_blocks(blocks: Blocks) -> tuple[tuple[str, ...], ...]:
    if isinstance(blocks, bool | str):
        return ()
    for names in blocks:
        if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(n, str) for n in names):
            raise OptionError(f"a block is a list of family names, and blocks are lists like [['ages']]; got {names!r}")
    return tuple(tuple(names) for names in blocks)


def _given_weights(centring: str | Mapping[str, Array]) -> Mapping[str, Array]:
    if isinstance(centring, str):
        return {}
    if not isinstance(centring, Mapping):
        raise OptionError(f"centring must be 'uniform', 'optimised' or weights per attribute name, got {centring!r}")
    return centring
