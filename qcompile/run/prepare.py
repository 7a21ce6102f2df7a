"""From plan, budget and options to a prepared run: all that can be refused without data is refused here."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from qcompile.errors import BudgetError, OptionError
from qcompile.plan.document import PlanDocument
from qcompile.plan.plan import Plan
from qcompile.privacy.budget import Budget, has_gaussian_curve
from qcompile.privacy.ledger.charges import Charge
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.privacy.ledger.snapshot import Snapshot
from qcompile.release.files import schema_hash
from qcompile.release.provenance import Provenance, stamps
from qcompile.run.execute import MOST_ROWS, PreparedRun
from qcompile.run.mechanisms import MECHANISM_CLASSES
from qcompile.run.options import RunOptions
from qcompile.run.place import require_output
from qcompile.version import __version__


def prepare(plan: Plan, budget: Budget, options: RunOptions) -> PreparedRun:
    """Decide everything about a run but its data; read and spend nothing.

    Args:
      plan: what is measured.
      budget: what is spent.
      options: of the run.

    Raises:
      OptionError: an option cannot be had with this plan.
      BudgetError: the budget cannot be spent this way, or the ledger has too little left.
      StorageError: there is no such ledger, the output cannot be written, or a run to it is unfinished.
      SizeError: the run would not fit in memory.
    """
    if not isinstance(budget, Budget):
        raise OptionError(f"budget must be a Budget such as Budget(epsilon=1, delta='1e-9'), got {budget!r}")
    _require_mu(budget, options)
    require_output(options)
    ledger = _ledger(options)
    snapshot = None if ledger is None else ledger.snapshot
    if options.counted is not None:
        plan = replace(plan, counted=options.counted)
    _require_plan(plan, options)
    document = PlanDocument.of(plan)
    charge = _charge(plan, budget, document, options)
    terms = _terms(plan, budget, charge, options)
    mechanism = MECHANISM_CLASSES[options.mechanism](plan, terms, options)
    if ledger is not None:
        mechanism.require(MOST_ROWS)  # now, as a refusal that depends on the number of rows would tell about it
    remaining = None
    if ledger is not None and snapshot is not None and not options.resume:
        remaining = _require_left(ledger, snapshot, charge)
    return PreparedRun(plan, document, options, charge, terms, mechanism, ledger, remaining)


def _require_mu(budget: Budget, options: RunOptions) -> None:
    """Refuse a budget in mu where Gaussian differential privacy is not proven.

    Raises:
      BudgetError: the run is adaptive, or its noise is not rounded.
    """
    if budget.kind == "mu" and not has_gaussian_curve(options.mechanism, options.noise):
        raise BudgetError(
            "a budget in mu holds for a batch with noise='rounded' only: selections of an adaptive run and other noise "
            "are accounted in zCDP, which does not imply the Gaussian curve; give epsilon and delta, or rho"
        )


def _ledger(options: RunOptions) -> Ledger | None:
    ledger = options.ledger
    return ledger if ledger is None or isinstance(ledger, Ledger) else Ledger(ledger)


def _require_left(ledger: Ledger, snapshot: Snapshot, charge: Charge) -> Fraction:
    """The rho left after the charge; a ledger that would refuse it now, refuses.

    Raises:
      OverspendError: more than is left.
      BudgetError: the charge is for another privacy unit or another dataset.
    """
    snapshot.require(charge, ledger.path)
    return snapshot.remaining - charge.rho


def _require_plan(plan: Plan, options: RunOptions) -> None:
    """Refuse options that contradict the plan.

    Raises:
      OptionError: with the reason and a next step.
    """
    if options.leaves_rows_out:
        _require_policies(plan)
    if options.unit is not None and plan.unit.public_total:
        raise OptionError(
            "with a unit column a unit may have no row that counts, so the number of rows is not public, but this plan "
            "(one row replaced) releases it exactly; compile it with contributions=2, or for rows added or removed"
        )


def _require_policies(plan: Plan) -> None:
    """Refuse a schema in which a value can end the run with an error: the error would reveal it.

    A null in a clipped column takes its row out of the counts instead; where the number of rows is public it may not.

    Raises:
      OptionError: an attribute has no policy.
    """
    refusing = ("strict", "clip") if plan.unit.public_total else ("strict",)
    strict = [a.name for a in plan.workload.schema if a.policy.kind in refusing]
    if not strict:
        return
    names = ", ".join(map(repr, strict[:5])) + (", ..." if len(strict) > 5 else "")
    policies = "other or drop" if "clip" in refusing else "clip, other or drop"
    raise OptionError(
        f"{names} {'has' if len(strict) == 1 else 'have'} no policy for missing or out-of-domain values. With a ledger "
        "each attribute needs one, as an error message would reveal something about the data: add "
        f"{policies} to the schema, or accept such errors: --strict-values, strict_values=True"
    )


def _charge(plan: Plan, budget: Budget, document: PlanDocument, options: RunOptions) -> Charge:
    """The entry of the ledger, without its time."""
    request = ", ".join(f"{name} {value}" for name, value in budget.request.items())
    counted = options.counted
    by_unit = None if counted is None else counted.charged_unit  # losses of these and of rows do not add up
    rows = "" if counted is None or by_unit else f", rows count for {counted}"
    return Charge(
        rho=budget.charge(options.accounting),
        budget=f"{request} ({options.accounting}){rows}",
        neighbours=plan.options.neighbours,
        contributions=plan.options.contributions,
        unit=by_unit or options.unit,
        mechanism=options.mechanism,
        noise=options.noise,
        plan=document.hash,
        dataset=options.dataset,
    )


def _terms(plan: Plan, budget: Budget, charge: Charge, options: RunOptions) -> Provenance:
    """The terms of the release, which are those of its charge."""
    return Provenance(
        version=__version__,
        plan_hash=charge.plan,
        schema_hash=schema_hash(plan),
        charge=charge.rho,
        budget=budget.describe(options.accounting, has_gaussian_curve(options.mechanism, options.noise)),
        accounting=options.accounting,
        noise=charge.noise,
        neighbours=charge.neighbours,
        contributions=charge.contributions,
        mechanism=charge.mechanism,
        reference=options.reference,
        unit=options.unit,
        count_column=options.count_column,
        max_count=None if plan.counted is None else plan.counted.most,
        count_step=None if plan.counted is None else plan.counted.step,
        stamps=stamps(plan, options.noise, options.test_seed, leave_out=options.leaves_rows_out),
    )
