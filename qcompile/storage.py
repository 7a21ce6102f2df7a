"""Plan files: workload and solved strategies are stored; the lattice is rebuilt and checked against the file."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from qcompile import archive
from qcompile.arrays import IntArray
from qcompile.codec import ArrayStore, read_strategy, read_workload, strategy_data, workload_data
from qcompile.decompose import decompose
from qcompile.errors import StorageError
from qcompile.lattice import Lattice
from qcompile.plan import Options, Plan
from qcompile.projection import is_uniform
from qcompile.solvers.solution import Solution
from qcompile.version import __version__

KIND = "qcompile plan"
VERSION = 2


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
    document, arrays, _ = archive.read(path, KIND, VERSION)
    return read_plan(document, ArrayStore(arrays))


def plan_data(plan: Plan, store: ArrayStore) -> dict[str, Any]:
    """A plan as plain data; arrays go to the store."""
    closure = plan.closure
    centring = {
        a.name: store.put(u) for a, u in zip(closure.schema, closure.centring, strict=True) if not is_uniform(u)
    }
    return {
        "qcompile": __version__,
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
        workload = read_workload(document["workload"], store)
        centring = {name: np.asarray(store.get(key), np.float64) for name, key in document["centring"].items()}
        options = _read_options(document["options"])
        closure = decompose(workload, centring, document["blocks"], dict(options.strategies))
        _check_same(closure, document, store)
        solutions = tuple(_read_solution(s, store) for s in document["solutions"])
        plan = Plan(workload, closure, solutions, options, _read_error(document["plain_sse"]))
    except (LookupError, TypeError, ValueError, AttributeError) as e:
        if isinstance(e, StorageError):
            raise
        raise StorageError("the file does not hold a plan that this version of qcompile understands") from e
    _check_shapes(plan)
    return plan


def _read_options(data: dict[str, Any]) -> Options:
    strategies = tuple((str(name), str(label)) for name, label in data["strategies"])
    options = Options(**{**data, "strategies": strategies})
    if type(options.contributions) is not int or options.contributions < 1:
        raise ValueError("contributions must be a whole number of rows, at least 1")
    return options


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


def _check_shapes(plan: Plan) -> None:
    for problem, solution in zip(plan.closure.classes, plan.solutions, strict=True):
        if solution.strategy.shape != problem.shape:
            raise StorageError("a strategy in the file does not fit its node; compile the plan again")
