"""``qcompile ledger``: the account of a dataset."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import typer

from qcompile.cli.output import COST, DELTA, EPSILON, MU, RHO, budget_of, printable, result
from qcompile.errors import OptionError

if TYPE_CHECKING:
    from qcompile.privacy.charges import Entry
    from qcompile.privacy.ledger import Ledger

app = typer.Typer(help="The account of a dataset: what may be spent on it, and what has been.", no_args_is_help=True)


@app.command("create")
def create(
    path: str = typer.Argument(..., metavar="LEDGER", help="The file to make; one for each dataset."),
    epsilon: str | None = EPSILON,
    delta: str | None = DELTA,
    rho: str | None = RHO,
    mu: str | None = MU,
    cost: str | None = COST,
    neighbours: str | None = typer.Option(
        None, help="add-remove or replace-one; by default what the first charge refers to."
    ),
    contributions: int | None = typer.Option(
        None, help="Rows of one privacy unit; by default those of the first charge."
    ),
) -> None:
    """Start the account of a dataset: all that may ever be spent on it.

    Example: qcompile ledger create couples.ledger --epsilon 2 --delta 1e-6
    """
    from qcompile.privacy.ledger import Ledger

    budget = budget_of(epsilon=epsilon, delta=delta, rho=rho, mu=mu, cost=cost)
    if budget is None:
        raise OptionError("a ledger needs a budget: give --epsilon and --delta, or --rho, --mu or --cost")
    made = Ledger.create(path, budget, neighbours=neighbours, contributions=contributions)
    result(f"{path}: may spend {made.request}")
    result(f"charge it with: qcompile run ... --ledger {path}")


@app.command("show")
def show(
    path: str = typer.Argument(..., metavar="LEDGER", help="A ledger."),
    as_json: bool = typer.Option(False, "--json", help="As JSON, amounts as exact fractions."),
) -> None:
    """Every charge, what it was for, and what is left.

    Example: qcompile ledger show couples.ledger
    """
    from qcompile.privacy.ledger import Ledger

    ledger = Ledger.open(path)
    result(json.dumps(_data(ledger), indent=1) if as_json else "\n".join(_lines(ledger)))


def _data(ledger: Ledger) -> dict[str, Any]:
    entries, budget, unit = ledger.entries, ledger.budget, ledger.unit
    spent = sum((e.charge.rho for e in entries), Fraction(0))
    return {
        "budget": {"rho": str(budget), "request": ledger.request},
        "created": ledger.created,
        "neighbours": unit and unit[0],
        "contributions": unit and unit[1],
        "spent": str(spent),
        "remaining": str(budget - spent),
        "entries": [_entry_data(e) for e in entries],
    }


def _entry_data(entry: Entry) -> dict[str, Any]:
    charged = {k: getattr(entry.charge, k) for k in entry.charge.__dataclass_fields__}
    told = {"number": entry.number, "version": entry.version, "release": entry.release, "content": entry.content}
    return {**told, **charged, "rho": str(entry.charge.rho)}


def _lines(ledger: Ledger) -> list[str]:
    from qcompile.explain import table

    data = _data(ledger)
    unit = "not fixed before the first charge"
    if data["neighbours"]:
        unit = f"{data['neighbours']}, up to {data['contributions']} rows of one privacy unit"
    lines = [
        f"ledger {ledger.path}, since {data['created']}",
        f"  budget     {data['budget']['request']}",
        f"  privacy    {unit}",
        f"  spent      {_amount(data['spent'])}",
        f"  remaining  {_amount(data['remaining'])}",
    ]
    if not data["entries"]:
        return [*lines, "  no charges yet"]
    head = ["#", "time (UTC)", "rho", "asked as", "mechanism", "noise", "plan", "release"]
    rows = [_row(e) for e in data["entries"]]
    return [*lines, "", *table(head, rows, left=set(range(1, len(head))))]


def _row(entry: dict[str, Any]) -> list[str]:
    release = printable(entry["release"]) if entry["release"] else "none recorded (spent all the same)"
    asked = printable(entry["budget"].split(",")[0])
    values = [entry["number"], entry["time"].removesuffix("+00:00"), entry["rho"], asked]
    return [*map(str, values), entry["mechanism"], entry["noise"], entry["plan"][:12], release]


def _amount(text: str) -> str:
    from qcompile.privacy.exact import rounded_text

    return f"rho {text}" if "/" not in text else f"rho {text} (about {rounded_text(Fraction(text))})"
