"""Every kind of strategy against its matrix written out: products, pseudo-inverses, variances, exact bounds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from qcompile.errors import SizeError
from qcompile.lattice.gram import Gram
from qcompile.lattice.lattice import Group, Problem, Term
from qcompile.lattice.projection import Projection
from qcompile.queries.factors import Affine, Circular, Factor, Marginal, Matrix, Prefix, Random, Range
from qcompile.queries.factors.base import OneAttribute
from qcompile.queries.schema import Attribute, IntegerDomain
from qcompile.solvers.exact import optimal
from qcompile.solvers.solver import solve
from qcompile.strategy import CosineStrategy, FourierStrategy, KroneckerStrategy, MatrixPart, ResidualPart, Strategy
from qcompile.strategy.base import Block
from qcompile.strategy.kronecker import components
from qcompile.support.arrays import Array


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.asarray(np.sin(seed + np.arange(1.0, 1 + math.prod(shape)) ** 1.3).reshape(shape))


def kernel(*shape: int) -> Array:
    """Symmetric under negation of the index, with some frequencies not measured."""
    power = np.abs(np.fft.fftn(numbers(*shape, seed=5)))
    for axis in range(power.ndim):
        np.moveaxis(power, axis, 0)[0] = 0.0
    mirrored = np.roll(np.flip(power), [1] * power.ndim, axis=tuple(range(power.ndim)))
    return np.ascontiguousarray(np.fft.ifftn(power + mirrored).real)


def low_rank(rows: int, columns: int) -> Array:
    return np.concatenate([numbers(rows - 1, columns, seed=2), numbers(rows - 1, columns, seed=2)[:1]])


def cosine(size: int, directions: int) -> CosineStrategy:
    """A filter that measures all frequencies, other weights in each cell, and directions that are not orthonormal."""
    gains, x = np.array([-0.4, 0.7, 0.01])[:directions], numbers(size, directions, seed=6)
    half = np.power(0.6, np.arange(size + 1.0))
    half -= (half.sum() + half[1:-1].sum()) / (2 * size)
    return CosineStrategy(half, 1 + numbers(size) ** 2, x - x.mean(axis=0), gains)


STRATEGIES: dict[str, Strategy] = {
    "total": KroneckerStrategy((), ()),
    "dense, one axis": KroneckerStrategy.dense((4,), numbers(4, 4)),
    "dense, low rank": KroneckerStrategy.dense((3, 4), low_rank(5, 12)),
    "Kronecker, three axes": KroneckerStrategy(
        (2, 3, 4), [MatrixPart((i,), (n,), numbers(n + 1, n, seed=i)) for i, n in enumerate((2, 3, 4))]
    ),
    "Kronecker, parts out of order": KroneckerStrategy(
        (2, 3, 4),
        [
            MatrixPart((2,), (4,), numbers(3, 4)),
            MatrixPart((0,), (2,), numbers(2, 2)),
            MatrixPart((1,), (3,), low_rank(3, 3)),
        ],
    ),
    "Kronecker, a pair around an axis": KroneckerStrategy(
        (2, 3, 4), [MatrixPart((2, 0), (4, 2), low_rank(6, 8)), MatrixPart((1,), (3,), numbers(3, 3))]
    ),
    "residual, one axis": KroneckerStrategy((5,), [ResidualPart((0,), (5,))]),
    "residual, two cells": KroneckerStrategy((2,), [ResidualPart((0,), (2,))]),
    "residual, scaled, beside a matrix": KroneckerStrategy(
        (3, 4, 2), [ResidualPart((2,), (2,), 0.7), MatrixPart((0,), (3,), numbers(4, 3)), ResidualPart((1,), (4,), 3.1)]
    ),
    "Fourier, one axis": FourierStrategy(kernel(5)),
    "Fourier, two axes": FourierStrategy(kernel(3, 4)),
    "cosine": cosine(6, 3),
    "cosine, two cells": cosine(2, 1),
    "cosine, no directions": cosine(7, 0),
}
each = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=list(STRATEGIES))


def written_out(strategy: Strategy) -> Array:
    """B by definition, columns in C order of the canonical axes: never by `apply`."""
    shape, n = strategy.shape, math.prod(strategy.shape)
    if isinstance(strategy, FourierStrategy):
        cells = list(np.ndindex(shape))
        differences = [[tuple((i - j) % m for i, j, m in zip(a, b, shape, strict=True)) for b in cells] for a in cells]
        return np.array([[strategy.kernel[d] for d in row] for row in differences])
    if isinstance(strategy, CosineStrategy):
        return exactly_cosine(strategy).astype(np.float64)
    assert isinstance(strategy, KroneckerStrategy)
    tensor = np.ones((1, 1))
    for p in strategy.parts:
        tensor = np.asarray(np.kron(tensor, p.written_out()), dtype=np.float64)
    order = [a for p in strategy.parts for a in p.axes]
    tensor = tensor.reshape((len(tensor), *(shape[a] for a in order)))
    return tensor.transpose((0, *(1 + order.index(a) for a in range(len(shape))))).reshape(-1, n)


def fractions(x: Array) -> npt.NDArray[Any]:
    return np.array([Fraction(float(v)) for v in x.ravel()], dtype=object).reshape(x.shape)


def exactly_cosine(strategy: CosineStrategy) -> npt.NDArray[Any]:
    """B of a cosine strategy by its definition, in rational numbers."""
    n, half = strategy.rows, fractions(strategy.half)
    at = range(n)
    reflected = np.array([[half[abs(i - j)] + half[min(i + j + 1, 2 * n - i - j - 1)] for j in at] for i in at])
    x, identity = fractions(strategy.directions), fractions(np.eye(n))
    stretch = identity + (x * fractions(strategy.gains)) @ x.T
    return np.asarray(stretch @ (reflected * fractions(strategy.weights)) @ (identity - Fraction(1, n)))


@each
def test_products_and_pseudo_inverses(strategy: Strategy) -> None:
    b, n = written_out(strategy), math.prod(strategy.shape)
    inverse = np.linalg.pinv(b, rcond=1e-8)
    assert strategy.rows == len(b)
    assert strategy.rank == np.linalg.matrix_rank(b, tol=1e-8)
    for batch in ((), (3,), (2, 2)):
        x, y = numbers(*strategy.shape, *batch, seed=3), numbers(len(b), *batch, seed=4)
        flat = x.reshape(n, *batch)
        for found, expected in (
            (strategy.apply(x), np.tensordot(b, flat, 1)),
            (strategy.represent(x), np.tensordot(inverse.T, flat, 1)),
            (strategy.adjoint(y), np.tensordot(b.T, y, 1).reshape(x.shape)),
            (strategy.solve(y), np.tensordot(inverse, y, 1).reshape(x.shape)),
        ):
            np.testing.assert_allclose(found, expected, atol=1e-9)


@each
def test_factors_in_every_order_of_the_axes(strategy: Strategy) -> None:
    """V = B'B of the exported matrices, whose rows may be in another order."""
    b, shape, d = written_out(strategy), strategy.shape, len(strategy.shape)
    for order in itertools.permutations(range(d)):
        product = np.ones((1, 1))
        for f in strategy.factors(order):
            product = np.asarray(np.kron(product, f), dtype=np.float64)
        expected = b.reshape((len(b), *shape)).transpose((0, *(1 + a for a in order))).reshape(len(b), -1)
        assert product.shape == expected.shape
        np.testing.assert_allclose(product.T @ product, expected.T @ expected, atol=1e-9)


