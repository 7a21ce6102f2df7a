"""Answers by selection: they are the rows of the whole table, found and made without the rest of it."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from qcompile.api import Release, compile
from qcompile.errors import OptionError, SizeError
from qcompile.privacy.budget import Budget
from qcompile.queries.factors import Abs, Affine, Circular, Factor, Marginal, Matrix, Prefix, Random, Range
from qcompile.queries.factors.selected import rows_of, with_labels
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, NumericDomain, Schema
from qcompile.queries.workload import Family, Product, Workload
from qcompile.release.answers import intervals, measurements, tables
from qcompile.release.answers.answer_source import AnswerSource
from qcompile.release.answers.selection import MOST_ROWS, SelectedAnswers, select
from qcompile.release.answers.variance_cache import VarianceCache
from qcompile.support.arrays import Array, cells, require_memory

AGE = Attribute("age", IntegerDomain(3, 7))
HOURS = Attribute("hours", IntegerDomain(0, 3))
SEX = Attribute("sex", CategoryDomain(("f", "m")))
PAY = Attribute("pay", NumericDomain((0, 10, 20.5, 40)))
MONTH = Attribute("month", IntegerDomain(1, 4), cyclic=True)

PRODUCTS: dict[str, tuple[Factor, ...]] = {
    "people": (),
    "ages": (Prefix(AGE), Marginal(SEX)),
    "months": (Marginal(SEX), Circular(MONTH)),
    "gap": (Abs([AGE, HOURS], [1, -1]), Marginal(SEX)),
    "sums": (Affine([HOURS, AGE], [1, 2]),),
    "sample": (Random([PAY, MONTH], 0.4, 5, 2),),
}
CHOICES: dict[str, tuple[tuple[Factor, ...], tuple[int, int]]] = {
    "three": ((Prefix(AGE), Marginal(SEX), Range(PAY), Circular(MONTH)), (3, 3)),
    "upto": ((Range(MONTH), Prefix(AGE), Marginal(PAY), Marginal(SEX)), (0, 2)),
    "either": ((Prefix(AGE), Marginal(SEX), Range(AGE)), (1, 1)),
}
NAMES = (*PRODUCTS, *CHOICES)
COLUMNS = ["estimate", "std_error", "lower", "upper"]


def workload() -> Workload:
    products = [Family(name, name, factors) for name, factors in PRODUCTS.items()]
    choices = [Family(name, name, factors, choose=sizes) for name, (factors, sizes) in CHOICES.items()]
    return Workload(Schema((PAY, AGE, SEX, HOURS, MONTH)), (*products, *choices))


def table() -> dict[Any, Any]:
    names = workload().schema.names
    shape = workload().schema.shape(names)
    return {names: np.floor(50 * np.abs(np.sin(np.arange(math.prod(shape)) ** 1.1))).reshape(shape)}


@pytest.fixture(scope="module")
def release() -> Release:
    return compile(workload()).run(table(), Budget(rho=0.5), test_seed=1)


@pytest.fixture(scope="module")
def adaptive() -> Release:
    """Of fifteen pairs of equal attributes some are measured, with more noise or less, and some are not."""
    attributes = tuple(Attribute(f"x{i}", IntegerDomain(0, 3)) for i in range(6))
    pairs = Family("pairs", "pairs", tuple(map(Prefix, attributes)), choose=(2, 2))
    noise = np.abs(np.sin(np.arange(4**6))).reshape([4] * 6)
    dependent = np.floor(9 * noise * (1 + 3 * np.equal.outer(np.arange(4), np.arange(4)).reshape(4, 4, 1, 1, 1, 1)))
    plan = compile(Workload(Schema(attributes), (pairs,)))
    data: dict[Any, Any] = {tuple(a.name for a in attributes): dependent}
    return plan.run(data, Budget(rho=0.0005), mechanism="adaptive", reference="independence", test_seed=2)


def attribute_sets(name: str) -> list[tuple[str, ...]]:
    """The attributes of every product of a family."""
    products = workload().family(name).products()
    return list(dict.fromkeys(tuple(sorted(p.names)) for p in products))


def by_hand(whole: Any, keep: Any) -> list[dict[str, Any]]:
    """The rows of a table that a test in Python keeps."""
    return [row for row in whole.to_pylist() if keep(row)]


def same(found: Any, expected: list[dict[str, Any]]) -> None:
    """The same rows: labels, and numbers up to rounding errors, which depend on the order of additions."""
    rows = found.to_pylist()
    assert len(rows) == len(expected)
    labels = [c for c in found.column_names if c not in COLUMNS]
    assert [[row[c] for c in labels] for row in rows] == [[row[c] for c in labels] for row in expected]
    one, other = (np.array([[row[c] for c in COLUMNS] for row in t], dtype=float) for t in (rows, expected))
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_of_takes_the_products_over_exactly_these_attributes(name: str, release: Release) -> None:
    family = workload().family(name)
    starts = np.cumsum([0, *(p.count for p in family.products())])
    whole = release.answers(name)
    for names in attribute_sets(name):
        parts = [i for i, p in enumerate(family.products()) if set(p.names) == set(names)]
        expected = [row for i in parts for row in whole.slice(starts[i], starts[i + 1] - starts[i]).to_pylist()]
        for order in itertools.permutations(names):
            found = release.answers(name, of=order)
            same(found, expected)
            held = {f.column for i in parts for f in list(family.products())[i].factors}
            assert set(found.column_names) == held | set(COLUMNS)  # no empty columns of other attributes
        if len(names) == 1:
            same(release.answers(name, of=names[0]), expected)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "people"])
def test_where_keeps_the_rows_with_a_label(name: str, release: Release) -> None:
    whole = release.answers(name)
    columns = [c for c in whole.column_names if c not in COLUMNS]
    for column in columns:
        labels = list(dict.fromkeys(x for x in whole[column].to_pylist() if x is not None))
        for label in labels:
            same(release.answers(name, where={column: label}), by_hand(whole, lambda r: r[column] == label))  # noqa: B023
        for some in ({labels[0], labels[-1]}, set(labels)):
            same(release.answers(name, where={column: some}), by_hand(whole, lambda r: r[column] in some))  # noqa: B023


def test_where_on_two_columns_and_with_of(release: Release) -> None:
    wanted = {"age": ["<= 4", "<= 7"], "sex": "m"}
    expected = by_hand(release.answers("three"), lambda r: r["age"] in wanted["age"] and r["sex"] == "m")
    same(release.answers("three", where=wanted), expected)
    found = release.answers("three", of=("sex", "pay", "age"), where=wanted)
    same(found, [{k: v for k, v in row.items() if k != "month"} for row in expected if row["pay"]])
    assert found.column_names == ["age", "sex", "pay", *COLUMNS]
    assert found["age"].chunk(0).dictionary.to_pylist() == wanted["age"]


DESIGNS: dict[str, dict[str, Any]] = {
    "rp": {"solver": "rp"},
    "wff": {"solver": "wff"},
    "optimised": {"centring": "optimised"},
    "blocks": {"blocks": True},
}


@pytest.mark.parametrize("design", DESIGNS)
def test_selections_of_every_design(design: str) -> None:
    """A choice of queries is no interval factor any more: it is projected, and its variances are found, in general."""
    plan = compile(workload(), **DESIGNS[design])
    assert bool(plan.closure.blocks) == (design == "blocks")
    noisy = plan.run(table(), Budget(rho=0.5), test_seed=1)
    for name, column in (("ages", "age"), ("months", "month"), ("sums", "hours + 2*age"), ("three", "pay")):
        whole = noisy.answers(name)
        labels = [x for x in dict.fromkeys(whole[column].to_pylist()) if x is not None][1:4]
        same(noisy.answers(name, where={column: labels}), by_hand(whole, lambda r: r[column] in labels))  # noqa: B023
    found = noisy.answers("three", of=("month", "age", "pay"))
    expected = by_hand(whole, lambda r: r["month"] and r["age"] and r["pay"])
    same(found, [{c: row[c] for c in found.column_names} for row in expected])


@pytest.mark.parametrize("processing", ["none", "nonnegative", "consistent", "integer"])
def test_selections_of_best_estimates(processing: str, release: Release) -> None:
    """A marginal is processed whole, whatever rows are wanted of it."""
    for name in ("ages", "upto"):
        whole = release.answers(name, estimate="best", processing=processing)
        found = release.answers(name, estimate="best", processing=processing, where={"age": "<= 6"})
        same(found, by_hand(whole, lambda r: r["age"] == "<= 6"))
    found = release.answers("upto", estimate="best", processing=processing, of=("age", "sex"))
    same(found, by_hand(whole, lambda r: r["age"] and r["sex"]))


def test_a_selection_has_the_processing_of_its_family(release: Release) -> None:
    """The default must not depend on which rows are asked for."""
    for selected in ({"of": ("pay", "sex")}, {"where": {"sex": "m"}}):
        found = release.answers("upto", estimate="best", **selected)
        assert found.schema.metadata[b"estimate"].endswith(b", none")


@pytest.mark.parametrize("name", NAMES)
def test_counts_are_found_without_listing(name: str, release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, sets = release.answers(name), attribute_sets(name)

    def walked(_: object) -> Iterator[Product]:
        raise AssertionError

    monkeypatch.setattr(Family, "products", walked)
    monkeypatch.setattr(SelectedAnswers, "products", walked)
    assert select(workload(), name).count == whole.num_rows
    for names in sets:
        assert select(workload(), name, of=names).count > 0
    for column in (c for c in whole.column_names if c not in COLUMNS):
        label = next(x for x in whole[column].to_pylist() if x)
        expected = whole[column].to_pylist().count(label)
        assert select(workload(), name, where={column: label}).count == expected


def test_a_selection_of_millions_of_products_takes_no_time() -> None:
    """Each 5 of 60: five million products, of which one, or those of two labels, are found in their symbolic form."""
    attributes = [Attribute(f"x{i}", IntegerDomain(0, 9)) for i in range(60)]
    family = Family("each", "each", tuple(map(Prefix, attributes)), choose=(5, 5))
    huge = Workload(Schema(tuple(attributes)), (family,))
    assert select(huge, "each").count == math.comb(60, 5) * 10**5
    one = select(huge, "each", of=[f"x{i}" for i in (59, 3, 20, 7, 31)])
    (product,) = one.products()
    assert product.names == ("x3", "x7", "x20", "x31", "x59")
    two = select(huge, "each", where={"x3": "<= 4", "x7": ["<= 1", "<= 2"]})
    assert two.count == math.comb(58, 3) * 2 * 10**3
    assert next(two.products()).names == ("x0", "x1", "x2", "x3", "x7")
    with pytest.raises(SizeError, match=r"546,151,200,000 answers of 'each' needs .*of=.*--all"):
        select(huge, "each").require_table()
    with pytest.raises(SizeError, match=r"61,712,000 answers of 'each' needs 31.6 GB"):
        two.require_table()
    select(huge, "each", where={"x3": "<= 4", "x7": "<= 1", "x8": "<= 0"}).require_table()


def test_a_table_has_a_limit_of_rows_too() -> None:
    """A few columns of many rows fit into memory, and are still more than anybody wants by accident."""
    a, b = (Attribute(name, IntegerDomain(0, 99)) for name in "ab")
    selection = select(Workload(Schema((a, b)), (Family("both", "both", (Range(a), Range(b))),)), "both")
    with pytest.raises(SizeError, match=f"25,502,500 answers of 'both' is more than the {MOST_ROWS:,} rows .*--where"):
        selection.require_table()
    replace(selection, factors=(Range(a), Prefix(b))).require_table()


MISTAKES: dict[str, tuple[str, dict[str, Any], str]] = {
    "unknown attribute": ("three", {"of": ("agee", "sex", "pay")}, "unknown attribute 'agee'; did you mean 'age'"),
    "twice": ("three", {"of": ("age", "age", "pay")}, "'age' is named twice"),
    "too few": (
        "three",
        {"of": ("age", "sex")},
        "no product over exactly age, sex; it is over 3 of pay, age, sex, month; family 'ages' has one",
    ),
    "none": ("three", {"of": ()}, "over exactly no attribute; .* family 'people' has one"),
    "other attribute": (
        "ages",
        {"of": ("age", "hours")},
        "exactly age, hours; .* family 'sums' has one",
    ),
    "no other": ("ages", {"of": ("pay", "hours")}, "over exactly pay, hours; it is over age, sex; no other family"),
    "half a factor": ("gap", {"of": ("age", "sex")}, "family 'gap' has no product over exactly age, sex"),
    "no text": ("ages", {"of": 5}, "of takes one text or several, got 5"),
    "unknown column": ("ages", {"where": {"agee": "<= 4"}}, "no label column 'agee'; did you mean 'age'"),
    "column outside of": ("three", {"of": ("age", "sex", "pay"), "where": {"month": "1"}}, "no label column 'month'"),
    "unknown label": (
        "ages",
        {"where": {"age": "<= 8"}},
        "no row has the label '<= 8' in column 'age'; 'age' holds .*; did you mean",
    ),
    "one of two": ("ages", {"where": {"age": ["<= 7", "7"]}}, "label '7' in column 'age'"),
    "no label": ("ages", {"where": {"age": []}}, "names no label of 'age'"),
    "number": ("ages", {"where": {"age": 7}}, r"where\['age'\] takes one text or several, got 7"),
    "no mapping": ("ages", {"where": "age"}, "where maps label columns to labels"),
    "columns apart": ("upto", {"where": {"age": "<= 4", "sex": "m", "pay": "[0, 10)"}}, "has all of the columns"),
    "of alternatives": ("either", {"where": {"age": "<= 4", "sex": "m"}}, "has all of the columns 'age' and 'sex'"),
    "family": ("agess", {"of": "age"}, "no family is called 'agess'"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_name_what_is_there(case: str, release: Release) -> None:
    name, selected, message = MISTAKES[case]
    for ask in (release.answers, release.batches):
        with pytest.raises(OptionError, match=message):
            ask(name, **selected)


def test_intervals_hold_together_for_what_is_selected(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    def width(found: Any) -> float:
        return float(((found["upper"].to_numpy() - found["lower"].to_numpy()) / found["std_error"].to_numpy() / 2)[0])

    whole = release.answers("three", simultaneous=True)
    part = release.answers("three", simultaneous=True, of=("age", "sex", "pay"))
    rows = release.answers("three", simultaneous=True, of=("age", "sex", "pay"), where={"pay": "[0, 10)", "sex": "m"})
    one = release.answers("ages", simultaneous=True, where={"age": "<= 3", "sex": "m"})
    limits = [-intervals.upper_quantile(1 - 0.025 / t.num_rows) for t in (rows, part, whole)]
    assert 1.96 < width(rows) < width(part) < width(whole)
    assert all(width(t) < 1.02 * limit for t, limit in zip((rows, part, whole), limits, strict=True))
    assert width(one) == pytest.approx(1.96, abs=0.12)
    assert whole.schema.metadata[b"interval"] == b"simultaneous 95 %, simulated"
    assert rows.schema.metadata[b"interval"] == b"simultaneous 95 %, simulated, over the selected answers"
    monkeypatch.setattr(intervals, "SIMULATED_QUERIES", 3)
    found = release.answers("three", simultaneous=True, of=("age", "sex", "pay"))
    assert width(found) == pytest.approx(-intervals.upper_quantile(1 - 0.025 / found.num_rows), rel=1e-9)
    with pytest.raises(OptionError, match="biased"):
        release.batches("ages", estimate="best", simultaneous=True)


# --- batches ---


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows", [1, 7, 2**18])
def test_batches_are_the_table_in_pieces(
    name: str, rows: int, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = release.answers(name)
    monkeypatch.setattr(tables, "ROWS", rows)
    monkeypatch.setattr(tables, "FIRST", min(rows, 16))
    batches = release.batches(name)
    assert batches.schema.equals(expected.schema, check_metadata=True)
    found = list(batches)
    assert all(0 < b.num_rows <= rows for b in found)
    assert [row for b in found for row in b.to_pylist()] == expected.to_pylist()
    for column in (c for c in expected.column_names if c not in COLUMNS):  # one dictionary, as Arrow's files want it
        assert len({tuple(b[column].dictionary.to_pylist()) for b in found}) == 1


def test_small_products_share_batches(release: Release) -> None:
    assert len(list(workload().family("upto").products())) == 11
    assert len(list(release.batches("upto"))) == 1


def test_batches_are_made_when_they_are_asked_for(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "FIRST", 1)
    seen, answered = [], AnswerSource.answers

    def answers(self: AnswerSource, product: Product) -> Array:
        seen.append(product.names)
        return answered(self, product)

    monkeypatch.setattr(AnswerSource, "answers", answers)
    batches = iter(release.batches("three"))
    assert not seen
    next(batches)
    assert len(seen) <= 2
    assert len(list(batches)) == 3


def test_equal_numbers_are_computed_once(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all pairs of ten attributes of one size there is one table of variances; of two sizes, three."""
    sizes = [4] * 6 + [3] * 4
    attributes = tuple(Attribute(f"x{i}", IntegerDomain(0, n - 1)) for i, n in enumerate(sizes))
    plan = compile(Workload(Schema(attributes), (Family("f", "f", tuple(map(Prefix, attributes)), choose=(2, 2)),)))
    noisy = plan.run({a.name: np.arange(9) % a.size for a in attributes}, Budget(rho=1), test_seed=1)
    expected = [
        np.sqrt(noisy._measurements.sources[0].variances(p)).ravel() for p in plan.workload.families[0].products()
    ]
    seen, computed = [], AnswerSource.variances

    def variances(self: AnswerSource, product: Product) -> Array:
        seen.append(product.names)
        return computed(self, product)

    monkeypatch.setattr(AnswerSource, "variances", variances)
    found = noisy.answers("f")["std_error"].to_numpy()
    np.testing.assert_allclose(found, np.concatenate(expected), rtol=1e-12)
    assert len(seen) == 3


