"""Ordered factors never run over the ``other`` cell, in whatever they are used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from qcompile.api import compile
from qcompile.compiler.centring import free_roles
from qcompile.grammar import parse
from qcompile.lattice.gram import Gram
from qcompile.lattice.projection import Projection, zero_weights
from qcompile.privacy.budget import Budget
from qcompile.queries.factors import Circular, Marginal, Prefix, Range
from qcompile.queries.factors.base import OneAttribute
from qcompile.queries.factors.ordered import Ordered
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, NumericDomain, Policy
from qcompile.queries.workload import default_factor
from qcompile.solvers.bounds.spectra import singular_values
from qcompile.strategy import FourierStrategy
from qcompile.strategy.base import Block
from qcompile.strategy.variances import product_variances
from qcompile.support.arrays import Array
from tests.conformance.helpers import (
    UNIT,
    family,
    integer,
    known,
    least_squares_variances,
    mechanism,
    product_matrix,
    query_matrix,
    with_other,
    workload,
)

KINDS = (Prefix, Range, Circular)
each_kind = pytest.mark.parametrize("kind", KINDS)
each_size = pytest.mark.parametrize("size", [1, 2, 3, 7])


def attribute(size: int) -> Attribute:
    return with_other(integer("a", size), cyclic=True)


def centring(size: int, name: str) -> Array:
    match name:
        case "uniform":
            return np.full(size, 1 / size)
        case "none":
            return zero_weights(size)
        case _:
            weights = np.abs(np.sin(1.0 + np.arange(size)))
            return np.asarray(weights / weights.sum())


@each_kind
@each_size
def test_queries_are_those_of_the_domain_and_0_on_the_other_cell(kind: type[Ordered], size: int) -> None:
    factor, alone = kind(attribute(size)), kind(integer("a", size))
    w = factor.contract([None])
    np.testing.assert_array_equal(w[:, :size], alone.contract([None]))
    assert not w[:, size].any()
    assert factor.count == alone.count == {"prefix": size, "range": size * (size + 1) // 2}.get(kind.kind, size**2)
    assert factor.labels() == alone.labels()
    assert "unknown" not in "".join(factor.labels())


@each_kind
@each_size
@pytest.mark.parametrize("u", ["uniform", "none", "skewed"])
@pytest.mark.parametrize("kept", [True, False])
def test_projections_and_spectra(kind: type[Ordered], size: int, u: str, kept: bool) -> None:
    """The closed forms of Grams and singular values are of circles and orders without a cell outside."""
    projection = Projection(kind(attribute(size)), (kept,), (centring(size + 1, u),))
    w = query_matrix(projection.factor)
    weights = projection.u[0]
    expected = w - np.outer(w @ weights, np.ones(size + 1)) if kept else (w @ weights)[:, None]
    gram = projection.gram()
    if not kept:
        assert gram == pytest.approx((expected**2).sum())
        return
    assert isinstance(gram, Gram)
    np.testing.assert_allclose(gram.matrix, expected.T @ expected, atol=1e-11 * size**3)
    values = singular_values(gram)
    assert values is not None
    rank = int(np.linalg.matrix_rank(expected))
    largest_first = np.linalg.svd(expected, compute_uv=False)[:rank]
    np.testing.assert_allclose(np.sort(values)[::-1], largest_first, rtol=1e-8)


@each_kind
def test_keys_tell_the_other_cell_from_a_cell_of_the_order(kind: type[Ordered]) -> None:
    inside, outside = kind(integer("a", 5)), kind(attribute(4))
    old = kind(attribute(4), through_other=True)
    assert inside.key == old.key == (kind.kind, 5)
    assert inside.shape == outside.shape
    assert outside.key != inside.key
    assert outside != old
    assert kind(integer("a", 5), through_other=True) == inside


@each_kind
@pytest.mark.parametrize("size", [3, 6])
def test_fourier_variances(kind: type[Ordered], size: int) -> None:
    """An arc past the last value is no interval of the circle that the strategy lives on."""
    n = size + 1
    h = np.minimum(np.arange(n), n - np.arange(n)).astype(np.float64)
    strategy = FourierStrategy(np.fft.ifft(np.sqrt(h)).real)
    block = Block(Projection(kind(attribute(size)), (True,), (centring(n, "uniform"),)), [0])
    b = strategy.apply(np.eye(n))
    covariance = np.linalg.pinv(b.T @ b, rcond=1e-10, hermitian=True)
    q = block.projection.matrix
    expected = np.einsum("qi,ij,qj->q", q, covariance, q)
    np.testing.assert_allclose(strategy.variances([block])[0], expected, atol=1e-11 * expected.max())
    assert strategy.errors([block]) == pytest.approx((expected.sum(), expected.max()), rel=1e-10)


@pytest.mark.parametrize("axes", [(0, 1), (1, 0)])
@pytest.mark.parametrize("beside", [Circular, Prefix])
def test_fourier_variances_of_products(axes: tuple[int, int], beside: type[Ordered]) -> None:
    """Arcs around an other cell on one axis or on both, with weights that are no product of the axes'."""
    shape = (5, 4)
    i, j = (np.minimum(np.arange(n), n - np.arange(n)) for n in shape)
    strategy = FourierStrategy(np.fft.ifftn(np.sqrt(np.hypot.outer(i, 2.0 * j))).real)
    factors = [Circular(attribute(4)), beside(with_other(integer("b", 3)))]
    projections = [Projection(factors[a], (True,), (centring(shape[a], "uniform"),)) for a in axes]
    blocks = [Block(p, [a]) for p, a in zip(projections, axes, strict=True)]
    q = np.einsum("ai,bj->abij" if axes == (0, 1) else "aj,bi->abij", *(p.matrix for p in projections))
    expected = (strategy.represent(np.moveaxis(q, (0, 1), (2, 3))) ** 2).sum(axis=0)
    np.testing.assert_allclose(strategy.variances(blocks)[0], expected, atol=1e-11 * expected.max())
    assert strategy.errors(blocks) == pytest.approx((expected.sum(), expected.max()), rel=1e-10)


