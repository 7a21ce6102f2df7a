"""The terms of a release as its file states them, checked as far as they can be recomputed.

The statement of the budget must follow from the charge and the accounting. Other terms cannot be recomputed: the kind
of noise, the treatment of rows that clip cannot clip, the column of the privacy unit, the version. Whoever wrote the
file answers for them.
"""

from __future__ import annotations

import re
from fractions import Fraction

from qcompile.errors import BudgetError
from qcompile.estimates.references import REFERENCES
from qcompile.privacy.accounting import delta_from_cost, delta_from_rho, epsilon_from_cost, epsilon_from_rho
from qcompile.privacy.budget import ACCOUNTINGS, has_gaussian_curve, without_mu
from qcompile.privacy.exact_numbers import exact, finite
from qcompile.privacy.unit import MOST_CONTRIBUTIONS, NEIGHBOURS, CountColumn
from qcompile.release.provenance import MECHANISMS, NOISES, Provenance
from qcompile.release.scales import read_fraction
from qcompile.support.json_fields import Field

MAX_TEXT = 10_000
"""Characters of a term: exact amounts may have a thousand digits each."""

MAX_STAMPS = 100

SHOWN = Fraction(2, 10**5)
"""Relative: amounts are shown with six digits, in the first two formats to the nearest, and mu is squared."""

_NUMBER = r"[0-9][0-9.e/-]*"
_CLAIM = re.compile(
    rf"(epsilon (?P<epsilon>{_NUMBER}) at delta (?P<delta>{_NUMBER})|"
    rf"delta (?P<delta2>{_NUMBER}) at epsilon (?P<epsilon2>{_NUMBER}))( \((?P<accounting>[a-z]+)\))?|"
    rf"(?P<kind>rho|mu|cost) (?P<amount>{_NUMBER})"
)
"""One statement about the privacy loss, as `Budget.describe` makes them."""


def read_provenance(data: Field) -> Provenance:
    """The terms of a release.

    Raises:
      StorageError: a term is missing, unknown or of another type, or the budget contradicts the charge.
    """
    field = data.read_object(*REQUIRED, optional=COUNTS)
    words = {name: field[name].read_choice(allowed) for name, allowed in CHOICES.items()}
    charge = read_fraction(field["charge"])
    if charge <= 0:
        field["charge"].refuse("greater than 0")
    _check_budget(field["budget"], charge, words["accounting"])
    counted = _read_counts(data, field)
    return Provenance(
        version=_read_term(field["version"]),
        plan_hash=_read_term(field["plan_hash"]),
        schema_hash=_read_term(field["schema_hash"]),
        charge=charge,
        budget=_read_budget(field["budget"], words["mechanism"], words["noise"]),
        contributions=field["contributions"].read_integer(1, MOST_CONTRIBUTIONS),
        unit=field["unit"].read_optional(Field.read_text),
        stamps=tuple(map(_read_term, field["stamps"].read_list(most=MAX_STAMPS))),
        count_column=None if counted is None else counted.name,
        max_count=None if counted is None else counted.most,
        count_step=None if counted is None else counted.step,
        **words,
    )


def _read_budget(data: Field, mechanism: str, noise: str) -> str:
    """The statement of the budget; earlier versions stated mu also where it does not hold."""
    text = _read_term(data)
    return text if has_gaussian_curve(mechanism, noise) else without_mu(text)


def _read_counts(data: Field, field: dict[str, Field]) -> CountColumn | None:
    """The column of counts, where there is one."""
    name = field["count_column"].read_text() if "count_column" in field else None
    most, step = (read_fraction(field[n]) if n in field else None for n in ("max_count", "count_step"))
    return data.build(lambda: CountColumn.of(name, most, step))


CHOICES = {
    "accounting": ACCOUNTINGS,
    "noise": NOISES,
    "neighbours": NEIGHBOURS,
    "mechanism": MECHANISMS,
    "reference": REFERENCES,
}
"""Terms that are one of some words."""

REQUIRED = (
    *CHOICES, "version", "plan_hash", "schema_hash", "charge", "budget", "contributions", "unit", "stamps",
)  # fmt: skip


COUNTS = ("count_column", "max_count", "count_step")
"""Terms of a run with a column of counts."""


def _read_term(data: Field) -> str:
    return data.read_text(MAX_TEXT, printable=True)


def _check_budget(data: Field, charge: Fraction, accounting: str) -> None:
    """Require that each statement of the budget holds for the charge.

    Raises:
      StorageError: one does not, or is no statement about a budget.
    """
    claims = [_CLAIM.fullmatch(text) for text in _read_term(data).split(", ")]
    if not all(claim is not None and _holds(claim, charge, accounting) for claim in claims):
        data.refuse("a statement that follows from the charge and the accounting")


def _holds(claim: re.Match[str], charge: Fraction, accounting: str) -> bool:
    """True if a charge costs no more than a claim says, up to the digits that are shown."""
    if claim["accounting"] not in (None, accounting):
        return False
    try:
        claimed, cost = _claimed_and_cost(claim, charge, accounting)
    except (BudgetError, ZeroDivisionError):
        return False
    return cost <= claimed * (1 + SHOWN)


def _claimed_and_cost(claim: re.Match[str], charge: Fraction, accounting: str) -> tuple[Fraction, Fraction]:
    """The amount that a claim states, and the one that follows from the charge, in the same unit."""
    gaussian = accounting == "gaussian"
    if claim["epsilon"]:
        claimed, delta = finite("epsilon", claim["epsilon"]), exact("delta", claim["delta"])
        return claimed, epsilon_from_cost(2 * charge, delta) if gaussian else epsilon_from_rho(charge, delta)
    if claim["epsilon2"]:
        claimed, epsilon = finite("delta", claim["delta2"]), exact("epsilon", claim["epsilon2"])
        return claimed, delta_from_cost(2 * charge, epsilon) if gaussian else delta_from_rho(charge, epsilon)
    amount = exact(claim["kind"], claim["amount"])
    return {"rho": (amount, charge), "cost": (amount, 2 * charge), "mu": (amount**2, 2 * charge)}[claim["kind"]]
