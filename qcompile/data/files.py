"""CSV and Parquet files as Ibis tables with one column per attribute, named by position.

Columns are taken by their position in the file: DuckDB's identifiers ignore case, and attribute names may be
any text at all.
"""

from __future__ import annotations

import csv
import glob
from pathlib import Path
from typing import Any

from qcompile.data.columns import Source, locate, require_types
from qcompile.data.engine import guarded
from qcompile.errors import DataError
from qcompile.schema import Schema

BOMS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x00\x00\xfe\xff": "UTF-32"}

SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


def open_file(path: Path, schema: Schema, connection: Any) -> Source:
    """A ``.csv`` or ``.parquet`` file.

    Raises:
      DataError: the file is missing, empty, damaged, of another kind, or does not fit the schema.
    """
    _require_file(path)
    kind = path.suffix.lower()
    if kind == ".csv":
        return _open_csv(path, schema, connection)
    if kind == ".parquet":
        return _open_parquet(path, schema, connection)
    raise DataError(f"{path}: unknown kind of file {path.suffix!r}; use a .csv or .parquet file")


def _require_file(path: Path) -> None:
    try:
        if path.is_dir():
            raise DataError(f"{path} is a directory; name one .csv or .parquet file")
        if not path.is_file():
            raise DataError(f"{path}: no such file")
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    if not start:
        raise DataError(f"{path} is empty (zero bytes); a CSV file needs at least a header line")


def _open_csv(path: Path, schema: Schema, connection: Any) -> Source:
    """Every field as text; the declared type, not the look of the values, decides how it is read."""
    header = _header(path, ",")
    found = [name for name in schema.names if name in header]
    if len(found) < len(schema):
        _require_commas(path, schema, len(found))
    if not found:
        raise DataError(_no_header(path, schema, header))
    positions = locate(schema, header, str(path))

    def scan() -> Any:
        return connection.read_csv(
            # No pattern, no partition folder, no sniffing: exactly this file, exactly this dialect.
            glob.escape(str(path.absolute())),
            columns={f"f{i}": "string" for i in range(len(header))},
            hive_partitioning=False,
            compression="none",
            delim=",",
            quote='"',
            escape='"',
            nullstr="",
            allow_quoted_nulls=False,
            strict_mode=True,
        )

    table = guarded(scan, lambda text: explain_csv(path, text))
    return Source(_by_position(table, positions), None, lambda text: explain_csv(path, text))


def explain_csv(path: Path, text: str) -> str:
    """What DuckDB found wrong with a CSV file, without the line that it quotes."""
    if "not utf-8 encoded" in text:
        return _not_utf8(path)
    return (
        f"{path} could not be parsed as CSV; check that every line has as many fields as the header, that "
        "quotes are closed, and that all lines end in the same way"
    )


def _header(path: Path, separator: str) -> list[str]:
    """The fields of the first record.

    Raises:
      DataError: it is not text in UTF-8, or there is none.
    """
    with path.open("rb") as file:
        start = file.read(4)
    for bom, name in BOMS.items():
        if start.startswith(bom):
            raise DataError(f"{path} is encoded in {name}; convert it to UTF-8")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            fields = next(csv.reader(file, delimiter=separator), [])
    except UnicodeDecodeError:
        fields = None
    except csv.Error:
        fields = []
    if fields is None:  # raised out here: the decoding error carries a piece of the file
        raise DataError(_not_utf8(path))
    if any("\0" in field for field in fields):
        raise DataError(f"{path} seems to be encoded in UTF-16; convert it to UTF-8")
    if not any(field.strip() for field in fields):
        raise DataError(f"{path} has no header: the first line must name the columns")
    return fields


def _not_utf8(path: Path) -> str:
    return f"{path} is not encoded in UTF-8; convert it, for instance from Latin-1 or Windows-1252"


def _require_commas(path: Path, schema: Schema, found: int) -> None:
    for separator, name in SEPARATORS.items():
        header = _header(path, separator)
        if len(header) > 1 and sum(n in header for n in schema.names) > found:
            raise DataError(f"{path} seems to be separated by {name}; convert it to commas")


def _no_header(path: Path, schema: Schema, header: list[str]) -> str:
    # Without a header this line is a record, so nothing of it may be quoted, except names we know anyway.
    loose = {field.strip().casefold() for field in header}
    alike = [name for name in schema.names if name.strip().casefold() in loose]
    if alike:
        return f"{path} has no column {alike[0]!r}, only one that differs in case or spaces; names must match exactly"
    return f"{path}: the first line names none of the schema's attributes; is the header line missing?"


def _open_parquet(path: Path, schema: Schema, connection: Any) -> Source:
    """Typed columns, by their position among the top-level fields."""
    import pyarrow.parquet as pq

    damaged = f"{path} is not a readable Parquet file; it may be damaged or unfinished"
    fields = guarded(lambda: pq.read_schema(path), lambda _: damaged)
    positions = locate(schema, fields.names, str(path))
    kinds = require_types(schema, [fields.field(i).type for i in positions])
    table = guarded(
        lambda: connection.read_parquet(glob.escape(str(path.absolute())), hive_partitioning=False), lambda _: damaged
    )
    return Source(_by_position(table, positions), kinds, lambda _: damaged)


def _by_position(table: Any, positions: list[int]) -> Any:
    return table.select(**{f"c{i}": table[table.columns[p]] for i, p in enumerate(positions)})
