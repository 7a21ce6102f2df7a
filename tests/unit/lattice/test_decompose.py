"""The closure lattice: the split of queries, the Gram of every node, and which nodes share a problem."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from qcompile.errors import OptionError, SizeError
from qcompile.lattice.decompose import decompose
from qcompile.lattice.lattice import Lattice, Problem, lower_covers
from qcompile.queries.factors import Abs, Affine, Circular, Factor, Marginal, Matrix, Predicate, Prefix, Random, Range
from qcompile.queries.schema import Attribute, IntegerDomain, Schema
from qcompile.queries.workload import Family, Product, Workload
from qcompile.release.answers.single_query import projected
from qcompile.support.arrays import Array
from tests.conformance.helpers import family, integer, workload


def attribute(name: str, size: int, low: int = 0) -> Attribute:
    return Attribute(name, IntegerDomain(low, low + size - 1))


def attributes(*sizes: int) -> list[Attribute]:
    return [attribute("abcdefgh"[i], n) for i, n in enumerate(sizes)]


def lattice(schema: list[Attribute], *families: tuple[Factor, ...], u: dict[str, Array] | None = None) -> Lattice:
    made = tuple(Family(f"f{i}", f"f{i}", factors) for i, factors in enumerate(families))
    return decompose(Workload(Schema(tuple(schema)), made), u)


def skewed(size: int) -> Array:
    u = 1.5 + np.sin(1 + 2.3 * np.arange(size))
    return np.asarray(u / u.sum())


def test_the_node_of_names_is_in_schema_order_whatever_theirs() -> None:
    a, b, c = attributes(3, 2, 4)
    closure = lattice([a, b, c], (Prefix(a), Prefix(b)))
    assert closure.node_of(("c", "a")) == closure.node_of(iter("ac")) == (0, 2)
    assert closure.node_of(()) == ()
    assert closure.node_of("ab") in closure.index
    assert closure.node_of("bc") not in closure.index


def dense(problem: Problem) -> Array:
    """The Gram of a problem, cell by cell: the term's groups read off at each pair of cells."""
    cells = list(np.ndindex(problem.shape))
    total = np.zeros((len(cells), len(cells)))
    for t in problem.terms:
        for (i, a), (j, b) in itertools.product(enumerate(cells), repeat=2):
            value = t.weighted
            for g in t.groups:
                at = [np.ravel_multi_index([c[x] for x in g.axes], g.gram.shape) for c in (a, b)]
                value *= g.gram.matrix[at[0], at[1]]
            total[i, j] += value
    return total


def node_gram(found: Lattice, node: tuple[int, ...]) -> Array:
    """The Gram of a node from its class, axes back in schema order."""
    index = found.index[node]
    shape, c = found.shape(node), int(found.class_of[index])
    if c < 0:
        return np.zeros((math.prod(shape), math.prod(shape)))
    problem, order = found.classes[c], found.orders[index]
    back = [order.index(i) for i in range(len(order))]
    d = len(shape)
    tensor = dense(problem).reshape((*problem.shape, *problem.shape))
    return tensor.transpose((*back, *(d + b for b in back))).reshape(math.prod(shape), math.prod(shape))


def brute_grams(workload: Workload, u: list[Array]) -> dict[tuple[int, ...], Array]:
    """The Gram of every node, one query at a time."""
    schema, grams = workload.schema, dict[tuple[int, ...], Array]()
    for f in workload.families:
        for product in f.products():
            tensors = [x.contract([None] * len(x.shape)) for x in product.factors]
            positions = [schema.positions[n] for n in product.names]
            for rows in itertools.product(*(range(x.count) for x in product.factors)):
                q: Array = np.ones(())
                for t, r in zip(tensors, rows, strict=True):
                    q = np.multiply.outer(q, t[r])
                q = q.transpose(np.argsort(positions))
                add_query(grams, q, sorted(positions), u, f.weight)
    return grams


