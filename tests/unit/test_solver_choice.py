"""Which route a problem takes, and that products of routes measure the whole product."""

from __future__ import annotations

import math

import numpy as np
import pytest

from qcompile.compiler import compile
from qcompile.factors import Circular, Factor, Marginal, Prefix, Random
from qcompile.plan import Plan
from qcompile.privacy.budget import Budget
from qcompile.schema import Attribute, IntegerDomain, Schema
from qcompile.solvers import exact, residual
from qcompile.solvers.choose import Solver
from qcompile.workload import Family, Workload

A, B, C = (Attribute(name, IntegerDomain(0, n - 1)) for name, n in (("a", 4), ("b", 4), ("c", 3)))


def workload(*products: tuple[Factor, ...]) -> Workload:
    families = tuple(Family(f"f{i}", f"f{i}", p) for i, p in enumerate(products))
    return Workload(Schema((A, B, C)), families)


def solvers(plan: Plan) -> dict[tuple[str, ...], str]:
    return {c.attributes: c.solver for c in plan.classes}


def test_marginal_and_circular_nodes_take_their_closed_forms() -> None:
    taken = solvers(compile(workload((Circular(A),), (Marginal(B),), (Circular(A), Marginal(B)))))
    assert taken["a",] == "closed form, Fourier basis"
    assert taken["b",] == "closed form, residual basis"
    assert taken["a", "b"] == "Kronecker of closed form"


@pytest.mark.parametrize("basis", ["rp", "wff"])
@pytest.mark.parametrize("reach", [(), (Prefix(C),)], ids=["alone", "in a product"])
def test_a_large_group_that_falls_back_to_a_basis_is_measured_whole(
    basis: str, reach: tuple[Factor, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "DENSE_CELLS", 10)
    monkeypatch.setattr(exact, "SHORT_ENTRIES", 50)
    if basis == "rp":  # a basis of several matrices for one group
        monkeypatch.setattr(Solver, "_best_basis", lambda self, problem: residual.solve_residual(problem))
    random = Random((A, B), 0.5, 60, 1)
    plan = compile(workload((random, *reach)))
    label = "residual" if basis == "rp" else "Fourier"
    assert label in solvers(plan)["a", "b"]
    x = np.arange(48).reshape(4, 4, 3)
    found = plan.run({("a", "b", "c"): x}, Budget(rho=1), noise="none").answers("f0")
    expected = random.apply(x.astype(float))
    expected = np.cumsum(expected, axis=1) if reach else expected.sum(axis=1)
    np.testing.assert_allclose(np.asarray(found["estimate"]), expected.ravel(), rtol=0, atol=1e-9)


def test_progress_counts_the_problems() -> None:
    seen: list[tuple[int, int]] = []
    plan = compile(workload((Prefix(A), Prefix(B))), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(i + 1, len(plan.classes)) for i in range(len(plan.classes))]
    assert math.isfinite(plan.gap)
