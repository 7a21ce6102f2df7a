"""CSV and Parquet files as Ibis tables with one column per attribute, named by position.

Columns are taken by their position in the file: DuckDB's identifiers ignore case, and attribute names may be
any text at all.
"""

from __future__ import annotations

import codecs
import csv
import glob
import io
from pathlib import Path
from typing import Any

from qcompile.arrays import bytes_text
from qcompile.data.columns import Source, locate, require_types
from qcompile.data.engine import guarded
from qcompile.errors import DataError
from qcompile.files import place
from qcompile.schema import Schema

MAX_COLUMNS = 10_000
"""Columns of a file, used or not. DuckDB takes 5 s for so many, and three times as many take five times as long."""

MAX_HEADER = 2**22
"""Bytes of the first line: names of 400 characters for all columns."""

MAX_LINE = 2**21
"""Bytes of a line. DuckDB refuses longer ones itself, except that it loses the last of a file in silence when that is
longer than its buffer."""

MAX_FOOTER = 2**27
"""Bytes of a Parquet file's description of itself, which is read before anything else."""

SIGNATURES = {
    codecs.BOM_UTF32_LE: "is encoded in UTF-32; convert it to UTF-8",  # before UTF-16: it begins alike
    codecs.BOM_UTF32_BE: "is encoded in UTF-32; convert it to UTF-8",
    codecs.BOM_UTF16_LE: "is encoded in UTF-16; convert it to UTF-8",
    codecs.BOM_UTF16_BE: "is encoded in UTF-16; convert it to UTF-8",
    b"\x1f\x8b": "is compressed with gzip; decompress it",
    b"PK\x03\x04": "is a zip archive or a spreadsheet; unpack it, or save it as CSV",
}
"""How files begin that are no plain text in UTF-8."""

SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


def open_file(path: Path, schema: Schema, connection: Any) -> Source:
    """A ``.csv`` or ``.parquet`` file.

    Raises:
      DataError: the file is missing, empty, damaged, of another kind, or does not fit the schema.
    """
    _require_file(path)
    if path.suffix.lower() == ".csv":
        return _open_csv(path, schema, connection)
    return _open_parquet(path, schema, connection)


def column_names(path: Path) -> list[str]:
    """The names of all columns of a ``.csv`` or ``.parquet`` file, in their order; repeated or empty ones too.

    Raises:
      DataError: the file is missing, empty, damaged, of another kind, or has too many columns.
    """
    _require_file(path)
    return _csv_names(path) if path.suffix.lower() == ".csv" else list(_parquet_schema(path).names)


def _require_file(path: Path) -> None:
    """Refuse what is no file, or none of a kind that is read."""
    try:
        found = place(path)
        if found == "folder":
            raise DataError(f"{path} is a directory; name one .csv or .parquet file")
        if found == "nothing":
            raise DataError(f"{path}: no such file")
        if found == "device":
            raise DataError(f"{path} is a pipe or a device; save the data in a .csv or .parquet file")
        with path.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    if not start:
        raise DataError(f"{path} is empty (zero bytes); a CSV file needs at least a header line")
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(f"{path}: unknown kind of file {path.suffix!r}; use a .csv or .parquet file")


def _open_csv(path: Path, schema: Schema, connection: Any) -> Source:
    """Every field as text; the declared type, not the look of the values, decides how it is read."""
    header = _csv_names(path)
    present = set(header)
    found = [name for name in schema.names if name in present]
    if len(found) < len(schema):
        _require_commas(path, schema, len(found))
    if not found:
        raise DataError(_no_header(path, schema, header))
    positions = locate(schema, header, str(path))
    _require_lines(path)

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


def _csv_names(path: Path) -> list[str]:
    """The header of a file that looks like text.

    DuckDB takes the first end of a line for that of all lines, also when it is part of a quoted name: lines that end
    otherwise would be passed over in silence.
    """
    _require_text(path)
    header = _header(path, ",")
    for position, name in enumerate(header, start=1):
        if "\r" in name or "\n" in name:
            raise DataError(
                f"{path}: the name of column {position} has a line break in it; rename the column, or close its quotes"
            )
    return header


