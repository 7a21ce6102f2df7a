"""CONFIDENTIAL facts about the effect of policies and privacy units on a table, for the curator of the data only.

Everything here is exact and comes from the data without noise. Nothing of it may be published, nor shown to anybody
who may not see the data itself. It is meant for fixing a schema before the first release, above all where `read`
refuses the data and, rightly, does not name the value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from qcompile.data.encode.cells import code_column, compare_to_ends, fallback_code, parse_table
from qcompile.data.encode.edges import fit_to_column
from qcompile.data.encode.reading import Reading
from qcompile.data.encode.units import columns_to_open, is_counted, is_kept, rank_rows, unit_ids
from qcompile.data.recognition import recognise
from qcompile.data.sources.columns import SourceTable
from qcompile.data.sources.engine_errors import fetch
from qcompile.errors import DataError
from qcompile.queries.schema import Attribute, CategoryDomain, Schema

CONFIDENTIAL = "CONFIDENTIAL: exact facts about the data, for its curator only; never publish them"

EXAMPLES = 3
"""Refused values that are shown of an attribute, the most frequent first."""

Look: TypeAlias = Callable[[Any], list[dict[str, Any]]]
"""From an expression of the engine to its rows."""

POLICY_EFFECTS = {
    "clip": "refused (left out with a ledger), as only numbers can be clipped",
    "strict": "refused, as the attribute has no policy",
    "drop": "dropped with their rows",
    "other": "counted in its other cell",
}


@dataclass(frozen=True)
class AttributeFacts:
    """CONFIDENTIAL: how the values of one column are treated.

    Attributes:
      name: of the attribute.
      policy: of the attribute: strict, clip, drop or other.
      nulls: rows without a value, not-a-number included.
      outside: rows with a value that is in no declared cell.
      clipped: those of them that go to the nearest end.
      by_policy: all other such rows, which the policy treats: refused, dropped, or counted in the other cell.
      examples: for refused ones, values as text (None for a null) with their numbers of rows.
    """

    name: str
    policy: str
    nulls: int
    outside: int
    clipped: int
    by_policy: int
    examples: tuple[tuple[str | None, int], ...] = ()

    @property
    def refused(self) -> int:
        """Rows for which `read` refuses the data."""
        return self.by_policy if self.policy in ("strict", "clip") else 0

    def __str__(self) -> str:
        if not self.nulls + self.outside:
            return f"attribute {self.name!r}: every value is in its domain"
        parts = [f"{self.clipped:,} clipped"] if self.clipped else []
        parts += [f"{self.by_policy:,} {POLICY_EFFECTS[self.policy]}"] if self.by_policy else []
        shown = ", ".join(f"{'null' if v is None else repr(v)} ({n:,})" for v, n in self.examples)
        numbers = f"{self.nulls:,} null, {self.outside:,} outside its domain: {', '.join(parts)}"
        return f"attribute {self.name!r}: {numbers}" + (f"; for instance {shown}" if shown else "")


@dataclass(frozen=True)
class UnitFacts:
    """CONFIDENTIAL: how the rows of the privacy units are treated.

    Attributes:
      name: of the column.
      contributions: rows of a unit that count at most.
      units: ids among the rows that no policy drops.
      without: rows that no policy drops, but without an id: they stay out.
      cut: rows beyond `contributions` of their units.
    """

    name: str
    contributions: int
    units: int
    without: int
    cut: int

    def __str__(self) -> str:
        return (
            f"privacy unit {self.name!r}: units: {self.units:,}, rows left out without an id: {self.without:,}, "
            f"rows cut beyond {self.contributions:,} of a unit: {self.cut:,}"
        )


@dataclass(frozen=True)
class Diagnosis:
    """CONFIDENTIAL: how the rows of a table are treated; ``str`` gives the text of `lines`.

    Attributes:
      rows: rows read.
      attributes: in schema order.
      dropped: rows that a policy drops.
      unit: about the privacy unit, where one was named.
      counted: rows that count in the end, if no value is refused.
      leave_out: True if rows that clip cannot place, such as a null, are left out instead of refused; they count as
        dropped.
    """

    rows: int
    attributes: tuple[AttributeFacts, ...]
    dropped: int
    unit: UnitFacts | None
    counted: int
    leave_out: bool = False

    def lines(self) -> list[str]:
        """Return the facts in words; the first line says that they are confidential."""
        refusing = [repr(a.name) for a in self.attributes if a.refused and not (self.leave_out and a.policy == "clip")]
        end = f"the data is refused because of {', '.join(refusing)}" if refusing else f"rows counted: {self.counted:,}"
        unit = [] if self.unit is None else [str(self.unit)]
        out = "dropped by policies" + (" or left out because they cannot be clipped" if self.leave_out else "")
        facts = [*map(str, self.attributes), f"rows {out}: {self.dropped:,}", *unit, end]
        return [CONFIDENTIAL, f"rows read: {self.rows:,}", *facts]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def diagnose(
    data: object, schema: Schema, *, unit: str | None = None, contributions: int = 1, leave_out: bool = False
) -> Diagnosis:
    """CONFIDENTIAL: count what `qcompile.data.read` would clip, drop, refuse and cut, without refusing it.

    The result is as confidential as the data. One scan, and one more for each attribute with refused values.

    Args:
      data: a table, as for `qcompile.data.read`.
      schema: the declared attributes.
      unit: the column with the ids of the privacy unit, if any.
      contributions: the rows of a unit that count at most.
      leave_out: as for `qcompile.data.read`.

    Raises:
      OptionError: the data are counts, not rows; or an option that `read` refuses.
      DataError: the data cannot be read at all, or its types do not fit.
    """
    contributions = Reading(unit, contributions, leave_out).contributions
    dataset = recognise(data)
    if not len(schema):
        raise DataError("the schema declares no attribute, so there is nothing to diagnose")
    with dataset.connect(columns_to_open(schema, Reading(unit))) as opened:
        source = opened.source
        table = _classify_rows(source, schema, unit, leave_out)
        look = partial(fetch, opened.connection, explain=source.explain)
        (sums,) = look(table.aggregate(**_sums(table, schema)))
        attributes = tuple(_facts(look, table, sums, i, attribute) for i, attribute in enumerate(schema))
        units = None if unit is None else _unit_facts(look, table, schema, unit, contributions, leave_out)
    out = 0 if units is None else units.without + units.cut
    counted = sums["rows"] - sums["dropped"] - out
    return Diagnosis(sums["rows"], attributes, sums["dropped"], units, counted, leave_out)


def _classify_rows(source: SourceTable, schema: Schema, unit: str | None, leave_out: bool) -> Any:
    """Return codes (see `encode_columns`), ``counts``, ``unit`` if any, ``raw<i>``, ``null<i>``, ``clipped<i>``."""
    columns = [source.table[f"c{i}"] for i in range(len(schema))]
    beside = {f"raw{i}": column.cast("string") for i, column in enumerate(columns)}
    beside |= {f"null{i}": _is_null(source, column) for i, column in enumerate(columns)}
    if unit is not None:
        beside["unit"] = unit_ids(source, schema, unit)
    values = parse_table(source, schema, **beside)
    codes = {f"c{i}": code_column(source, values, i, attribute) for i, attribute in enumerate(schema)}
    fitted = [fit_to_column(attribute, source, i) for i, attribute in enumerate(schema)]
    clipped = {f"clipped{i}": _is_clipped(values, i, attribute) for i, attribute in enumerate(fitted)}
    rows = values.select(*beside, **codes, **clipped).view()
    return rows.mutate(counts=is_counted(rows, schema, leave_out)).view()


def _is_null(source: SourceTable, column: Any) -> Any:
    may_be_nan = column.type().is_floating() and "IsNan" not in source.lacks
    return column.isnull() | column.isnan() if may_be_nan else column.isnull()


def _is_clipped(values: Any, position: int, attribute: Attribute) -> Any:
    import ibis

    if attribute.policy.kind != "clip" or isinstance(attribute.domain, CategoryDomain):
        return ibis.literal(False)
    low, high = compare_to_ends(attribute.domain, values[f"c{position}_number"])
    return low | high


def _count_rows(test: Any) -> Any:
    """Count the rows where a test holds; a plain sum over no rows would be null."""
    return test.sum().fill_null(0)


def _sums(table: Any, schema: Schema) -> dict[str, Any]:
    """Return the sums over a table of `_classify_rows`, by name."""
    sums = {"rows": table.count(), "dropped": _count_rows(~table.counts)}
    for i, attribute in enumerate(schema):
        sums[f"nulls{i}"] = _count_rows(table[f"null{i}"])
        sums[f"clipped{i}"] = _count_rows(table[f"clipped{i}"])
        sums[f"by_policy{i}"] = _count_rows(table[f"c{i}"] == fallback_code(attribute))
    return sums


def _facts(look: Look, table: Any, sums: dict[str, Any], position: int, attribute: Attribute) -> AttributeFacts:
    nulls, clipped, by_policy = (sums[f"{field}{position}"] for field in ("nulls", "clipped", "by_policy"))
    outside = clipped + by_policy - nulls
    facts = AttributeFacts(attribute.name, attribute.policy.kind, nulls, outside, clipped, by_policy)
    if not facts.refused:
        return facts
    refused = table.filter(table[f"c{position}"] == fallback_code(attribute)).select(value=f"raw{position}").view()
    values = refused.group_by("value").aggregate(rows=refused.count())
    shown = values.order_by([values["rows"].desc(), values["value"]]).limit(EXAMPLES)
    return replace(facts, examples=tuple((row["value"], row["rows"]) for row in look(shown)))


def _unit_facts(look: Look, table: Any, schema: Schema, unit: str, contributions: int, leave_out: bool) -> UnitFacts:
    ranked = rank_rows(table, schema, leave_out)
    without, cut = ranked.counts & ~ranked.mine, ranked.counts & ranked.mine & ~is_kept(ranked, contributions)
    units = ranked.unit.nunique(where=ranked.counts)
    (sums,) = look(ranked.aggregate(units=units, without=_count_rows(without), cut=_count_rows(cut)))
    return UnitFacts(unit, contributions, sums["units"], sums["without"], sums["cut"])
