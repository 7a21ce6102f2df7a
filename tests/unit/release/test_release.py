"""What a release answers: families, marginals, single questions, and their intervals agree with each other."""

from __future__ import annotations

import itertools
import math
import pathlib
from typing import Any

import numpy as np
import pytest

from qcompile import grammar
from qcompile.api import Release, compile, load_release
from qcompile.errors import NotEstimableError, OptionError, SizeError, WorkloadError
from qcompile.privacy.budget import Budget
from qcompile.queries.factors import Abs, Affine, Circular, Factor, Marginal, Prefix, Random, Range
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, NumericDomain, Schema
from qcompile.queries.workload import Family, Product, Workload
from qcompile.release.answers import intervals
from qcompile.strategy.variances import product_variances
from qcompile.support.arrays import Array

AGE = Attribute("age", IntegerDomain(3, 7))
HOURS = Attribute("hours", IntegerDomain(0, 3))
SEX = Attribute("sex", CategoryDomain(("f", "m")))
PAY = Attribute("pay", NumericDomain((0, 10, 20.5, 40)))
MONTH = Attribute("month", IntegerDomain(1, 4), cyclic=True)
UNUSED = Attribute("unused", IntegerDomain(0, 2))

FAMILIES: dict[str, tuple[Factor, ...]] = {
    "people": (),
    "ages": (Prefix(AGE), Marginal(SEX)),
    "pay": (Range(PAY),),
    "months": (Circular(MONTH), Marginal(SEX)),
    "sums": (Affine([HOURS, AGE], [1, 2]),),
    "gap": (Abs([AGE, HOURS], [1, -1]), Marginal(SEX)),
    "late": (Abs([HOURS, AGE], [1, -1], [2, 4], at_least=True),),
    "sample": (Random([PAY, MONTH], 0.4, 5, 2),),
}


def workload() -> Workload:
    families = [Family(name, name, factors) for name, factors in FAMILIES.items()]
    each = Family("each", "each", (Prefix(AGE), Marginal(SEX), Range(PAY)), choose=(1, 2))
    return Workload(Schema((PAY, AGE, SEX, UNUSED, HOURS, MONTH)), (*families, each))


def table() -> dict[Any, Any]:
    schema = workload().schema
    shape = schema.shape(schema.names)
    return {schema.names: np.floor(50 * np.abs(np.sin(np.arange(math.prod(shape)) ** 1.1))).reshape(shape)}


SKEWED = {"age": np.array([0.3, 0.2, 0.1, 0.15, 0.25]), "pay": np.array([0.5, 0.2, 0.3])}


@pytest.fixture(scope="module", params=["auto", "rp", "wff", "skewed"])
def release(request: pytest.FixtureRequest) -> Release:
    """With noise: what agrees here agrees for any measurements."""
    skewed = request.param == "skewed"
    plan = compile(workload(), solver="auto" if skewed else request.param, centring=SKEWED if skewed else "uniform")
    return plan.run(table(), Budget(rho=0.5), test_seed=1)


@pytest.fixture(scope="module")
def exact() -> Release:
    return compile(workload()).run(table(), Budget(rho=0.5), noise="none")


def truth(*names: str) -> Array:
    ((everything, counts),) = table().items()
    gone = tuple(i for i, n in enumerate(everything) if n not in names)
    kept = [n for n in everything if n in names]
    return np.asarray(counts.sum(axis=gone)).transpose([kept.index(n) for n in names])


def variances(release: Release, *factors: Factor) -> Array:
    plan = release.plan
    return product_variances(plan.closure, plan.strategies, [s.variance for s in release.scales], Product(factors))


QUESTIONS: dict[str, tuple[str, int]] = {
    "count(age <= 5 and sex = \"m\")": ("ages", 2 * 2 + 1),
    "count(age <= 7 and sex = \"f\")": ("ages", 4 * 2),
    "count(pay >= 10 and pay < 20.5)": ("pay", 3),
    "count(month in {4, 1} and sex = \"f\")": ("months", (3 * 4 + 1) * 2),
    "count(age - hours <= 4 and age - hours >= -4)": ("gap", -1),
}  # fmt: skip


@pytest.mark.parametrize("question", list(QUESTIONS)[:4])
def test_a_question_that_a_family_contains_gets_the_same_answer(question: str, release: Release) -> None:
    name, row = QUESTIONS[question]
    found, rows = release.ask(question), release.answers(name)
    assert found.estimate == pytest.approx(rows["estimate"][row].as_py(), abs=1e-6)
    assert found.std_error == pytest.approx(rows["std_error"][row].as_py(), rel=1e-6)


