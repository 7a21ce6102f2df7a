"""Projections of factors: the split of a query, Grams on every subset, and what a key stands for."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from qcompile.lattice.gram import Gram
from qcompile.lattice.projection import Projection, centre, is_uniform, lift, u_key
from qcompile.queries.factors import Abs, Affine, Circular, Factor, Marginal, Matrix, Prefix, Random, Range, base
from qcompile.queries.schema import Attribute, IntegerDomain, Policy
from qcompile.support.arrays import Array


def attribute(name: str, size: int, low: int = 0) -> Attribute:
    return Attribute(name, IntegerDomain(low, low + size - 1))


def weights(size: int, seed: int) -> Array:
    """Uniform for seed 0, else positive weights that sum to 1."""
    u = np.ones(size) if seed == 0 else 1.5 + np.sin(seed + 2.3 * np.arange(size))
    return np.asarray(u / u.sum())


@st.composite
def factors(draw: st.DrawFn) -> Factor:
    sizes = draw(st.lists(st.integers(1, 5), min_size=2, max_size=3))
    chosen = [attribute("abc"[i], n, draw(st.integers(-2, 2))) for i, n in enumerate(sizes)]
    size = math.prod(sizes)
    coefficients = [draw(st.sampled_from([-2, -1, 1, 2])) for _ in chosen]
    return draw(
        st.sampled_from(
            [
                *(kind(chosen[0]) for kind in (Marginal, Prefix, Range, Circular)),
                *(kind(chosen, coefficients) for kind in (Affine, Abs)),
                *(Matrix(chosen, np.sin(np.arange(1.0, 1 + rows * size) ** 1.3).reshape(rows, -1)) for rows in (1, 4)),
                *(Random(chosen, 0.4, count, 7) for count in (1, 3)),
            ]
        )
    )


def masks(factor: Factor) -> list[tuple[bool, ...]]:
    return list(itertools.product((False, True), repeat=len(factor.shape)))


def projected(factor: Factor, kept: tuple[bool, ...], u: tuple[Array, ...]) -> Array:
    """Every query times ``I - 1 u'`` on kept axes and ``u`` on the others, as matrices: ``(count, *kept shape)``."""
    x = factor.contract([None] * len(factor.shape))
    for axis in reversed(range(len(kept))):
        n = factor.shape[axis]
        operator = np.eye(n) - np.outer(u[axis], np.ones(n)) if kept[axis] else u[axis][:, None]
        x = np.moveaxis(np.tensordot(x, operator, axes=(axis + 1, 0)), -1, axis + 1)
    return x.reshape(factor.count, *(n for n, k in zip(factor.shape, kept, strict=True) if k))


@given(factors(), st.integers(0, 3))
def test_an_answer_is_the_sum_of_its_projections_answers(factor: Factor, seed: int) -> None:
    """q . x = sum over A of q_A . x_A for any centring weights."""
    u = tuple(weights(n, seed + i if seed else 0) for i, n in enumerate(factor.shape))
    x = np.sin(0.5 + np.arange(math.prod(factor.shape))).reshape(factor.shape)
    total = np.zeros(factor.count)
    for kept in masks(factor):
        part = Projection(factor, kept, u).matrix.reshape(factor.count, -1)
        margin = x.sum(axis=tuple(i for i, k in enumerate(kept) if not k))
        total += part @ np.ravel(margin)
    np.testing.assert_allclose(total, factor.apply(x), atol=1e-10 * max(1.0, factor.count))


@given(factors(), st.integers(0, 3))
def test_projected_queries_their_answers_and_their_grams(factor: Factor, seed: int) -> None:
    u = tuple(weights(n, seed + i if seed else 0) for i, n in enumerate(factor.shape))
    for kept in masks(factor):
        p = Projection(factor, kept, u)
        expected = projected(factor, kept, u)
        np.testing.assert_allclose(p.matrix, expected, atol=1e-11 * factor.magnitude)
        x = np.cos(np.arange(math.prod(p.shape) * 2)).reshape(*p.shape, 2)
        answers = np.tensordot(expected, x, axes=len(p.shape))
        np.testing.assert_allclose(p.apply(x), answers, atol=1e-10 * factor.magnitude)
        np.testing.assert_allclose(p.quadratic(x), (answers**2).sum(axis=1), atol=1e-9 * factor.magnitude**2)
        check_gram(p, expected)


