"""Plan files: workload and solved strategies are stored; the lattice is rebuilt and checked against the file.

A file with the right hashes may still be forged. What it says about privacy is not believed: costs and noise scales are
computed anew from the strategies. What it says about sizes is checked before anything of that size is made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qcompile.errors import IntegrityError, StorageError
from qcompile.lattice.decompose import closure_nodes, count_subsets, decompose, least_nodes
from qcompile.lattice.lattice import Lattice
from qcompile.lattice.oblique import Oblique, part_on
from qcompile.lattice.projection import is_uniform
from qcompile.plan.encoding import ArrayStore, read_strategy, read_workload, strategy_data, workload_data
from qcompile.plan.objective import limits
from qcompile.plan.objective_data import objective_data, read_objective
from qcompile.plan.options import Options
from qcompile.plan.plan import Plan
from qcompile.plan.upgrades import OLDEST, upgrade_plan
from qcompile.queries.workload import Workload
from qcompile.solvers.solution import Solution
from qcompile.strategy import CosineStrategy, FourierStrategy, KroneckerStrategy, MixtureStrategy, Strategy
from qcompile.strategy.oblique import ObliqueStrategy
from qcompile.support import archive
from qcompile.support.arrays import IntArray
from qcompile.support.json_fields import Field

KIND = "qcompile plan"
VERSION = 5

FREE_VALUES = 2**22
"""Values of attributes that a file need not have arrays for: 32 MB for a number for each."""

MAX_PRODUCTS = 2**20
"""Products of a family in a block, which are all listed; in the lattice the number of nodes is the limit."""

MAX_SCALING = 50
"""Powers of ten by which a strategy's matrices may be off from entries around 1, all together: squares of column norms
neither overflow nor vanish. Solvers stay within 2 or 3."""


MAX_PRECISION = 1e100
"""Precisions divide a budget; what is so far from 1 is no division of one."""

SMALLEST_LOSS = 1e-280
"""Losses below overflow where budgets are divided: they are in denominators, squared sensitivities of 10^18 above."""

CENTRED = 1e-9
"""Share of an oblique node's largest entry that its own part may be off."""

MAX_VERSION = 100
"""Characters of the version of qcompile that compiled a plan."""


def save_plan(plan: Plan, path: str | Path) -> str:
    """Write a plan; returns the hash of its contents, the same for equal plans.

    Raises:
      StorageError: the file cannot be written.
    """
    store = ArrayStore()
    return archive.write(path, KIND, VERSION, plan_data(plan, store), store.arrays)


def load_plan(path: str | Path) -> Plan:
    """Read a plan.

    Raises:
      StorageError: missing, damaged, changed, of another kind or version.
    """
    with archive.Archive.open(path, KIND, VERSION, OLDEST) as file:
        document, arrays = upgrade_plan(file.document, file.version), file.arrays(file.names)
    return read_plan(Field(document), ArrayStore.check(arrays))


def plan_data(plan: Plan, store: ArrayStore) -> dict[str, Any]:
    """A plan as plain data; arrays go to the store."""
    closure = plan.closure
    centring = {
        a.name: store.put(u) for a, u in zip(closure.schema, closure.centring, strict=True) if not is_uniform(u)
    }
    divided = {} if plan.precisions is None else {"precisions": list(plan.precisions)}
    return divided | {
        "qcompile": plan.version,
        "options": _options_data(plan.options),
        "workload": workload_data(plan.workload, store),
        "centring": centring,
        "blocks": [list(names) for names in closure.blocks],
        "class_of": store.put(closure.class_of),
        "orders": store.put(_packed_orders(closure)),
        "plain_sse": plan.plain_sse,
        "solutions": [_solution_data(s, store) for s in plan.solutions],
        **({} if plan.solved is None else {"objective": objective_data(plan.solved, store)}),
    }


def _options_data(options: Options) -> dict[str, Any]:
    """The options; newer ones only where they are not the usual ones: the hashes of other plans stay what they were."""
    usual = Options()
    return {k: v for k, v in asdict(options).items() if k not in NEWER or v != getattr(usual, k)}


def _solution_data(solution: Solution, store: ArrayStore) -> dict[str, Any]:
    return {
        "strategy": strategy_data(solution.strategy, store),
        "loss": solution.loss,
        "bound": solution.bound,
        "solver": solution.solver,
        "refused": [list(r) for r in solution.refused],
    }