def test_equal_numbers_with_other_noise_are_not_equal(adaptive: Release) -> None:
    """An adaptive run measures some nodes of a class, each as often as it found it worth."""
    source = adaptive._measurements.sources[0]
    noise = {adaptive.variances[i] for i, node in enumerate(adaptive.plan.closure.nodes) if len(node) == 2}
    assert len(noise) > 1
    repeated = VarianceCache(source)
    for product in adaptive.plan.workload.families[0].products():
        np.testing.assert_array_equal(repeated.variances(product), source.variances(product))


def test_an_adaptive_selection_is_the_rows_of_its_whole(adaptive: Release) -> None:
    for estimate in ("best", "unbiased"):
        whole = adaptive.answers("pairs", estimate=estimate)
        for one, other in itertools.combinations([f"x{i}" for i in range(6)], 2):
            found = adaptive.answers("pairs", estimate=estimate, of=(other, one))
            expected = by_hand(whole, lambda r: r[one] and r[other])  # noqa: B023
            same(found, [{c: row[c] for c in found.column_names} for row in expected])
        same(
            adaptive.answers("pairs", estimate=estimate, where={"x1": "<= 2"}),
            by_hand(whole, lambda r: r["x1"] == "<= 2"),
        )
    assert 0 < whole["estimate"].null_count < whole.num_rows


