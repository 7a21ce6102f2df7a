"""In-axis operations: against explicit Kronecker matrices, and there and back without loss."""

from __future__ import annotations

import itertools
import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from benchmarks.routes import inaxis
from benchmarks.routes.inaxis import center, decomp, decomp_all, recon, recon_all, smear, sub, sum_axis
from qcompile.errors import InternalError
from qcompile.support.arrays import Array

SHAPES = [(), (1,), (5,), (3, 4), (1, 3), (2, 1, 3), (1, 1), (2, 3, 4), (4, 3, 2, 2), (2, 2, 2, 2, 2)]
LARGE = [
    (70_000,),
    (40_000, 2),
    (2, 40_000),
    (30, 1, 40, 31),
    (17, 16, 15, 14),
    (7, 7, 1, 7, 7, 2, 7),
    (2, 3, 2, 60, 25, 23),
]
"""Past what goes through the axes in one piece: one axis, slices larger than a block and within it, many of them."""


def subsets(ndim: int) -> list[tuple[int, ...]]:
    return [kept for size in range(ndim + 1) for kept in itertools.combinations(range(ndim), size)]


def differences(n: int) -> Array:
    """The matrix of *sub*."""
    return np.hstack([-np.ones((n - 1, 1)), np.eye(n - 1)])


def kronecker(shape: tuple[int, ...], kept: tuple[int, ...]) -> Array:
    """The matrix of Decomp from a marginal to its residual on the kept axes."""
    factors = [differences(n) if axis in kept else np.ones((1, n)) for axis, n in enumerate(shape)]
    matrix: Array = np.ones((1, 1))
    for factor in factors:
        matrix = np.asarray(np.kron(matrix, factor), dtype=np.float64)
    return matrix