@each
def test_sensitivity_is_an_exact_upper_bound_and_tight(strategy: Strategy) -> None:
    b = written_out(strategy)
    exactly = max(sum(Fraction(float(v)) ** 2 for v in column) for column in b.T)
    bound = strategy.sensitivity_squared
    # The Kronecker product was rounded when it was written out here; its norms as such are those of the parts.
    if isinstance(strategy, KroneckerStrategy):
        exactly = math.prod(
            (max(sum(Fraction(float(v)) ** 2 for v in c) for c in p.written_out().T) for p in strategy.parts),
            start=Fraction(1),
        )
    if isinstance(strategy, CosineStrategy):
        exactly = max((exactly_cosine(strategy) ** 2).sum(axis=0))
    assert exactly <= bound <= exactly * (1 + Fraction(1, 10 ** (10 if isinstance(strategy, CosineStrategy) else 12)))


@each
def test_exact_entries_and_the_bound_on_rounding(strategy: Strategy) -> None:
    for seed, largest in ((1, 10), (2, 10**12)):
        x = np.floor(np.abs(numbers(*strategy.shape, seed=seed)) * largest).astype(np.int64)
        floats = strategy.apply(x.astype(np.float64))
        bound = strategy.rounding_error(x.astype(np.float64))
        assert strategy.shape == () or bound > 0
        assert bound < 1e-11 * max(1, int(x.sum()))
        bounds = strategy.rounding_errors(x.astype(np.float64))
        assert bounds.shape == (strategy.rows,)
        assert (bounds <= bound * 1.001).all()
        b = written_out(strategy)
        for row, found in enumerate(strategy.exact_entries(x)(np.arange(strategy.rows))):
            assert abs(found - Fraction(float(floats[row]))) <= Fraction(float(bounds[row]))
            if isinstance(strategy, CosineStrategy):
                assert found == exactly_cosine(strategy)[row] @ x.astype(object)
            assert float(found) == pytest.approx(float(b[row] @ x.ravel()), abs=1e-9 * largest)


