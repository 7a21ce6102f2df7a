"""Families answered unsplit: the search, its limits, and every answer from one source."""

from __future__ import annotations

import numpy as np
import pytest

import qcompile as qc
from qcompile.api import compile
from qcompile.compiler.blocks import EFFORTS, Effort, choose_blocks
from qcompile.errors import NotEstimableError, OptionError, SizeError
from qcompile.lattice.decompose import decompose
from qcompile.queries.factors import Abs, Affine, Marginal, Predicate, Prefix
from qcompile.queries.workload import Workload
from tests.conformance.helpers import UNIT, family, integer, integers, some_counts, workload

A, B, C = integers(4, 4, 3)


def pairs() -> Workload:
    return workload(
        [A, B, C],
        family(Affine([A, B], [1, 1]), name="sum"),
        family(Prefix(A), Prefix(C), name="table"),
        family(Marginal(C), name="c"),
    )


def test_a_single_cross_attribute_family_becomes_a_block() -> None:
    made = workload([A, B], family(Abs([A, B], [1, -1]), name="gap"))
    plan = compile(made, blocks="auto")
    assert plan.closure.blocks == (("gap",),)
    assert plan.closure.first_block == 0
    assert plan.sse() < 0.7 * compile(made).sse()
    assert plan.plain_sse == pytest.approx(compile(made).sse())


def test_many_products_stay_decomposed() -> None:
    attributes = [integer(f"a{i}", 3) for i in range(8)]
    made = workload(attributes, family(*map(Prefix, attributes), choose=(1, 2), name="pairs"))
    plan = compile(made, blocks="auto")
    assert plan.closure.blocks == ()
    assert plan.sse() == compile(made).sse()


@pytest.mark.parametrize(
    "effort", [Effort(work=15.0, families=400, trials=60), Effort(1e9, 2, 60), Effort(1e9, 400, 1)]
)
def test_the_search_keeps_its_limits(effort: Effort) -> None:
    made = workload([A, B], family(Abs([A, B], [1, -1]), name="gap"), family(Prefix(A)), family(Prefix(B)))
    assert choose_blocks(made, {}, EFFORTS["auto"]) != ()
    assert choose_blocks(made, {}, effort) == ()