# --- what is read, and what is refused ---


class Watched:
    """A release's measurements, with a note of those that were looked at."""

    def __init__(self, values: Any) -> None:
        self._values, self.seen = values, set[int]()

    def __getitem__(self, node: int) -> Any:
        self.seen.add(node)
        return self._values[node]

    def __len__(self) -> int:
        return len(self._values)


def watched(release: Release) -> tuple[Release, Watched]:
    values = Watched(release.values)
    return replace(release, values=values), values  # type: ignore[arg-type]


def below(release: Release, *names: str) -> set[int]:
    """The nodes on these attributes or fewer of them."""
    closure = release.plan.closure
    return {i for i, node in enumerate(closure.nodes) if set(closure.names(node)) <= set(names)}


def test_only_nodes_below_the_attributes_are_read(release: Release) -> None:
    questions: dict[tuple[str, ...], Any] = {
        ("age", "sex", "pay"): lambda r: r.answers("three", of=("age", "sex", "pay"), simultaneous=True),
        ("age", "sex"): lambda r: r.answers("upto", of=("sex", "age"), where={"age": "<= 4"}),
        ("age", "hours"): lambda r: r.answers("sums"),
        ("pay", "sex"): lambda r: r.marginal(("sex", "pay")),
        ("pay", "month"): lambda r: r.ask("count(pay < 10 and month in {1, 2})"),
        (): lambda r: r.ask("total"),
    }
    for names, question in questions.items():
        copy, values = watched(release)
        question(copy)
        assert values.seen
        assert values.seen <= below(copy, *names), names


