"""The terms under which a release was made, and the warnings that go with it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from qcompile.plan.plan import Plan
from qcompile.queries.schema import Schema

NOT_PRIVATE = "NOT PRIVATE"

LEFT_OUT = "rows with what clip cannot clip, such as a null, are left out"
"""The stamp in release files; `left_out_note` says the same with the names of the attributes."""

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
    stamps: tuple[str, ...] = ()


def stamps(plan: Plan, noise: str, test_seed: int | None, leave_out: bool) -> tuple[str, ...]:
    """Warnings that go with a release.

    Args:
      plan: what was measured.
      noise: how.
      test_seed: of deterministic noise.
      leave_out: whether rows with what clip cannot clip were left out.
    """
    clips = any(a.policy.kind == "clip" for a in plan.workload.schema)
    found = {
        f"{NOT_PRIVATE}: made with a test seed": test_seed is not None,
        LEFT_OUT: leave_out and clips,
    }
    return (*certain_stamps(plan, noise), *(text for text, holds in found.items() if holds))


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
