"""Parquet and Arrow files: typed columns, by their position among the top-level fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qcompile.data.sources.columns import (
    SourceTable,
    find_halves,
    require_column_limit,
    require_types,
    select_columns,
    type_text,
)
from qcompile.data.sources.duckdb import read_memory_limit
from qcompile.data.sources.duckdb_columns import describe_relation, quote_text, select_positions
from qcompile.data.sources.engine_errors import call_engine
from qcompile.data.sources.parts import (
    FILE_COLUMN,
    Part,
    common_type,
    convert,
    join_keys,
    key_type,
    locate_in_part,
    patterns,
    unite,
    uses_keys,
)
from qcompile.errors import DataError, SizeError
from qcompile.queries.schema import Schema
from qcompile.support.arrays import bytes_text

MAX_FOOTER = 2**27
"""Bytes of a Parquet file's description of itself, which is read before anything else."""


def open_parquet(parts: Sequence[Part], schema: Schema, connection: Any) -> SourceTable:
    """Open files that have the columns of the schema, in any order; other columns may differ.

    Raises:
      DataError: a file is damaged, or does not fit the schema or the others.
    """
    keys = [key_type(attribute, parts) for attribute in schema]
    groups = [_Group.of(some, fields, schema, keys) for fields, some in _group_by_fields(parts)]
    firsts = [group.parts[0] for group in groups]
    types = [common_type(a, firsts, [group.types[i] for group in groups]) for i, a in enumerate(schema)]
    kinds = require_types(schema, types)
    damaged = damage_message([part.path for part in parts])

    table = call_engine(lambda: unite([group.read(connection, types) for group in groups]), lambda _: damaged)
    names = tuple(map(type_text, types))
    return SourceTable(table, kinds, lambda _: damaged, types=names, halves=find_halves(types))


def _group_by_fields(parts: Sequence[Part]) -> list[tuple[Any, list[Part]]]:
    """Return the parts with the same columns and the same names of keys, with their Arrow schema."""
    groups: dict[Any, tuple[Any, list[Part]]] = {}
    for part in parts:
        fields = read_parquet_fields(part.path)
        group = groups.setdefault((part.key_names, fields.remove_metadata()), (fields, []))
        group[1].append(part)
    return list(groups.values())


@dataclass(frozen=True)
class _Group:
    """Files with the same columns.

    Attributes:
      parts: the files.
      positions: of each attribute's column, keys after those of the file.
      types: Arrow types of the attributes' columns.
      width: number of columns of each file.
    """

    parts: Sequence[Part]
    positions: Sequence[int]
    types: Sequence[Any]
    width: int

    @property
    def uses_keys(self) -> bool:
        """True if an attribute is a key in the names of folders."""
        return uses_keys(self.positions, self.width)

    @classmethod
    def of(cls, parts: Sequence[Part], fields: Any, schema: Schema, keys: Sequence[Any]) -> _Group:
        """Look up the schema's columns; ``keys`` are the types of those that are keys."""
        positions = locate_in_part(parts[0], fields.names, schema)
        types = [fields.field(p).type if p < len(fields) else key for p, key in zip(positions, keys, strict=True)]
        return cls(parts, positions, types, len(fields))

    def read(self, connection: Any, types: Sequence[Any]) -> Any:
        """Return the Ibis table with columns ``c0, c1, ...``, converted to the types where theirs are others."""
        table = self._select_with_keys(connection) if self.uses_keys else self._select(connection, self.positions)
        pairs = enumerate(zip(self.types, types, strict=True))
        return table.select(**{f"c{i}": convert(table[f"c{i}"], *pair) for i, pair in pairs})

    def _select(self, connection: Any, positions: Sequence[int]) -> Any:
        """Return columns of the files; position `width` is that of the file's path."""
        listed = ", ".join(map(quote_text, patterns(self.parts)))
        path = f", filename = {quote_text(FILE_COLUMN)}" if self.uses_keys else ""
        relation = f"read_parquet([{listed}], hive_partitioning = false{path})"
        return select_positions(connection, relation, describe_relation(connection, relation), positions)

    def _select_with_keys(self, connection: Any) -> Any:
        """Return columns of the files and keys of their folders, in the order of the positions."""
        own = [p for p in self.positions if p < self.width]
        table = join_keys(self._select(connection, [*own, self.width]), self.parts)
        places = [own.index(p) if p < self.width else len(own) + p - self.width for p in self.positions]
        return select_columns(table, places)


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
    table = call_engine(lambda: _read_arrow_file(path, names, ceiling), lambda _: _damaged_arrow(path))
    require_column_limit(path, len(table.schema))
    return table


def read_arrow_names(path: Path) -> list[str]:
    """Return the names of the columns of an Arrow file or stream, none of which is read.

    Raises:
      DataError: the file is damaged, or has too many columns.
    """
    import pyarrow as pa

    def read() -> list[str]:
        with pa.memory_map(str(path)) as file:
            return list(_find_opening(file)(file).schema.names)

    names: list[str] = call_engine(read, lambda _: _damaged_arrow(path))
    require_column_limit(path, len(names))
    return names


def _damaged_arrow(path: Path) -> str:
    return f"{path} is not a readable Arrow file; it may be damaged, unfinished, or of the first version of Feather"


def _find_opening(file: Any) -> Any:
    """Return the function that opens an Arrow file, or the one that opens a stream."""
    import pyarrow as pa

    is_file = file.read(6) == b"ARROW1"
    file.seek(0)
    return pa.ipc.open_file if is_file else pa.ipc.open_stream


def _read_arrow_file(path: Path, names: Sequence[str] | None, ceiling: int | None) -> Any:
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        opening = _find_opening(file)
        fields = opening(file).schema
        wanted = [i for i, name in enumerate(fields.names) if names is None or name in names]
        if not fields.names:
            return fields.empty_table()
        wanted = wanted or [0]  # one column at least, which has the number of rows

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
