"""Every kind of factor against a query matrix written out from its definition."""

from __future__ import annotations

import itertools
import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from qcompile.errors import IntegrityError, SizeError
from qcompile.queries.factors import (
    Abs,
    Affine,
    Circular,
    Factor,
    Marginal,
    Matrix,
    Predicate,
    Prefix,
    Random,
    Range,
    Whole,
)
from qcompile.queries.factors.base import OneAttribute
from qcompile.queries.factors.explicit import hash64
from qcompile.queries.factors.ordered import Ordered
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, NumericDomain, Policy
from qcompile.support.arrays import Array


def attribute(name: str, size: int, low: int = 0) -> Attribute:
    return Attribute(name, IntegerDomain(low, low + size - 1))


@st.composite
def attributes(draw: st.DrawFn, least: int, most: int) -> list[Attribute]:
    count = draw(st.integers(least, most))
    sizes = st.integers(1, 6 if count < 3 else 3)
    return [attribute("abc"[i], draw(sizes), draw(st.integers(-3, 3))) for i in range(count)]


@st.composite
def thresholds_of(draw: st.DrawFn, kind: type[Affine] | type[Abs]) -> Factor:
    chosen = draw(attributes(2, 3))
    coefficients = [draw(st.sampled_from([-3, -2, -1, 1, 2, 3])) for _ in chosen]
    levels = draw(st.none() | st.lists(st.integers(-12, 12), min_size=1, max_size=5, unique=True).map(sorted))
    constant = draw(st.integers(-3, 3))
    return kind(chosen, coefficients, levels, constant=constant, at_least=draw(st.booleans()))


@st.composite
def explicit(draw: st.DrawFn) -> Factor:
    chosen = draw(attributes(1, 3))
    size = math.prod(a.size for a in chosen)
    rows = draw(st.integers(1, 4))
    kind = draw(st.sampled_from(["matrix", "predicate", "random"]))
    if kind == "random":
        return Random(chosen, draw(st.sampled_from([0.1, 0.5, 1.0])), rows, draw(st.integers(0, 2**64 - 1)))
    if kind == "predicate":
        return Predicate(chosen, np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size))), "text")
    entries = st.lists(st.floats(-9, 9), min_size=rows * size, max_size=rows * size)
    return Matrix(chosen, np.array(draw(entries)).reshape(rows, size))


def of_each_domain(size: int) -> list[Attribute]:
    """Integers, bins and categories, each without and with an ``other`` cell, which is not counted in the size."""
    domains = (
        IntegerDomain(0, size - 1),
        NumericDomain(tuple(map(float, range(size + 1)))),
        CategoryDomain(tuple(f"c{i}" for i in range(size))),
    )
    policies = (Policy(), Policy("other", "unknown"))
    return [Attribute("a", d, p, cyclic=c) for d in domains for p in policies for c in (False, True)]


ORDERED = (Prefix, Range, Circular)
one_attribute = st.builds(
    lambda kind, size, which: kind(of_each_domain(size)[which]),
    st.sampled_from([Marginal, *ORDERED]),
    st.integers(1, 9),
    st.integers(0, 11),
) | st.builds(
    lambda kind, size: kind(of_each_domain(size)[2], through_other=True), st.sampled_from(ORDERED), st.integers(1, 8)
)
factors = one_attribute | thresholds_of(Affine) | thresholds_of(Abs) | explicit()


def holds(factor: Factor, query: int, code: tuple[int, ...]) -> bool:
    """Whether a query contains a cell, from the definition."""
    n, i = cells_of(factor), code[0]
    if isinstance(factor, Marginal):
        return query == i
    if isinstance(factor, Ordered) and i >= n:
        return False  # the other cell
    if isinstance(factor, Prefix):
        return i <= query
    if isinstance(factor, Range):
        low, high = [(lo, hi) for lo in range(n) for hi in range(lo, n)][query]
        return low <= i <= high
    if isinstance(factor, Circular):
        start, longest_step = query // n, query % n
        return (i - start) % n <= longest_step
    assert isinstance(factor, Affine | Abs)
    levels = factor.thresholds or sorted({form_value(factor, c) for c in np.ndindex(factor.shape)})
    value = form_value(factor, code)
    return value >= levels[query] if factor.at_least else value <= levels[query]


def cells_of(factor: Factor) -> int:
    """The cells that a factor of one attribute speaks of: an ordered one of those of the domain, unless it is old."""
    if isinstance(factor, Ordered) and factor.ordered < factor.size:
        return factor.attribute.domain.size
    return factor.shape[0]


