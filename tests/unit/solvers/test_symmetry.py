"""Block-diagonalisation of invariant Grams: orthonormal bases that together span everything and decouple the Gram."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from qcompile.errors import OptionError
from qcompile.lattice.decompose import decompose
from qcompile.queries.factors import Abs
from qcompile.solvers.bounds.roots import dense_root, dense_roots
from qcompile.solvers.exact.optimal import Optimal
from qcompile.solvers.exact.symmetry import find_symmetry, matrix_invariant, root_invariant
from qcompile.support.arrays import Array
from tests.conformance.helpers import family, integers, workload


def invariant(shape: tuple[int, ...], swap: bool, flip: bool, seed: int = 1) -> Array:
    """A positive definite Gram, averaged over the swap of the first two axes and the reversal of all axes."""
    n, d = math.prod(shape), len(shape)
    root = np.sin(seed + np.arange(1.0, 1 + n * n) ** 1.3).reshape(n, n)
    gram = root @ root.T
    tensor = gram.reshape(*shape, *shape)
    if swap:
        order = [1, 0, *range(2, d)]
        tensor = (tensor + tensor.transpose(*order, *(d + o for o in order))) / 2
    if flip:
        tensor = (tensor + np.flip(tensor)) / 2
    return np.asarray(tensor.reshape(n, n))


@pytest.mark.parametrize(
    ("shape", "swap", "flip", "blocks"),
    [
        ((4,), False, False, 1),
        ((4,), False, True, 2),
        ((5,), False, True, 2),
        ((3, 3), True, False, 2),
        ((3, 3), True, True, 4),
        ((3, 3), False, True, 2),
        ((4, 4), True, True, 4),
        ((2, 3), False, True, 2),
        ((2, 2, 3), True, True, 4),
        ((1,), False, True, 1),
    ],
)
def test_blocks_decouple_the_gram(shape: tuple[int, ...], swap: bool, flip: bool, blocks: int) -> None:
    gram = invariant(shape, swap, flip)
    found = find_symmetry(shape, matrix_invariant(gram))
    assert len(found.blocks) == blocks
    basis = np.concatenate([b.sparse().toarray() for b in found.blocks], axis=1)
    np.testing.assert_allclose(basis.T @ basis, np.eye(math.prod(shape)), atol=1e-12)
    restored = sum(b.sparse().toarray() @ b.restrict(gram) @ b.sparse().toarray().T for b in found.blocks)
    np.testing.assert_allclose(restored, gram, atol=1e-10)
    assert found.sizes.sum() == math.prod(shape)


def test_a_vector_of_a_block_has_one_square_on_every_cell_of_an_orbit() -> None:
    """What makes the diagonal of V constant on orbits: |T[cell, column]|^2 is 1 / (size of the orbit)."""
    gram = invariant((4, 4), True, True)
    found = find_symmetry((4, 4), matrix_invariant(gram))
    for b in found.blocks:
        squares = b.sparse().toarray() ** 2
        for column, orbit in enumerate(b.orbits):
            values = squares[:, column][squares[:, column] > 0]
            np.testing.assert_allclose(values, 1 / found.sizes[orbit], atol=1e-12)


@given(st.integers(0, 15), st.floats(1e-9, 1))
def test_a_broken_symmetry_is_not_used(cell: int, change: float) -> None:
    """A Gram that is off by more than rounding on one cell keeps no symmetry that moves this cell."""
    gram = invariant((4, 4), True, True)
    gram[cell, cell] += change * gram[cell, cell]
    found = find_symmetry((4, 4), matrix_invariant(gram))
    row, column = divmod(cell, 4)
    moved_by = [row != column, (row, column) != (3 - row, 3 - column)]
    assert len(found.blocks) == 2 ** (2 - sum(moved_by))


def test_a_symmetry_of_one_gram_only_is_not_used() -> None:
    both, one = invariant((3, 3), True, True), invariant((3, 3), True, False)
    assert len(find_symmetry((3, 3), matrix_invariant(both, one)).blocks) == 2
    assert len(find_symmetry((3, 3), matrix_invariant(both, invariant((3, 3), False, False, 2))).blocks) == 1


def test_expand_is_the_inverse_of_restrict() -> None:
    gram = invariant((3, 3), True, True)
    for b in find_symmetry((3, 3), matrix_invariant(gram)).blocks:
        rows = np.sin(np.arange(2 * len(b.orbits))).reshape(2, -1)
        expanded = b.expand(rows)
        np.testing.assert_allclose(expanded @ gram @ expanded.T, rows @ b.restrict(gram) @ rows.T, atol=1e-10)


@given(st.booleans(), st.booleans(), st.integers(1, 9), st.integers(0, 99))
def test_a_root_shows_the_same_symmetry_as_its_gram(swap: bool, flip: bool, rank: int, seed: int) -> None:
    """Rank-deficient Grams too: an invariant subspace is recognised from R alone."""
    gram = invariant((3, 3), swap, flip, seed)
    values, vectors = np.linalg.eigh(gram)
    # Whole eigenspaces only: their span is invariant when the Gram is.
    root = np.sqrt(values[-rank:])[:, None] * vectors[:, -rank:].T
    expected = find_symmetry((3, 3), matrix_invariant(root.T @ root))
    found = find_symmetry((3, 3), root_invariant(root))
    assert [b.orbits.tolist() for b in found.blocks] == [b.orbits.tolist() for b in expected.blocks]


@pytest.mark.parametrize("noise", [0.0, 1e-16, 1e-14])
def test_a_block_of_rounding_errors_has_rank_0(noise: float) -> None:
    """Its largest eigenvalue is one, too: what counts is the largest of all blocks."""
    gram = np.diag([4.0, 1.0])
    roots = dense_roots([(gram, gram), (noise * gram, noise * gram)])
    assert [len(r) for r in roots] == [2, 0]
    np.testing.assert_allclose(roots[0].T @ roots[0], gram)


def test_a_gram_that_is_singular_on_its_span_has_a_message() -> None:
    with pytest.raises(OptionError, match=r"rank 2 .* are too far apart"):
        dense_root(np.diag([1.0, -1e-18]), np.eye(2))


def test_an_asymmetry_that_is_taken_for_rounding_error_adds_no_direction() -> None:
    """Centring weights off by 1e-10 leave as much of each query in the subspace of the other sign."""
    a, b = integers(3, 3)
    u = np.array([1 / 3 - 7e-11, 1 / 3 + 14e-11, 1 / 3 - 7e-11])
    lattice = decompose(workload([a, b], family(Abs([a, b], [1, -1]))), {"a": u})
    (problem,) = (p for p in lattice.classes if p.shape == (3, 3))
    solution = Optimal(1e-6).solve(problem)
    assert solution.strategy.rank == problem.terms[0].groups[0].gram.rank == 2