def attributes(shape: Sequence[int]) -> list[Attribute]:
    return [Attribute("xyz"[i], IntegerDomain(0, n - 1)) for i, n in enumerate(shape)]


def uniform(shape: Sequence[int]) -> tuple[Array, ...]:
    return tuple(np.full(n, 1 / n) for n in shape)


def covers(shape: tuple[int, ...]) -> list[list[Factor]]:
    """Products of factors that cover all axes: alone, in pairs (also out of order) and by one factor."""
    a = attributes(shape)
    found: list[list[Factor]] = [[Prefix(a[0]), *map(Range, a[1:2]), *map(Marginal, a[2:])]]
    if len(a) == 2:
        found += [[Affine(a, [1, 2])], [Affine(a[::-1], [1, -1])], [Range(a[1]), Prefix(a[0])]]
    if len(a) == 3:
        found += [[Affine([a[2], a[0]], [1, 2]), Range(a[1])], [Affine(a, [1, 1, 1])]]
        found += [[Prefix(a[1]), Affine([a[0], a[2]], [1, -1])], [Prefix(a[2]), Marginal(a[1]), Range(a[0])]]
    found += [[Matrix(a, numbers(2, math.prod(shape)))]] if a else []
    return found


CASES = [(name, i) for name, s in STRATEGIES.items() if s.shape for i in range(len(covers(s.shape)))]


@pytest.mark.parametrize(("name", "case"), CASES)
def test_variances_and_traces(name: str, case: int) -> None:
    """q' V^+ q for every query of a product, with B's own span, and tr(G V^+) for the same product's Gram."""
    strategy = STRATEGIES[name]
    factors, b, names = covers(strategy.shape)[case], written_out(strategy), "xyz"
    covariance = np.linalg.pinv(b.T @ b, rcond=1e-12, hermitian=True)
    blocks, groups, tensor = [], [], np.ones(())
    for f in factors:
        axes = [names.index(n) for n in f.names]
        projection = Projection(f, (True,) * len(axes), uniform(f.shape))
        gram = projection.gram()
        assert isinstance(gram, Gram)
        blocks.append(Block(projection, axes))
        groups.append(Group(tuple(axes[a] for a in projection.kept_order), gram))
        tensor = np.multiply.outer(tensor, projection.matrix)
    starts = np.cumsum([0] + [1 + len(f.shape) for f in factors])[:-1].tolist()
    where = {n: s + 1 + i for s, f in zip(starts, factors, strict=True) for i, n in enumerate(f.names)}
    counts = [f.count for f in factors]
    order = (*starts, *(where[n] for n in names[: len(strategy.shape)]))
    rows = tensor.transpose(order).reshape(math.prod(counts), -1)
    expected = np.einsum("qi,ij,qj->q", rows, covariance, rows).reshape(counts)
    found = np.ones(counts)
    for part in strategy.variances(blocks):
        found = found * part
    np.testing.assert_allclose(found, expected, atol=1e-8 * max(1.0, float(expected.max())))
    assert strategy.trace(groups) == pytest.approx(float(expected.sum()), rel=1e-7)


