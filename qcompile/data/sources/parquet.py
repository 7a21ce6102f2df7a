"""Parquet and Arrow files: typed columns, by their position among the top-level fields."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from qcompile.data.sources.columns import (
    SourceTable,
    find_halves,
    locate,
    require_column_limit,
    require_types,
    type_text,
)
from qcompile.data.sources.duckdb import read_memory_limit
from qcompile.data.sources.duckdb_columns import describe_relation, quote_text, select_positions
from qcompile.data.sources.engine_errors import call_engine
from qcompile.errors import DataError, SizeError
from qcompile.queries.schema import Schema
from qcompile.support.arrays import bytes_text

MAX_FOOTER = 2**27
"""Bytes of a Parquet file's description of itself, which is read before anything else."""


def open_parquet(paths: Sequence[Path], schema: Schema, connection: Any) -> SourceTable:
    """Open files with the same columns, in the same order.

    Raises:
      DataError: a file is damaged, or does not fit the schema or the others.
    """
    fields = read_common_fields(paths)
    positions = locate(schema, fields.names, str(paths[0]))
    types = [fields.field(i).type for i in positions]
    kinds = require_types(schema, types)
    damaged = damage_message(paths)
    listed = ", ".join(quote_text(glob.escape(str(path.absolute()))) for path in paths)
    relation = f"read_parquet([{listed}], hive_partitioning = false)"

    def select() -> Any:
        columns = describe_relation(connection, relation)
        return select_positions(connection, relation, columns, positions)

    table = call_engine(select, lambda _: damaged)
    names = tuple(map(type_text, types))
    return SourceTable(table, kinds, lambda _: damaged, types=names, halves=find_halves(types))


def _first_difference(one: Any, other: Any) -> str:
    for a, b in zip(one, other, strict=False):
        if (a.name, a.type) != (b.name, b.type):
            return f", first in {a.name!r} of type {a.type} and {b.name!r} of type {b.type}"
    return f", {len(one):,} and {len(other):,} of them"


def read_common_fields(paths: Sequence[Path]) -> Any:
    """Return the Arrow schema of all files.

    Raises:
      DataError: a file is damaged, has too many columns, or others than the first.
    """
    first = read_parquet_fields(paths[0])
    for path in paths[1:]:
        fields = read_parquet_fields(path)
        if fields.names != first.names or fields.types != first.types:
            raise DataError(
                f"{path} and {paths[0]} differ in their columns{_first_difference(fields, first)}; files read "
                "together need the same"
            )
    return first


def read_parquet_fields(path: Path) -> Any:
    """Return the Arrow schema of a file.

    Raises:
      DataError: it is damaged, or has too many columns.
    """
    import pyarrow.parquet as pq

    _require_footer(path)
    fields = call_engine(lambda: pq.read_schema(path), lambda _: damage_message([path]))
    require_column_limit(path, len(fields))
    return fields


def count_parquet_rows(paths: Sequence[Path]) -> int:
    """Return the number of rows that the files state.

    Raises:
      DataError: a file is damaged.
    """
    import pyarrow.parquet as pq

    for path in paths:
        _require_footer(path)
    return call_engine(
        lambda: sum(int(pq.read_metadata(path).num_rows) for path in paths), lambda _: damage_message(paths)
    )


def damage_message(paths: Sequence[Path]) -> str:
    """Return the message about files that cannot be read."""
    where = str(paths[0]) if len(paths) == 1 else f"one of {len(paths)} files, the first of which is {paths[0]},"
    return f"{where} is not a readable Parquet file; it may be damaged or unfinished"


def _require_footer(path: Path) -> None:
    """Refuse a file that does not end in a complete description of itself, of a size that can be read."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - 8))
        end = file.read(8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != b"PAR1" or length > size - 12:
        raise DataError(damage_message([path]))
    if length > MAX_FOOTER:
        limit = bytes_text(MAX_FOOTER)
        raise DataError(f"{path} describes itself in {bytes_text(length)}, at most {limit} are read; write it anew")


def find_ceiling(connection: Any) -> int:
    """Return the bytes that Arrow may have allocated once files are read: as many more as DuckDB may take."""
    import pyarrow as pa

    return int(pa.total_allocated_bytes()) + read_memory_limit(connection)


def map_arrow_file(path: Path, names: Sequence[str] | None, ceiling: int | None = None) -> Any:
    """Open an Arrow file (or stream) as a table, mapped into memory where it is not compressed.

    Args:
      path: of the file.
      names: the columns to read, if they are there; all where None.
      ceiling: bytes that Arrow may have allocated afterwards, see `find_ceiling`; no limit where None.

    Raises:
      DataError: the file is damaged, or has too many columns.
      SizeError: it is compressed, and takes more memory than it may.
    """
    damaged = f"{path} is not a readable Arrow file; it may be damaged, unfinished, or of the first version of Feather"
    table = call_engine(lambda: _read_arrow_file(path, names, ceiling), lambda _: damaged)
    require_column_limit(path, len(table.schema))
    return table


def _read_arrow_file(path: Path, names: Sequence[str] | None, ceiling: int | None) -> Any:
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        opening = pa.ipc.open_file if is_file else pa.ipc.open_stream
        fields = opening(file).schema
        wanted = [i for i, name in enumerate(fields.names) if names is None or name in names]
        if not wanted:
            return fields.empty_table()

        def open_reader(options: Any = None) -> Any:
            file.seek(0)
            return opening(file, options=options)

        # Arrow maps whole batches only, and what is compressed should not be unpacked in vain.
        is_mapped = _maps(open_reader())
        reader = open_reader(None if is_mapped else pa.ipc.IpcReadOptions(included_fields=wanted))
        batches = _read_batches(path, reader, ceiling)
        if is_mapped:
            batches = (batch.select(wanted) for batch in batches)
        table = pa.Table.from_batches(batches, pa.schema([fields.field(i) for i in wanted], fields.metadata))
        table.validate(full=True)
        return table


def _maps(reader: Any) -> bool:
    """True if the first batch of an Arrow file or stream takes no memory, as it is mapped from the file."""
    import pyarrow as pa

    before = pa.total_allocated_bytes()
    first = next(_batches(reader), None)
    return first is None or pa.total_allocated_bytes() - before <= first.nbytes // 2


def _batches(reader: Any) -> Iterator[Any]:
    return map(reader.get_batch, range(reader.num_record_batches)) if hasattr(reader, "get_batch") else iter(reader)


def _read_batches(path: Path, reader: Any, ceiling: int | None) -> Iterator[Any]:
    """Yield the batches of an Arrow file or stream, as long as they fit: a compressed batch is unpacked into memory."""
    import pyarrow as pa

    for batch in _batches(reader):
        if ceiling is not None and pa.total_allocated_bytes() > ceiling:
            raise SizeError(
                f"{path} is compressed and takes more memory than may be used when it is unpacked; raise it: "
                "--max-memory, max_memory; or write the file without compression"
            )
        yield batch