def test_a_large_circle_beside_an_other_cell_needs_no_query_matrix() -> None:
    """Of 2,000 values it would take 64 GB."""
    a = attribute(2000)
    plan = compile(workload([a], family(Circular(a))), solver="wff")
    whole = compile(workload([integer("a", 2001)], family(Circular(integer("a", 2001)))), solver="wff")
    found, near = (p.family_errors(p.workload.families[0]).total for p in (plan, whole))
    assert found == pytest.approx(near, rel=0.2)


def test_weights_of_a_circle_are_free_where_a_cell_stands_beside_it() -> None:
    a, b = attribute(4), replace(integer("b", 5), cyclic=True)
    made = workload([a, b], family(Circular(a)), family(Circular(b)), family(Marginal(a), Marginal(b)))
    assert free_roles(made) == [("a",)]


@pytest.mark.parametrize(
    ("domain", "cyclic", "kind"),
    [
        (IntegerDomain(0, 2), False, Prefix),
        (IntegerDomain(0, 2), True, Circular),
        (NumericDomain((0.0, 1.0, 2.5)), False, Prefix),
        (CategoryDomain(("x", "y", "z")), True, Circular),
        (CategoryDomain(("x", "y", "z")), False, Marginal),
    ],
)
def test_defaults_of_each(domain: IntegerDomain, cyclic: bool, kind: type[OneAttribute]) -> None:
    factor = default_factor(Attribute("a", domain, Policy("other", "unknown"), cyclic))
    assert type(factor) is kind
    others = factor.contract([None])[:, -1]
    assert others.sum() == (1 if kind is Marginal else 0)


HOURS = 'schema { h : integer 0..23 cyclic other "unknown"; p : numeric [0, 10, 20) other "none" }\n'


def test_an_arc_past_midnight_does_not_count_what_is_unknown() -> None:
    counts = np.ones((25, 3))
    counts[24] = 100
    plan = compile(parse(f"{HOURS}workload {{ arcs : circular(h); spans : range(p); all : each 2 of all }}"))
    release = plan.run({("h", "p"): counts}, Budget(rho=1), noise="none")
    arcs = release.answers("arcs").to_pydict()
    found = dict(zip(arcs["h"], arcs["estimate"], strict=True))
    assert found["22..1"] == pytest.approx(12)  # 22, 23, 0 and 1, of three each
    assert found["23..22"] == pytest.approx(72)
    assert len(found) == len(arcs["h"]) == 24**2
    spans = release.answers("spans").to_pydict()
    assert dict(zip(spans["p"], spans["estimate"], strict=True))["[0, 20)"] == pytest.approx(248)
    assert release.ask("total").estimate == pytest.approx(counts.sum())
    assert release.ask('count(h = "unknown" and p = "none")').estimate == pytest.approx(100)
    both = release.answers("all").to_pydict()
    assert len(both["estimate"]) == 24**2 * 2
    assert max(both["estimate"]) == pytest.approx(48)


def test_four_of_a_day() -> None:
    plan = compile(parse('schema { h : integer 0..23 cyclic other "unknown" } workload { arcs : circular(h) }'))
    counts = np.ones(25)
    counts[24] = 3
    arcs = plan.run({("h",): counts}, Budget(rho=1), noise="none").answers("arcs").to_pydict()
    assert arcs["estimate"][arcs["h"].index("22..1")] == pytest.approx(4)


@pytest.mark.parametrize("solver", ["auto", "rp", "wff"])
def test_variances_on_a_larger_attribute(solver: str) -> None:
    """Against least squares on the exported matrices; closed forms and the Fourier basis are of use at this size."""
    a = attribute(40)
    plan = compile(workload([a], family(Prefix(a)), family(Circular(a))), solver=solver)
    measured = list(plan.measurements(UNIT))
    rows, exact = mechanism(plan.workload.schema, measured), known(plan.workload.schema, measured)
    sigma_squared = [s.sigma**2 for s in plan.scales(UNIT.rho)]
    for f in plan.workload.families:
        (product,) = f.products()
        expected = least_squares_variances(product_matrix(plan.workload.schema, product), rows, exact)
        found = product_variances(plan.closure, plan.strategies, sigma_squared, product)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert plan.family_errors(f).total == pytest.approx(expected.sum(), rel=1e-6)
