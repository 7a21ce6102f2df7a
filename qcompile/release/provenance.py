"""The terms under which a release was made, and the warnings that go with it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from qcompile.plan.plan import Plan
from qcompile.privacy.unit import CountColumn
from qcompile.queries.schema import Schema

NOT_PRIVATE = "NOT PRIVATE"

LEFT_OUT = "rows with what clip cannot clip, such as a null, are left out"
"""The stamp in release files; `left_out_note` says the same with the names of the attributes."""

COUNTS_LEFT_OUT = "rows whose count is missing or negative are left out, and counts are rounded to the nearest step"
"""The stamp of a run with a column of counts and a ledger."""

MECHANISMS = ("batch", "adaptive")


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Under which terms a release was made; all of it public.

    Attributes:
      version: of qcompile.
      plan_hash: of the plan's contents.
      schema_hash: of the schema.
      charge: rho spent, exactly.
      budget: as it was asked for, in words.
      accounting: "zcdp" or "gaussian".
      noise: "rounded", "opendp" or "none".
      neighbours: the relation the charge refers to.
      contributions: rows of one privacy unit.
      mechanism: "batch" or "adaptive".
      reference: the model behind the best estimates, one of `qcompile.estimates.references.REFERENCES`.
      unit: the column by which rows were cut to that number; None where they were not.
      count_column: the column with the number of rows that each row of the data stands for; None without one.
      max_count: the largest count of a row of the data, for which the noise is made, so that neighbouring tables differ
        in rows of the data; None where they differ in units of the column.
      count_step: the step to whose multiples counts were rounded; None where they were whole numbers.
      stamps: warnings that go with the release, such as NOT PRIVATE.
    """

    version: str
    plan_hash: str
    schema_hash: str
    charge: Fraction
    budget: str
    accounting: str
    noise: str
    neighbours: str
    contributions: int
    mechanism: str = "batch"
    reference: str = "auto"
    unit: str | None = None
    count_column: str | None = None
    max_count: Fraction | None = None
    count_step: Fraction | None = None
    stamps: tuple[str, ...] = ()

    @property
    def counted(self) -> CountColumn | None:
        """The column of counts.

        Raises:
          OptionError: a file states options of a column that cannot be.
        """
        return CountColumn.of(self.count_column, self.max_count, self.count_step)

    @property
    def charged_unit(self) -> str | None:
        """The unit that a ledger notes with the charge: a column of ids, or each unit of a column of counts."""
        counted = self.counted
        return self.unit if counted is None else counted.charged_unit or self.unit

    def data(self) -> dict[str, Any]:
        """The terms as plain data: fractions as text, tuples as lists; nothing of counts where there are none."""
        terms = {name: str(v) if isinstance(v, Fraction) else v for name, v in asdict(self).items()}
        for name in ("count_column", "max_count", "count_step"):
            if terms[name] is None:
                del terms[name]
        return terms | {"stamps": list(self.stamps)}


def stamps(plan: Plan, noise: str, test_seed: int | None, leave_out: bool) -> tuple[str, ...]:
    """Warnings that go with a release.

    Args:
      plan: what was measured, with its column of counts.
      noise: how.
      test_seed: of deterministic noise.
      leave_out: whether rows with what clip cannot clip, or what is no count, were left out.
    """
    clips = any(a.policy.kind == "clip" for a in plan.workload.schema)
    found = {
        f"{NOT_PRIVATE}: made with a test seed": test_seed is not None,
        LEFT_OUT: leave_out and clips,
        COUNTS_LEFT_OUT: leave_out and plan.counted is not None,
    }
    return (*certain_stamps(plan, noise), *(text for text, holds in found.items() if holds))


def note_text(stamp: str, schema: Schema) -> str | None:
    """Return the text for people of a stamp that is no warning; None of a warning."""
    return left_out_note(schema) if stamp == LEFT_OUT else stamp if stamp == COUNTS_LEFT_OUT else None


def left_out_note(schema: Schema) -> str:
    """Return the text of the stamp `LEFT_OUT` for people, with the attributes that clip: they are public knowledge."""
    names = [attribute.name for attribute in schema if attribute.policy.kind == "clip"]
    return f"rows with a missing value in {', '.join(names)} are not counted (clip cannot place them)"


def certain_stamps(plan: Plan, noise: str) -> tuple[str, ...]:
    """The warnings that follow from plan and noise."""
    found = {
        f"{NOT_PRIVATE}: made without noise": noise == "none",
        "the schema was read from the data: its domains are not covered by the guarantee": (
            plan.workload.schema.read_from_data
        ),
        "the number of rows is released exactly: it is public when one row is replaced": plan.unit.public_total,
    }
    return tuple(text for text, holds in found.items() if holds)


NOISES = ("rounded", "opendp", "none")