def read_plan(data: Field, store: ArrayStore) -> Plan:
    """The inverse of `plan_data`.

    Args:
      data: a plan of the newest format; `qcompile.plan.upgrades` makes it of older ones.
      store: its arrays.

    Raises:
      StorageError: the document does not describe a plan that this version understands.
      SizeError: a part of the plan is larger than memory allows.
    """
    field = data.read_object(*MEMBERS, optional=["precisions", "objective"])
    workload = read_workload(field["workload"], store)
    blocks = [[name.read_text() for name in names.read_list()] for names in field["blocks"].read_list()]
    class_of, orders = store.read(field["class_of"]), store.read(field["orders"])
    solutions = tuple(_read_solution(s, store) for s in field["solutions"].read_list())
    _check_expansion(workload, blocks, class_of.size)
    _check_values(workload, sum(a.nbytes for a in store.arrays.values()))
    centring = {name: store.read_finite(key) for name, key in field["centring"].read_mapping().items()}
    options, version = _read_options(field["options"]), field["qcompile"].read_text(MAX_VERSION, printable=True)
    solved = read_objective(field["objective"], workload, store) if "objective" in field else None
    if (solved is not None) != bool(data.build(lambda: limits(workload, options))):
        data.refuse("a plan with weights where its objective needs them, and only there")
    weighting = None if solved is None else solved.weighting
    oblique = data.build(lambda: _oblique(workload, blocks, solutions, class_of, orders))
    labels = dict(options.strategies)
    closure = data.build(lambda: decompose(workload, centring, blocks, labels, weighting, oblique))
    _check_same(closure, class_of, orders, len(solutions))
    plain_sse = field["plain_sse"].read_optional(lambda error: error.read_number(above=0))
    plan = Plan(workload, closure, solutions, options, plain_sse, None, version, solved)
    _check_strategies(plan)
    _check_own_parts(plan)
    return replace(plan, precisions=_read_precisions(field["precisions"], plan)) if "precisions" in field else plan


def _oblique(
    workload: Workload,
    blocks: Sequence[Sequence[str]],
    solutions: Sequence[Solution],
    class_of: npt.NDArray[Any],
    orders: npt.NDArray[Any],
) -> list[Oblique]:
    """What oblique nodes measure, with the nodes that the file's arrays say they are.

    Raises:
      IntegrityError: the arrays do not fit the workload.
    """
    strategies = {c: s.strategy for c, s in enumerate(solutions) if isinstance(s.strategy, ObliqueStrategy)}
    if not strategies:
        return []
    nodes = closure_nodes(workload, blocks)
    starts = np.cumsum([0, *map(len, nodes)])
    if class_of.shape[:1] < (len(nodes),) or orders.size < starts[-1]:
        raise IntegrityError("arrays as long as the lattice")
    members: dict[int, list[tuple[int, ...]]] = {c: [] for c in strategies}
    for i, node in enumerate(nodes):
        if (c := int(class_of[i])) in members:
            order = [int(axis) for axis in orders[starts[i] : starts[i + 1]]]
            if sorted(order) != list(range(len(node))):
                raise IntegrityError("an order of a node's axes")
            members[c].append(tuple(node[axis] for axis in order))
    return [Oblique(s.measured_matrix, s.own_matrix, tuple(members[c])) for c, s in strategies.items()]


MEMBERS = (
    "qcompile", "options", "workload", "centring", "blocks", "class_of", "orders", "plain_sse", "solutions",
)  # fmt: skip
"""The names in a plan's document. Plans that are charged by their worst pair of rows have ``precisions``, too, which
divide the budget; it is what is measured that decides the cost."""


def _read_precisions(data: Field, plan: Plan) -> tuple[float, ...]:
    if not plan.unit.is_joint:
        data.refuse("absent where rows are added or removed")
    count = len(plan.solutions)
    numbers = [x.read_number(least=0) for x in data.read_list(count, count)]
    for x, strategy in zip(numbers, plan.strategies, strict=True):
        public = not plan.unit.sensitivity_squared(strategy)
        if public != (x == 0) or not (public or 1 / MAX_PRECISION < x < MAX_PRECISION):
            data.refuse("a number above 0 for every class that needs noise, and 0 for the others")
    return tuple(numbers)


NEWER = ("objective", "objective_gap", "total", "design")
"""Options that older files lack, and files of plans without them."""


def _check_values(workload: Workload, stored: int) -> None:
    """Refuse attributes of many values that no array of the file is as long as, before arrays of them are made.

    Attributes that no family asks about have no such arrays; they are few in a workload that somebody wrote.
    """
    used = {a for f in workload.families for x in f.factors for a in x.attributes}
    values = sum(a.size for a in used)
    if values > max(FREE_VALUES, stored):
        raise StorageError(
            f"the file's attributes have {values:,} values, more than its arrays are long; compile the plan again"
        )


