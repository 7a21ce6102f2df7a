"""Plan files: workload and solved strategies are stored; the lattice is rebuilt and checked against the file.

A file with the right hashes may still be forged. What it says about privacy is not believed: costs and noise scales are
computed anew from the strategies. What it says about sizes is checked before anything of that size is made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import numpy as np

from qcompile.errors import StorageError
from qcompile.lattice.decompose import count_subsets, decompose, least_nodes
from qcompile.lattice.lattice import Lattice
from qcompile.lattice.projection import is_uniform
from qcompile.plan.encoding import ArrayStore, read_strategy, read_workload, strategy_data, workload_data
from qcompile.plan.options import Options
from qcompile.plan.plan import Plan
from qcompile.queries.schema import CategoryDomain, IntegerDomain, PolicyKind, Schema
from qcompile.queries.workload import Workload
from qcompile.solvers.solution import Solution
from qcompile.strategy import FourierStrategy, KroneckerStrategy, MixtureStrategy, Strategy
from qcompile.support import archive
from qcompile.support.arrays import IntArray, require_memory

KIND = "qcompile plan"
VERSION = 5

OLDEST = 3
"""Files from before ordered factors left the ``other`` cell out: their factors run through it, as they did."""

MAX_ATTRIBUTES = 100_000
"""Attributes of a schema in a file: more than a ``.q`` text can declare."""

VALUES_MEMORY = 2**30
"""Bytes that one number per value of every attribute may take: the centring weights."""

MAX_PRODUCTS = 2**20
"""Products of a family in a block, which are all listed; in the lattice the number of nodes is the limit."""

MAX_SCALING = 50
"""Powers of ten by which a strategy's matrices may be off from entries around 1, all together: squares of column norms
neither overflow nor vanish. Solvers stay within 2 or 3."""


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
    document, arrays, _ = archive.read(path, KIND, VERSION, OLDEST)
    return read_plan(document, ArrayStore.check(arrays))


def plan_data(plan: Plan, store: ArrayStore) -> dict[str, Any]:
    """A plan as plain data; arrays go to the store."""
    closure = plan.closure
    centring = {
        a.name: store.put(u) for a, u in zip(closure.schema, closure.centring, strict=True) if not is_uniform(u)
    }
    return {
        "qcompile": plan.version,
        "options": asdict(plan.options),
        "workload": workload_data(plan.workload, store),
        "centring": centring,
        "blocks": [list(names) for names in closure.blocks],
        "class_of": store.put(closure.class_of),
        "orders": store.put(_packed_orders(closure)),
        "plain_sse": plan.plain_sse,
        "solutions": [_solution_data(s, store) for s in plan.solutions],
    }


def _solution_data(solution: Solution, store: ArrayStore) -> dict[str, Any]:
    return {
        "strategy": strategy_data(solution.strategy, store),
        "loss": solution.loss,
        "bound": solution.bound,
        "solver": solution.solver,
        "refused": [list(r) for r in solution.refused],
    }


def read_plan(document: dict[str, Any], store: ArrayStore) -> Plan:
    """The inverse of `plan_data`.

    Raises:
      StorageError: the document does not describe a plan that this version understands.
    """
    try:
        _check_attributes(document["workload"]["schema"])
        workload = read_workload(document["workload"], store)
        _check_values(workload.schema)
        _check_expansion(workload, document["blocks"], len(store.get(document["class_of"])))
        centring = {name: np.asarray(store.get(key), np.float64) for name, key in document["centring"].items()}
        options = _read_options(document["options"])
        closure = decompose(workload, centring, document["blocks"], dict(options.strategies))
        _check_same(closure, document, store)
        solutions = tuple(_read_solution(s, store) for s in document["solutions"])
        plain_sse, version = _read_error(document["plain_sse"]), _read_version(document["qcompile"])
        plan = Plan(workload, closure, solutions, options, plain_sse, version)
    except StorageError:
        raise
    except NOT_UNDERSTOOD as e:
        raise StorageError("the file does not hold a plan that this version of qcompile understands") from e
    _check_strategies(plan)
    return plan


NOT_UNDERSTOOD = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""Errors of reading well-formed JSON of another meaning; numbers too large for a double are ArithmeticErrors."""


