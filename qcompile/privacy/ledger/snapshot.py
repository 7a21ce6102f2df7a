"""The contents of a ledger at one moment, and the check of a new charge against them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path

from qcompile.errors import BudgetError, OverspendError
from qcompile.privacy.accounting import epsilon_from_rho, exact_delta
from qcompile.privacy.budget import USUAL_DELTA, has_gaussian_curve, without_mu
from qcompile.privacy.exact_numbers import amount_text, finite, rounded_text
from qcompile.privacy.ledger import charges
from qcompile.privacy.ledger.charges import Charge, Entry
from qcompile.privacy.ledger.sqlite_file import damage_error, read_facts
from qcompile.privacy.unit import COUNTED

_CONVERTED_BITS = 2000
"""Size of a denominator up to which an amount is converted exactly."""


@dataclass(frozen=True)
class Snapshot:
    """The facts of a ledger and all its entries.

    Attributes:
      facts: what was fixed when it was made.
      entries: all charges in their order.
      budget: all that may ever be spent, in rho.
    """

    facts: Mapping[str, str]
    entries: tuple[Entry, ...]
    budget: Fraction

    @staticmethod
    def of(connection: sqlite3.Connection, path: Path) -> Snapshot:
        """Read it.

        Raises:
          StorageError: it does not hold what was once written.
        """
        found = read_facts(connection)
        try:
            _require_facts(found)
            snapshot = Snapshot(found, charges.read_entries(connection), finite("rho", found["rho"]))
            _ = snapshot.unit, snapshot.delta  # are read from texts
            return snapshot
        except (ValueError, LookupError):  # a BudgetError is a ValueError
            raise damage_error(path) from None

    @property
    def request(self) -> str:
        """The budget as it was asked for, in words: with mu where all charges must satisfy the Gaussian curve."""
        return self.facts["budget"] if "mu" in self.facts else without_mu(self.facts["budget"])

    @cached_property
    def spent(self) -> Fraction:
        """Sum of all charges, in rho, added up exactly."""
        return sum((e.charge.rho for e in self.entries), Fraction(0))

    @property
    def remaining(self) -> Fraction:
        """The rest of the budget, in rho."""
        return self.budget - self.spent

    @cached_property
    def unit(self) -> dict[str, str | int | None]:
        """The privacy unit of all charges: fixed when the ledger was made, else by the first charge."""
        fixed: dict[str, str | int | None] = {}
        if self.entries:
            first = self.entries[0].charge
            fixed = {"neighbours": first.neighbours, "contributions": first.contributions, "unit": first.unit}
        if "neighbours" in self.facts:
            fixed["neighbours"] = self.facts["neighbours"]
        if "contributions" in self.facts:
            fixed["contributions"] = int(self.facts["contributions"])
        return fixed

    @property
    def dataset(self) -> str | None:
        """The name of the dataset whose account it is; None where any may charge it."""
        return self.facts.get("dataset")

    @property
    def delta(self) -> Fraction:
        """The delta of the budget as it was asked for, or the usual one."""
        stated = re.search(r"at delta (\S+) \(", self.facts.get("budget", ""))
        return USUAL_DELTA if stated is None else exact_delta(stated[1])

    def epsilon_text(self, rho: Fraction, *, up: bool) -> str:
        """An amount of this ledger as epsilon at its delta, in six digits.

        Args:
          rho: the amount.
          up: rounded upwards, as the loss so far; else downwards, as what one more run may ask for.
        """
        if not rho > 0:
            return "0"
        # A sum of unrelated fractions may have too many digits to be converted.
        long = rho.denominator.bit_length() > _CONVERTED_BITS
        short = Fraction(rounded_text(rho, up=up, down=not up)) if long else rho
        return rounded_text(epsilon_from_rho(short, self.delta), up=up, down=not up)

    def require(self, charge: Charge, path: Path) -> None:
        """Refuse what may not be charged.

        Raises:
          OverspendError: more than is left.
          BudgetError: the charge is for another privacy unit or another dataset, or does not satisfy the Gaussian curve
            of a budget in mu.
        """
        if self.dataset is not None and charge.dataset != self.dataset:
            raise BudgetError(_dataset_message(path, self.dataset, charge.dataset))
        if "mu" in self.facts and not has_gaussian_curve(charge.mechanism, charge.noise):
            raise BudgetError(
                f"ledger {path} has its budget in mu, which adds up over batches with rounded noise only, and this "
                "charge is not noted as one; charge a ledger whose budget is in rho, or in epsilon and delta"
            )
        for name, fixed in self.unit.items():
            if getattr(charge, name) != fixed:
                asked = getattr(charge, name)
                rows = "; a run over counts is for rows of the data with max_count" if _is_counted(fixed, asked) else ""
                raise BudgetError(
                    f"ledger {path} adds up charges with {name} {_shown(fixed)}, this one has {name} {_shown(asked)}; "
                    f"losses of different privacy units do not add up: use its unit{rows}"
                )
        if charge.rho > self.remaining:
            raise OverspendError(_overspend_message(path, charge.rho, self.remaining), charge.rho, self.remaining)


_REQUIRED, _OPTIONAL = ("rho", "budget", "version", "time"), ("neighbours", "contributions", "dataset", "mu")


def _require_facts(found: Mapping[str, str]) -> None:
    """Refuse facts that are missing, or are no text: SQLite takes anything in any column.

    Raises:
      ValueError: one is.
    """
    stated = [found.get(name) for name in _REQUIRED] + [found[name] for name in _OPTIONAL if name in found]
    if not all(type(value) is str for value in stated):
        raise ValueError("a fact is missing, or is no text")


def _is_counted(*units: str | int | None) -> bool:
    """True if one of two privacy units is that of a column of counts, see `qcompile.privacy.unit.CountColumn`."""
    return any(str(unit).startswith(COUNTED) for unit in units)


def _shown(value: str | int | None) -> str:
    return "none" if value is None else repr(value) if isinstance(value, str) else str(value)


def _dataset_message(path: Path, expected: str, stated: str | None) -> str:
    other = "names none" if stated is None else f"is for {stated!r}"
    return (
        f"ledger {path} is the account of the dataset {expected!r}, and this charge {other}; nothing was charged: use "
        f"the ledger of its dataset, or, where it is this one, say so: --dataset, dataset={expected!r}"
    )


def _overspend_message(path: Path, requested: Fraction, remaining: Fraction) -> str:
    parts = {"requested": requested, "remaining": remaining, "short by": requested - remaining}
    listed = ", ".join(f"{name} {amount_text(value)}" for name, value in parts.items())
    return f"ledger {path} has too little left of its rho: {listed}; nothing was charged, ask for less"