INTERVALS: tuple[type[OneAttribute], ...] = (Marginal, Prefix, Range, Circular)


@pytest.mark.parametrize("size", [2, 5, 8])
@pytest.mark.parametrize("kind", INTERVALS)
@pytest.mark.parametrize("power", [-2, 0, 2])
def test_fourier_variances_of_intervals(kind: type[OneAttribute], size: int, power: int) -> None:
    """By length, against the queries written out; the sum and the largest too. Both rising and falling spectra."""
    frequencies = np.arange(size)
    h = np.maximum(np.minimum(frequencies, size - frequencies), 1.0) ** power
    h[0] = 0.0
    strategy = FourierStrategy(np.fft.ifft(np.sqrt(h)).real)
    (a,) = attributes((size,))
    projection = Projection(kind(a), (True,), uniform((size,)))
    b = written_out(strategy)
    covariance = np.linalg.pinv(b.T @ b, rcond=1e-10, hermitian=True)
    expected = np.einsum("qi,ij,qj->q", projection.matrix, covariance, projection.matrix)
    (found,) = strategy.variances([Block(projection, [0])])
    np.testing.assert_allclose(found, expected, atol=1e-11 * expected.max())
    total, largest = strategy.errors([Block(projection, [0])])
    assert total == pytest.approx(expected.sum(), rel=1e-10)
    assert largest == pytest.approx(expected.max(), rel=1e-10)


@pytest.mark.parametrize("kinds", list(itertools.product(INTERVALS, repeat=2)))
def test_fourier_errors_of_products_of_intervals(kinds: tuple[type[OneAttribute], ...]) -> None:
    strategy = STRATEGIES["Fourier, two axes"]
    a = attributes(strategy.shape)
    for axes in ((0, 1), (1, 0)):
        projections = [Projection(k(a[i]), (True,), uniform((a[i].size,))) for k, i in zip(kinds, axes, strict=True)]
        blocks = [Block(p, [i]) for p, i in zip(projections, axes, strict=True)]
        (found,) = strategy.variances(blocks)
        q = np.einsum("ai,bj->abij" if axes == (0, 1) else "aj,bi->abij", *(p.matrix for p in projections))
        expected = (strategy.represent(np.moveaxis(q, (0, 1), (2, 3))) ** 2).sum(axis=0)
        np.testing.assert_allclose(found, expected, atol=1e-11 * expected.max())
        assert strategy.errors(blocks) == pytest.approx((expected.sum(), expected.max()), rel=1e-10)


def test_fourier_variances_where_centring_is_not_uniform_or_queries_are_not_intervals() -> None:
    """Beside an interval on the other axis; a few queries at a time."""
    strategy = STRATEGIES["Fourier, two axes"]
    a = attributes(strategy.shape)
    u = np.array([0.5, 0.25, 0.25])
    for factor, weights in (
        (Range(a[0]), u),
        (Random(a[:1], 0.5, 9, 3), u),
        (Random(a[:1], 0.5, 9, 3), np.ones(3) / 3),
    ):
        projections = [Projection(factor, (True,), (weights,)), Projection(Circular(a[1]), (True,), uniform((4,)))]
        blocks = [Block(p, [i]) for i, p in enumerate(projections)]
        q = np.einsum("ai,bj->ijab", *(p.matrix for p in projections))
        expected = (strategy.represent(q) ** 2).sum(axis=0)
        np.testing.assert_allclose(strategy.variances(blocks)[0], expected, atol=1e-11 * expected.max())
        assert strategy.errors(blocks) == pytest.approx((expected.sum(), expected.max()), rel=1e-10)