def test_a_question_in_the_span_that_no_family_contains(release: Release, exact: Release) -> None:
    """age in 4..6 is the difference of two prefixes; so is a set of ages and a comparison of two attributes."""
    for question, value in {
        "count(age in 4..6)": truth("age")[1:4].sum(),
        "count(age in {3, 7} and sex = \"f\")": truth("age", "sex")[[0, 4], 0].sum(),
        "count(not pay < 10)": truth("pay")[1:].sum(),
        "count(sex = \"m\" or sex = \"f\")": truth().sum(),
    }.items():  # fmt: skip
        assert exact.ask(question).estimate == pytest.approx(value, abs=1e-6)
        assert release.ask(question).std_error > 0


@pytest.mark.parametrize(
    "question",
    [
        "count(unused = 1)",
        "count(pay < 10 and hours = 0)",
        "count(age = 4 and hours = 2 and pay < 10)",
        "count(age <= 5 and month = 2)",
    ],
)
def test_a_question_outside_the_span_is_refused(question: str, release: Release) -> None:
    with pytest.raises(NotEstimableError, match=r"not estimable: .* was not measured; add a family"):
        release.ask(question)


def test_a_node_of_which_some_directions_were_measured(exact: Release) -> None:
    """Five random queries span 5 of the 6 dimensions of pay x month: some cells are among them, others are not."""
    inside, outside = "count(pay < 10 and month = 2)", "count(pay >= 20.5 and month = 2)"
    assert exact.ask(inside).estimate == pytest.approx(truth("pay", "month")[0, 1], abs=1e-6)
    with pytest.raises(NotEstimableError, match=r"pay x month.* only some combinations"):
        exact.ask(outside)
    with pytest.raises(NotEstimableError, match=r"pay x month.* not all of its cells"):
        exact.marginal(("month", "pay"))
    basis = compile(workload(), solver="rp").run(table(), Budget(rho=0.5), noise="none")
    assert basis.ask(outside).estimate == pytest.approx(truth("pay", "month")[2, 1], abs=1e-6)


def test_a_question_with_a_mistake_points_at_it(release: Release) -> None:
    with pytest.raises(WorkloadError, match="agee"):
        release.ask("count(agee <= 4)")


@pytest.mark.parametrize("names", [(), ("age",), ("sex", "age"), ("age", "sex"), ("pay", "age"), ("month", "sex")])
def test_marginals_have_their_axes_in_the_order_asked(names: tuple[str, ...], release: Release, exact: Release) -> None:
    found, other = release.marginal(names), release.marginal(names[::-1])
    assert found.attributes == names
    np.testing.assert_allclose(found.array, other.array.T, atol=1e-9)
    np.testing.assert_allclose(found.std_error, other.std_error.T, rtol=1e-9)
    np.testing.assert_allclose(exact.marginal(names).array, truth(*names), atol=1e-6)
    expected = variances(release, *(Marginal(workload().schema[n]) for n in names))
    np.testing.assert_allclose(found.std_error**2, expected, rtol=1e-9)


def test_marginals_agree_on_what_they_share(release: Release) -> None:
    pair, one, all_rows = release.marginal(("age", "sex")), release.marginal("age"), release.marginal(())
    np.testing.assert_allclose(pair.array.sum(axis=1), one.array, atol=1e-7)
    np.testing.assert_allclose(one.array.sum(), all_rows.array, atol=1e-7)
    answers = release.answers("people")
    assert answers["estimate"][0].as_py() == pytest.approx(float(all_rows.array))


def test_a_cell_of_a_marginal_is_a_question(release: Release) -> None:
    pair = release.marginal(("sex", "age"))
    for i, j in itertools.product(range(2), range(5)):
        cell = release.ask(f'count(sex = "{"fm"[i]}" and age = {3 + j})')
        assert cell.estimate == pytest.approx(pair.array[i, j], abs=1e-6)
        assert cell.std_error == pytest.approx(pair.std_error[i, j], rel=1e-6)


@pytest.mark.parametrize("names", [("unused",), ("unused", "age"), ("age", "month"), ("pay", "hours")])
def test_marginals_outside_the_span_are_refused(names: tuple[str, ...], release: Release) -> None:
    with pytest.raises(NotEstimableError, match="not estimable"):
        release.marginal(names)


