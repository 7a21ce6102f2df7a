"""Lower bounds against optima: closed-form spectra, commuting sums, the dual at product weights, properties of L."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from qcompile.lattice.gram import Gram
from qcompile.lattice.lattice import Group, Problem, Term
from qcompile.lattice.projection import Projection, zero_weights
from qcompile.queries.factors import Abs, Affine, Circular, Factor, Marginal, Prefix, Range
from qcompile.queries.schema import Attribute, IntegerDomain
from qcompile.solvers.auto import Auto
from qcompile.solvers.bases.fourier import Fourier
from qcompile.solvers.bases.residual import Residual
from qcompile.solvers.bounds.dual import product_bound
from qcompile.solvers.bounds.lower_bound import (
    commuting_bound,
    dense_bound,
    lower_bound,
    superadditive_bound,
    svd_bound,
)
from qcompile.solvers.bounds.roots import dense_gram
from qcompile.solvers.bounds.spectra import shared_eigenvalues, singular_values
from qcompile.solvers.composite.kronecker import group_problem
from qcompile.solvers.exact.optimal import Optimal, solve_with_weights
from qcompile.support.arrays import Array


def attributes(*shape: int) -> list[Attribute]:
    return [Attribute("abcd"[i], IntegerDomain(0, n - 1)) for i, n in enumerate(shape)]


def group(factor: Factor, raw: bool = False) -> Group:
    """A factor's projected Gram on the axes that its attributes are named after."""
    u = tuple(zero_weights(n) if raw else np.full(n, 1 / n) for n in factor.shape)
    projection = Projection(factor, (True,) * len(factor.shape), u)
    found = projection.gram()
    assert isinstance(found, Gram)
    return Group(tuple("abcd".index(factor.names[i]) for i in projection.kept_order), found)


def gram(factor: Factor, raw: bool = False) -> Gram:
    return group(factor, raw).gram


def problem(shape: tuple[int, ...], *products: tuple[float, Sequence[Factor]], raw: bool = False) -> Problem:
    """A sum of products of factors on attributes a, b, ..., each with its weight."""
    terms = [Term(tuple(group(f, raw) for f in factors), weight, weight) for weight, factors in products]
    return Problem(shape, tuple(terms), not raw)


def random_gram(rng: np.random.Generator, shape: tuple[int, ...], rows: int) -> Gram:
    """Of random queries, centred uniformly on every axis."""
    x = rng.normal(size=(rows, *shape)) * np.exp(rng.normal(size=shape))
    for axis in range(len(shape)):
        x = x - x.mean(axis=axis + 1, keepdims=True)
    return Gram.of_rows(("random", *shape, x.tobytes()), x)


def random_sum(seed: int) -> Problem:
    """Two products and one low-rank group on both axes."""
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(3, 6)), int(rng.integers(3, 5)))
    full = [tuple(Group((i,), random_gram(rng, (n,), n + 2)) for i, n in enumerate(shape)) for _ in range(2)]
    low = (Group((0, 1), random_gram(rng, shape, 2)),)
    return Problem(
        shape, tuple(Term(g, w, w) for g, w in zip((*full, low), rng.uniform(0.2, 5, 3).tolist(), strict=True)), True
    )


@pytest.mark.parametrize("kind", [Prefix, Range])
@pytest.mark.parametrize("raw", [False, True], ids=["centred", "raw"])
@pytest.mark.parametrize("n", [2, 3, 4, 7, 10, 33])
def test_singular_values_in_closed_form(kind: type[Prefix] | type[Range], raw: bool, n: int) -> None:
    found = gram(kind(*attributes(n)), raw)
    values = np.linalg.eigvalsh(found.matrix)
    expected = np.sqrt(values[values > 1e-10 * values[-1]])
    singular = singular_values(found)
    assert singular is not None
    np.testing.assert_allclose(np.sort(singular), expected, rtol=1e-9)


def test_other_singular_values_are_those_of_the_root() -> None:
    found = gram(Affine(attributes(4, 5), [1, 1]))
    singular = singular_values(found)
    assert singular is not None
    values = np.linalg.eigvalsh(found.matrix)
    np.testing.assert_allclose(np.sort(singular), np.sqrt(values[-len(singular) :]), rtol=1e-9)


def test_the_bound_of_a_large_prefix_needs_no_spectrum() -> None:
    found = gram(Prefix(*attributes(2600)))
    assert 0 < svd_bound(found) < Fourier().loss(group_problem(found, True))


A, B = attributes(5, 4)
COMMUTING: dict[str, tuple[list[Factor], list[Factor]]] = {
    "marginal and prefix": ([Marginal(A), Marginal(B)], [Prefix(A), Prefix(B)]),
    "circulants": ([Circular(A), Circular(B)], [Marginal(A), Circular(B)]),
    "marginal and affine": ([Affine([A, B], [1, 1])], [Affine([A, B], [1, 1])]),
    "raw marginal and range": ([Marginal(A), Marginal(B)], [Range(A), Prefix(B)]),
}


@pytest.mark.parametrize("name", COMMUTING)
def test_commuting_terms_have_the_svd_bound_of_their_sum(name: str) -> None:
    first, second = COMMUTING[name]
    p = problem((5, 4), (2.0, first), (0.3, second), raw=name.startswith("raw"))
    assert commuting_bound(p) == pytest.approx(dense_bound(p), rel=1e-9)


def test_an_unsplit_axis_of_one_value_is_a_number() -> None:
    one = attributes(4, 1)
    p = problem((4, 1), (1.0, [Prefix(one[0]), Range(one[1])]), (2.0, [Marginal(one[0]), Prefix(one[1])]), raw=True)
    assert commuting_bound(p) == pytest.approx(dense_bound(p), rel=1e-9)