def explain_csv(path: Path, text: str) -> str:
    """What DuckDB found wrong with a CSV file, without the line that it quotes."""
    if "not utf-8 encoded" in text:
        return _not_utf8(path)
    return (
        f"{path} could not be parsed as CSV; check that every line has as many fields as the header, that "
        "quotes are closed, and that all lines end in the same way"
    )


def _require_text(path: Path) -> None:
    """Refuse what another program's files begin with."""
    with path.open("rb") as file:
        start = file.read(4)
        file.seek(-min(4, path.stat().st_size), io.SEEK_END)
        end = file.read(4)
    for signature, problem in SIGNATURES.items():
        if start.startswith(signature):
            raise DataError(f"{path} {problem}")
    if start == end == b"PAR1":  # by itself, the first could be the name of a column
        raise DataError(f"{path} is a Parquet file; rename it to end in .parquet")


def _require_lines(path: Path) -> None:
    """Refuse a file with a line of twice `MAX_LINE`, which holds a whole piece of the file without a line's end."""
    with path.open("rb") as file:
        while len(piece := file.read(MAX_LINE)) == MAX_LINE:
            if b"\n" not in piece and b"\r" not in piece:
                raise DataError(
                    f"{path} has a line longer than {bytes_text(MAX_LINE)}; shorten or leave out its fields"
                )


def _header(path: Path, separator: str) -> list[str]:
    """The fields of the first record, of which no more than `MAX_HEADER` bytes are looked at.

    Raises:
      DataError: it is not text in UTF-8, there is none, or it is too long.
    """
    with path.open("rb") as file:
        start = file.read(MAX_HEADER)
        more = bool(file.read(1))
    try:
        # What is cut off at the end may be half of a character.
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(start, final=not more)
    except UnicodeDecodeError:
        text = None
    if text is None:  # raised out here: the decoding error carries a piece of the file
        raise DataError(_not_utf8(path))
    fields, complete = _first_record(text, separator)
    if any("\0" in field for field in fields):
        kind = "UTF-32" if any("\0\0" in field for field in fields) else "UTF-16"
        raise DataError(f"{path} seems to be encoded in {kind}; convert it to UTF-8")
    if not complete and more:
        limit = bytes_text(MAX_HEADER)
        raise DataError(f"{path}: the first line is longer than {limit}; it must name the columns, with closed quotes")
    if not any(field.strip() for field in fields):
        raise DataError(f"{path} has no header: the first line must name the columns")
    _require_few(path, len(fields))
    return fields


def _first_record(text: str, separator: str) -> tuple[list[str], bool]:
    """The fields of the first record, and whether it ends before the text does."""
    lines = io.StringIO(text, newline="")
    try:
        fields = next(csv.reader(lines, delimiter=separator), [])
    except csv.Error:  # a field of more than 128 kB
        return [], False
    return fields, lines.tell() < len(text)


def _require_few(path: Path, columns: int) -> None:
    if columns > MAX_COLUMNS:
        raise DataError(
            f"{path} has {columns:,} columns, at most {MAX_COLUMNS:,} can be read; save only those of the schema"
        )


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
    fields = _parquet_schema(path)
    damaged = _damaged(path)
    positions = locate(schema, fields.names, str(path))
    kinds = require_types(schema, [fields.field(i).type for i in positions])
    table = guarded(
        lambda: connection.read_parquet(glob.escape(str(path.absolute())), hive_partitioning=False), lambda _: damaged
    )
    return Source(_by_position(table, positions), kinds, lambda _: damaged)


def _parquet_schema(path: Path) -> Any:
    import pyarrow.parquet as pq

    _require_footer(path)
    fields = guarded(lambda: pq.read_schema(path), lambda _: _damaged(path))
    _require_few(path, len(fields))
    return fields


def _damaged(path: Path) -> str:
    return f"{path} is not a readable Parquet file; it may be damaged or unfinished"


def _require_footer(path: Path) -> None:
    """The file must end in its own length's worth of description, which must be of a size that can be read."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - 8))
        end = file.read(8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != b"PAR1" or length > size - 12:
        raise DataError(_damaged(path))
    if length > MAX_FOOTER:
        limit = bytes_text(MAX_FOOTER)
        raise DataError(f"{path} describes itself in {bytes_text(length)}, at most {limit} are read; write it anew")


def _by_position(table: Any, positions: list[int]) -> Any:
    return table.select(**{f"c{i}": table[table.columns[p]] for i, p in enumerate(positions)})
