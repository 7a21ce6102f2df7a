"""Prefixes and ranges of long axes as Grams: the numbers of the matrix, without the matrix."""

import numpy as np
import pytest

from qcompile.errors import SizeError
from qcompile.lattice import ordered_grams
from qcompile.lattice.decompose import require_grams
from qcompile.lattice.gram import Gram
from qcompile.lattice.ordered_grams import OrderedGram, has_closed_gram, is_centred_prefix
from qcompile.lattice.projection import Projection
from qcompile.queries.factors import Circular, Prefix, Range
from qcompile.queries.factors.ordered import Ordered
from qcompile.queries.schema import Attribute, IntegerDomain, Policy, Schema
from qcompile.queries.workload import Family, Workload
from qcompile.support.memory import memory_budget


def attribute(size: int, *, other: bool = False) -> Attribute:
    policy = Policy("other", "other") if other else Policy("drop")
    return Attribute("a", IntegerDomain(0, size - 1), policy)


@pytest.mark.parametrize("size", [2, 3, 8, 9])
@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("kind", [Prefix, Range])
def test_a_closed_gram_has_the_numbers_of_its_matrix(
    kind: type[Ordered], other: bool, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordered_grams, "WRITTEN_CELLS", 1)
    factor = kind(attribute(size, other=other))
    n = factor.size
    gram = Projection(factor, (True,), (np.full(n, 1 / n),)).gram()
    assert isinstance(gram, OrderedGram)
    queries = factor.contract([None])
    queries = queries - queries.mean(axis=1, keepdims=True)
    matrix = queries.T @ queries
    dense = Gram(gram.key, gram.shape, matrix)
    x = np.sin(np.arange(6.0 * n)).reshape(3, n, 2)
    np.testing.assert_allclose(gram.matrix, matrix, atol=1e-12)
    np.testing.assert_allclose(gram.apply(x, (1,)), dense.apply(x, (1,)), atol=1e-12)
    np.testing.assert_allclose(gram.diagonal, np.diag(matrix), atol=1e-12)
    np.testing.assert_allclose(gram.spectrum, dense.spectrum, atol=1e-12)
    assert gram.trace == pytest.approx(np.trace(matrix), abs=1e-12)
    assert is_centred_prefix(gram) == (kind is Prefix)


def test_which_factors_have_a_closed_gram() -> None:
    assert not has_closed_gram(Prefix(attribute(4096)))
    assert has_closed_gram(Prefix(attribute(4097)))
    assert has_closed_gram(Range(attribute(2**18)))
    assert not has_closed_gram(Prefix(attribute(2**18 + 1)))
    assert not has_closed_gram(Circular(attribute(5000)))


def test_only_uniform_centring_needs_no_matrix() -> None:
    factor = Prefix(attribute(5000))
    workload = Workload(Schema((factor.attribute,)), (Family("p", "p", (factor,)),))
    with memory_budget(10**8):
        require_grams(workload)
        with pytest.raises(SizeError, match=r"prefix\(a\) on 5,000 values"):
            require_grams(workload, {"a": np.arange(5000.0)})
        require_grams(workload, {"a": np.full(5000, 1 / 5000)})
        gram = Projection(factor, (True,), (np.full(5000, 1 / 5000),)).gram()
        assert isinstance(gram, OrderedGram)
        with pytest.raises(SizeError, match="limit"):
            _ = gram.matrix
