"""The protocol of the routes: all are registered, all refuse what they say they cannot solve, and new ones are used."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import qcompile.solvers
from qcompile.api import compile
from qcompile.errors import InternalError, OptionError, QCompileError
from qcompile.lattice.decompose import decompose
from qcompile.lattice.lattice import Problem
from qcompile.plan.files import load_plan, save_plan
from qcompile.plan.options import Options
from qcompile.queries.factors import Abs, Affine, Circular, Marginal, Predicate, Prefix, Range
from qcompile.solvers.attribute_strategies import attribute_strategies
from qcompile.solvers.auto import Auto
from qcompile.solvers.bases.basis import Basis
from qcompile.solvers.bases.residual import Residual, residual_strategy
from qcompile.solvers.bounds.lower_bound import lower_bound
from qcompile.solvers.closed_forms import SingleQuery, TotalCount
from qcompile.solvers.exact.optimal import Optimal
from qcompile.solvers.route import Route, RouteOptions
from qcompile.solvers.shared import BetterBasis, Factors, SingleGroup, Step
from qcompile.solvers.solution import Solution
from qcompile.solvers.solver import SOLVERS, registry
from tests.conformance.helpers import family, integers, some_weights, workload

A, B = integers(4, 3)
WIDE = integers(5000)[0]


def all_subclasses(kind: type[Route]) -> Iterator[type[Route]]:
    for sub in kind.__subclasses__():
        yield sub
        yield from all_subclasses(sub)


def product_routes() -> list[type[Route]]:
    """Every concrete route of the package, whether anything uses it or not."""
    for module in pkgutil.walk_packages(qcompile.solvers.__path__, "qcompile.solvers."):
        importlib.import_module(module.name)
    every: Iterator[type[Route]] = all_subclasses(Route)  # type: ignore[type-abstract]
    routes = {r for r in every if r.__module__.startswith("qcompile.") and not inspect.isabstract(r)}
    return sorted(routes, key=lambda r: r.__name__)


def unregistered(routes: list[type[Route]]) -> list[str]:
    """Routes with a value of the option ``solver`` that the registry does not have."""
    return [r.__name__ for r in routes if r.option is not None and SOLVERS.get(r.option) is not r]


@dataclass(frozen=True, eq=False)
class Cells(Route):
    """Residual strategies under another name, with a proven bound: what an outsider might add."""

    name: ClassVar[str] = "cells"
    option: ClassVar[str | None] = "cells"
    needs_uniform: ClassVar[bool] = True
    splits_only: ClassVar[bool] = True

    gap: float = 1e-3

    @classmethod
    def of(cls, options: RouteOptions) -> Cells:
        return cls(options.gap)

    def why_not(self, problem: Problem) -> str | None:
        return None if problem.cells < 100 else f"{problem.cells} cells, limit 100"

    def solve(self, problem: Problem) -> Solution:
        self.require(problem)
        label = f"{self.name} at gap {self.gap:g}"
        return Solution(residual_strategy(problem.shape), Residual().loss(problem), lower_bound(problem), label)


def test_every_route_with_a_solver_name_is_registered() -> None:
    assert unregistered(product_routes()) == []
    assert list(SOLVERS) == ["auto", "exact", "rp", "wff", "conic", "rp+"]


def test_a_forgotten_registration_is_noticed() -> None:
    assert unregistered([*product_routes(), Cells]) == ["Cells"]


def test_the_registry_refuses_two_routes_of_one_name_and_none() -> None:
    with pytest.raises(InternalError, match="Auto needs a solver name of its own, not 'auto'"):
        registry(Auto, Auto)
    with pytest.raises(InternalError, match="Optimal needs a solver name of its own, not None"):
        registry(Optimal)


@pytest.mark.parametrize("route", product_routes(), ids=lambda r: r.__name__)
def test_a_route_has_a_name_and_is_a_leaf(route: type[Route]) -> None:
    """Abstract or final: no route inherits from one that can be used itself."""
    assert route.name
    assert all(inspect.isabstract(base) for base in route.__mro__[1:] if base is not object and issubclass(base, Route))
    assert not issubclass(route, Basis) or (route.needs_uniform and route.splits_only)


def test_one_registered_class_is_a_solver(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    made = workload([A, B], family(Prefix(A), Marginal(B)))
    with pytest.raises(OptionError, match="solver cannot be 'cells'"):
        compile(made, solver="cells")
    monkeypatch.setitem(SOLVERS, "cells", Cells)
    plan = compile(made, solver="cells", gap=0.25)
    assert {c.solver for c in plan.classes} == {"cells at gap 0.25"}
    assert plan.sse() == pytest.approx(compile(made, solver="rp").sse(), rel=1e-12)
    path = f"{tmp_path}/cells.plan"
    save_plan(plan, path)
    assert load_plan(path).options == plan.options == Options(solver="cells", gap=0.25)


def test_what_the_compiler_refuses_is_data_of_the_route(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SOLVERS, "cells", Cells)
    made = workload([A, B], family(Prefix(A), Marginal(B)))
    for options, message in (
        ({"centring": "optimised"}, "solver='cells' needs uniform centring"),
        ({"blocks": True}, "solver='cells' cannot measure unsplit blocks"),
        ({"strategies": {}}, "strategies are for solver='rp\\+', not 'cells'"),
    ):
        with pytest.raises(OptionError, match=message):
            compile(made, solver="cells", **options)
    with pytest.raises(QCompileError, match="no cells solver fits this node: 5000 cells, limit 100"):
        compile(workload([WIDE], family(Prefix(WIDE))), solver="cells")


def posed(*factors: object, skewed: bool = False, plus: bool = False) -> Problem:
    """The largest node of a product of factors, with a strategy on each axis where RP+ is to solve it."""
    attributes = list({a.name: a for f in factors for a in f.attributes}.values())  # type: ignore[attr-defined]
    made = workload(attributes or [A], family(*factors))  # type: ignore[arg-type]
    centring = {a.name: some_weights(a.size, i) for i, a in enumerate(attributes)} if skewed else {}
    closure = decompose(made, centring, labels={a.name: "haar" for a in attributes} if plus else None)
    return closure.classes[int(closure.class_of[-1])]


def sum_of_products() -> Problem:
    closure = decompose(workload([A, B], family(Prefix(A), Prefix(B)), family(Affine([A, B], [1, 1]))))
    return closure.classes[int(closure.class_of[-1])]


PROBLEMS = {
    "total": posed(),
    "marginal": posed(Marginal(A), Marginal(B)),
    "circular": posed(Circular(A)),
    "prefix": posed(Prefix(A)),
    "query": posed(Predicate([A, B], np.eye(4, 3) > 0, "diagonal")),
    "skewed": posed(Prefix(A), Range(B), skewed=True),
    "sum": sum_of_products(),
    "across": posed(Abs([A, B], [1, -1])),
    "labelled": posed(Prefix(A), Range(B), plus=True),
    "wide": posed(Prefix(WIDE)),
    "wide and skewed": posed(Prefix(WIDE), skewed=True),
}
STRATEGIES = attribute_strategies(workload([A, B], family(Prefix(A))).schema, {"a": "haar", "b": "haar"})
ROUTES: dict[str, Route] = {name: kind.of(RouteOptions(1e-3, STRATEGIES)) for name, kind in SOLVERS.items()}
ROUTES |= {
    r.name: r
    for r in (
        Auto().mixture,
        Auto().alternating(lower_bound),
        BetterBasis(),
        Factors(),
        Optimal(),
        SingleGroup(1e-3),
        SingleQuery(),
        Step(),
        TotalCount(),
    )
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_route_solves_what_it_has_no_reason_against(name: str, route: str) -> None:
    problem, taken = PROBLEMS[name], ROUTES[route]
    reason = taken.why_not(problem)
    if reason is not None:
        assert reason
        with pytest.raises(QCompileError) as refused:
            taken.solve(problem)
        assert reason in str(refused.value)
        return
    solution = taken.solve(problem)
    assert solution.bound <= solution.loss * (1 + 1e-9)
    assert solution.strategy.shape == problem.shape
    assert float(solution.strategy.sensitivity_squared) == pytest.approx(1, abs=1e-9)
