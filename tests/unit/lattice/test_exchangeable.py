"""Identities as Grams: the numbers of the matrix, without the matrix."""

import tracemalloc

import numpy as np
import pytest

from qcompile.compiler.passes import compile
from qcompile.errors import SizeError
from qcompile.lattice.gram import ExchangeableGram, Gram
from qcompile.lattice.projection import Projection
from qcompile.queries.factors import Marginal, Prefix
from qcompile.queries.factors.whole_axis import Whole
from qcompile.queries.schema import Attribute, IntegerDomain
from qcompile.solvers.bounds.spectra import scalar, singular_values

LARGE = 30_000


def attribute(size: int, name: str = "a") -> Attribute:
    return Attribute(name, IntegerDomain(0, size - 1))


@pytest.mark.parametrize("size", [2, 3, 7])
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("kind", [Marginal, Whole])
def test_an_exchangeable_gram_has_the_numbers_of_its_matrix(kind: type[Marginal], centred: bool, size: int) -> None:
    u = np.full(size, 1 / size) if centred else np.zeros(size)
    gram = Projection(kind(attribute(size)), (True,), (u,)).gram()
    assert isinstance(gram, ExchangeableGram)
    centring = np.eye(size) - np.outer(u, np.ones(size))
    queries = kind(attribute(size)).contract([None]) @ centring
    matrix = queries.T @ queries
    dense = Gram(gram.key, gram.shape, matrix)
    x = np.arange(6.0 * size).reshape(3, size, 2)
    np.testing.assert_allclose(gram.matrix, matrix, atol=1e-14)
    np.testing.assert_allclose(gram.apply(x, (1,)), dense.apply(x, (1,)), atol=1e-12)
    np.testing.assert_allclose(gram.diagonal, np.diag(matrix), atol=1e-14)
    np.testing.assert_allclose(gram.spectrum, dense.spectrum, atol=1e-14)
    assert gram.trace == pytest.approx(np.trace(matrix), abs=1e-14)
    assert gram.rank == len(gram.eigenvalues) == np.linalg.matrix_rank(matrix, tol=1e-9)
    assert gram.is_circulant
    if gram.trace > 0:
        np.testing.assert_allclose(gram.root.T @ gram.root, matrix, atol=1e-14)
        assert gram.is_diagonal_plus(matrix[0, 0] - matrix[0, 1], matrix[0, 1])
    assert not gram.is_diagonal_plus(matrix[0, 0] - matrix[0, 1] + 1, matrix[0, 1])


def test_a_large_identity_is_known_by_its_structure() -> None:
    gram = Projection(Marginal(attribute(LARGE)), (True,), (np.full(LARGE, 1 / LARGE),)).gram()
    assert isinstance(gram, ExchangeableGram)
    values = singular_values(gram)
    assert values is not None
    assert len(values) == LARGE - 1
    assert gram.is_exchangeable
    assert scalar(gram) == (pytest.approx(1.0), LARGE - 1)  # type: ignore[comparison-overlap]
    with pytest.raises(SizeError, match="limit"):
        _ = Projection(Marginal(attribute(10**6)), (True,), (np.zeros(10**6),)).gram().matrix  # type: ignore[union-attr]


def test_the_marginal_of_many_labels_compiles_in_little_memory() -> None:
    text = f"schema {{ z : integer 0..{LARGE - 1} drop }} workload {{ m : marginal(z) }}"
    tracemalloc.start()
    plan = compile(text)
    assert tracemalloc.get_traced_memory()[1] < 64e6
    tracemalloc.stop()
    assert plan.rmse() == pytest.approx(1, abs=1e-4)  # each cell alone: no strategy is better than by its share of 1/n


def test_a_product_with_many_labels_is_solved_by_its_factors() -> None:
    text = (
        f"schema {{ z : integer 0..{LARGE - 1} drop; a : integer 0..3 drop }} workload {{ m : marginal(z)*prefix(a) }}"
    )
    plan = compile(text, max_memory=10**8)
    assert plan.solutions[-1].solver == "Kronecker of closed form, optimal"
    assert plan.gap < 1e-6


def test_dense_grams_of_several_factors_count_together() -> None:
    text = "schema { a : integer 0..4999 drop; b : integer 0..4998 drop } workload { m : circular(a); n : circular(b) }"
    with pytest.raises(SizeError, match=r"circular\(a\) on 5,000 values beside 1 other needs 799.8 MB .* 700.0 MB"):
        compile(text, max_memory=7 * 10**8)
    assert Prefix(attribute(3)).exchangeable_gram is None