def test_the_head_of_a_family_reads_its_first_products_only(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "FIRST", 1)
    copy, values = watched(release)
    next(iter(copy.batches("three")))
    assert values.seen <= below(copy, "age", "sex", "pay") | below(copy, "age", "sex", "month")


def test_best_estimates_that_do_not_fit_are_refused(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are made from everything that was measured; a large file is for unbiased estimates."""
    monkeypatch.setattr(measurements, "require_memory", functools.partial(require_memory, limit=2000))
    copy, values = watched(release)
    for ask in (copy.answers, copy.batches):
        with pytest.raises(SizeError, match=r"best estimates .* needs .* kB .*limit is 2.0 kB; ask for estimate='unb"):
            ask("upto", estimate="best", of=("age", "sex"))
    assert not values.seen
    copy.answers("upto", of=("age", "sex"))


def test_a_product_of_billions_is_answered_by_its_rows() -> None:
    """All intervals of two attributes: 1.4 billion queries, of which some labels choose a few."""
    a, b = (Attribute(name, IntegerDomain(0, 271)) for name in "ab")
    plan = compile(Workload(Schema((a, b)), (Family("both", "both", (Range(a), Range(b))),)), solver="rp")
    data = {"a": np.arange(600) % 272, "b": np.arange(600) // 7 % 272}
    release = plan.run(data, Budget(rho=1), noise="none")
    with pytest.raises(SizeError, match=r"1,378,\d{3},\d{3} answers of 'both' needs"):
        release.answers("both")
    with pytest.raises(SizeError, match=r"answers over a, b needs .*where="):
        next(iter(release.batches("both")))
    inside = (data["a"] <= 5) & (data["b"] >= 3) & (data["b"] <= 60)
    found = release.answers("both", where={"a": "0..5"})
    assert found.num_rows == Range(b).count
    row = found["b"].to_pylist().index("3..60")
    assert found["estimate"][row].as_py() == pytest.approx(inside.sum(), abs=1e-6)
    one = release.answers("both", where={"a": "0..5", "b": "3..60"})
    assert one["estimate"].to_pylist() == [pytest.approx(inside.sum(), abs=1e-6)]
    asked = release.ask("count(a in 0..5 and b in 3..60)")
    assert one["std_error"].to_pylist() == [pytest.approx(asked.std_error, rel=1e-6)]


ALL_KINDS = (
    Marginal(AGE),
    Prefix(AGE),
    Range(AGE),
    Circular(MONTH),
    Affine([HOURS, AGE], [1, 2]),
    Abs([AGE, HOURS], [1, -1], at_least=True),
    Random([PAY, MONTH], 0.4, 20, 2),
)


@pytest.mark.parametrize("factor", ALL_KINDS, ids=lambda f: f.kind)
def test_chosen_rows_are_those_of_the_matrix(factor: Factor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are made one by one, many column by column; in pieces or at once."""
    n = cells(factor.shape)
    matrix = factor.apply(np.eye(n).reshape(*factor.shape, n))
    for chunk in (1, 2**24):
        monkeypatch.setattr("qcompile.queries.factors.selected.CHUNK", chunk)
        for places in (np.array([1]), np.arange(0, factor.count, 2), np.arange(1, factor.count)):
            np.testing.assert_allclose(rows_of(factor, places), matrix[places], atol=1e-12)


def test_chosen_rows_are_judged_as_the_whole_factor_is() -> None:
    """What is a rounding error beside the largest entry is one in a choice of small rows, too."""
    whole = Matrix([SEX], np.array([[1e6, 0.0], [1e-9, 1.0]]))
    (chosen,) = with_labels("sex", [whole], {"row 1"})
    assert chosen is not None
    assert chosen.magnitude == whole.magnitude == 1e6
    assert (chosen.column, chosen.labels(), chosen.count) == ("sex", ["row 1"], 1)
    (all_rows,) = with_labels("sex", [whole], {"row 0", "row 1"})
    assert all_rows is whole


def test_a_marginal_as_a_table(release: Release) -> None:
    found = release.marginal(("sex", "age"))
    rows = found.table()
    assert rows.column_names == ["sex", "age", "estimate", "std_error"]
    assert rows["sex"].to_pylist() == ["f"] * 5 + ["m"] * 5
    assert rows["age"].to_pylist() == ["3", "4", "5", "6", "7"] * 2
    np.testing.assert_array_equal(rows["estimate"].to_numpy(), found.array.ravel())
    np.testing.assert_array_equal(rows["std_error"].to_numpy(), found.std_error.ravel())
    best = release.marginal("age", estimate="best").table()
    assert best["std_error"].null_count == 5
    assert release.marginal(()).table().num_rows == 1