def _check_attributes(data: Sequence[dict[str, Any]]) -> None:
    if len(data) > MAX_ATTRIBUTES:
        raise StorageError(f"the file declares {len(data):,} attributes, at most {MAX_ATTRIBUTES:,} are read")


def _check_values(schema: Schema) -> None:
    """Domains of the types that a text could have declared, which have no more values than can be looked at."""
    for a in schema:
        domain = a.domain
        if type(a.name) is not str or type(a.cyclic) is not bool:
            raise ValueError("a name is text, cyclic is true or false")
        if a.policy.kind not in get_args(PolicyKind) or not isinstance(a.policy.other, str | None):
            raise ValueError("a policy is one of four, its label is text")
        if isinstance(domain, IntegerDomain) and not type(domain.low) is type(domain.high) is int:
            raise ValueError("the ends of an integer domain are integers")
        if isinstance(domain, CategoryDomain) and not {type(x) for x in domain.labels} <= {str, int, bool}:
            raise ValueError("a category is text, an integer or true/false")
    values = sum(a.size for a in schema)
    require_memory("the file's schema", values, "declare fewer values, or bins", limit=VALUES_MEMORY)


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


def _read_options(data: dict[str, Any]) -> Options:
    strategies = tuple((str(name), str(label)) for name, label in data["strategies"])
    return Options(**{**data, "strategies": strategies})


def _read_version(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable() or len(value) > MAX_VERSION:
        raise ValueError("a version is a short printable text")
    return value


def _read_error(value: Any) -> float | None:
    if value is not None and not 0 < float(value) < math.inf:
        raise ValueError("a total error must be finite and > 0")
    return None if value is None else float(value)


def _read_solution(data: dict[str, Any], store: ArrayStore) -> Solution:
    refused = tuple((route, reason) for route, reason in data["refused"])
    loss, bound = float(data["loss"]), float(data["bound"])
    if not (0 < loss < math.inf and 0 <= bound < math.inf):
        raise ValueError("losses must be finite and > 0")
    return Solution(read_strategy(data["strategy"], store), loss, bound, data["solver"], refused)


def _packed_orders(closure: Lattice) -> IntArray:
    return np.array([axis for order in closure.orders for axis in order], dtype=np.int64)


def _check_same(closure: Lattice, document: dict[str, Any], store: ArrayStore) -> None:
    """Strategies belong to classes by number: the rebuilt lattice must number them as the writer did."""
    same = np.array_equal(closure.class_of, store.get(document["class_of"]))
    same = same and np.array_equal(_packed_orders(closure), store.get(document["orders"]))
    if not same or len(document["solutions"]) != len(closure.classes):
        raise StorageError("the plan was compiled by another version of qcompile; compile it again")


def _check_strategies(plan: Plan) -> None:
    """Strategies that fit their nodes, with numbers whose squares are numbers: else a cost might come out as 0."""
    for problem, solution in zip(plan.closure.classes, plan.solutions, strict=True):
        if solution.strategy.shape != problem.shape:
            raise StorageError("a strategy in the file does not fit its node; compile the plan again")
        sizes = _largest_entries(solution.strategy)
        if not sum(abs(math.log10(s)) if s > 0 else math.inf for s in sizes) <= MAX_SCALING:
            raise StorageError("a strategy in the file has numbers too large or too small; compile the plan again")


def _largest_entries(strategy: Strategy) -> list[float]:
    """The largest absolute value of each matrix that a strategy is stored as."""
    match strategy:
        case MixtureStrategy():
            return [size for t in strategy.terms for size in _largest_entries(t)]
        case KroneckerStrategy():
            return [p.largest for p in strategy.parts]
        case FourierStrategy():
            return [float(np.abs(strategy.kernel).max(initial=0.0))]
        case _:
            raise TypeError(type(strategy))
