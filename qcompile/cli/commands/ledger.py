"""``qcompile ledger``: the account of a dataset."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import typer

from qcompile.cli.output import COST, DELTA, EPSILON, MU, RHO, budget_of, result
from qcompile.cli.parsing import Commands
from qcompile.errors import OptionError

if TYPE_CHECKING:
    from qcompile.privacy.ledger.charges import Entry
    from qcompile.privacy.ledger.ledger import Ledger

app = Commands(help="The account of a dataset: its budget and all charges.", no_args_is_help=True)


@app.command("create")
def create(
    path: str = typer.Argument(..., metavar="LEDGER", help="The file to make; one for each dataset."),
    epsilon: str | None = EPSILON,
    delta: str | None = DELTA,
    rho: str | None = RHO,
    mu: str | None = MU,
    cost: str | None = COST,
    neighbours: str | None = typer.Option(
        None, help="add-remove or replace-one; by default those of the first charge."
    ),
    contributions: int | None = typer.Option(
        None, help="Rows of one privacy unit; by default those of the first charge."
    ),
) -> None:
    """Create the account of a dataset, with the total budget for all releases.

    Example: qcompile ledger create couples.ledger --epsilon 2 --delta 1e-6
    """
    from qcompile.privacy.ledger.ledger import Ledger

    budget = budget_of(epsilon=epsilon, delta=delta, rho=rho, mu=mu, cost=cost)
    if budget is None:
        raise OptionError(
            f"a ledger needs a budget: qcompile ledger create {path} --epsilon 1 --delta 1e-6 (or --rho, --mu, --cost)"
        )
    made = Ledger.create(path, budget, neighbours=neighbours, contributions=contributions)
    result(f"{path}: may spend {made.snapshot.request}")
    result(f"charge it with: qcompile run ... --ledger {path}")


@app.command("show")
def show(
    path: str = typer.Argument(..., metavar="LEDGER", help="A ledger."),
    as_json: bool = typer.Option(False, "--json", help="As JSON, amounts as exact fractions."),
) -> None:
    """List all charges with their releases, and the budget that is left.

    Example: qcompile ledger show couples.ledger
    """
    from qcompile.privacy.ledger.ledger import Ledger

    ledger = Ledger.open(path)
    result(json.dumps(_data(ledger), indent=1) if as_json else "\n".join(_lines(ledger)))


def _data(ledger: Ledger) -> dict[str, Any]:
    snapshot = ledger.snapshot
    return {
        "budget": {"rho": _exactly(snapshot.budget), "request": snapshot.request},
        "created": snapshot.facts["time"],
        "privacy": snapshot.unit,
        "spent": _exactly(snapshot.spent),
        "remaining": _exactly(snapshot.remaining),
        "entries": [_entry_data(e) for e in snapshot.entries],
    }


def _exactly(value: Fraction) -> str:
    """Exact, unless the digits of a sum of unrelated fractions are beyond counting."""
    from qcompile.privacy.exact_numbers import amount_text

    return str(value) if value.denominator.bit_length() < 10_000 else amount_text(value)


def _entry_data(entry: Entry) -> dict[str, Any]:
    charged = {k: getattr(entry.charge, k) for k in entry.charge.__dataclass_fields__}
    identity = {"number": entry.number, "version": entry.version, "release": entry.release, "content": entry.content}
    return {**identity, **charged, "rho": str(entry.charge.rho)}


def _lines(ledger: Ledger) -> list[str]:
    from qcompile.support.text import printable, table

    snapshot = ledger.snapshot
    fixed = [f"{name} {'none' if value is None else value}" for name, value in snapshot.unit.items()]
    lines = [
        f"ledger {ledger.path}, since {snapshot.facts['time']}",
        f"  budget     {snapshot.request}",
        f"  privacy    {printable(', '.join(fixed) or 'fixed by the first charge')}",
        f"  spent      {_amount(snapshot.spent)}",
        f"  remaining  {_amount(snapshot.remaining)}",
    ]
    if not snapshot.entries:
        return [*lines, "  no charges yet"]
    head = ["#", "time (UTC)", "rho", "asked as", "mechanism", "noise", "plan", "release", "content"]
    return [*lines, "", *table(head, [_row(e) for e in snapshot.entries], left=set(range(1, len(head))))]


def _row(entry: Entry) -> list[str]:
    from qcompile.privacy.exact_numbers import amount_text

    charge = entry.charge
    release = entry.release or "none recorded (spent all the same)"
    if entry.release and entry.content is None:
        release += ": unfinished (spent all the same)"
    asked = charge.budget
    first = [str(entry.number), charge.time.removesuffix("+00:00"), amount_text(charge.rho), asked]
    return [*first, charge.mechanism, charge.noise, charge.plan[:12], release, (entry.content or "")[:12]]


def _amount(value: Fraction) -> str:
    from qcompile.privacy.exact_numbers import amount_text, rounded_text

    exact, rounded = amount_text(value), rounded_text(value)
    return f"rho {exact}" if exact == rounded else f"rho {exact} (about {rounded})"