def table(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(scale=100.0, size=shape)


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, ...]:
    """Up to seven axes and some thousand cells."""
    sizes: list[int] = []
    for _ in range(draw(st.integers(0, 7))):
        sizes.append(draw(st.integers(1, min(40, max(1, 20_000 // math.prod(sizes))))))
    return tuple(sizes)


@given(shapes(), st.integers(0, 2**32 - 1))
def test_the_parts_of_all_residuals_add_up_to_the_marginal(shape: tuple[int, ...], seed: int) -> None:
    m = table(shape, seed)
    total = sum((recon(decomp(m, kept), shape, kept) for kept in subsets(len(shape))), np.zeros(shape))
    np.testing.assert_allclose(total, m, rtol=0, atol=1e-13 * 2 ** len(shape) * np.abs(m).max())


@given(shapes(), st.integers(0, 2**32 - 1))
def test_a_residual_is_recovered_from_its_own_part_and_absent_from_others(shape: tuple[int, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    kept = tuple(axis for axis in range(len(shape)) if rng.random() < 0.6)
    z = rng.normal(size=[shape[axis] - 1 for axis in kept])
    part = recon(z, shape, kept)
    for other in subsets(len(shape)):
        expected = z if other == kept else np.zeros([shape[axis] - 1 for axis in other])
        np.testing.assert_allclose(decomp(part, other), expected, rtol=0, atol=1e-12 * max(1, math.prod(shape)))


@given(shapes(), st.integers(0, 2**32 - 1))
def test_all_residuals_at_once_are_those_one_by_one(shape: tuple[int, ...], seed: int) -> None:
    m = table(shape, seed)
    found = decomp_all(m)
    assert set(found) == set(subsets(len(shape)))
    for kept, z in found.items():
        expected = decomp(m, kept)
        assert z.shape == expected.shape
        np.testing.assert_allclose(z, expected, rtol=0, atol=1e-13 * 2 ** len(shape) * (1 + np.abs(m).sum()))
    np.testing.assert_allclose(recon_all(found, shape), m, rtol=0, atol=1e-12 * (1 + np.abs(m).sum()))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_both_directions_are_the_kronecker_matrices(shape: tuple[int, ...]) -> None:
    m = table(shape)
    for kept in subsets(len(shape)):
        matrix = kronecker(shape, kept)
        z = decomp(m, kept)
        assert z.shape == tuple(shape[axis] - 1 for axis in kept)
        assert z.dtype == np.float64
        np.testing.assert_allclose(z.ravel(), matrix @ m.ravel(), rtol=0, atol=1e-10)
        part = recon(z, shape, kept)
        assert part.shape == shape
        np.testing.assert_allclose(part.ravel(), np.linalg.pinv(matrix) @ z.ravel(), rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", LARGE, ids=str)
def test_large_arrays_in_pieces_are_the_same_axis_by_axis(shape: tuple[int, ...]) -> None:
    m = np.random.default_rng(1).integers(0, 1000, shape)
    for kept in [tuple(range(len(shape))), tuple(range(1, len(shape))), tuple(range(0, len(shape), 2))]:
        z = m.astype(float)
        for axis in range(len(shape)):
            first, rest = np.split(z, [1], axis)
            z = rest - first if axis in kept else z.sum(axis, keepdims=True)
        z = z.reshape([shape[axis] - 1 for axis in kept])
        np.testing.assert_array_equal(decomp(m, kept), z)  # whole numbers: every order of sums is exact
        part = z
        for axis in range(len(kept)):
            padded = np.pad(part, [(int(a == axis), 0) for a in range(len(kept))])
            part = padded - padded.mean(axis, keepdims=True)
        part = part.reshape([n if axis in kept else 1 for axis, n in enumerate(shape)])
        part = part / math.prod(n for axis, n in enumerate(shape) if axis not in kept)
        found = recon(z, shape, kept)
        np.testing.assert_allclose(found, np.broadcast_to(part, shape), rtol=0, atol=1e-12 * np.abs(z).max(initial=1))
        thin = recon(z, shape, kept, full=False)
        assert thin.size == math.prod(shape[axis] for axis in kept)
        np.testing.assert_array_equal(np.broadcast_to(thin, shape), found)


@pytest.mark.parametrize("shape", LARGE, ids=str)
def test_large_arrays_come_back_from_all_their_residuals(shape: tuple[int, ...]) -> None:
    m = np.random.default_rng(1).integers(0, 1000, shape)
    found = decomp_all(m)
    for kept in [(), tuple(range(len(shape))), (0,), (len(shape) - 1,)]:
        np.testing.assert_array_equal(found[kept], decomp(m, kept))
    np.testing.assert_allclose(recon_all(found, shape), m, rtol=0, atol=1e-6)


@pytest.mark.parametrize("block", [8, 64])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (5, 4, 3, 2), (1, 30, 2), (30, 1, 3), (6, 5, 4)], ids=str)
def test_the_size_of_the_pieces_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], block: int
) -> None:
    m = table(shape)
    kept = tuple(range(len(shape)))
    whole, part, split = decomp(m, kept), recon(decomp(m, kept), shape, kept), decomp_all(m)
    for name in ("BLOCK", "CHAIN", "SMALL", "TINY"):
        monkeypatch.setattr(inaxis, name, block)
    np.testing.assert_allclose(decomp(m, kept), whole, rtol=0, atol=1e-11)
    np.testing.assert_allclose(recon(whole, shape, kept), part, rtol=0, atol=1e-11)
    for tau, z in decomp_all(m).items():
        np.testing.assert_allclose(z, split[tau], rtol=0, atol=1e-10)
        np.testing.assert_allclose(decomp(m, tau), split[tau], rtol=0, atol=1e-10)


def test_parts_are_orthogonal_and_of_the_right_dimension() -> None:
    shape = (3, 1, 4, 2)
    bases = {}
    for kept in subsets(len(shape)):
        sizes = [shape[axis] - 1 for axis in kept]
        units = np.eye(math.prod(sizes)).reshape(math.prod(sizes), *sizes)
        parts = [recon(z, shape, kept).ravel() for z in units]
        bases[kept] = np.array(parts).reshape(-1, math.prod(shape))
        assert len(bases[kept]) == 0 or np.linalg.matrix_rank(bases[kept]) == len(units)
    for one, other in itertools.combinations(bases, 2):
        np.testing.assert_allclose(bases[one] @ bases[other].T, 0, atol=1e-14)
    assert sum(map(len, bases.values())) == math.prod(shape)


@pytest.mark.parametrize(("shape", "axis"), [((4,), 0), ((3, 5), 0), ((3, 5), 1), ((2, 3, 4), 1), ((60, 70, 80), 1)])
def test_single_axes(shape: tuple[int, ...], axis: int) -> None:
    n = shape[axis]
    m = table(shape)

    def times(matrix: Array, x: Array) -> Array:
        return np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)

    np.testing.assert_allclose(sum_axis(m, axis), m.sum(axis, keepdims=True), rtol=0, atol=1e-9)
    np.testing.assert_allclose(sub(m, axis), times(differences(n), m), rtol=0, atol=1e-11)
    z = sub(m, axis)
    inverse = np.linalg.pinv(differences(n)).astype(np.float64)
    np.testing.assert_allclose(center(z, axis), times(inverse, z), rtol=0, atol=1e-10)
    total, ones = sum_axis(m, axis), np.ones((n, 1))
    np.testing.assert_allclose(smear(total, axis, n), times(ones / n, total), rtol=0, atol=1e-10)
    np.testing.assert_allclose(smear(total, axis, n) + center(z, axis), m, rtol=0, atol=1e-10)


def test_an_axis_of_one_value_has_no_differences() -> None:
    m = np.array([[3, 4, 9]])
    assert sub(m, 0).shape == (0, 3)
    assert decomp(m, (0, 1)).shape == (0, 2)
    np.testing.assert_array_equal(decomp(m, (1,)), [1, 6])
    np.testing.assert_array_equal(recon(np.zeros((0, 2)), (1, 3), (0, 1)), np.zeros((1, 3)))
    np.testing.assert_array_equal(center(np.zeros((0, 3)), 0), np.zeros((1, 3)))


def test_integers_are_exact_and_arguments_are_left_alone() -> None:
    m = np.arange(24).reshape(2, 3, 4) * 2**40
    before = m.copy()
    np.testing.assert_array_equal(decomp(m, ()), m.sum())
    assert decomp(m, (0, 1, 2)).dtype == np.float64
    decomp_all(m)
    np.testing.assert_array_equal(m, before)
    for x in (table((3, 4)), table((200, 200))):
        copy = x.copy()
        z = decomp(x, (0, 1))
        kept = z.copy()
        recon(z, x.shape, (0, 1))
        recon_all({(0, 1): z}, x.shape)
        decomp_all(x)
        np.testing.assert_array_equal(x, copy)
        np.testing.assert_array_equal(z, kept)


def test_any_layout_in_memory_will_do() -> None:
    m = table((12, 60, 50))
    for order in itertools.permutations(range(3)):
        view = np.ascontiguousarray(m.transpose(order)).transpose(np.argsort(order))
        for kept in subsets(3):
            np.testing.assert_allclose(decomp(view, kept), decomp(m, kept), rtol=0, atol=1e-8)


def test_some_residuals_make_the_sum_of_their_parts() -> None:
    shape = (4, 3, 5)
    found = decomp_all(table(shape))
    some = {kept: found[kept] for kept in [(), (1,), (0, 2)]}
    expected = sum((recon(z, shape, kept) for kept, z in some.items()), np.zeros(shape))
    np.testing.assert_allclose(recon_all(some, shape), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("kept", [(1, 0), (0, 0), (2,), (-1,)], ids=str)
def test_axes_out_of_order_or_out_of_range_are_refused(kept: tuple[int, ...]) -> None:
    with pytest.raises(InternalError, match="in ascending order"):
        decomp(table((3, 4)), kept)
    with pytest.raises(InternalError, match="in ascending order"):
        recon(np.zeros([1] * len(kept)), (3, 4), kept)
    with pytest.raises(InternalError, match="in ascending order"):
        recon_all({kept: np.zeros([1] * len(kept))}, (3, 4))


def test_a_residual_of_another_shape_is_refused() -> None:
    with pytest.raises(InternalError, match=r"cannot have the shape \(3,\)"):
        recon(np.zeros(3), (3, 4), (0,))
    with pytest.raises(InternalError, match=r"cannot have the shape \(1,\)"):
        recon_all({(0,): np.zeros(1)}, (3, 4))
