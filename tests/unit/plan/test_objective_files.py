"""Plan files keep objective, weights and bound; forged ones are refused."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest

from qcompile.api import Plan, compile, load_plan
from qcompile.errors import StorageError
from qcompile.plan.document import PlanDocument
from qcompile.plan.encoding import ArrayStore
from qcompile.plan.files import read_plan
from qcompile.plan.standing import gap_of, least_cost
from qcompile.support.json_fields import Field

TEXT = """
schema { a : integer 0..4; b : integer 0..3 }
workload { p : prefix(a) target 5; e : each 1..2 of (a, b) target 2 % max; total target 9 }
"""


@pytest.fixture(scope="module", params=["max", "targets"])
def plan(request: pytest.FixtureRequest) -> Plan:
    return compile(TEXT, objective=request.param, total=300, blocks=[["p"]])


def test_a_plan_that_is_read_says_the_same(plan: Plan, tmp_path: pathlib.Path) -> None:
    plan.save(tmp_path / "x.plan")
    read = load_plan(tmp_path / "x.plan")
    assert (least_cost(read), gap_of(read), read.rmse()) == (least_cost(plan), gap_of(plan), plan.rmse())
    assert read.explain() == plan.explain()
    assert [f.target for f in read.workload.families] == [f.target for f in plan.workload.families]
    read.save(tmp_path / "y.plan")
    assert (tmp_path / "y.plan").read_bytes() == (tmp_path / "x.plan").read_bytes()


def test_plans_for_the_total_error_have_no_trace_of_objectives() -> None:
    data = PlanDocument.of(compile(re.sub(r" target [^;}]*", "", TEXT))).data
    assert "objective" not in json.dumps(data)
    assert not {"objective_gap", "total"} & set(data["options"])
    targets = PlanDocument.of(compile(TEXT, objective="total")).data
    assert "objective" not in targets
    assert targets["workload"]["families"][1]["target"] == {"std_error": 2.0, "percent": True, "largest": True}


FORGERIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "no weights": lambda d: d.pop("objective"),
    "weights without objective": lambda d: d["options"].pop("objective"),
    "a family is missing": lambda d: d["objective"]["weights"].pop("p"),
    "a negative weight": lambda d: d["objective"]["weights"]["p"]["classes"][0].update(weight=-1.0),
    "too many classes": lambda d: d["objective"]["weights"]["p"]["classes"].append({"weight": 1.0, "queries": [None]}),
    "too many arrays": lambda d: d["objective"]["weights"]["p"]["classes"][0].update(queries=[None, None]),
    "products of another family": lambda d: d["objective"]["weights"]["p"].update(
        class_of=d["objective"]["weights"]["e"]["class_of"]
    ),
    "weights that are no weights": lambda d: d["objective"]["weights"]["p"]["classes"][0].update(
        queries=[d["class_of"]]
    ),
    "an unknown objective": lambda d: d["options"].update(objective="most"),
    "a negative bound": lambda d: d["objective"].update(bound=-1.0),
    "a target of 0": lambda d: d["workload"]["families"][0].update(
        target={"std_error": 0, "percent": False, "largest": False}
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_objectives_are_refused(plan: Plan, name: str) -> None:
    document = PlanDocument.of(plan)
    data = json.loads(json.dumps(document.data))
    FORGERIES[name](data)
    with pytest.raises(StorageError):
        read_plan(Field(data), ArrayStore(document.arrays))