def add_query(
    grams: dict[tuple[int, ...], Array], q: Array, positions: list[int], u: list[Array], weight: float
) -> None:
    for kept in itertools.product((False, True), repeat=q.ndim):
        x = q
        for axis in reversed(range(q.ndim)):
            w, n = u[positions[axis]], q.shape[axis]
            operator = np.eye(n) - np.outer(w, np.ones(n)) if kept[axis] else w[:, None]
            x = np.moveaxis(np.tensordot(x, operator, axes=(axis, 0)), -1, axis)
        node = tuple(p for p, k in zip(positions, kept, strict=True) if k)
        grams[node] = grams.get(node, 0.0) + weight * np.outer(x.ravel(), x.ravel())


def test_worked_example_of_the_paper() -> None:
    """q = [[0,1,1],[0,0,1]] on 2 x 3 values, uniform weights (QuerySmasher, figure 2)."""
    a, b = attributes(2, 3)
    q = Predicate([a, b], np.array([[0, 1, 1], [0, 0, 1]], dtype=bool), "figure 2")
    found = lattice([a, b], (q,))
    parts = {found.names(node): value for node, value in projected(found, Product((q,)))}
    sixth = 1 / 6
    assert set(parts) == {(), ("a",), ("b",), ("a", "b")}
    np.testing.assert_allclose(parts[()], 1 / 2, atol=1e-15)
    np.testing.assert_allclose(parts[("a",)], [sixth, -sixth], atol=1e-15)
    np.testing.assert_allclose(parts[("b",)], [-1 / 2, 0, 1 / 2], atol=1e-15)
    np.testing.assert_allclose(parts[("a", "b")], [[-sixth, 2 * sixth, -sixth], [sixth, -2 * sixth, sixth]], atol=1e-15)
    for node, part in projected(found, Product((q,))):
        np.testing.assert_allclose(node_gram(found, node), np.outer(part.ravel(), part.ravel()), atol=1e-15)


