"""``qcompile ask``: one query in the span of a release."""

from __future__ import annotations

import json
import math

import typer

from qcompile.cli.output import (
    ESTIMATE,
    MAX_MEMORY,
    PROCESSING,
    limits_memory,
    message,
    require_file,
    result,
    warn_not_private,
)


@limits_memory
def ask(
    release_file: str = typer.Argument(..., metavar="RELEASE", help="A release that run has written."),
    query: str = typer.Argument(
        ..., metavar="QUERY", help="One query in the .q language, e.g. 'count(age in 65..80)'."
    ),
    alpha: float = typer.Option(0.05, help="The interval covers with probability 1 - alpha."),
    estimate: str | None = ESTIMATE,
    processing: str | None = PROCESSING,
    as_json: bool = typer.Option(False, "--json", help="The answer as JSON."),
    max_memory: str | None = MAX_MEMORY,
) -> None:
    """Answer any single query that the measurements can answer; the rest is refused, never guessed.

    Comparisons are about values of the domain; != and not count the rows of `other` too, unless its label is excluded.

    Example: qcompile ask couples.release 'count(age in 65..80 and educ = 12)'
    """
    import qcompile as qc

    require_file(release_file)
    release = qc.load_release(release_file)
    warn_not_private(release)
    answer = release.ask(query, estimate=estimate, processing=processing)
    for note in () if as_json else answer.notes:
        message(f"note: {note}")
    biased = math.isnan(answer.std_error)
    low, high = (math.nan, math.nan) if biased else answer.interval(alpha)
    if as_json:
        values = {"estimate": answer.estimate, "std_error": answer.std_error, "lower": low, "upper": high}
        numbers = {k: None if math.isnan(v) else v for k, v in values.items()}
        result(json.dumps({**numbers, "method": answer.method, "notes": answer.notes}))
    elif biased:
        result(f"{answer.estimate:,.1f}, no standard error: it is biased (estimate: {answer.method})")
    else:
        level = f"{100 * (1 - alpha):g} %"
        result(f"{answer.estimate:,.1f}, std error {answer.std_error:,.1f}, {level} interval {low:,.1f} to {high:,.1f}")
        if answer.method != "pointwise":
            message(f"interval: {answer.method}")