def _check_expansion(workload: Workload, blocks: Sequence[Sequence[str]], nodes: int) -> None:
    """The families' subsets must be as few as the file's lattice says, before they are enumerated."""
    apart = {name for names in blocks for name in names}
    for family in workload.families:
        in_block = not apart.isdisjoint((family.name, *family.aliases))
        if count_subsets(family) > MAX_PRODUCTS if in_block else least_nodes(family) > nodes:
            raise StorageError(
                f"family {family.name!r} stands for more combinations of attributes than the file has solved; compile "
                "the plan again"
            )


def _read_options(data: Field) -> Options:
    field = data.read_object(*(f.name for f in fields(Options) if f.name not in NEWER), optional=NEWER)
    pairs = (pair.read_tuple(2) for pair in field["strategies"].read_list())
    strategies = tuple((name.read_text(), label.read_text()) for name, label in pairs)
    texts = {name: field[name].read_text() for name in ("solver", "centring", "blocks", "neighbours")}
    gap, contributions = field["gap"].read_number(), field["contributions"].read_integer()
    usual = Options()
    objective = field["objective"].read_text() if "objective" in field else usual.objective
    objective_gap = field["objective_gap"].read_number() if "objective_gap" in field else usual.objective_gap
    total = field["total"].read_number() if "total" in field else usual.total
    texts["design"] = field["design"].read_text() if "design" in field else usual.design
    return data.build(
        lambda: Options(
            **texts,
            gap=gap,
            strategies=strategies,
            contributions=contributions,
            objective=objective,
            objective_gap=objective_gap,
            total=total,
        )
    )


def _read_solution(data: Field, store: ArrayStore) -> Solution:
    field = data.read_object("strategy", "loss", "bound", "solver", "refused")
    pairs = (pair.read_tuple(2) for pair in field["refused"].read_list())
    refused = tuple((route.read_text(), reason.read_text()) for route, reason in pairs)
    loss, bound = field["loss"].read_number(least=SMALLEST_LOSS), field["bound"].read_number(least=0)
    strategy, solver = read_strategy(field["strategy"], store), field["solver"].read_text()
    return Solution(strategy, float(loss), float(bound), solver, refused)


def _packed_orders(closure: Lattice) -> IntArray:
    return np.array([axis for order in closure.orders for axis in order], dtype=np.int64)


def _check_same(closure: Lattice, class_of: npt.NDArray[Any], orders: npt.NDArray[Any], solutions: int) -> None:
    """Strategies belong to classes by number: the rebuilt lattice must number them as the writer did."""
    same = np.array_equal(closure.class_of, class_of) and np.array_equal(_packed_orders(closure), orders)
    if not same or solutions != len(closure.classes):
        raise StorageError("the plan was compiled by another version of qcompile; compile it again")


def _check_strategies(plan: Plan) -> None:
    """Strategies that fit their nodes, with numbers whose squares are numbers: else a cost might come out as 0."""
    for problem, solution in zip(plan.closure.classes, plan.solutions, strict=True):
        if solution.strategy.shape != problem.shape:
            raise StorageError("a strategy in the file does not fit its node; compile the plan again")
        sizes = _largest_entries(solution.strategy)
        if not sum(abs(math.log10(s)) if s > 0 else math.inf for s in sizes) <= MAX_SCALING:
            raise StorageError("a strategy in the file has numbers too large or too small; compile the plan again")


def _check_own_parts(plan: Plan) -> None:
    """The stored own part of an oblique node must be what it measures, centred: estimates are made with it."""
    closure = plan.closure
    for c, strategy in enumerate(plan.strategies):
        if isinstance(strategy, ObliqueStrategy):
            position = closure.class_of.tolist().index(c)
            weights = [closure.centring[closure.nodes[position][axis]] for axis in closure.orders[position]]
            rows = strategy.measured_matrix.reshape(-1, *strategy.shape)
            own = part_on(rows, weights, range(len(weights))).reshape(strategy.own_matrix.shape)
            if np.abs(own - strategy.own_matrix).max() > CENTRED * np.abs(rows).max():
                raise StorageError("an oblique node of the file is not what it measures; compile the plan again")


def _largest_entries(strategy: Strategy) -> list[float]:
    """The largest absolute value of each matrix that a strategy is stored as."""
    match strategy:
        case MixtureStrategy():
            return [size for t in strategy.terms for size in _largest_entries(t)]
        case KroneckerStrategy():
            return [p.largest for p in strategy.parts]
        case CosineStrategy():
            arrays = (strategy.half, strategy.weights, strategy.directions, strategy.gains)
            return [float(np.abs(a).max()) for a in arrays if a.size]
        case ObliqueStrategy():
            return [strategy.measured.parts[0].largest]
        case FourierStrategy():
            return [float(np.abs(strategy.kernel).max(initial=0.0))]
        case _:
            raise TypeError(type(strategy))
