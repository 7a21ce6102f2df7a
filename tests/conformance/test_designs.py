"""Optimised centring and blocks against their reference values, the plain decomposition, and the best of all."""

from __future__ import annotations

import math
import pathlib

import pytest

from qcompile.api import Plan, compile
from qcompile.compiler.unrestricted import unrestricted_problem
from qcompile.queries.factors import Abs, Affine, Circular, Marginal, Prefix
from qcompile.queries.schema import Attribute
from qcompile.queries.workload import Family, Workload
from qcompile.solvers.exact.optimal import Optimal
from qcompile.support.arrays import cells
from tests.conformance.cases import WORKLOADS
from tests.conformance.helpers import family, integer, workload
from tests.conformance.test_reference_tables import hybrid, reference_folder, rows

__all__ = ["reference_folder"]


def prefixes(size: int, count: int, ways: str) -> Workload:
    first, _, last = ways.partition("-")
    attributes = [integer(f"a{i}", size) for i in range(count)]
    chosen = (int(first), int(last or first))
    return workload(attributes, family(*map(Prefix, attributes), choose=chosen, name="p"))


def named(schema: str, ways: str) -> Workload:
    """A workload of weighted_centring.csv."""
    if not schema.startswith("prefix"):
        return hybrid(schema, ways)
    numbers = dict(part.split("=") for part in schema.split()[1:])
    return prefixes(int(numbers["n"]), int(numbers["d"]), ways)


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_optimised_centring_reaches_its_reference(reference_folder: pathlib.Path, every: int) -> None:
    found = list(rows(reference_folder, "weighted_centring.csv"))
    assert len(found) == 19
    for row in found[::every]:
        plan = compile(named(row["schema"], row["ways"]), centring="optimised")
        assert plan.rmse() <= float(row["rmse_weighted"]) * 1.002, row
        assert plan.plain_sse is not None
        ratio = math.sqrt(plan.plain_sse / plan.sse())
        assert ratio == pytest.approx(float(row["rmse_exact_uniform"]) / float(row["rmse_weighted"]), rel=1e-3), row


@pytest.mark.parametrize(
    ("size", "count", "ways", "least"), [(10, 3, "3", 1.12), (10, 14, "1-3", 1.04), (10, 40, "1-2", 1.02)]
)
def test_how_much_better_than_uniform_centring(size: int, count: int, ways: str, least: float) -> None:
    made = prefixes(size, count, ways)
    assert compile(made).rmse() >= least * compile(made, centring="optimised").rmse()


@pytest.mark.parametrize("kind", [Marginal, Circular])
def test_symmetric_workloads_are_best_centred_uniformly(kind: type[Marginal] | type[Circular]) -> None:
    attributes = [integer(f"a{i}", 7 + i % 2) for i in range(5)]
    made = workload(attributes, family(*map(kind, attributes), choose=(1, 3), name="f"))
    assert compile(made, centring="optimised").sse() == compile(made).sse()


@pytest.mark.parametrize("name", WORKLOADS)
def test_no_design_is_worse_than_the_plain_decomposition(name: str) -> None:
    """With all its options; an error below the best of any matrix mechanism would be a lie."""
    made = WORKLOADS[name]()
    plain = compile(made, gap=1e-6)
    least = optimum(made) if cells([a.size for a in made.schema]) <= 400 else 0.0
    for centring in ("uniform", "optimised"):
        for blocks in (False, "auto"):
            plan = compile(made, gap=1e-6, centring=centring, blocks=blocks)
            assert least * (1 - 1e-9) <= plan.sse() <= plain.sse() * (1 + 1e-9)


def optimum(made: Workload) -> float:
    """A proven lower bound of the total squared error of every matrix mechanism, attained within 1e-4."""
    solution = Optimal(1e-4).solve(unrestricted_problem(made))
    assert solution.gap <= 1e-4
    return solution.bound


def one_way_and(kind: type[Affine] | type[Abs], attributes: list[Attribute]) -> Workload:
    coefficients = [1, 1] if kind is Affine else [1, -1]
    pairs = [kind([a, b], coefficients) for i, b in enumerate(attributes) for a in attributes[:i]]
    return workload(attributes, family(*map(Prefix, attributes), choose=(1, 1), name="one"), *map(family, pairs))


def cross(kind: type[Affine] | type[Abs]) -> Workload:
    a, b = integer("a", 8), integer("b", 8)
    return workload([a, b], family(kind([a, b], [1, 1] if kind is Affine else [1, -1])))


EIGHT = [integer(name, 8) for name in "abc"]

AGAINST_ALL: dict[str, tuple[Workload, float, float]] = {
    # Ratios of rmse to the best of all, uniform and optimised centring: mathematics section 8, its last table.
    "prefix n=4, d=3, 1-2-way": (prefixes(4, 3, "1-2"), 1.042, 1.0013),
    "prefix n=8, d=3, 1-2-way": (prefixes(8, 3, "1-2"), 1.058, 1.0030),
    "prefix n=5, d=4, 1-2-way": (prefixes(5, 4, "1-2"), 1.047, 1.0020),
    "prefix n=4, d=4, 1-3-way": (prefixes(4, 4, "1-3"), 1.063, 1.0013),
    "prefix n=6, d=3, 3-way": (prefixes(6, 3, "3"), 1.104, 1.0000),
    "prefix n=6, d=3, 1-way": (prefixes(6, 3, "1"), 1.025, 1.0000),
    "one affine family": (cross(Affine), 1.268, 1.231),
    "one abs family": (cross(Abs), 1.291, 1.263),
    "1-way prefix and affine": (one_way_and(Affine, EIGHT), 1.073, 1.047),
    "1-way prefix and abs": (one_way_and(Abs, EIGHT), 1.084, 1.062),
}


def rmse_ratio(plan: Plan, least: float) -> float:
    return math.sqrt(plan.sse() / least)


@pytest.mark.parametrize("name", AGAINST_ALL)
def test_the_distance_from_the_best_of_any_mechanism(name: str) -> None:
    made, uniform, weighted = AGAINST_ALL[name]
    least = optimum(made)
    assert rmse_ratio(compile(made, gap=1e-5), least) == pytest.approx(uniform, abs=1.5e-3)
    optimised = rmse_ratio(compile(made, gap=1e-5, centring="optimised"), least)
    assert optimised <= weighted + 1e-3
    if name.startswith("prefix"):
        assert optimised <= 1.005
    else:
        assert rmse_ratio(compile(made, gap=1e-5, blocks="auto"), least) <= 1.005


def test_a_mixed_workload_gains_from_both() -> None:
    """Where one block would be too large, blocks and centring together beat each alone, or equal the better."""
    attributes = [integer(f"a{i}", 6) for i in range(6)]
    pairs: list[Family] = [family(Abs([attributes[0], attributes[1]], [1, -1]), weight=5.0, name="gap")]
    made = workload(attributes, family(*map(Prefix, attributes), choose=(1, 2), name="p"), *pairs)
    plain, centred = compile(made), compile(made, centring="optimised")
    blocked, both = compile(made, blocks="auto"), compile(made, centring="optimised", blocks="auto")
    assert centred.sse() < 0.98 * plain.sse()
    assert blocked.sse() <= plain.sse()
    assert both.sse() <= min(centred.sse(), blocked.sse()) * (1 + 1e-9)