def form_value(factor: Affine | Abs, code: tuple[int, ...]) -> int:
    lows = [a.domain.low for a in factor.attributes if isinstance(a.domain, IntegerDomain)]
    form = factor.constant + sum(c * (low + i) for c, low, i in zip(factor.coefficients, lows, code, strict=True))
    return abs(form) if isinstance(factor, Abs) else form


def matrix(factor: Factor) -> Array:
    """W as ``(count, *shape)``; of an explicit factor its own matrix, whose making is tested below."""
    if isinstance(factor, Matrix | Predicate | Random):
        return factor.contract([None] * len(factor.shape))
    if isinstance(factor, Affine | Abs):
        values = {form_value(factor, c) for c in np.ndindex(factor.shape)}
        count = len(values if factor.thresholds is None else factor.thresholds)
    else:
        n = cells_of(factor)
        count = {"marginal": n, "prefix": n, "range": n * (n + 1) // 2, "circular": n * n}[factor.kind]
    cells = list(np.ndindex(factor.shape))
    rows = [[float(holds(factor, q, code)) for code in cells] for q in range(count)]
    return np.array(rows).reshape(count, *factor.shape)


def numbers(*shape: int) -> Array:
    """Numbers without any pattern that a sum could hide."""
    return np.asarray(np.sin(1.0 + 1.618 * np.arange(math.prod(shape))).reshape(shape))


@given(factors)
def test_count_is_the_number_of_queries(factor: Factor) -> None:
    assert factor.count == len(matrix(factor))


@given(factors, st.sampled_from([(), (1,), (3,), (2, 2)]))
def test_apply_and_adjoint(factor: Factor, batch: tuple[int, ...]) -> None:
    w, k = matrix(factor), len(factor.shape)
    x, y = numbers(*factor.shape, *batch), numbers(factor.count, *batch)
    np.testing.assert_allclose(factor.apply(x), np.tensordot(w, x, axes=k), atol=1e-11)
    np.testing.assert_allclose(factor.adjoint(y), np.tensordot(w, y, axes=(0, 0)), atol=1e-11)


@given(factors)
def test_gram(factor: Factor) -> None:
    w = matrix(factor).reshape(factor.count, -1)
    np.testing.assert_allclose(factor.gram(), w.T @ w, atol=1e-10)


@pytest.mark.parametrize("kind", [Marginal, Prefix, Range, Circular, Whole])
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_lengths_of_intervals_and_products_with_their_gram(kind: type[OneAttribute], size: int) -> None:
    """Every query of one attribute is an interval, perhaps a cyclic one, of as many cells as `lengths` says."""
    factor = kind(attribute("a", size))
    w = np.ones((1, size)) if isinstance(factor, Whole) else matrix(factor)
    edges = np.abs(w - np.roll(w, 1, axis=1)).sum(axis=1)
    assert (edges <= 2).all()
    np.testing.assert_array_equal(factor.lengths(), w.sum(axis=1))
    np.testing.assert_array_equal(factor.length_counts(), np.bincount(factor.lengths(), minlength=size + 1)[1:])
    np.testing.assert_array_equal(factor.gram(), w.T @ w)
    assert factor.gram().flags.writeable  # it is centred in place
    np.testing.assert_allclose(factor.gram_times(numbers(size)), w.T @ (w @ numbers(size)), atol=1e-11)


@given(factors)
def test_contract_on_every_subset_of_the_axes(factor: Factor) -> None:
    w = matrix(factor)
    for kept in itertools.product((False, True), repeat=len(factor.shape)):
        weights = [None if k else numbers(n) for k, n in zip(kept, factor.shape, strict=True)]
        expected = w
        for axis in reversed(range(len(kept))):
            vector = weights[axis]
            if vector is not None:
                expected = np.tensordot(expected, vector, axes=(axis + 1, 0))
        np.testing.assert_allclose(factor.contract(weights), expected, atol=1e-11)


@given(factors, st.integers(1, 4))
def test_quadratic(factor: Factor, rank: int) -> None:
    w, root = matrix(factor), numbers(*factor.shape, rank)
    expected = (np.tensordot(w, root, axes=len(factor.shape)) ** 2).sum(axis=1)
    np.testing.assert_allclose(factor.quadratic(root), expected, atol=1e-10)


@given(factors, st.integers(0, 5), st.integers(0, 9))
def test_labels_are_one_per_query_and_can_be_cut(factor: Factor, start: int, stop: int) -> None:
    labels = factor.labels()
    assert len(labels) == factor.count
    assert factor.labels(start, stop) == labels[start:stop]


@given(one_attribute | thresholds_of(Affine) | thresholds_of(Abs))
def test_labels_of_structured_factors_tell_their_queries_apart(factor: Factor) -> None:
    whole_circle = cells_of(factor) if isinstance(factor, Circular) else 1
    assert len(set(factor.labels())) >= factor.count - whole_circle + 1


@given(factors, factors)
def test_equal_keys_mean_equal_numbers(left: Factor, right: Factor) -> None:
    if left.key == right.key:
        order = [right.axis_order[left.axis_order.index(a)] for a in range(len(left.shape))]
        moved = matrix(right).transpose(0, *(1 + a for a in order))
        np.testing.assert_array_equal(matrix(left), moved)
        if left.attributes == right.attributes:
            assert left == right
            assert hash(left) == hash(right)


@pytest.mark.parametrize("kind", [Affine, Abs])
def test_key_ignores_names_and_shifts_that_cancel_but_nothing_else(kind: type[Affine] | type[Abs]) -> None:
    def form(low_a: int, low_b: int, coefficients: tuple[int, int] = (1, -1)) -> Affine | Abs:
        return kind([attribute("x", 4, low_a), attribute("y", 5, low_b)], coefficients)

    assert form(0, 0).key == form(7, 7).key
    np.testing.assert_array_equal(matrix(form(0, 0)), matrix(form(7, 7)))
    assert form(0, 0).key != form(0, 0, (1, 1)).key
    assert kind([attribute("x", 4), attribute("y", 5)], [1, -1], [1, 2]).key != form(0, 0).key
    assert (form(0, 0).key == form(0, 1).key) == (kind is Affine)  # thresholds of affine follow the shift


@pytest.mark.parametrize("kind", [Affine, Abs])
def test_key_states_thresholds_relative_to_the_values(kind: type[Affine] | type[Abs]) -> None:
    """``a + b <= 5`` over values from 0 is not ``a + b <= 5`` over values from 1, but it is ``a + b <= 6`` there."""

    def form(low: int, threshold: int) -> Affine | Abs:
        return kind([attribute("a", 4, low), attribute("b", 4)], [1, 1], [threshold])

    assert form(0, 5).key != form(1, 5).key
    assert (matrix(form(0, 5)) != matrix(form(1, 5))).any()
    if kind is Affine:
        assert form(0, 5).key == form(1, 6).key


def test_affine_key_ignores_the_order_of_its_terms() -> None:
    a, b = attribute("a", 4), attribute("b", 4)
    assert Affine([a, b], [1, 2]).key == Affine([b, a], [2, 1]).key
    assert Affine([a, b], [1, 2]).key != Affine([a, b], [1, 3]).key


def test_counts_of_the_language() -> None:
    """A + B over 10 and 10 values has 19 queries; abs(A - B) max(n_a, n_b)."""
    a, b = attribute("a", 10), attribute("b", 7)
    assert Affine([a, attribute("b", 10)], [1, 1]).count == 19
    assert Affine([a, b], [1, 1]).count == 16
    assert Abs([a, b], [1, -1]).count == 10
    assert Circular(a).count == 100
    assert Range(a).count == 55


def test_hash_is_fixed_for_ever() -> None:
    """Values of the SplitMix64 finaliser by Python's integers: a change would change every random workload."""
    mask, golden = 2**64 - 1, 0x9E3779B97F4A7C15

    def finalise(z: int) -> int:
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)

    for seed in (0, 7, 2**64 - 1):
        expected = [finalise((finalise(seed) + (i + 1) * golden) & mask) for i in range(5)]
        assert hash64(seed, np.arange(5, dtype=np.uint64)).tolist() == expected
    # SplitMix64 seeded with 0 as published: finaliser(0) is 0.
    assert hash64(0, np.arange(2, dtype=np.uint64)).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]


