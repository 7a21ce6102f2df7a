"""How fast rows are counted, and in how much memory: 100 million rows in Parquet, the workload of all pairs.

``python benchmarks/many_rows.py [--rows N] [--small N] [--server URL] [-o FILE.md]``
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.fresh import Job, fresh
from benchmarks.memory import peak
from benchmarks.report import ABSENT, megabytes, page, seconds, table, write
from qcompile.data import Database
from qcompile.data.opening import open_data
from qcompile.queries.schema import Attribute, CategoryDomain, Domain, IntegerDomain, NumericDomain, Policy, Schema
from qcompile.support.arrays import bytes_text, digest

ATTRIBUTES = 10

PIECE = 2_000_000
"""Rows that are generated at a time."""

LIMIT = 8 * 2**30
"""Bytes that counting may use."""

INTRODUCTION = """\
Generated rows in Parquet: {attributes} attributes of 10 to 19 values (whole numbers, numbers in bins, texts), every
policy among them, one row in a hundred with a null or a value outside its domain. Counted are the {views} tables of
one and of two attributes, with a limit of {limit}. Every row is from a process of its own; *seconds* are those from
opening the file to the last table, *CPU* those of all threads, *MB* the peak memory of the process. Where other
programs kept the processors busy, as they may have, CPU says more than seconds. Equal digests mean equal tables."""

COLUMNS = ("engine", "rows", "seconds", "CPU", "million rows / s", "MB", "digest of all tables")


@dataclass(frozen=True)
class Outcome:
    """What counting took.

    Attributes:
      total: rows that count.
      seconds: by the clock.
      processor: seconds of all threads of this process.
      memory: peak of the process in bytes.
      tables: a digest of all tables.
    """

    total: int
    seconds: float
    processor: float
    memory: int
    tables: str


def schema() -> Schema:
    """Ten attributes of three kinds, with every policy."""
    policies = (Policy("drop"), Policy("clip"), Policy("other", "rest"))
    return Schema(tuple(Attribute(f"x{i}", _domain(i), policies[i % 3]) for i in range(ATTRIBUTES)))


def _domain(i: int) -> Domain:
    size = 10 + i
    if i % 3 == 2:
        return CategoryDomain(tuple(f"label {j}" for j in range(size)))
    return IntegerDomain(0, size - 1) if i < 6 else NumericDomain(tuple(map(float, range(size + 1))))


def views() -> list[tuple[str, ...]]:
    """All attributes and all pairs of them."""
    return [view for ways in (1, 2) for view in itertools.combinations(schema().names, ways)]


def generate(path: Path, rows: int) -> None:
    """Write rows to a Parquet file, piece by piece."""
    import pyarrow.parquet as pq

    writer = None
    for piece in pieces(rows):
        writer = writer or pq.ParquetWriter(path, piece.schema)
        writer.write_table(piece)
    if writer is not None:
        writer.close()


def pieces(rows: int) -> Iterator[Any]:
    """The rows as Arrow tables."""
    import pyarrow as pa

    rng = np.random.default_rng(1)
    for start in range(0, rows, PIECE):
        number = min(PIECE, rows - start)
        yield pa.table({a.name: _column(rng, i, a, number) for i, a in enumerate(schema())})


def _column(rng: np.random.Generator, i: int, attribute: Attribute, rows: int) -> Any:
    import pyarrow as pa

    size = attribute.domain.size
    codes = np.minimum(rng.integers(0, size, rows), rng.integers(0, size + 1, rows))
    odd = rng.random(rows) < 0.01
    if isinstance(attribute.domain, CategoryDomain):
        labels = pa.array([*attribute.domain_labels, "neither"])
        return pa.DictionaryArray.from_arrays(pa.array(np.where(odd, size, codes), pa.int32()), labels).cast(
            pa.string()
        )
    codes = np.where(odd, size + 5, codes)
    if isinstance(attribute.domain, IntegerDomain):
        return pa.array(codes, pa.int32(), mask=odd if attribute.policy.kind == "drop" else None)
    return pa.array(codes + rng.random(rows))


def count(data: object, engine: str) -> Outcome:
    """Count all tables."""
    start, processor = time.perf_counter(), _processor()
    with open_data(data, schema(), views(), engine=engine, max_memory=LIMIT) as counts:
        tables = {view: digest(make()) for view, make in counts.tables(views())}
        total = counts.total
    whole = digest(np.array([tables[view] for view in sorted(tables)]))
    return Outcome(total, time.perf_counter() - start, _processor() - processor, peak(), whole[:16])


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def store(path: Path, url: str) -> Database:
    """Copy a Parquet file into a table of a PostgreSQL database, which is replaced."""
    import psycopg
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    kinds = {IntegerDomain: "integer", NumericDomain: "double precision", CategoryDomain: "text"}
    columns = ", ".join(f"{a.name} {kinds[type(a.domain)]}" for a in schema())
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS qcompile_rows")
        cursor.execute(f"CREATE UNLOGGED TABLE qcompile_rows ({columns})")
        with cursor.copy("COPY qcompile_rows FROM STDIN (FORMAT csv)") as copy, tempfile.TemporaryFile() as file:
            pc.write_csv(pq.read_table(path), file, pc.WriteOptions(include_header=False))
            file.seek(0)
            while block := file.read(2**20):
                copy.write(block)
        cursor.execute("ANALYZE qcompile_rows")
    return Database(url, "qcompile_rows")


def line(engine: str, rows: int, outcome: Outcome) -> list[str]:
    """A line of a table."""
    # Spark and PostgreSQL work in processes of their own.
    own = engine in ("duckdb", "memory")
    return [
        engine,
        f"{rows:,}",
        seconds(outcome.seconds),
        seconds(outcome.processor) if own else ABSENT,
        f"{rows / outcome.seconds / 1e6:.2f}",
        megabytes(outcome.memory) if own else ABSENT,
        outcome.tables,
    ]


def section(folder: Path, title: str, rows: int, engines: Sequence[str], url: str | None) -> str:
    """Generate rows, count them with every engine, and report."""
    path = folder / f"{rows}.parquet"
    generate(path, rows)
    jobs = [Job(f"{engine}, {rows:,} rows", count, (path, engine)) for engine in engines]
    if url is not None:
        jobs.append(Job(f"PostgreSQL, {rows:,} rows", count, (store(path, url), "database")))
    names = [*engines, *(["PostgreSQL"] if url is not None else [])]
    lines = [line(name, rows, outcome) for name, outcome in zip(names, fresh(jobs), strict=True)]
    size = bytes_text(path.stat().st_size)
    path.unlink()
    return f"## {title}\n\n{size} of Parquet.\n\n{table(COLUMNS, lines)}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=100_000_000, help="rows of the large table")
    parser.add_argument("--small", type=int, default=2_000_000, help="rows of the table for all engines")
    parser.add_argument("--server", help="URL of a PostgreSQL database in which a table may be made")
    parser.add_argument("--spark", action="store_true", help="count the small table with Spark, too")
    parser.add_argument("-o", "--output", type=Path, help="Markdown file; standard output if absent")
    options = parser.parse_args(arguments)
    local = ("duckdb", "memory")
    with tempfile.TemporaryDirectory() as folder:
        large = section(Path(folder), "Many rows", options.rows, local, None)
        engines = (*local, *(("spark",) if options.spark else ()))
        small = section(Path(folder), "All engines", options.small, engines, options.server)
    introduction = INTRODUCTION.format(attributes=ATTRIBUTES, views=len(views()), limit=bytes_text(LIMIT))
    write(page("Counting rows", [introduction], [large, small]), options.output)


if __name__ == "__main__":
    main()