def test_terms_that_do_not_commute_have_no_such_bound() -> None:
    assert commuting_bound(problem((5, 4), (1.0, [Prefix(A), Prefix(B)]), (1.0, [Circular(A), Circular(B)]))) == 0
    assert commuting_bound(problem((5, 4), (1.0, [Prefix(A), Prefix(B)]), (1.0, [Affine([A, B], [1, 1])]))) == 0
    assert shared_eigenvalues([gram(Prefix(A)), gram(Circular(A)), gram(Range(A))]) is None


def test_a_solved_group_gives_a_better_bound_than_its_spectrum() -> None:
    p = problem((5, 4), (2.0, [Prefix(A), Prefix(B)]), (0.5, [Affine([A, B], [1, 1])]))
    better = superadditive_bound(p, lambda g: Optimal(1e-6).solve(group_problem(g, True)).bound)
    assert superadditive_bound(p) < better < Optimal(1e-6).solve(p).loss


@pytest.mark.parametrize("weight", [0.01, 1.0, 100.0])
def test_the_dual_at_product_weights(weight: float) -> None:
    """Against the eigenvalues of the whole, and as a bound that is better than the SVD's."""
    p = problem(
        (5, 4), (1.0, [Prefix(A), Prefix(B)]), (weight, [Affine([A, B], [1, 1])]), (2.0, [Abs([A, B], [1, -1])])
    )
    mu = {g.key: solve_with_weights(group_problem(g, True), 1e-8)[1] for g in (gram(Prefix(A)), gram(Prefix(B)))}
    root = np.sqrt(np.kron(*mu.values()))
    values = np.linalg.eigvalsh(root[:, None] * dense_gram(p) * root)
    expected = float(np.sqrt(np.maximum(values, 0)).sum()) ** 2
    found = product_bound(p, p.terms[0], p.terms[1:], lambda g: mu[g.key])
    assert expected * (1 - 2e-3) <= found <= expected
    optimum = Optimal(1e-7).solve(p)
    assert found <= optimum.loss
    assert weight > 1 or found > lower_bound(p)


def test_the_dual_needs_low_rank_rows_within_the_span() -> None:
    p = problem((5, 4), (1.0, [Prefix(A), Prefix(B)]), (1.0, [Affine([A, B], [1, 1])]))
    raw = problem((5, 4), (1.0, [Affine([A, B], [1, 1])]), raw=True)
    mixed = Problem(p.shape, (p.terms[0], raw.terms[0]), False)
    assert product_bound(mixed, mixed.terms[0], mixed.terms[1:], lambda g: np.full(g.cells, 1 / g.cells)) == 0


@pytest.mark.parametrize("seed", range(6))
def test_no_route_is_below_the_lower_bound(seed: int) -> None:
    p = random_sum(seed)
    optimum = Optimal(1e-7).solve(p)
    auto = Auto(1e-4)
    found = [
        Residual().solve(p),
        Fourier().solve(p),
        auto.alternating(lower_bound).solve(p),
        auto.mixture.solve(p),
    ]
    for s in found:
        assert s.bound <= optimum.loss * (1 + 1e-9)
        assert s.loss >= optimum.bound * (1 - 1e-9)
        assert s.loss == pytest.approx(loss_written_out(p, s.strategy.factors((0, 1))), rel=1e-6)


def loss_written_out(p: Problem, factors: tuple[Array, ...]) -> float:
    """``tr(G V^+) max_j V[j, j]`` from the exported matrices."""
    b: Array = np.ones((1, 1))
    for f in factors:
        b = np.asarray(np.kron(b, f), dtype=np.float64)
    v = b.T @ b
    return float((dense_gram(p) * np.linalg.pinv(v, rcond=1e-11, hermitian=True)).sum() * np.diag(v).max())


def optimal(p: Problem) -> float:
    return Optimal(1e-7).solve(p).loss


@pytest.mark.parametrize("seed", range(5))
def test_the_optimal_loss_is_superadditive_concave_and_monotone(seed: int) -> None:
    p = random_sum(seed)
    one, two = (Problem(p.shape, part, True) for part in (p.terms[:1], p.terms[1:]))
    both = optimal(p)
    assert both >= (optimal(one) + optimal(two)) * (1 - 1e-6)
    previous = optimal(one)
    for share in (0.1, 0.5, 2.0):
        scaled = tuple(Term(t.groups, share * t.weighted, t.unweighted) for t in p.terms[1:])
        loss = optimal(Problem(p.shape, (*p.terms[:1], *scaled), True))
        assert loss >= previous * (1 - 1e-6)  # more weight never lowers what its nodes are given
        if share < 1:
            assert loss >= ((1 - share) * optimal(one) + share * both) * (1 - 1e-6)
        previous = loss


@pytest.mark.parametrize("shares", list(itertools.combinations((0.2, 1.0, 5.0), 2)))
def test_more_weight_never_lowers_a_familys_share(shares: tuple[float, float]) -> None:
    """A node that only one family reaches, beside one that it shares with another."""
    rng = np.random.default_rng(3)
    own, mine, other = random_gram(rng, (4,), 5), random_gram(rng, (5,), 6), random_gram(rng, (5,), 6)

    def share(weight: float) -> float:
        alone = math.sqrt(weight * optimal(group_problem(own, True)))
        terms = tuple(Term((Group((0,), g),), w, w) for g, w in ((mine, weight), (other, 1.0)))
        return alone / (alone + math.sqrt(optimal(Problem((5,), terms, True))))

    assert share(shares[0]) <= share(shares[1]) * (1 + 1e-6)