def test_fourier_variances_too_large_are_refused_before_they_are_made() -> None:
    n = 40_000
    frequencies = np.minimum(np.arange(n), n - np.arange(n)).astype(np.float64)
    strategy = FourierStrategy(np.fft.ifft(np.sqrt(frequencies)).real)
    (a,) = attributes((n,))
    block = Block(Projection(Circular(a), (True,), uniform((n,))), [0])
    with pytest.raises(SizeError, match=r"variances of a family needs 12\.8 GB.*limit.*smaller family"):
        strategy.variances([block])
    # Their sum and maximum need no such table: sin^2(pi k L / n) summed over the lengths is n / 2.
    wave = 2 * np.sin(np.pi * np.arange(1, n) / n) ** 2
    expected = n * (1 / (wave * strategy.eigenvalues[1:] ** 2)).sum()
    total, largest = strategy.errors([block])
    assert total == pytest.approx(expected, rel=1e-10)
    assert total / n**2 < largest < 2 * total / n**2


def test_components_are_the_finest_common_blocks() -> None:
    assert components([(0, 1), (2,), (3,)], [(1, 2), (0,), (3,)]) == [([0, 1], [0, 1]), ([2], [2])]
    assert components([(2, 0), (1,)], [(0,), (1,), (2,)]) == [([0], [0, 2]), ([1], [1])]
    assert components([], []) == []


@pytest.mark.parametrize("kind", ["rp", "wff"])
def test_a_group_too_large_for_exact_solvers_keeps_a_whole_strategy(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A random family over a pair, times a prefix: the pair falls back to a basis that has a part per axis."""
    monkeypatch.setattr(optimal, "DENSE_CELLS", 4)
    monkeypatch.setattr(optimal, "SHORT_ENTRIES", 4)
    a = attributes((3, 4, 2))
    grams = []
    for f in (Matrix(a[:2], numbers(12, 12) if kind == "rp" else cyclic(3, 4)), Prefix(a[2])):
        gram = Projection(f, (True,) * len(f.shape), uniform(f.shape)).gram()
        assert isinstance(gram, Gram)
        grams.append(gram)
    problem = Problem((3, 4, 2), (Term((Group((0, 1), grams[0]), Group((2,), grams[1])), 1.0, 1.0),), True)
    (solution,) = solve((problem,))
    b = written_out(solution.strategy)
    assert b.shape[1] == 24
    covariance = np.linalg.pinv(b.T @ b, rcond=1e-10, hermitian=True)
    total = float((np.kron(grams[0].matrix, grams[1].matrix) * covariance).sum())
    assert (b**2).sum(axis=0).max() == pytest.approx(1, abs=1e-9)
    assert solution.loss == pytest.approx(total, rel=1e-7)
    assert solution.bound <= solution.loss * (1 + 1e-9)


def cyclic(*shape: int) -> Array:
    """All shifts of one query: a circulant Gram, for which the Fourier basis beats the residual one."""
    q = np.exp(-np.arange(math.prod(shape), dtype=np.float64)).reshape(shape)
    return np.stack([np.roll(q, s, axis=tuple(range(q.ndim))).ravel() for s in np.ndindex(shape)])


@pytest.mark.parametrize("shape", [(101,), (127,), (1009,), (13, 17), (64,), (11, 100)])
def test_fourier_rounding_error_is_a_bound_for_awkward_lengths(shape: tuple[int, ...]) -> None:
    """Lengths with large prime factors are transformed in other ways than powers of two; the bound must hold."""
    rng = np.random.default_rng(7)
    frequencies = rng.uniform(0.5, 2.0, shape)
    mirrored = np.roll(np.flip(frequencies), [1] * len(shape), axis=tuple(range(len(shape))))
    strategy = FourierStrategy(np.fft.ifftn(frequencies + mirrored).real)
    x = rng.integers(0, 10**6, shape)
    computed = strategy.apply(x.astype(np.float64))
    bound = strategy.rounding_error(x.astype(np.float64))
    rows = rng.integers(0, strategy.rows, 5)
    for row, exactly in zip(rows.tolist(), strategy.exact_entries(x)(rows), strict=True):
        assert abs(Fraction(float(computed[row])) - exactly) <= Fraction(bound)
    assert bound < 1e-3 * np.abs(computed).max()  # it says something
