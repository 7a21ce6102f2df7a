"""``qcompile ledger``: the account of a dataset."""

from __future__ import annotations

import json
import shlex
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import typer

from qcompile.cli.output import COST, DELTA, EPSILON, MU, RHO, budget_of, result
from qcompile.cli.parsing import Commands
from qcompile.errors import OptionError, StorageError

if TYPE_CHECKING:
    from qcompile.privacy.ledger.charges import Entry
    from qcompile.privacy.ledger.ledger import Ledger
    from qcompile.privacy.ledger.snapshot import Snapshot
    from qcompile.run.verification import Unfinished, Verification

app = Commands(help="The account of a dataset: its budget and all charges.", no_args_is_help=True)


RELEASES = typer.Argument(None, metavar="[RELEASE]...", help="Releases that it should have paid for.")


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
    dataset: str | None = typer.Option(
        None, metavar="NAME", help="Its name, which every run must repeat; without one any run may charge the ledger."
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
    made = Ledger.create(path, budget, neighbours=neighbours, contributions=contributions, dataset=dataset)
    result(f"{path}: may spend {made.snapshot.request}")
    name = "" if dataset is None else f" --dataset {shlex.quote(dataset)}"
    result(f"charge it with: qcompile run ... --ledger {path}{name}")


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


@app.command("verify")
def verify(
    path: str = typer.Argument(..., metavar="LEDGER", help="A ledger."),
    releases: list[str] | None = RELEASES,
    as_json: bool = typer.Option(False, "--json", help="As JSON, amounts as exact fractions."),
) -> None:
    """Check a ledger: file, entries, sums, and that it paid for releases; list what is unfinished.

    Example: qcompile ledger verify couples.ledger couples.release
    """
    from qcompile.run import verification

    outcome = verification.verify(path, *(releases or []))
    if as_json:
        result(json.dumps(_verification_data(outcome), indent=1))
    else:
        result("\n".join(_verification_lines(path, outcome)))
    if not outcome.is_sound:
        raise StorageError(f"ledger {path} does not pass; compare it with a backup before anything is charged to it")


def _verification_data(outcome: Verification) -> dict[str, Any]:
    snapshot = outcome.snapshot
    return {
        "sound": outcome.is_sound,
        "problems": list(outcome.problems),
        "entries": len(snapshot.entries),
        **_amounts(snapshot),
        "unfinished": [_unfinished_data(u) for u in outcome.unfinished],
        "releases": [{"path": str(r.path), "entry": r.entry, "problems": list(r.problems)} for r in outcome.releases],
    }


def _unfinished_data(run: Unfinished) -> dict[str, Any]:
    return {"number": run.number, "run": run.run, "folder": None if run.folder is None else str(run.folder)}


def _verification_lines(path: str, outcome: Verification) -> list[str]:
    from qcompile.support.text import plural, printable

    snapshot = outcome.snapshot
    entries = plural(len(snapshot.entries), "entry", "entries")
    lines = [f"ledger {path}: {entries}, {_amount(snapshot, snapshot.spent, up=True)} spent"]
    lines += [f"  problem: {printable(p)}" for p in outcome.problems]
    lines += [f"  entry {u.number}: {printable(f'{u.run}: {u}')}" for u in outcome.unfinished]
    for release in outcome.releases:
        lines += [f"  problem: {release.path}: {printable(p)}" for p in release.problems]
        if not release.problems:
            lines.append(f"  {release.path}: paid for by entry {release.entry}")
    return [*lines, "  no problems"] if outcome.is_sound else lines


def _data(ledger: Ledger) -> dict[str, Any]:
    from qcompile.run.verification import unfinished_runs

    snapshot = ledger.snapshot
    return {
        "dataset": snapshot.dataset,
        "budget": {"rho": _exactly(snapshot.budget), "request": snapshot.request},
        "created": snapshot.facts["time"],
        "privacy": snapshot.unit,
        **_amounts(snapshot),
        "entries": [_entry_data(e) for e in snapshot.entries],
        "unfinished": [_unfinished_data(u) for u in unfinished_runs(snapshot, ledger.path)],
    }


def _amounts(snapshot: Snapshot) -> dict[str, Any]:
    """Spent and remaining, exactly in rho, and as epsilon at the ledger's delta."""
    return {
        "spent": _exactly(snapshot.spent),
        "remaining": _exactly(snapshot.remaining),
        "delta": str(snapshot.delta),
        "spent_epsilon": snapshot.epsilon_text(snapshot.spent, up=True),
        "remaining_epsilon": snapshot.epsilon_text(snapshot.remaining, up=False),
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
    from qcompile.run.verification import unfinished_runs
    from qcompile.support.text import printable, table

    snapshot = ledger.snapshot
    fixed = [f"{name} {'none' if value is None else value}" for name, value in snapshot.unit.items()]
    lines = [
        f"ledger {ledger.path}, since {snapshot.facts['time']}",
        f"  dataset    {printable(snapshot.dataset or 'not named: a run on any dataset may charge it')}",
        f"  budget     {snapshot.request}",
        f"  privacy    {printable(', '.join(fixed) or 'fixed by the first charge')}",
        f"  spent      {_amount(snapshot, snapshot.spent, up=True)}",
        f"  remaining  {_amount(snapshot, snapshot.remaining, up=False)}",
    ]
    if not snapshot.entries:
        return [*lines, "  no charges yet"]
    head = ["#", "time (UTC)", "rho", "asked as", "mechanism", "noise", "plan", "release", "content"]
    rows = table(head, [_row(e) for e in snapshot.entries], left=set(range(1, len(head))))
    waiting = [f"entry {u.number}: {printable(str(u))}" for u in unfinished_runs(snapshot, ledger.path)]
    return [*lines, "", *rows, *(["", *waiting] if waiting else [])]


def _row(entry: Entry) -> list[str]:
    from qcompile.privacy.exact_numbers import amount_text

    charge = entry.charge
    release = entry.release or "none recorded (spent all the same)"
    if entry.release and entry.content is None:
        release += ": unfinished (spent all the same)"
    asked = charge.budget
    first = [str(entry.number), charge.time.removesuffix("+00:00"), amount_text(charge.rho), asked]
    return [*first, charge.mechanism, charge.noise, charge.plan[:12], release, (entry.content or "")[:12]]


def _amount(snapshot: Snapshot, value: Fraction, *, up: bool) -> str:
    """An amount as epsilon at the ledger's delta, and in rho: that adds up, epsilon does not."""
    from qcompile.privacy.exact_numbers import amount_text, exact_text

    epsilon = snapshot.epsilon_text(value, up=up)
    return f"epsilon {epsilon} at delta {exact_text(snapshot.delta)} (rho {amount_text(value)})"