A, B, C = attributes(2, 3, 3)
CASES: dict[str, list[tuple[Factor, ...]]] = {
    "total": [()],
    "products": [(Prefix(A), Marginal(B)), (Range(C),), (Circular(B), Prefix(C))],
    "cross": [(Affine([B, A], [2, 1]), Range(C)), (Abs([C, B], [1, -1]),), (Prefix(B), Prefix(C))],
    "explicit": [(Random([C, A], 0.4, 4, 3), Prefix(B)), (Matrix([B], np.array([[1.0, -2, 3]])),)],
    "three": [(Affine([A, B, C], [1, -1, 1]),), (Abs([C, A, B], [1, 2, -2]), )],
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize("reverse", [True, False])
def test_gram_of_every_node_is_the_sum_over_queries(case: str, uniform: bool, reverse: bool) -> None:
    schema = [C, B, A] if reverse else [A, B, C]
    families = tuple(Family(f"f{i}", f"f{i}", factors, weight=1.0 + i) for i, factors in enumerate(CASES[case]))
    workload = Workload(Schema(tuple(schema)), families)
    u = {a.name: np.full(a.size, 1 / a.size) if uniform else skewed(a.size) for a in schema}
    found = decompose(workload, u)
    expected = brute_grams(workload, [u[a.name] for a in schema])
    assert set(found.nodes) == set(expected)
    for node, gram in expected.items():
        np.testing.assert_allclose(node_gram(found, node), gram, atol=1e-9)


def test_closure_is_every_subset_of_a_view_and_edges_are_covers() -> None:
    a, b, c, d = attributes(2, 3, 4, 5)
    found = lattice([a, b, c, d], (Prefix(a), Prefix(b), Prefix(c)), (Prefix(d),))
    assert found.nodes == ((), (0,), (1,), (2,), (3,), (0, 1), (0, 2), (1, 2), (0, 1, 2))
    graph = found.graph()
    assert set(graph.predecessors(("a", "b"))) == {("a",), ("b",)}
    assert graph.number_of_edges() == sum(len(lower_covers(n)) for n in found.nodes)


def test_structural_zeros_are_nodes_without_a_problem() -> None:
    """Prefix queries are never constant; an axis of size 1 has no residual; the zero query has none anywhere."""
    a, b = attributes(1, 3)
    found = lattice([a, b], (Prefix(a), Prefix(b)))
    assert dict(zip(found.nodes, (found.class_of >= 0).tolist(), strict=True)) == {
        (): True, (0,): False, (1,): True, (0, 1): False,
    }  # fmt: skip
    nothing = lattice([a, b], (Predicate([b], np.zeros(3, dtype=bool), "never"),))
    assert (nothing.class_of < 0).all()


def test_size_alone_does_not_make_a_class() -> None:
    """Same sizes, but another factor, form, offset, threshold or seed: another problem."""
    a, b = attributes(4, 4)
    later = attribute("b", 4, 1)
    forms: list[Factor] = [
        Affine([a, b], [1, 1]),
        Affine([a, b], [1, 2]),
        Affine([a, b], [1, 1], [3]),
        Affine([a, b], [1, 1], [4]),
        Affine([a, later], [1, 1], [3]),
        Abs([a, b], [1, -1]),
        Abs([a, later], [1, -1]),
        Random([a, b], 0.5, 7, 1),
        Random([a, b], 0.5, 7, 2),
        Random([a, b], 0.4, 7, 1),
        Random([a, b], 0.5, 8, 1),
    ]
    pairs = [
        attribute(f"x{i}{k}", 4, 1 if f.attributes[1] is later and k else 0)
        for i, f in enumerate(forms)
        for k in (0, 1)
    ]
    moved = [relabelled(f, pairs[2 * i], pairs[2 * i + 1]) for i, f in enumerate(forms)]
    found = lattice(pairs, *((f,) for f in moved))
    classes = {int(found.class_of[found.index[2 * i, 2 * i + 1]]) for i in range(len(forms))}
    assert len(classes) == len(forms)


def relabelled(factor: Factor, *to: Attribute) -> Factor:
    if isinstance(factor, Affine | Abs):
        return type(factor)(to, factor.coefficients, factor.thresholds)
    assert isinstance(factor, Random)
    return Random(to, factor.p, factor.count, factor.seed)


def test_kinds_weights_and_centring_make_classes() -> None:
    a, b, c, d, e = attributes(4, 4, 4, 4, 4)
    found = lattice([a, b, c, d], (Prefix(a),), (Range(b),), (Circular(c),), (Marginal(d),))
    assert len({int(found.class_of[found.index[(i,)]]) for i in range(4)}) == 4
    same = [(Prefix(x),) for x in (a, b, c, d, e)]
    assert len(lattice([a, b, c, d, e], *same).classes) == 2  # the total and one for all five
    u = {"b": skewed(4), "c": skewed(4), "d": skewed(4)[::-1].copy()}
    found = lattice([a, b, c, d, e], *same, u=u)
    of = [int(found.class_of[found.index[(i,)]]) for i in range(5)]
    assert of[0] == of[4]
    assert of[1] == of[2]
    assert len(set(of)) == 3
    weighted = decompose(
        Workload(Schema((a, b)), (Family("p", "p", (Prefix(a),)), Family("q", "q", (Prefix(b),), weight=2.0)))
    )
    assert len(weighted.classes) == 3


def test_relabelled_nodes_are_one_class_whatever_the_order_of_their_axes() -> None:
    a, b, c, d = attributes(3, 4, 4, 3)
    found = lattice(
        [a, b, c, d], (Prefix(a), Range(b)), (Range(c), Prefix(d)), (Affine([a, b], [1, 2]),), (Affine([c, d], [2, 1]),)
    )
    first, second = found.index[0, 1], found.index[2, 3]
    assert found.class_of[first] == found.class_of[second]
    np.testing.assert_allclose(
        node_gram(found, (2, 3)).reshape(4, 3, 4, 3).transpose(1, 0, 3, 2).reshape(12, 12), node_gram(found, (0, 1))
    )


def test_thousands_of_nodes_are_few_classes() -> None:
    schema = [attribute(f"x{i}", 5) for i in range(40)]
    mixed = Workload(Schema(tuple(schema)), (Family("p", "p", tuple(map(Prefix, schema)), choose=(3, 3)),))
    found = decompose(mixed)
    assert len(found.nodes) == 1 + 40 + 780 + 9880
    assert len(found.classes) == 4


@pytest.mark.parametrize("seed", range(4))
def test_classes_do_not_depend_on_the_order_of_attributes_or_families(seed: int) -> None:
    a, b, c, d = attributes(3, 3, 2, 4)
    families: list[tuple[Factor, ...]] = [
        (Affine([a, b], [1, 1]), Prefix(c)),
        (Abs([a, b], [1, -1]),),
        (Prefix(a), Range(b)),
        (Prefix(b), Range(a)),
        (Range(d), Prefix(c), Marginal(a)),
    ]
    reference = grams_by_name(lattice([a, b, c, d], *families))
    order = sorted(range(5), key=lambda i: math.sin(100 * seed + i))
    schema = sorted([a, b, c, d], key=lambda x: math.sin(10 * seed + ord(x.name)))
    found = lattice(schema, *(families[i] for i in order))
    assert len(found.classes) == len(lattice([a, b, c, d], *families).classes)
    for names, gram in grams_by_name(found).items():
        np.testing.assert_allclose(gram, reference[names], atol=1e-11)


def grams_by_name(found: Lattice) -> dict[tuple[str, ...], Array]:
    """Every node's Gram with its axes in alphabetical order."""
    result = {}
    for node in found.nodes:
        names, shape, d = found.names(node), found.shape(node), len(node)
        order = np.argsort(np.array(names)) if names else np.array([], dtype=np.int64)
        tensor = node_gram(found, node).reshape((*shape, *shape)).transpose((*order, *(d + o for o in order)))
        result[tuple(sorted(names))] = tensor.reshape(math.prod(shape), -1)
    return result


def test_sizes_beyond_any_memory_are_refused_before_allocation() -> None:
    a = attribute("income", 10**6)
    with pytest.raises(SizeError, match=r"prefix\(income\) on 1,000,000 values needs 16\.0 TB.*limit is 8\.6 GB.*bins"):
        lattice([a], (Prefix(a),))


@pytest.mark.parametrize(
    ("u", "message"),
    [
        ({"z": np.ones(3) / 3}, "unknown attribute 'z'"),
        ({"a": np.ones(2) / 2}, "3 finite numbers"),
        ({"a": np.ones(3)}, "sum to 1"),
        ({"a": np.array([np.nan, 0.5, 0.5])}, "finite"),
        ({"a": np.array([np.inf, -np.inf, 1])}, "finite"),
    ],
)
def test_centring_weights_are_checked(u: dict[str, Array], message: str) -> None:
    (a,) = attributes(3)
    with pytest.raises(OptionError, match=message):
        lattice([a], (Prefix(a),), u=u)


def test_nodes_past_all_memory_are_refused_before_they_are_listed() -> None:
    attributes = [integer(f"a{i}", 2) for i in range(40)]
    every = family(*map(Marginal, attributes), choose=(1, 40), name="every")
    with pytest.raises(SizeError, match=r"'every' stands for 1,099,511,627,776 or more sets"):
        decompose(workload(attributes, every))
    with pytest.raises(SizeError, match="at most 4,000,000"):
        decompose(workload(attributes, family(*map(Marginal, attributes), name="all at once")))


def test_almost_mirrored_weights_are_mirrored() -> None:
    """Solvers would find and use the symmetry: a strategy centred elsewhere has a bias."""
    a = integer("a", 5)
    u = np.array([0.1, 0.25, 0.3, 0.25, 0.1]) * (1 + 1e-10 * np.arange(5))
    (found,) = decompose(workload([a], family(Prefix(a))), {"a": u / u.sum()}).centring
    assert (found == found[::-1]).all()
    assert np.abs(found - u).max() < 1e-9
    skewed = np.array([0.1, 0.25, 0.3, 0.25, 0.1]) + 1e-5 * np.array([1, 0, 0, 0, -1])
    np.testing.assert_array_equal(decompose(workload([a], family(Prefix(a))), {"a": skewed}).centring[0], skewed)
