"""CSV files as Ibis tables with one text column per attribute, named by position.

Columns are taken by their position in the file: DuckDB's identifiers ignore case, and attribute names may be
any text at all.
"""

from __future__ import annotations

import codecs
import csv
import glob
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qcompile.data.sources.columns import SourceTable, locate, require_column_limit, select_columns
from qcompile.data.sources.engine_errors import call_engine
from qcompile.errors import DataError, did_you_mean
from qcompile.queries.schema import Schema
from qcompile.support.arrays import bytes_text

MAX_HEADER = 2**22
"""Bytes of the first line: names of 400 characters for all columns."""

MAX_LINE = 2**21
"""Bytes of a line. DuckDB refuses longer ones itself, except that it loses the last of a file in silence when that is
longer than its buffer."""

SIGNATURES = {
    codecs.BOM_UTF32_LE: "is encoded in UTF-32; convert it to UTF-8",  # before UTF-16: it begins alike
    codecs.BOM_UTF32_BE: "is encoded in UTF-32; convert it to UTF-8",
    codecs.BOM_UTF16_LE: "is encoded in UTF-16; convert it to UTF-8",
    codecs.BOM_UTF16_BE: "is encoded in UTF-16; convert it to UTF-8",
    b"\x1f\x8b": "is compressed with gzip; decompress it",
    b"PK\x03\x04": "is a zip archive or a spreadsheet; unpack it, or save it as CSV",
}
"""The first bytes of files that are no plain text in UTF-8."""

SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


def open_csv(paths: Sequence[Path], schema: Schema, connection: Any) -> SourceTable:
    """Open files with one header. Every field is text: the declared type decides how it is read.

    Raises:
      DataError: a file is no such text, or does not fit the schema or the others.
    """
    header, positions = locate_csv_columns(paths, schema)
    for path in paths:
        require_lines(path)

    def explain(text: str) -> str:
        return explain_csv(paths, text)

    table = call_engine(lambda: read_text_columns(paths, len(header), connection), explain)
    return SourceTable(select_columns(table, positions), None, explain)


def read_text_columns(paths: Sequence[Path], columns: int, connection: Any) -> Any:
    """Read all fields as text, in columns ``f0, f1, ...``: no pattern, no partition folder, no sniffing."""
    table = connection.read_csv(
        [glob.escape(str(path.absolute())) for path in paths],
        columns={f"f{i}": "string" for i in range(columns)},
        header=True,
        hive_partitioning=False,
        compression="none",
        delim=",",
        quote='"',
        escape='"',
        nullstr="",
        allow_quoted_nulls=False,
        strict_mode=True,
    )
    # DuckDB skips blank lines by itself where there are several columns; of a single one they would be nulls.
    return table.filter(table.f0.notnull()) if columns == 1 else table


def locate_csv_columns(paths: Sequence[Path], schema: Schema) -> tuple[list[str], list[int]]:
    """Return the header of the files, and the position in it of each column of the schema.

    Raises:
      DataError: a file is no such text, or does not fit the schema or the others.
    """
    first = paths[0]
    header = read_csv_names(first)
    present = set(header)
    present_names = [name for name in schema.names if name in present]
    if len(present_names) < len(schema):
        _require_commas(first, schema, len(present_names))
    if not present_names:
        raise DataError(_no_header(first, schema, header))
    positions = locate(schema, header, str(first))
    for path in paths[1:]:
        if read_csv_names(path) != header:
            raise DataError(f"{path} and {first} differ in their header; files that are read together need the same")
    return header, positions


def read_csv_names(path: Path) -> list[str]:
    """Return the header of a file, after a check that it looks like text.

    DuckDB takes the first end of a line for that of all lines, also when it is part of a quoted name: lines that end
    otherwise would be passed over in silence.
    """
    _require_text(path)
    header = _read_header(path, ",")
    for position, name in enumerate(header, start=1):
        if "\r" in name or "\n" in name:
            raise DataError(
                f"{path}: the name of column {position} has a line break in it; rename the column, or close its quotes"
            )
    return header