def test_answers_are_tidy_and_in_query_order(exact: Release) -> None:
    found = exact.answers("ages")
    assert found.column_names == ["age", "sex", "estimate", "std_error", "lower", "upper"]
    assert found["age"].to_pylist() == [f"<= {v}" for v in (3, 4, 5, 6, 7) for _ in "fm"]
    assert found["sex"].to_pylist() == ["f", "m"] * 5
    np.testing.assert_allclose(found["estimate"].to_numpy(), truth("age", "sex").cumsum(axis=0).ravel(), atol=1e-6)
    assert exact.answers("late")["abs(hours - age)"].to_pylist() == [">= 2", ">= 4"]
    values = np.abs(np.subtract.outer(np.arange(4), np.arange(3, 8)))
    expected = [(truth("hours", "age") * (values >= c)).sum() for c in (2, 4)]
    np.testing.assert_allclose(exact.answers("late")["estimate"].to_numpy(), expected, atol=1e-6)


def test_a_choice_is_one_table_with_empty_labels(exact: Release) -> None:
    """Of three factors one or two: the label of an attribute that is not in a product is null."""
    found = exact.answers("each")
    assert found.num_rows == workload().family("each").count == 5 + 2 + 6 + 10 + 30 + 12
    assert found.column_names[:3] == ["age", "sex", "pay"]
    ages, sexes = found["age"].to_pylist(), found["sex"].to_pylist()
    assert ages[:5] == [f"<= {v}" for v in range(3, 8)]
    assert sexes[:5] == [None] * 5
    assert (ages[5], sexes[5]) == (None, "f")
    np.testing.assert_allclose(found["estimate"].to_numpy()[5:7], truth("sex"), atol=1e-6)


def test_a_label_column_never_hides_a_result() -> None:
    named = Attribute("estimate", IntegerDomain(0, 2))
    plan = compile(Workload(Schema((named,)), (Family("f", "f", (Prefix(named),)),)))
    found = plan.run({("estimate",): np.ones(3)}, Budget(rho=1)).answers("f")
    assert found.column_names == ["estimate (label)", "estimate", "std_error", "lower", "upper"]


@pytest.mark.parametrize("name", FAMILIES)
def test_standard_errors_are_the_predicted_ones(name: str, release: Release) -> None:
    found = release.answers(name)
    np.testing.assert_allclose(
        found["std_error"].to_numpy() ** 2, variances(release, *FAMILIES[name]).ravel(), rtol=1e-12
    )
    predicted = release.plan.family_errors(workload().family(name)).largest
    assert found["std_error"].to_numpy().max() ** 2 == pytest.approx(predicted, rel=1e-4)  # rho 1/2 is cost 1


@pytest.mark.parametrize("alpha", [0.05, 0.5])
def test_pointwise_intervals(alpha: float, release: Release) -> None:
    found = release.answers("ages", alpha=alpha)
    z = {0.05: 1.959963984540054, 0.5: 0.6744897501960817}[alpha]
    for side, column in ((-1, "lower"), (1, "upper")):
        expected = found["estimate"].to_numpy() + side * z * found["std_error"].to_numpy()
        np.testing.assert_allclose(found[column].to_numpy(), expected, rtol=1e-12)
    assert found.schema.metadata[b"interval"] == f"pointwise {100 * (1 - alpha):g} %".encode()
    answer = release.ask("count(age <= 4)")
    low, high = answer.interval(alpha)
    assert (high - low) / 2 == pytest.approx(z * answer.std_error, rel=1e-12)
    assert (high + low) / 2 == pytest.approx(answer.estimate)


def width(found: Any) -> float:
    return float(((found["upper"].to_numpy() - found["lower"].to_numpy()) / found["std_error"].to_numpy() / 2)[0])