def check_gram(p: Projection, expected: Array) -> None:
    gram, flat = p.gram(), expected.reshape(len(expected), -1)
    largest = float((flat**2).sum())
    if gram is None:
        assert largest < 1e-18 * p.factor.magnitude**2
    elif isinstance(gram, float):
        assert not any(p.kept)
        assert gram == pytest.approx(largest, abs=1e-10)
    else:
        names = [i for i, k in enumerate(p.kept) if k]
        order = [names.index(a) for a in p.kept_order]
        rows = expected.transpose(0, *(i + 1 for i in order)).reshape(len(expected), -1)
        assert gram.shape == tuple(p.shape[i] for i in order)
        np.testing.assert_allclose(gram.matrix, rows.T @ rows, atol=1e-10 * max(1.0, largest))
        assert gram.trace == pytest.approx(largest, rel=1e-9)


@given(factors(), st.integers(0, 2))
def test_a_gram_has_a_root_of_full_rank_and_a_spectrum(factor: Factor, seed: int) -> None:
    u = tuple(weights(n, seed) for n in factor.shape)
    for kept in masks(factor):
        gram = Projection(factor, kept, u).gram()
        if isinstance(gram, Gram):
            tolerance = 1e-9 * gram.trace
            np.testing.assert_allclose(gram.root.T @ gram.root, gram.matrix, atol=tolerance)
            assert gram.rank == np.linalg.matrix_rank(gram.matrix, tol=1e-8 * gram.trace, hermitian=True)
            waves = np.fft.fftn(np.eye(gram.cells).reshape(gram.cells, *gram.shape), axes=range(1, 1 + len(gram.shape)))
            f = waves.reshape(gram.cells, gram.cells).T / math.sqrt(gram.cells)  # rows are frequencies
            expected = np.einsum("ki,ij,kj->k", f.conj(), gram.matrix, f).real
            np.testing.assert_allclose(gram.spectrum.ravel(), expected, atol=tolerance)


@pytest.mark.parametrize("rows", [1, 2**20])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", [Marginal, Prefix, Range, Circular])
def test_symmetries_of_grams_made_in_pieces(
    kind: type[base.OneAttribute], seed: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same Gram and the same answers, whether rows are taken one by one or all at once."""
    monkeypatch.setattr(base, "ROWS", rows)
    n = 7
    p = Projection(kind(attribute("a", n)), (True,), (weights(n, seed),))
    gram = p.gram()
    assert isinstance(gram, Gram)
    expected = p.matrix.T @ p.matrix
    np.testing.assert_allclose(gram.matrix, expected, atol=1e-12 * gram.trace)
    np.testing.assert_array_equal(gram.matrix, gram.matrix.T)
    waves = np.fft.fft(np.eye(n)) / math.sqrt(n)
    spectrum = np.einsum("ki,ij,kj->k", waves.conj(), expected, waves).real
    np.testing.assert_allclose(gram.spectrum, spectrum, atol=1e-12 * gram.trace)
    assert gram.is_circulant == (seed == 0 and kind in (Marginal, Circular))
    assert gram.is_exchangeable == (seed == 0 and kind is Marginal)


@pytest.mark.parametrize("row", [0, 3, 6])
def test_one_entry_spoils_a_symmetry(row: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "ROWS", 14)  # pieces of two rows, the last one shorter
    matrix = np.eye(7) - 1 / 7
    assert Gram(("x",), (7,), matrix=matrix).is_circulant
    assert Gram(("x",), (7,), matrix=matrix).is_exchangeable
    matrix[row, 5] += 1e-6
    assert not Gram(("x",), (7,), matrix=matrix).is_circulant
    assert not Gram(("x",), (7,), matrix=matrix).is_exchangeable


def test_a_long_gram_takes_one_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Making, centring and examining it: little more memory at once than the matrix itself."""
    monkeypatch.setattr(base, "ROWS", 2**14)
    n = 1000
    made = (attribute("a", n), Attribute("a", IntegerDomain(0, n - 2), Policy("other", "unknown")))
    kinds: tuple[type[base.OneAttribute], ...] = (Prefix, Range, Circular)
    for kind, a in itertools.product(kinds, made):
        tracemalloc.start()
        gram = Projection(kind(a), (True,), (weights(n, 0),)).gram()
        assert isinstance(gram, Gram)
        _ = gram.is_circulant, gram.is_exchangeable, gram.spectrum
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1.2 * 8 * n**2


@pytest.mark.parametrize("kind", [Marginal, Prefix, Range, Circular])
def test_an_axis_of_one_value_has_no_residual(kind: type[Prefix]) -> None:
    p = Projection(kind(attribute("a", 1)), (True,), (np.ones(1),))
    assert p.gram() is None
    assert not p.matrix.any()
    assert Projection(kind(attribute("a", 1)), (False,), (np.ones(1),)).gram() == 1.0


def test_a_factor_that_is_constant_on_an_axis_has_no_residual_there() -> None:
    """Structural zeros are exact: a matrix that does not depend on b, centred with awkward weights."""
    flat = Matrix([attribute("a", 3), attribute("b", 7)], np.repeat([[0.1, 0.7, 1e3]], 7, axis=0).T.reshape(1, 21))
    u = (weights(3, 1), weights(7, 2))
    assert Projection(flat, (False, True), u).gram() is None
    assert Projection(flat, (True, True), u).gram() is None
    assert isinstance(Projection(flat, (True, False), u).gram(), Gram)


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 2))
def test_lift_is_the_adjoint_of_centre(rows: int, size: int, axis_seed: int) -> None:
    axis = axis_seed % 2
    shape = (size, rows) if axis == 0 else (rows, size)
    q, x = np.sin(np.arange(rows * size)).reshape(shape), np.cos(3.0 * np.arange(rows * size)).reshape(shape)
    u = weights(size, 1)
    assert (centre(q, u, axis) * x).sum() == pytest.approx((q * lift(x, u, axis)).sum(), abs=1e-12)
    assert np.abs(np.tensordot(centre(q, u, axis), u, axes=(axis, 0))).max() < 1e-12


