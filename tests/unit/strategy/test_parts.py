"""The residual basis as two numbers, against the matrix that they stand for."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from qcompile.errors import IntegrityError
from qcompile.lattice.projection import Projection
from qcompile.queries.factors import Marginal, Prefix
from qcompile.queries.schema import Attribute, IntegerDomain
from qcompile.strategy import KroneckerStrategy, MatrixPart, ResidualPart
from qcompile.strategy.base import Block
from qcompile.strategy.exact_products import as_fraction

SIZES = [2, 3, 7, 40]
FACTORS = [1.0, 0.3]
LARGE = 30_000


def both(n: int, factor: float) -> tuple[ResidualPart, MatrixPart]:
    part = ResidualPart((0,), (n,), factor)
    return part, MatrixPart((0,), (n,), part.written_out())


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("n", SIZES)
def test_every_product_is_that_of_the_matrix(n: int, factor: float) -> None:
    part, dense = both(n, factor)
    x = np.random.default_rng(n).normal(size=(n, 3))
    for name in ("apply", "adjoint", "solve", "represent", "apply_absolute"):
        np.testing.assert_allclose(getattr(part, name)(x), getattr(dense, name)(x), atol=1e-12, err_msg=name)
    np.testing.assert_allclose(part.gram_rows(np.array([1, 0])), dense.gram_rows(np.array([1, 0])), atol=1e-14)
    np.testing.assert_allclose(part.column_norms, dense.column_norms, rtol=1e-14)
    np.testing.assert_allclose(part.root() @ part.root().T, dense.root() @ dense.root().T, atol=1e-12)
    assert (part.rows, part.columns, part.rank, part.largest) == (dense.rows, n, dense.rank, dense.largest)
    assert part.largest_distance() == pytest.approx(dense.largest_distance(), rel=1e-14)


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("n", SIZES)
def test_the_cost_is_exact(n: int, factor: float) -> None:
    """The norm of a column of the doubles in the matrix, in rational arithmetic; a matrix part's bound is above it."""
    part, dense = both(n, factor)
    exactly = max(sum(Fraction(float(v)) ** 2 for v in column) for column in dense.matrix.T)
    assert part.column_bound == exactly <= dense.column_bound
    strategy = KroneckerStrategy((n,), [part])
    pairs = max(
        sum((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(one, two, strict=True))
        for one in dense.matrix.T
        for two in dense.matrix.T
    )
    assert pairs <= strategy.pair_sensitivity_squared <= pairs * (1 + Fraction(1, 10**10))


@pytest.mark.parametrize("n", SIZES)
def test_rows_are_contracted_exactly(n: int) -> None:
    part, dense = both(n, 0.7)
    x = np.random.default_rng(n).integers(0, 2**40, (n, 2))
    for integers in (x, x.astype(object)):
        for row in (0, n - 1):
            found, exponent = part.contract(row, integers)
            expected, other = dense.contract(row, integers)
            assert [as_fraction(v, exponent) for v in found] == [as_fraction(v, other) for v in expected]


@pytest.mark.parametrize("kind", [Marginal, Prefix])
def test_variances_of_queries(kind: type[Marginal] | type[Prefix]) -> None:
    part, dense = both(9, 0.3)
    queries = Projection(kind(Attribute("a", IntegerDomain(0, 8))), (True,), (np.full(9, 1 / 9),))
    np.testing.assert_allclose(part.variances(queries, [0]), dense.variances(queries, [0]), atol=1e-12)


def test_many_cells_take_no_matrix() -> None:
    """The matrix would take 7 GB."""
    strategy = KroneckerStrategy((LARGE, 3), [ResidualPart((0,), (LARGE,)), MatrixPart((1,), (3,), np.eye(3))])
    a, b = (Attribute(name, IntegerDomain(0, n - 1)) for name, n in (("a", LARGE), ("b", 3)))
    blocks = [
        Block(Projection(Marginal(a), (True,), (np.full(LARGE, 1 / LARGE),)), [0]),
        Block(Projection(Prefix(b), (True,), (np.full(3, 1 / 3),)), [1]),
    ]
    x = np.arange(3 * LARGE).reshape(LARGE, 3)
    tracemalloc.start()
    try:
        y = strategy.apply(x.astype(np.float64))
        exact = strategy.exact_entries(x)(np.arange(3))
        variances = strategy.variances(blocks)
        assert strategy.pair_sensitivity_squared > strategy.sensitivity_squared
        assert strategy.solve(y).shape == (LARGE, 3)
        assert tracemalloc.get_traced_memory()[1] < 60e6
    finally:
        tracemalloc.stop()
    assert [v.size for v in variances] == [LARGE, 3]
    bounds = strategy.rounding_errors(x.astype(np.float64))[:3]
    assert all(abs(Fraction(float(f)) - c) <= Fraction(float(e)) for f, c, e in zip(y, exact, bounds, strict=False))


@pytest.mark.parametrize(("axes", "shape", "factor"), [((0,), (1,), 1.0), ((0, 1), (2, 2), 1.0), ((0,), (2,), 0.0)])
def test_what_is_no_residual_basis(axes: tuple[int, ...], shape: tuple[int, ...], factor: float) -> None:
    with pytest.raises(IntegrityError, match="residual basis"):
        ResidualPart(axes, shape, factor)