def test_random_bits_are_fixed_for_ever() -> None:
    bits = Random([attribute("a", 3), attribute("b", 4)], 0.3, 3, 7).contract([None, None])
    assert bits.shape == (3, 3, 4)
    rows = ["".join(str(int(v)) for v in r.ravel()) for r in bits]
    assert rows == ["000000000101", "001000110000", "000100011001"]


def test_random_density_follows_p() -> None:
    bits = Random([attribute("a", 100)], 0.3, 1000, 1).contract([None])
    assert abs(bits.mean() - 0.3) < 5 * math.sqrt(0.3 * 0.7 / bits.size)
    assert Random([attribute("a", 10)], 1.0, 10, 1).contract([None]).all()


def test_threshold_labels() -> None:
    a, b = attribute("a", 3, 5), attribute("b", 2, -1)
    assert Affine([a, b], [2, -1]).labels() == ["<= 10", "<= 11", "<= 12", "<= 13", "<= 14", "<= 15"]
    assert Abs([a, b], [1, -1], [6, 8], at_least=True).labels() == [">= 6", ">= 8"]
    assert Affine([a, b], [2, -1]).form == "2*a - b"
    assert Abs([a, b], [-1, 3], constant=-4).column == "abs(-a + 3*b - 4)"


def test_labels_of_bins_and_of_the_other_cell() -> None:
    income = Attribute("income", NumericDomain((0.0, 10.0, 20.5), closed=False), Policy("other", "unknown"))
    assert Prefix(income).labels() == ["< 10", "< 20.5"]
    assert Range(income).labels() == ["[0, 10)", "[0, 20.5)", "[10, 20.5)"]
    assert Marginal(income).labels() == ["[0, 10)", "[10, 20.5)", "unknown"]
    assert Prefix(income, through_other=True).labels() == ["< 10", "< 20.5", "<= unknown"]
    assert Marginal(Attribute("c", CategoryDomain((True, 1, "1")))).labels() == ["true", "1", "1"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Affine([attribute("a", 2)], [1]),
        lambda: Affine([attribute("a", 2), attribute("a", 2)], [1, 1]),
        lambda: Affine([attribute("a", 2), attribute("b", 2)], [1, 0]),
        lambda: Affine([attribute("a", 2), attribute("b", 2)], [1]),
        lambda: Affine([attribute("a", 2), attribute("b", 2)], [1, 1], [2, 1]),
        lambda: Affine([attribute("a", 2), attribute("b", 2)], [1, 1], []),
        lambda: Affine([attribute("a", 2), attribute("b", 2)], [2**61, 2**61]),
        lambda: Affine([attribute("a", 2), Attribute("b", CategoryDomain(("x", "y")))], [1, 1]),
        lambda: Abs([attribute("a", 2), Attribute("b", IntegerDomain(0, 1), Policy("other", "?"))], [1, 1]),
        lambda: Matrix([attribute("a", 2)], np.array([[1.0, math.nan]])),
        lambda: Matrix([attribute("a", 2)], np.array([[1.0, math.inf]])),
        lambda: Matrix([attribute("a", 2)], np.zeros((0, 2))),
        lambda: Matrix([attribute("a", 2)], np.ones((3, 3))),
        lambda: Predicate([attribute("a", 2)], np.ones(3, dtype=bool), "x"),
        lambda: Random([attribute("a", 2)], 0.0, 3, 1),
        lambda: Random([attribute("a", 2)], math.nan, 3, 1),
        lambda: Random([attribute("a", 2)], 0.5, 0, 1),
        lambda: Random([attribute("a", 2)], 0.5, 1, -1),
    ],
)
def test_impossible_factors_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(IntegrityError):
        make()


