"""``qcompile answers``: a family's answers as a table, all of them or those that are selected."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import typer

from qcompile.cli.output import (
    ESTIMATE,
    MAX_MEMORY,
    PROCESSING,
    limits_memory,
    message,
    progress,
    require_file,
    require_target,
    result,
    table_lines,
    warn_not_private,
)
from qcompile.errors import OptionError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from qcompile.api import Release

REST = "; --limit 0 shows all"

OF = typer.Option(None, "--of", metavar="A,B,...", help="Only products over exactly these attributes, in any order.")
WHERE = typer.Option(
    None,
    "--where",
    metavar="COLUMN=LABEL",
    help="Only rows with this label, e.g. 'age=<= 40'; repeat it for another column, or for several labels of one.",
)


@limits_memory
def answers(
    release_file: str = typer.Argument(..., metavar="RELEASE", help="A release that run has written."),
    family: str | None = typer.Argument(
        None, metavar="FAMILY", help="A family's name; without it the families are listed."
    ),
    output: str | None = typer.Option(
        None, "-o", "--output", metavar="TABLE", help="Write .csv, .parquet, .arrow or .jsonl."
    ),
    of: str | None = OF,
    where: list[str] | None = WHERE,
    every: bool = typer.Option(
        False, "--all", help="Write all answers of a family of any size; billions need hours and much disk space."
    ),
    alpha: float = typer.Option(0.05, help="Intervals cover with probability 1 - alpha."),
    simultaneous: bool = typer.Option(
        False, "--simultaneous", help="All intervals of the family, or of what is selected, together."
    ),
    estimate: str | None = ESTIMATE,
    processing: str | None = PROCESSING,
    limit: int = typer.Option(20, min=0, help="Rows to print; 0 for all."),
    max_memory: str | None = MAX_MEMORY,
) -> None:
    """Print or write the answers of a family, with standard errors and intervals.

    Example: qcompile answers couples.release age_gap -o age_gap.csv
    """
    import qcompile as qc

    if every and output is None:
        raise OptionError("--all writes all answers to a file; say which with -o")
    require_file(release_file)
    release = qc.load_release(release_file)
    warn_not_private(release)
    if family is None:
        _require_family(output, of, where)
        result("\n".join(_families(release, limit)))
        return
    selected: dict[str, Any] = {"of": _attributes(release, of), "where": _labels(release, family, where)}
    options = {"alpha": alpha, "simultaneous": simultaneous, "estimate": estimate, "processing": processing}
    if output is not None:
        require_target(output, release_file)
        made = _write(release, family, output, every, selected, options)
    else:
        made = _print(release, family, limit, selected, options)
    message(f"estimates: {made[b'estimate'].decode()}; intervals: {made[b'interval'].decode()}")


def _require_family(*options: object) -> None:
    """Refuse to select or write without a family."""
    if any(options):
        raise OptionError("-o, --of and --where are for the answers of one family; name it after the release")


def _attributes(release: Release, text: str | None) -> tuple[str, ...] | None:
    """Read a list of attributes; one with a comma in its name is taken alone."""
    if text is None:
        return None
    return (text,) if text in release.plan.workload.schema else tuple(name.strip() for name in text.split(","))


def _labels(release: Release, family: str, conditions: Sequence[str] | None) -> dict[str, list[str]] | None:
    """Read the labels of each column. A column's name, or a label, may hold a sign of equality."""
    if not conditions:
        return None
    columns = tuple(dict.fromkeys(f.column for f in release.plan.workload.family(family).factors))
    labels: dict[str, list[str]] = {}
    for text in conditions:
        matching = [c for c in columns if text.startswith(f"{c}=")]
        name, separator, _ = text.partition("=")
        if not separator:
            raise OptionError(f"--where {text!r} must be COLUMN=LABEL, such as --where 'age=<= 40'")
        if not matching:
            raise OptionError(f"family {family!r} has no label column {name!r}; {did_you_mean(name, columns)}")
        column = max(matching, key=len)
        labels.setdefault(column, []).append(text.removeprefix(f"{column}="))
    return labels


def _write(
    release: Release, family: str, output: str, every: bool, selected: dict[str, Any], options: dict[str, Any]
) -> dict[bytes, bytes]:
    """Write answers batch by batch; returns the metadata of the table."""
    from qcompile.release.answers.selection import select
    from qcompile.support.table_files import open_table, require_format

    require_format(output)
    selection = select(release.plan.workload, family, **selected)
    if not every:
        selection.require_table()
    batches = release.batches(family, **selected, **options)
    done = 0
    with progress("writing") as step, open_table(output, batches.schema) as writer:
        for batch in batches:
            writer.write(batch)
            done += batch.num_rows
            step(done, selection.count)
    result(f"{done:,} answers written to {output}")
    return dict(batches.schema.metadata)


def _print(
    release: Release, family: str, limit: int, selected: dict[str, Any], options: dict[str, Any]
) -> dict[bytes, bytes]:
    """Print the first answers, and make no others; returns the metadata of the table."""
    import pyarrow as pa

    from qcompile.release.answers.selection import select

    selection = select(release.plan.workload, family, **selected)
    if not limit:
        selection.require_table()
    batches = release.batches(family, **selected, **options)
    table = pa.Table.from_batches(_first(batches, limit or selection.count), batches.schema)
    result("\n".join(table_lines(table, limit=limit or None, of=selection.count, rest=REST)))
    return dict(batches.schema.metadata)


def _first(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """Yield batches until they have some number of rows."""
    for batch in batches:
        yield batch
        rows -= batch.num_rows
        if rows <= 0:
            return


def _families(release: Release, limit: int) -> list[str]:
    """Return a table of the families with the predicted rmse, or with the coverage of an adaptive run."""
    import pyarrow as pa

    families = release.plan.workload.families
    texts = pa.array([f.text for f in families], pa.string())
    if release.history is not None:
        return table_lines(release.coverage().append_column("text", texts), limit=limit or None, rest=REST)
    shown = families[: limit or None]  # the errors of ten thousand families take a while
    cost = float(2 * release.provenance.charge)
    rmse = [math.sqrt(release.plan.family_errors(f).total / f.count / cost) for f in shown]
    columns = {"family": [f.name for f in shown], "queries": [f.count for f in shown], "rmse": rmse}
    return table_lines(pa.table({**columns, "text": texts[: len(shown)]}), of=len(families), rest=REST)