def test_simultaneous_intervals_lie_between_pointwise_and_bonferroni(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ages", "gap", "each"):
        joint = release.answers(name, simultaneous=True)
        count = workload().family(name).count
        limit = -intervals.upper_quantile(1 - 0.025 / count)
        assert width(release.answers(name)) < width(joint) < 1.02 * limit
        assert joint.schema.metadata[b"interval"] == b"simultaneous 95 %, simulated"
        assert joint.equals(release.answers(name, simultaneous=True))
    with monkeypatch.context() as m:
        m.setattr(intervals, "SIMULATED_QUERIES", 3)
        joint = release.answers("ages", simultaneous=True)
        assert joint.schema.metadata[b"interval"] == b"simultaneous 95 %, Bonferroni"
        assert width(joint) == pytest.approx(-intervals.upper_quantile(1 - 0.025 / 10), rel=1e-9)


def test_one_query_needs_no_correction(release: Release) -> None:
    """Simulated quantile of |z| for a single query: 1.96 up to the error of 2,000 simulations."""
    assert width(release.answers("people", simultaneous=True)) == pytest.approx(1.96, abs=0.12)


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, math.nan, math.inf, True, "0.05", None])
def test_alpha_is_a_probability(alpha: Any, release: Release) -> None:
    with pytest.raises(OptionError, match="alpha"):
        release.answers("ages", alpha=alpha)
    with pytest.raises(OptionError, match="alpha"):
        release.ask("count(age <= 4)").interval(alpha)


def test_unknown_names_are_refused_with_a_suggestion(release: Release) -> None:
    with pytest.raises(OptionError, match="did you mean 'ages'"):
        release.answers("agess")
    with pytest.raises(OptionError, match="did you mean 'age'"):
        release.marginal(("agee",))
    with pytest.raises(OptionError, match="twice"):
        release.marginal(("age", "age"))
    for use in (lambda: release.answers("ages", estimate="bets"), lambda: release.marginal("age", estimate="x")):
        with pytest.raises(OptionError, match="estimate"):
            use()


def test_a_table_too_large_is_refused_before_it_is_made() -> None:
    attributes = tuple(Attribute(f"x{i}", IntegerDomain(0, 29)) for i in range(40))
    arcs = Family("arcs", "arcs", tuple(map(Circular, attributes)), choose=(2, 2))
    one = Family("one", "one", (Circular(attributes[0]),))
    plan = compile(Workload(Schema(attributes), (arcs, one)))
    columns = {a.name: np.zeros(3, dtype=np.int64) for a in attributes}
    release = plan.run(columns, Budget(rho=1))
    with pytest.raises(SizeError, match=r"631,800,000 answers of 'arcs' needs .* GB .*limit"):
        release.answers("arcs")
    assert release.answers("one").num_rows == 900


REPLACED = """
schema { a: integer 0..3; b: integer 0..4; c: category {"x", "y"} }
workload { t: total; p: prefix(a) * prefix(b); q: range(a) * marginal(c) }
"""


@pytest.mark.parametrize("noise", ["rounded", "opendp", "none"])
def test_where_a_row_is_replaced_the_number_of_rows_is_exact(noise: str, tmp_path: pathlib.Path) -> None:
    """smartnoise-core#360: and whatever follows from it alone has no error, nor spoils simultaneous intervals."""
    plan = compile(grammar.parse(REPLACED), neighbours="replace-one")
    data = {"a": [0, 1, 2, 3] * 10, "b": [0, 1, 2, 3] * 10, "c": ["x"] * 40}
    made = plan.run(data, Budget(rho=1), noise=noise)
    made.save(tmp_path / "x")
    for release in (made, load_release(tmp_path / "x")):
        assert release.answers("t").to_pylist() == [{"estimate": 40, "std_error": 0, "lower": 40, "upper": 40}]
        everything = release.answers("p", simultaneous=True).to_pylist()[-1]
        assert everything["estimate"] == pytest.approx(40, abs=1e-12)
        assert everything["std_error"] == 0
        answer = release.ask("count(a <= 3 and b <= 4)")
        assert answer.estimate == pytest.approx(40, abs=1e-12)
        assert answer.std_error == 0
        assert any("number of rows is released exactly" in stamp for stamp in release.provenance.stamps)
        width = {  # the Bonferroni factor of 20 queries is 3.0
            simultaneous: [
                (row["upper"] - row["lower"]) / row["std_error"]
                for row in release.answers("p", simultaneous=simultaneous).to_pylist()[:-1]
            ]
            for simultaneous in (False, True)
        }
        assert max(width[False]) == pytest.approx(2 * 1.96, rel=1e-3)
        assert 2 * 2.2 < max(width[True]) < 2 * 3.1


def test_a_workload_of_totals_needs_no_budget_where_a_row_is_replaced() -> None:
    with pytest.raises(OptionError, match="publish it without a budget"):
        compile(grammar.parse("schema { a: integer 0..3 } workload { t: total }"), neighbours="replace-one")
