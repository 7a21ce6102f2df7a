"""The sections of the page of tables: errors, then time and memory, from the rows and what became of their jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.measure import PHASES, Outcome
from benchmarks.published import source
from benchmarks.report import ABSENT, error, gap, megabytes, seconds, table
from benchmarks.rows import PLAIN, VARIANTS, Row

TITLES = {
    2: "Table 2: k-way hybrid marginals and prefixes",
    3: "Table 3: 1-way hybrid and affine or abs queries on all pairs",
    4: "Table 4: 1-way and 2-way queries of one kind, 40 attributes of n values",
    5: "Table 5: 1-way ranges, 2-way affine, 3-way prefixes, d attributes of n values",
    6: "Table 6: time and memory to find a mechanism",
    7: "Table 7: time to measure and answer a table of 100,000 rows",
}
OTHERS = tuple(v for v in VARIANTS if v != PLAIN)
METHODS = {"rp_plus": "RP+", "hdmm": "HDMM", "wff": "WFF", "qs": "QS"}


@dataclass(frozen=True)
class Result:
    """A row and the outcomes of its variants."""

    row: Row
    outcomes: Mapping[str, Outcome]

    def show(self, variant: str, cell: Callable[[Outcome], str]) -> str:
        """A cell of a variant's outcome; a word where there is none."""
        outcome = self.outcomes.get(variant)
        if outcome is None:
            return ABSENT
        return cell(outcome) if outcome.values else outcome.note.partition(":")[0]


def section(number: int, results: Sequence[Result]) -> str:
    """A table of the paper: heading, source, tables, and the reasons of what did not finish."""
    shown = {6: [_search], 7: [_release]}.get(number, [_errors, _costs])
    notes = [
        f"- {', '.join(r.row.labels.values())}, {variant}: {outcome.note}"
        for r in results
        for variant, outcome in r.outcomes.items()
        if outcome.note
    ]
    parts = [f"## {TITLES[number]}", source(number), *(show(results) for show in shown), "\n".join(notes)]
    return "\n\n".join(p for p in parts if p)


def _errors(results: Sequence[Result]) -> str:
    methods = [m for m in METHODS if m in results[0].row.published]
    columns = [
        *results[0].row.labels,
        "queries",
        *(METHODS[m] for m in methods),
        "qcompile",
        "gap",
        *OTHERS,
        "QS / best",
    ]
    lines = [
        [
            *r.row.labels.values(),
            r.show(PLAIN, lambda o: f"{o.values['queries']:,}"),
            *(r.row.published[m] or ABSENT for m in methods),
            r.show(PLAIN, _rmse),
            r.show(PLAIN, _gap),
            *(r.show(v, _rmse) for v in OTHERS),
            _ratio(r),
        ]
        for r in results
    ]
    return "Errors (RMSE at cost 1):\n\n" + table(columns, lines)


def _ratio(result: Result) -> str:
    found = [float(o.values["rmse"]) for o in result.outcomes.values() if o.values]
    return f"{float(result.row.published['qs']) / min(found):.3f}" if found else ABSENT


def _costs(results: Sequence[Result]) -> str:
    columns = [*results[0].row.labels, "classes", *PHASES, "MB", *(f"{v}: total" for v in OTHERS)]
    lines = [
        [
            *r.row.labels.values(),
            r.show(PLAIN, lambda o: f"{o.values['classes']:,}"),
            *_phases(r),
            r.show(PLAIN, _peak),
            *(r.show(v, _seconds("total")) for v in OTHERS),
        ]
        for r in results
    ]
    return "Seconds, and peak memory of the process:\n\n" + table(columns, lines)


def _search(results: Sequence[Result]) -> str:
    columns = [*results[0].row.labels, "views", "QS: seconds", "QS: GB", *PHASES, "with start-up", "MB", "RMSE", "gap"]
    lines = [
        [
            *r.row.labels.values(),
            r.show(PLAIN, _views),
            r.row.published["seconds"],
            r.row.published["gigabytes"],
            *_phases(r),
            *(r.show(PLAIN, cell) for cell in (lambda o: seconds(o.process), _peak, _rmse, _gap)),
        ]
        for r in results
    ]
    return table(columns, lines)


def _release(results: Sequence[Result]) -> str:
    columns = [*results[0].row.labels, "QS: seconds", "views", "measure", "answer", "MB"]
    lines = [
        [
            *r.row.labels.values(),
            r.row.published.get("seconds", ABSENT),
            r.show(PLAIN, _views),
            r.show(PLAIN, lambda o: seconds(o.values["measure"])),
            r.show(PLAIN, lambda o: seconds(o.values["answer"])),
            r.show(PLAIN, _peak),
        ]
        for r in results
    ]
    note = "Fewer attributes are measured here than were published; *answer* is every view with its standard errors."
    return note + "\n\n" + table(columns, lines)


def _phases(result: Result) -> list[str]:
    return [result.show(PLAIN, _seconds(phase)) for phase in PHASES]


def _seconds(phase: str) -> Callable[[Outcome], str]:
    return lambda o: seconds(o.values["seconds"][phase])


def _rmse(outcome: Outcome) -> str:
    return error(outcome.values["rmse"])


def _gap(outcome: Outcome) -> str:
    return gap(outcome.values["gap"])


def _views(outcome: Outcome) -> str:
    return f"{outcome.values['views']:,}"


def _peak(outcome: Outcome) -> str:
    return megabytes(outcome.values["peak"])
