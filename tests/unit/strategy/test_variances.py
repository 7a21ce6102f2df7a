"""Predicted variances: sums, maxima, bounds for families too large to list, and the memory they refuse."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from qcompile.api import Plan, compile
from qcompile.errors import SizeError
from qcompile.lattice.projection import Projection
from qcompile.queries.factors import Affine, Circular, Factor, Marginal, Prefix, Range
from qcompile.queries.schema import Attribute, IntegerDomain, Schema
from qcompile.queries.workload import Family, Product, Workload
from qcompile.strategy import variances
from qcompile.strategy.variances import (
    constant_errors,
    constant_variances,
    family_errors,
    node_parts,
    product_errors,
    product_variances,
)
from qcompile.support.arrays import Array


def attribute(name: str, size: int) -> Attribute:
    return Attribute(name, IntegerDomain(0, size - 1))


A, B, C = attribute("a", 4), attribute("b", 3), attribute("c", 4)


def compiled(*families: tuple[Factor, ...]) -> Plan:
    made = tuple(Family(f"f{i}", f"f{i}", f) for i, f in enumerate(families))
    return compile(Workload(Schema((A, B, C)), made))


PRODUCTS: list[tuple[Factor, ...]] = [
    (Prefix(A), Range(B)),
    (Affine([A, C], [1, 1]), Marginal(B)),
    (Circular(C), Circular(A)),
    (Marginal(A), Marginal(B), Marginal(C)),
    (),
]


@pytest.mark.parametrize("solver", ["auto", "rp", "wff"])
@pytest.mark.parametrize("factors", PRODUCTS, ids=lambda f: " * ".join(x.kind for x in f) or "total")
def test_bounds_of_large_products(factors: tuple[Factor, ...], solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the limit the sum stays exact, and the maximum becomes an upper bound."""
    made = Workload(Schema((A, B, C)), (Family("f", "f", factors),))
    plan = compile(made, solver=solver)
    args = (plan.closure, plan.strategies, plan.unit_sigma_squared, Product(factors))
    table = product_variances(*args)
    assert table.shape == Product(factors).shape
    exact = product_errors(*args)
    assert exact.exact
    assert exact.total == pytest.approx(table.sum(), rel=1e-12)
    assert exact.largest == table.max()
    monkeypatch.setattr(variances, "LARGEST_TABLE", 0)
    bounded = product_errors(*args)
    assert not bounded.exact
    assert bounded.total == pytest.approx(exact.total, rel=1e-9)
    assert exact.largest <= bounded.largest * (1 + 1e-12)
    assert bounded.largest < 20 * exact.largest


def test_errors_of_many_queries_need_no_table_of_them() -> None:
    """4 million arcs and 2 million ranges of 2,000 values, against the sums known in closed form."""
    n = 2000
    long = attribute("long", n)
    for factor in (Circular(long), Range(long)):
        made = Workload(Schema((long,)), (Family("f", "f", (factor,)),))
        plan = compile(made, solver="wff")
        args = (plan.closure, plan.strategies, plan.unit_sigma_squared, Product((factor,)))
        tracemalloc.start()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(variances, "LARGEST_TABLE", 0)
            found = product_errors(*args)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2**20  # a table of the queries would take 16 or 32 MB
        assert found.total == pytest.approx(plan.sse(), rel=1e-9)
        exact = product_errors(*args)
        assert exact.total == pytest.approx(found.total, rel=1e-10)
        assert exact.largest <= found.largest < 2 * exact.largest


@pytest.mark.parametrize("kind", [Marginal, Prefix, Range, Circular])
@pytest.mark.parametrize("u", [np.full(5, 0.2), np.array([0.4, 0.1, 0.0, 0.2, 0.3])], ids=["uniform", "weighted"])
def test_fully_contracted_queries(kind: type[Prefix], u: Array) -> None:
    projection = Projection(kind(attribute("a", 5)), (False,), (u,))
    expected = (projection.factor.contract([None]) @ u) ** 2
    np.testing.assert_allclose(constant_variances(projection), expected, atol=1e-15)
    assert constant_errors(projection) == pytest.approx((expected.sum(), expected.max()), rel=1e-12)


def test_products_with_the_same_numbers_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """780 pairs of one kind: one table; and the shortcut changes nothing."""
    attributes = tuple(attribute(f"x{i}", 3 + i % 2) for i in range(40))
    family = Family("pairs", "pairs", tuple(map(Prefix, attributes)), choose=(2, 2))
    plan = compile(Workload(Schema(attributes), (family,)))
    calls = []
    original = variances.product_errors

    def counted(*args: object) -> variances.ErrorSummary:
        calls.append(1)
        return original(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(variances, "product_errors", counted)
    args = (plan.closure, plan.strategies, plan.unit_sigma_squared)
    found = family_errors(*args, family.products())
    assert len(calls) <= 4
    each = [original(*args, p) for p in family.products()]
    assert found.total == pytest.approx(math.fsum(e.total for e in each), rel=1e-12)
    assert found.largest == pytest.approx(max(e.largest for e in each), rel=1e-12)


def test_nodes_that_are_not_measured_are_left_out() -> None:
    one = attribute("one", 1)
    made = Workload(Schema((one, A)), (Family("f", "f", (Prefix(one), Prefix(A))),))
    closure = compile(made).closure
    parts = list(node_parts(closure, Product((Prefix(one), Prefix(A)))))
    assert [closure.nodes[p.node] for p in parts] == [(), (1,)]


def test_a_table_of_variances_too_large_is_refused() -> None:
    plan = compiled((Prefix(A),))
    wide = [attribute(f"w{i}", 1000) for i in range(4)]
    with pytest.raises(SizeError, match=r"8\.0 TB.*limit.*smaller family"):
        product_variances(plan.closure, plan.strategies, [1.0], Product(tuple(map(Prefix, wide))))


def test_variances_scale_with_the_noise() -> None:
    plan = compiled((Prefix(A), Range(B)), (Affine([A, C], [1, 1]),))
    p = Product((Prefix(A), Range(B)))
    one = product_variances(plan.closure, plan.strategies, plan.unit_sigma_squared, p)
    three = product_variances(plan.closure, plan.strategies, 3 * plan.unit_sigma_squared, p)
    np.testing.assert_allclose(three, 3 * one, rtol=1e-12)
