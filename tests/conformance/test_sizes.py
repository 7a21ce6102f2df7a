"""Workloads of the sizes that people have: certified, and without anything as large as the domain."""

from __future__ import annotations

import subprocess
import sys

import pytest

from qcompile.api import compile
from qcompile.errors import SizeError
from qcompile.queries.factors import Marginal, Prefix, Range
from qcompile.queries.workload import Workload
from tests.conformance.helpers import family, integer, some_weights, workload
from tests.conformance.test_reference_tables import ROOT


def prefixes(size: int, count: int, low: int, high: int) -> Workload:
    attributes = [integer(f"a{i}", size) for i in range(count)]
    return workload(attributes, family(*map(Prefix, attributes), choose=(low, high), name="p"))


def test_sums_of_products_on_a_million_cells() -> None:
    x, y, z = (integer(name, 100) for name in "xyz")
    made = workload([x, y, z], family(Prefix(x), Prefix(y), Prefix(z)), family(Range(x), Range(y), Range(z)))
    assert compile(made).gap <= 1e-2


def test_pairs_of_a_hundred_attributes_with_a_hundred_values() -> None:
    attributes = [integer(f"a{i}", 100) for i in range(100)]
    plan = compile(workload(attributes, family(*map(Marginal, attributes), choose=(1, 2), name="m")))
    assert plan.queries == 49_510_000
    assert plan.gap <= 1e-2
    assert "49,510,000 queries" in plan.explain()


def test_prefixes_of_ten_thousand_values_have_a_stated_gap_or_are_refused() -> None:
    """mbi#5."""
    plan = compile(prefixes(10_000, 1, 1, 1))
    assert 0 < plan.gap < 0.2
    assert "its error is only proven to be at most" in plan.explain()
    with pytest.raises(SizeError, match=r"10,000 cells needs .* of memory.* the limit is .*; use uniform centring"):
        compile(prefixes(10_000, 1, 1, 1), centring={"a0": some_weights(10_000)})


def test_pairs_of_fifty_attributes_with_forty_values_take_few_classes() -> None:
    plan = compile(prefixes(40, 50, 1, 2))
    assert len(plan.solutions) == 3
    assert plan.gap <= 1e-6


MANY = """
from tests.conformance.test_sizes import compile, prefixes
from benchmarks.memory import peak

plan = compile(prefixes(10, 100, 1, 3))
print(len(plan.closure.nodes), plan.rmse(), plan.gap, peak())
"""


@pytest.mark.slow
def test_triples_of_a_hundred_attributes() -> None:
    """166,751 nodes in a process of its own, well below 4 GB."""
    done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, check=True, cwd=ROOT, text=True)
    nodes, rmse, gap, memory = map(float, done.stdout.split())
    assert nodes == 166_751
    assert rmse == pytest.approx(481.698, rel=1e-4)
    assert gap <= 1e-6
    assert memory < 4e9
