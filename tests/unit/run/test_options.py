"""The options of a run: listed once, checked once, typed for everybody."""

from __future__ import annotations

import inspect
import typing
from dataclasses import MISSING, fields
from typing import Any

import pytest

import qcompile as qc
from qcompile.cli.commands.run import run as run_command
from qcompile.errors import OptionError
from qcompile.run.options import RunKeywords, RunOptions

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "mechanism": ({"mechanism": "batches"}, "did you mean 'batch'"),
    "reference": ({"reference": "trees"}, "did you mean 'tree'"),
    "basis": ({"basis": "haar", "mechanism": "adaptive"}, "basis cannot be 'haar'"),
    "basis of a batch": ({"basis": "residual"}, "is for mechanism='adaptive'"),
    "noise": ({"noise": "laplace"}, "noise cannot be 'laplace'"),
    "accounting": ({"accounting": "rdp"}, "accounting cannot be 'rdp'"),
    "accounting of an adaptive run": ({"accounting": "gaussian", "mechanism": "adaptive"}, "holds for a batch only"),
    "accounting with OpenDP": ({"accounting": "gaussian", "noise": "opendp"}, "holds for rounded noise only"),
    "engine": ({"engine": "duck"}, "engine cannot be 'duck'"),
    "resume without output": ({"resume": True}, "give its output"),
    "resume that is no truth value": ({"resume": 1, "output": "x"}, "resume must be True or False"),
    "strict values": ({"strict_values": "yes"}, "strict_values must be True or False"),
    "workers": ({"workers": 0}, "at least 1"),
    "memory": ({"max_memory": "4GB"}, "max_memory must be a whole number"),
    "unit": ({"unit": ""}, "unit must be the name of the column"),
    "count column": ({"count_column": 3}, "count_column must be the name of the column"),
    "unit and count column": ({"count_column": "n", "unit": "id"}, "cannot be used with unit"),
    "largest count without a column": ({"max_count": 3}, "give count_column, too"),
    "step without a largest count": ({"count_column": "n", "count_step": 0.5}, "give max_count, too"),
    "dataset": ({"dataset": "", "ledger": "l"}, "dataset must be a name"),
    "dataset without a ledger": ({"dataset": "survey"}, "give a ledger, or leave it out"),
    "seed": ({"test_seed": -1}, "test_seed must be a whole number"),
    "seed with OpenDP": ({"test_seed": 1, "noise": "opendp"}, "cannot take a test seed"),
    "seed with a ledger": ({"test_seed": 1, "ledger": "l"}, "cannot be charged to a ledger"),
    "no noise with a ledger": ({"noise": "none", "ledger": "l"}, "cannot be charged to a ledger"),
}


@pytest.mark.parametrize("case", WRONG)
def test_options_validate_themselves(case: str) -> None:
    options, message = WRONG[case]
    with pytest.raises(OptionError, match=message):
        RunOptions(**options)


def test_keywords_are_the_fields() -> None:
    hints = typing.get_type_hints(RunOptions)
    assert typing.get_type_hints(RunKeywords) == hints
    assert list(hints) == [f.name for f in fields(RunOptions)]


@pytest.mark.parametrize("function", [qc.Plan.run, qc.prepare])
def test_signatures_show_every_option_with_its_default_and_documentation(function: Any) -> None:
    shown = inspect.signature(function).parameters
    for field in fields(RunOptions):
        assert field.default is not MISSING
        assert shown[field.name].default == field.default
        assert shown[field.name].kind is inspect.Parameter.KEYWORD_ONLY
        assert f"\n  {field.name}: " in function.__doc__
    assert not any(p.kind is p.VAR_KEYWORD for p in shown.values())


def test_the_command_line_has_every_option() -> None:
    assert {f.name for f in fields(RunOptions)} <= set(inspect.signature(run_command).parameters)


def test_an_unknown_option_is_refused_by_name() -> None:
    plan = qc.compile("schema { a : integer 0..1 clip } workload { marginal(a) }")
    with pytest.raises(TypeError, match="mechanismm"):
        plan.run({"a": [0]}, qc.Budget(rho=1), mechanismm="batch")  # type: ignore[call-arg]