SHAPES, LOWS, FORMS = ((2, 3), (3, 2), (3, 3)), ((0, 0), (2, 2), (0, 1)), ((1, 1), (1, -1), (-1, 1), (2, 1))
SMALL: list[Factor] = [
    kind([attribute("x", n, low_x), attribute("y", m, low_y)], c)
    for kind in (Affine, Abs)
    for (n, m), (low_x, low_y), c in itertools.product(SHAPES, LOWS, FORMS)
]
SMALL += [
    kind(attribute("z", n, low))
    for kind in (Marginal, Prefix, Range, Circular)
    for n, low in itertools.product((2, 3), (0, 5))
]


def test_equal_keys_mean_equal_numbers() -> None:
    """Names, lows and exchanged axes do not enter a key; whatever has the same key has the same Gram."""
    seen: dict[object, Array] = {}
    shared = 0
    for factor in SMALL:
        for seeds in itertools.product((0, 1), repeat=len(factor.shape)):
            for kept in masks(factor):
                p = Projection(factor, kept, tuple(weights(n, s) for n, s in zip(factor.shape, seeds, strict=True)))
                gram = p.gram()
                numbers = gram.matrix if isinstance(gram, Gram) else np.array(gram, dtype=float)
                if p.key in seen:
                    shared += 1
                    np.testing.assert_allclose(numbers, seen[p.key], atol=1e-11)
                seen[p.key] = numbers
    assert shared > 100
    assert len(seen) > 100


def test_keys_merge_what_is_the_same_problem() -> None:
    """Exchanged equal axes, other names and common shifts are recognised."""
    uniform = tuple(weights(4, 0) for _ in range(2))

    def key(*names: str, low: int = 0, coefficients: tuple[int, int] = (1, 1)) -> object:
        return Projection(Affine([attribute(n, 4, low) for n in names], coefficients), (True, False), uniform).key

    assert key("a", "b") == key("c", "d")
    assert key("a", "b") == key("a", "b", low=3)
    assert key("a", "b") != key("a", "b", coefficients=(1, -1))
    swapped = Projection(Affine([attribute("a", 4), attribute("b", 4)], (1, 1)), (False, True), uniform).key
    assert key("a", "b") == swapped


def test_uniform_weights_are_recognised() -> None:
    assert is_uniform(np.full(7, 1 / 7))
    assert u_key(np.full(7, 1 / 7)) == ""
    assert not is_uniform(weights(7, 1))
    assert u_key(weights(7, 1)) != u_key(weights(7, 2))
