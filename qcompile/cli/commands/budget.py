"""``qcompile budget``: the budget at which a plan's answers are as accurate as is asked."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import typer

from qcompile.cli.output import MAX_MEMORY, limits_memory, read_plan, result
from qcompile.errors import OptionError
from qcompile.support.text import number, table

if TYPE_CHECKING:
    from qcompile.api import Plan
    from qcompile.privacy.budget import Budget
    from qcompile.release.accuracy import Accuracy

TARGET = typer.Option(
    None,
    metavar="FAMILY=E",
    help="A standard error: ages=5, ages=5max (every query), ages=2% (of --total); repeatable.",
)

_AMOUNT = re.compile(r"\s*(?P<number>[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*(?P<percent>%?)\s*(?P<largest>(?:max)?)\s*")


@limits_memory
def budget(
    file: str = typer.Argument(..., metavar="PLAN|FILE", help="A plan, or a .q workload file."),
    target: list[str] | None = TARGET,
    margin: str | None = typer.Option(
        None, metavar="[FAMILY=]M", help="Half-width of simultaneous intervals, in counts."
    ),
    confidence: float = typer.Option(0.95, help="With which all intervals of --margin hold together."),
    total: float | None = typer.Option(None, help="The number of rows that targets in per cent refer to."),
    delta: str | None = typer.Option(None, "--delta", metavar="D", help="For the epsilon; 1e-9 by default."),
    accounting: str = typer.Option("zcdp", help="zcdp, or gaussian for one batch by its own curve."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object."),
    max_memory: str | None = MAX_MEMORY,
) -> None:
    """Show the budget that accuracies need, for a batch with rounded noise; by default the targets of the plan itself.

    Example: qcompile budget couples.plan --target ages=5 --delta 1e-6
    """
    from qcompile.release.accuracy import plan_accuracies, required_budget

    plan = read_plan(file)
    asked = [_target(plan, text, total) for text in target or ()]
    if margin is not None:
        asked.append(_margin(plan, margin, confidence))
    if not asked:
        asked = [(f"{a.families[0].name} {a.families[0].target}", a) for a in plan_accuracies(plan)]
    found = [(text, a, required_budget(plan, [a], delta, accounting)) for text, a in asked]
    together = required_budget(plan, [a for _, a in asked], delta, accounting)
    rows = [_row(text, a, b, delta, accounting) for text, a, b in found]
    binding = max(range(len(rows)), key=lambda i: rows[i]["rho"])
    for i, row in enumerate(rows):
        row["binding"] = i == binding
    if as_json:
        result(
            json.dumps({"targets": rows, "budget": together.request, **_worth(together, delta, accounting)}, indent=1)
        )
        return
    result("\n".join(_lines(rows)))
    request = " ".join(f"--{name} {value}" for name, value in together.request.items())
    result(f"\nall of it: {together.describe(accounting)}")
    result(f"run it with: qcompile run {file} {request} --data DATA -o RELEASE")


def _row(text: str, asked: Accuracy, found: Budget, delta: str | None, accounting: str) -> dict[str, Any]:
    kind = "largest" if asked.largest else "rmse"
    return {"target": text, "std_error": asked.std_error, "of": kind, **_worth(found, delta, accounting)}


def _worth(found: Budget, delta: str | None, accounting: str) -> dict[str, Any]:
    """A budget in numbers: rho, and epsilon at the delta, or the usual one."""
    from qcompile.privacy.budget import USUAL_DELTA
    from qcompile.privacy.exact_numbers import exact

    at = USUAL_DELTA if delta is None else exact("delta", delta)
    epsilon = found.epsilon if found.epsilon is not None else found.epsilon_at(at, accounting)
    return {"rho": float(found.charge(accounting)), "epsilon": float(epsilon), "delta": float(at)}


def _lines(rows: list[dict[str, Any]]) -> list[str]:
    cells = [
        [
            r["target"],
            number(r["std_error"]),
            r["of"],
            number(r["rho"]),
            number(r["epsilon"]),
            "binding" if r["binding"] and len(rows) > 1 else "",
        ]
        for r in rows
    ]
    head = ["target", "std_error", "of", "rho", f"epsilon at {rows[0]['delta']:g}", ""]
    return table(head, cells, left={0, 2, 5})


def _target(plan: Plan, text: str, total: float | None) -> tuple[str, Accuracy]:
    from qcompile.release.accuracy import of_std_error

    family, _, amount = text.rpartition("=")
    found = _AMOUNT.fullmatch(amount)
    if not family or found is None:
        raise OptionError(f"--target {text!r} must be FAMILY=STD_ERROR, for instance ages=5, ages=5max or ages=2%")
    value = _float(found["number"], text)
    if found["percent"]:
        if total is None:
            raise OptionError(f"--target {text!r} is in per cent of a total; give the number of rows: --total 48842")
        value *= total / 100
    return text, of_std_error(plan, family, value, largest=bool(found["largest"]))


def _margin(plan: Plan, text: str, confidence: float) -> tuple[str, Accuracy]:
    from qcompile.release.accuracy import of_margin

    family, _, amount = text.rpartition("=")
    value = _float(amount, text)
    accuracy = of_margin(plan, family or None, value, confidence, simultaneous=True)
    return f"{family or 'all families'} within {amount} ({100 * confidence:g} %)", accuracy


def _float(amount: str, text: str) -> float:
    try:
        return float(amount)
    except ValueError:
        raise OptionError(f"{text!r} has no number {amount!r}; write for instance 5 or ages=5") from None