@pytest.mark.parametrize("kind", [Marginal, Prefix, Range, Circular])
def test_a_gram_too_large_is_refused_before_it_is_made(kind: type[Prefix]) -> None:
    with pytest.raises(SizeError, match=r"16\.0 TB.*limit is 8\.6 GB.*bins"):
        kind(attribute("a", 10**6)).gram()


@pytest.mark.parametrize("kind", [Range, Circular])
def test_a_query_matrix_too_large_is_refused_before_it_is_made(kind: type[Range]) -> None:
    with pytest.raises(SizeError, match=r"query matrix of .*limit is 8\.6 GB.*bins"):
        kind(attribute("a", 5000)).contract([None])
    with pytest.raises(SizeError, match=r"projection of .*limit is 8\.6 GB.*bins"):
        kind(attribute("a", 10**5)).contract([np.full(10**5, 1e-5)])


def test_a_form_too_large_is_refused_before_it_is_made() -> None:
    form = Affine([attribute("a", 10**6), attribute("b", 10**6)], [1, 1])
    assert form.count == 2 * 10**6 - 1
    with pytest.raises(SizeError, match=r"form a \+ b.*32\.0 TB.*limit"):
        form.contract([None, None])
    with pytest.raises(SizeError, match=r"values of the affine form a \+ 1000000\*b.*8\.0 TB.*limit"):
        _ = Affine(form.attributes, [1, 10**6]).count
    with pytest.raises(SizeError, match="limit"):
        Random([attribute("a", 10**6)], 0.5, 10**6, 1).contract([None])
