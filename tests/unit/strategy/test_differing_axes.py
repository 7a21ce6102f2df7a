"""The largest distance of two columns by the axes in which their cells differ, against all pairs written out."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from qcompile.strategy import (
    FourierStrategy,
    KroneckerStrategy,
    MatrixPart,
    MixtureStrategy,
    Part,
    ResidualPart,
    Strategy,
    differing_axes,
)
from qcompile.support.arrays import Array, cells

RNG = np.random.default_rng(5)


def matrix(shape: tuple[int, ...], axes: tuple[int, ...], rows: int = 3) -> MatrixPart:
    own = tuple(shape[a] for a in axes)
    return MatrixPart(axes, own, RNG.normal(size=(rows, cells(own))))


def kronecker(shape: tuple[int, ...], *axes: tuple[int, ...]) -> KroneckerStrategy:
    return KroneckerStrategy(shape, [matrix(shape, a) for a in axes])


def fourier(shape: tuple[int, ...]) -> FourierStrategy:
    kernel: Array = RNG.normal(size=shape)
    mirrored = np.roll(np.flip(kernel), [1] * len(shape), range(len(shape)))
    return FourierStrategy(kernel + mirrored)


def residual(shape: tuple[int, ...]) -> KroneckerStrategy:
    parts: list[Part] = [ResidualPart((i,), (n,), 1.0 + i) for i, n in enumerate(shape)]
    return KroneckerStrategy(shape, parts)


def mixed() -> KroneckerStrategy:
    return KroneckerStrategy((3, 2, 4), [matrix((3, 2, 4), (2, 0)), ResidualPart((1,), (2,), 0.7)])


def one_norm() -> KroneckerStrategy:
    parts = [
        replace(p, matrix=p.matrix / np.linalg.norm(p.matrix, axis=0)) for p in (matrix((3, 4), (i,)) for i in (1, 0))
    ]
    return KroneckerStrategy((3, 4), parts)


STRATEGIES: dict[str, Strategy] = {
    "one axis": kronecker((5,), (0,)),
    "dense": kronecker((3, 4), (0, 1)),
    "axes out of order": kronecker((3, 4), (1, 0)),
    "product": kronecker((3, 2, 4), (2,), (0,), (1,)),
    "an axis of one cell": kronecker((3, 1, 2), (0,), (1,), (2,)),
    "product of one norm": one_norm(),
    "residual": residual((2, 3, 4)),
    "mixed": mixed(),
    "fourier": fourier((4, 3)),
    "fourier of one row": fourier((1, 4)),
    "mixture": MixtureStrategy([kronecker((3, 4), (0,), (1,)), kronecker((3, 4), (0, 1))]),
}


def columns(strategy: Strategy) -> Array:
    count = cells(strategy.shape)
    return strategy.apply(np.eye(count).reshape(*strategy.shape, count))


def by_brute_force(strategy: Strategy) -> list[float]:
    b, places = columns(strategy), list(np.ndindex(strategy.shape))
    found = [0.0] * 2 ** len(strategy.shape)
    for (i, p), (j, q) in itertools.product(enumerate(places), repeat=2):
        differing = sum(1 << a for a, (x, y) in enumerate(zip(p, q, strict=True)) if x != y)
        found[differing] = max(found[differing], float(((b[:, i] - b[:, j]) ** 2).sum()))
    return found


@pytest.mark.parametrize("name", STRATEGIES)
def test_distances_are_those_of_all_pairs(name: str) -> None:
    strategy = STRATEGIES[name]
    np.testing.assert_allclose([float(d) for d in strategy.distances], by_brute_force(strategy), rtol=1e-9)
    check_bounds(strategy)


def check_bounds(strategy: Strategy) -> None:
    assert strategy.distances[0] == 0
    assert len(strategy.distances) == 2 ** len(strategy.shape)
    assert max(strategy.distances) <= strategy.pair_sensitivity_squared
    assert all(
        float(d) >= true * (1 - 1e-15) for d, true in zip(strategy.distances, by_brute_force(strategy), strict=True)
    )


@pytest.mark.parametrize("name", STRATEGIES)
def test_large_nodes_have_upper_bounds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of residual bases, and of parts whose columns have one norm, they are the same numbers."""
    monkeypatch.setattr(differing_axes, "SEARCHED", 1)
    strategy = STRATEGIES[name]
    again: Strategy
    if isinstance(strategy, KroneckerStrategy):
        again = KroneckerStrategy(strategy.shape, strategy.parts)
    elif isinstance(strategy, MixtureStrategy):
        again = MixtureStrategy(strategy.terms)
    else:
        return
    check_bounds(again)
    if name in ("residual", "product of one norm"):
        np.testing.assert_allclose([float(d) for d in again.distances], by_brute_force(strategy), rtol=1e-9)


def test_pieces_of_rows_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = kronecker((3, 4), (0, 1))
    monkeypatch.setattr(differing_axes, "_ENTRIES", 30)
    np.testing.assert_allclose([float(d) for d in strategy.distances], by_brute_force(strategy), rtol=1e-9)


def test_equal_columns_are_no_distance_apart() -> None:
    assert KroneckerStrategy.dense((2, 2), np.ones((1, 4))).distances == (Fraction(0),) * 4
    assert KroneckerStrategy((), []).distances == (Fraction(0),)


def test_many_axes_share_one_number() -> None:
    strategy = residual((2,) * (differing_axes.MOST_AXES + 1))
    assert strategy.distances == (Fraction(0), strategy.pair_sensitivity_squared)
    assert math.isclose(float(strategy.distances[1]), float(strategy.sensitivity_squared) * 4, rel_tol=1e-9)