def explain_csv(paths: Sequence[Path], text: str) -> str:
    """Reword DuckDB's error about CSV files, without the line that it quotes."""
    where = str(paths[0]) if len(paths) == 1 else f"one of {len(paths)} files, the first of which is {paths[0]},"
    if "not utf-8 encoded" in text:
        return _not_utf8(where)
    return (
        f"{where} could not be parsed as CSV; check that every line has as many fields as the header, that "
        "quotes are closed, and that all lines end in the same way"
    )


def _require_text(path: Path) -> None:
    """Refuse a file that begins like one of another format."""
    with path.open("rb") as file:
        start = file.read(4)
        file.seek(-min(4, path.stat().st_size), io.SEEK_END)
        end = file.read(4)
    for signature, problem in SIGNATURES.items():
        if start.startswith(signature):
            raise DataError(f"{path} {problem}")
    if start == end == b"PAR1":  # by itself, the first could be the name of a column
        raise DataError(f"{path} is a Parquet file; rename it to end in .parquet")


def require_lines(path: Path) -> None:
    """Refuse a file with a line of twice `MAX_LINE`, which holds a whole piece of the file without a line's end."""
    with path.open("rb") as file:
        while len(piece := file.read(MAX_LINE)) == MAX_LINE:
            if b"\n" not in piece and b"\r" not in piece:
                raise DataError(
                    f"{path} has a line longer than {bytes_text(MAX_LINE)}; shorten or leave out its fields"
                )


def _read_header(path: Path, separator: str) -> list[str]:
    """Return the fields of the first record, of which no more than `MAX_HEADER` bytes are read.

    Raises:
      DataError: it is not text in UTF-8, there is none, or it is too long.
    """
    with path.open("rb") as file:
        start = file.read(MAX_HEADER)
        more = bool(file.read(1))
    line = start.partition(b"\n")[0]
    if line.count(0) > len(line) // 4:  # of which no text in UTF-8 has any, whatever its letters
        kind = "UTF-32" if b"\0\0\0" in line else "UTF-16"
        raise DataError(f"{path} seems to be encoded in {kind}; convert it to UTF-8")
    try:
        # What is cut off at the end may be half of a character.
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(start, final=not more)
    except UnicodeDecodeError:
        text = None
    if text is None:  # raised out here: the decoding error carries a piece of the file
        raise DataError(_not_utf8(path))
    fields, complete = _first_record(text, separator)
    if not complete and more:
        limit = bytes_text(MAX_HEADER)
        raise DataError(f"{path}: the first line is longer than {limit}; it must name the columns, with closed quotes")
    if not any(field.strip() for field in fields):
        raise DataError(f"{path} has no header: the first line must name the columns")
    require_column_limit(path, len(fields))
    return fields


def _first_record(text: str, separator: str) -> tuple[list[str], bool]:
    """Return the fields of the first record, and True if it ends before the text does."""
    lines = io.StringIO(text, newline="")
    try:
        fields = next(csv.reader(lines, delimiter=separator), [])
    except csv.Error:  # a field of more than 128 kB
        return [], False
    return fields, lines.tell() < len(text)


def _not_utf8(path: Path | str) -> str:
    return f"{path} is not encoded in UTF-8; convert it, for instance from Latin-1 or Windows-1252"


def _require_commas(path: Path, schema: Schema, matches: int) -> None:
    for separator, name in SEPARATORS.items():
        header = _read_header(path, separator)
        if len(header) > 1 and sum(n in header for n in schema.names) > matches:
            raise DataError(f"{path} seems to be separated by {name}; convert it to commas")


def _no_header(path: Path, schema: Schema, header: list[str]) -> str:
    # Without a header this line is a record, so nothing of it may be quoted, except names we know anyway.
    hints = [hint for name in schema.names if "Unicode form" in (hint := did_you_mean(name, header))]
    if hints:
        return f"{path} lacks the columns of the schema: {hints[0]}"
    loose = {field.strip().casefold() for field in header}
    alike = [name for name in schema.names if name.strip().casefold() in loose]
    if alike:
        return f"{path} has no column {alike[0]!r}, only one that differs in case or spaces; names must match exactly"
    return f"{path}: the first line names none of the schema's attributes; is the header line missing?"
