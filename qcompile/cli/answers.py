"""``qcompile answers``: a family's answers as a table."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from qcompile.cli.output import ESTIMATE, PROCESSING, message, require_file, require_target, result, table_lines
from qcompile.errors import OptionError
from qcompile.files import replacing

if TYPE_CHECKING:
    from qcompile.release import Release


def answers(
    release_file: str = typer.Argument(..., metavar="RELEASE", help="A release that run has written."),
    family: str | None = typer.Argument(
        None, metavar="FAMILY", help="A family's name; without it the families are listed."
    ),
    output: str | None = typer.Option(
        None, "-o", "--output", metavar="TABLE", help="Write .csv, .parquet, .arrow or .jsonl."
    ),
    alpha: float = typer.Option(0.05, help="Intervals cover with probability 1 - alpha."),
    simultaneous: bool = typer.Option(False, "--simultaneous", help="All intervals of the family together."),
    estimate: str | None = ESTIMATE,
    processing: str | None = PROCESSING,
    limit: int = typer.Option(20, min=0, help="Rows to print; 0 for all."),
) -> None:
    """Print or write the answers of a family, with standard errors and intervals.

    Example: qcompile answers couples.release age_gap -o age_gap.csv
    """
    import qcompile as qc

    require_file(release_file)
    release = qc.load_release(release_file)
    for stamp in release.provenance.stamps:
        message(f"warning: {stamp}")
    if family is None:
        result("\n".join(table_lines(_families(release), limit=limit or None)))
        return
    table = release.answers(family, alpha=alpha, simultaneous=simultaneous, estimate=estimate, processing=processing)
    if output is not None:
        require_target(output, release_file)
        write_table(_labelled(table, output), output)
        result(f"{table.num_rows:,} answers written to {output}")
    else:
        result("\n".join(table_lines(table, limit=limit or None)))
    made, interval = (table.schema.metadata[key].decode() for key in (b"estimate", b"interval"))
    message(f"estimates: {made}; intervals: {interval}")


def _labelled(table: Any, path: str) -> Any:
    """The table with a column that says how its numbers were made, where they are not a batch's unbiased estimates.

    Parquet and Arrow files have it in their metadata; the other formats have no other place.
    """
    import pyarrow as pa

    made, interval = (table.schema.metadata[key].decode() for key in (b"estimate", b"interval"))
    if Path(path).suffix.lower() in (".parquet", ".arrow") or (made == "unbiased" and "nominal" not in interval):
        return table
    note = pa.array([f"{made}; intervals: {interval}"] * table.num_rows, pa.string())
    return table.append_column("note" if "note" not in table.column_names else "how it was made", note)


def _families(release: Release) -> Any:
    """Name, queries and text of every family, with the predicted rmse, or how many were measured adaptively."""
    import pyarrow as pa

    families = release.plan.workload.families
    text = pa.array([f.text for f in families], pa.string())
    if release.history is not None:
        return release.coverage().append_column("text", text)
    cost = float(2 * release.provenance.charge)
    errors = [release.plan.family_errors(f).total for f in families]
    rmse = [math.sqrt(e / f.count / cost) for e, f in zip(errors, families, strict=True)]
    queries = [f.count for f in families]
    return pa.table({"family": [f.name for f in families], "queries": queries, "rmse": rmse, "text": text})


def write_table(table: Any, path: str) -> None:
    """Write an Arrow table in the format that the file's ending names.

    Raises:
      OptionError: another ending.
      StorageError: the file cannot be written; what was there before is still there.
    """
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.feather
    import pyarrow.parquet

    plain = pa.table({c: _plain(table.column(c)) for c in table.column_names}).replace_schema_metadata(
        table.schema.metadata
    )
    writers = {
        ".csv": pyarrow.csv.write_csv,
        ".parquet": pyarrow.parquet.write_table,
        ".arrow": pyarrow.feather.write_feather,
        ".jsonl": _write_lines,
    }
    ending = Path(path).suffix.lower()
    if ending not in writers:
        raise OptionError(f"cannot tell the format of {path!r}; end the name with {', '.join(writers)}")
    with replacing(path) as temporary:
        writers[ending](plain, str(temporary))


def _plain(column: Any) -> Any:
    import pyarrow as pa

    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


def _write_lines(table: Any, path: str) -> None:
    import json

    with open(path, "w", encoding="utf-8") as stream:
        for batch in table.to_batches(max_chunksize=10_000):
            stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in batch.to_pylist())