def test_given_blocks_are_kept_as_they_are() -> None:
    plan = compile(pairs(), blocks=[["sum"], ["table", "c"]])
    assert plan.closure.blocks == (("sum",), ("table", "c"))
    graph = plan.lattice
    blocks = [n for n, data in graph.nodes(data=True) if data["block"]]
    assert blocks == [("block 1", "a", "b"), ("block 2", "a", "c")]
    assert all(graph.degree(n) == 0 for n in blocks)
    assert sum(data["share"] for _, data in graph.nodes(data=True)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([["sum"], ["sum"]], "named twice"),
        ([[]], "at least one family"),
        ([["sums"]], "did you mean 'sum'"),
        ("perhaps", "True, False, 'auto'"),
        (1, "True, False, 'auto'"),
        (None, "True, False, 'auto'"),
        (["sum"], "lists like"),
        ([[1]], "lists like"),
    ],
)
def test_blocks_that_make_no_sense_are_refused(blocks: object, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        compile(pairs(), blocks=blocks)  # type: ignore[arg-type]


def test_equal_blocks_are_one_class_and_keep_their_own_noise() -> None:
    d = integer("d", 4)
    made = workload([A, B, d], family(Affine([A, B], [1, 1]), name="f"), family(Affine([A, d], [1, 1]), name="g"))
    plan = compile(made, blocks=[["f"], ["g"]])
    assert len(plan.solutions) == 1
    assert plan.closure.members.tolist() == [2]
    counts = np.zeros((4, 4, 4), dtype=np.int64)
    release = plan.run({("a", "b", "d"): counts}, UNIT, test_seed=1)
    assert not np.array_equal(release.values[0], release.values[1])


def test_a_block_and_a_node_on_the_same_attributes_keep_their_own_noise() -> None:
    made = workload([A], family(Prefix(A), name="p"), family(Marginal(A), name="m"))
    plan = compile(made, blocks=[["m"]])
    assert [plan.closure.title(i) for i in range(3)] == ["()", "('a',)", "block 1 on ('a',)"]


def test_every_question_goes_to_the_better_source() -> None:
    made = workload([A], family(Prefix(A), name="p", weight=1e-4), family(Marginal(A), name="m"))
    plan = compile(made, blocks=[["m"]])
    counts = some_counts(made.schema)
    release = plan.run({("a",): counts}, UNIT)
    closure, block = release._measurements.sources
    product = qc.grammar.parse_query("count(a = 2)", made.schema)
    variances = [s.ask(product)[1] for s in (closure, block)]
    assert variances[1] < variances[0]
    assert release.ask("count(a = 2)").std_error == pytest.approx(variances[1] ** 0.5)
    np.testing.assert_allclose(release.marginal(("a",)).std_error ** 2, variances[1], rtol=1e-9)
    assert release.answers("p").column("std_error")[3].as_py() > release.ask("total").std_error


def test_a_block_of_low_rank_refuses_what_it_does_not_span(tmp_path: object) -> None:
    plan = compile(workload([A, B], family(Affine([A, B], [1, 1]), name="sum")), blocks=[["sum"]])
    release = plan.run({("a", "b"): np.ones((4, 4), dtype=np.int64)}, UNIT, noise="none")
    assert release.ask("affine(a + b <= 2)").estimate == pytest.approx(6)
    assert release.ask("total").estimate == pytest.approx(16)
    for refused in (("a",), ("a", "b")):
        with pytest.raises(NotEstimableError):
            release.marginal(refused)
    with pytest.raises(NotEstimableError):
        release.ask("count(a = 1)")


def test_marginals_of_a_block_sum_over_its_other_attributes() -> None:
    plan = compile(pairs(), blocks=[["sum", "table", "c"]])
    counts = some_counts(plan.workload.schema, 5000)
    release = plan.run({("a", "b", "c"): counts}, UNIT, noise="none")
    np.testing.assert_allclose(release.marginal(("c", "a")).array, counts.sum(axis=1).T, atol=1e-6)
    np.testing.assert_allclose(release.marginal("c").array, counts.sum(axis=(0, 1)), atol=1e-6)


def test_blocks_survive_storage(tmp_path: object) -> None:
    plan = compile(pairs(), blocks=[["sum"]])
    path = f"{tmp_path}/p.plan"
    plan.save(path)
    again = qc.load_plan(path)
    assert again.closure.blocks == (("sum",),)
    assert again.explain() == plan.explain()
    assert "block 1 answers sum" in plan.explain()


def test_a_block_needs_the_counts_of_its_attributes_only() -> None:
    plan = compile(pairs(), blocks=[["sum", "c"]])
    assert plan.tables == (("a", "c"), ("a", "b", "c"))
    assert decompose(pairs(), {}, [["sum", "c"]]).names(plan.closure.nodes[-1]) == ("a", "b", "c")


def test_a_query_that_never_holds_costs_a_block_nothing() -> None:
    never = Predicate([A], np.zeros(4, dtype=bool), "never")
    made = workload([A], family(Prefix(A), name="p"), family(never, name="never"))
    assert compile(made, blocks=[["never", "p"]]).sse() == pytest.approx(
        compile(workload([A], family(Prefix(A), name="p")), blocks=[["p"]]).sse()
    )
    alone = compile(made, blocks=[["never"]])
    release = alone.run({("a",): np.ones(4, dtype=np.int64)}, UNIT, noise="none")
    assert release.answers("never").column("estimate").to_pylist() == [0.0]


def test_a_block_without_measurements_answers_no_marginal() -> None:
    """Not by the strategy of some other class, either: here the last one spans every cell of the same attribute."""
    never = Predicate([A], np.zeros(4, dtype=bool), "never")
    made = workload([A], family(never, name="never"), family(Marginal(A), name="m"), family(Prefix(A), name="p"))
    plan = compile(made, blocks=[["never"], ["m", "p"]])
    release = plan.run({("a",): np.arange(1, 5)}, UNIT, noise="none")
    found = release.marginal("a")
    np.testing.assert_allclose(found.array, [1, 2, 3, 4], atol=1e-9)
    assert (found.std_error > 0).all()


@pytest.mark.parametrize("solver", ["rp", "wff", "rp+"])
def test_fixed_bases_refuse_blocks(solver: str) -> None:
    for blocks in ("auto", True, [["sum"]]):
        with pytest.raises(OptionError, match="cannot measure unsplit blocks"):
            compile(pairs(), solver=solver, blocks=blocks)


def test_a_block_that_is_too_large_for_a_question_leaves_it_to_the_lattice(monkeypatch: pytest.MonkeyPatch) -> None:
    made = workload([A, B], family(Affine([A, B], [1, 1]), name="sum"), family(Marginal(A), Marginal(B), name="m"))
    plan = compile(made, blocks=[["sum"]])
    release = plan.run({("a", "b"): np.ones((4, 4), dtype=np.int64)}, UNIT, noise="none")

    def refuse(what: str, entries: int, remedy: str) -> None:
        raise SizeError(what)

    monkeypatch.setattr("qcompile.release.answers.answer_source.require_memory", refuse)
    np.testing.assert_allclose(release.marginal(("a", "b")).array, 1, atol=1e-9)
