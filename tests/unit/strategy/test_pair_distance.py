"""The largest distance between two columns of a strategy: against the matrix written out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcompile.queries.factors import Abs, Affine, Circular, Prefix, Range
from qcompile.solvers.solver import solve
from qcompile.strategy import FourierStrategy, KroneckerStrategy, MatrixPart, MixtureStrategy, Strategy
from qcompile.strategy import pair_distance as pairs
from qcompile.support.arrays import Array
from tests.conformance.cases import CASES, Case
from tests.conformance.helpers import family, integers, workload


def written_out(strategy: Strategy) -> Array:
    n = int(np.prod(strategy.shape))
    return strategy.apply(np.eye(n).reshape(*strategy.shape, n))


def by_brute_force(strategy: Strategy) -> float:
    b = written_out(strategy)
    return max(float(((b - b[:, [j]]) ** 2).sum(axis=0).max()) for j in range(b.shape[1]))


def require_tight(strategy: Strategy, tolerance: float = 1e-9) -> None:
    found, true = strategy.pair_sensitivity_squared, by_brute_force(strategy)
    assert isinstance(found, Fraction)
    assert true * (1 - 1e-13) <= found <= true * (1 + tolerance) + 1e-300


def random_part(axes: tuple[int, ...], shape: tuple[int, ...], rows: int, seed: int) -> MatrixPart:
    return MatrixPart(axes, shape, np.sin(1.0 + 1.3 * np.arange(rows * int(np.prod(shape))) + seed).reshape(rows, -1))


def random_product(seed: int = 0) -> KroneckerStrategy:
    parts = [random_part((2, 0), (3, 4), 5, seed), random_part((1,), (2,), 2, seed + 7)]
    return KroneckerStrategy((4, 2, 3), parts)


def random_circulant(shape: tuple[int, ...], seed: int = 0) -> FourierStrategy:
    kernel = np.cos(np.arange(int(np.prod(shape))) * 1.7 + seed).reshape(shape)
    for axis in range(len(shape)):
        kernel = kernel + np.roll(np.flip(kernel, axis), 1, axis)
    return FourierStrategy(kernel)


@pytest.mark.parametrize("seed", range(5))
def test_products(seed: int) -> None:
    require_tight(random_product(seed))


@pytest.mark.parametrize("shape", [(1,), (2,), (7,), (4, 3), (3, 2, 5)])
def test_circulants(shape: tuple[int, ...]) -> None:
    require_tight(random_circulant(shape))


@pytest.mark.parametrize("seed", range(3))
def test_mixtures(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    low = KroneckerStrategy.dense((4, 2, 3), random_part((0, 1, 2), (4, 2, 3), 2, seed).matrix)
    for base in (random_product(seed), random_circulant((4, 2, 3), seed)):
        require_tight(MixtureStrategy([base, low]))
        monkeypatch.setattr("qcompile.strategy.mixture.SEARCHED", 3)  # the sum of both terms' bounds: above, not tight
        bound = MixtureStrategy([base, low]).pair_sensitivity_squared
        assert by_brute_force(MixtureStrategy([base, low])) <= bound
        monkeypatch.undo()


@given(st.lists(st.integers(2, 5), min_size=2, max_size=3), st.integers(0, 10**6), st.sampled_from([1e-12, 1e-3, 0.3]))
def test_combined_pairs_are_an_upper_bound_and_tight(sizes: list[int], seed: int, spread: float) -> None:
    """Parts with columns of nearly equal norm, as solvers leave them, and of quite different ones."""
    rng = np.random.default_rng(seed)
    parts = []
    for n in sizes:
        b = rng.normal(size=(n, n)) - 0.3
        parts.append(b / np.sqrt((b * b).sum(axis=0)) * (1 + spread * rng.uniform(size=n)))
    grams = [b.T @ b for b in parts]
    whole = grams[0]
    for g in grams[1:]:
        whole = np.kron(whole, g)
    d = np.diag(whole)
    true = float((d[:, None] + d - 2 * whole).max())
    assert (
        true * (1 - 1e-12)
        <= pairs.largest_product_distance([pairs.dominating_pairs(b) for b in parts])
        <= true * (1 + 1e-5)
    )


def test_rounding_up_stays_above(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [random_part((0,), (40,), 40, s) for s in (1, 2)]
    exact = pairs.largest_product_distance([p.pairs() for p in parts])
    monkeypatch.setattr(pairs, "KEPT", 20)
    assert exact * (1 - 1e-12) <= pairs.largest_product_distance([p.pairs() for p in parts]) <= 2 * exact


def test_large_products_agree_with_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = integers(30, 40)
    problem = workload([a, b], family(Prefix(a), Range(b)))
    from qcompile.lattice.decompose import decompose

    for solution in solve(decompose(problem).classes, workers=1):
        searched = solution.strategy.pair_sensitivity_squared
        with monkeypatch.context() as m:
            m.setattr(pairs, "SEARCHED", 1)
            strategy = solution.strategy
            if isinstance(strategy, KroneckerStrategy):
                again = KroneckerStrategy(strategy.shape, strategy.parts).pair_sensitivity_squared
                assert searched <= again * (1 + Fraction(1, 10**12))
                assert again <= searched * (1 + Fraction(1, 10**6))


def test_equal_columns_have_no_distance() -> None:
    """Exactly 0, where the arithmetic of a Gram would leave a rounding error: such a node is public."""
    ones = np.full((3, 4), 0.1)
    assert KroneckerStrategy.dense((4,), ones).pair_sensitivity_squared == 0
    assert FourierStrategy(np.full((2, 3), 0.3)).pair_sensitivity_squared == 0
    assert KroneckerStrategy((), []).pair_sensitivity_squared == 0
    both = MixtureStrategy([KroneckerStrategy.dense((4,), ones), KroneckerStrategy.dense((4,), ones)])
    assert both.pair_sensitivity_squared == 0


@pytest.mark.parametrize("case", CASES[:: len(CASES) // 20], ids=str)
def test_strategies_of_all_solvers(case: Case) -> None:
    for solution in case.plan(1e-3).solutions:
        if solution.strategy.shape:
            require_tight(solution.strategy)


@pytest.mark.parametrize("factor", [Affine, Abs])
def test_mixed_pairs_of_medium_size(factor: type[Affine | Abs]) -> None:
    from qcompile.lattice.decompose import decompose

    a, b = integers(12, 12)
    sign = 1 if factor is Affine else -1
    made = workload([a, b], family(Prefix(a), Circular(b)), family(factor([a, b], [1, sign])))
    for solution in solve(decompose(made).classes, workers=1):
        if solution.strategy.shape:
            require_tight(solution.strategy)
