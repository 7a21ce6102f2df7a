"""CSV and TSV files as Ibis tables with one text column per attribute, named by position.

Columns are taken by their position in the file: DuckDB's identifiers ignore case, and attribute names may be
any text at all.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qcompile.data.sources.columns import SourceTable, require_column_limit, select_columns
from qcompile.data.sources.compression import is_compressed, read_pieces
from qcompile.data.sources.engine_errors import call_engine
from qcompile.data.sources.parts import FILE_COLUMN, Part, join_keys, locate_in_part, patterns, unite, uses_keys
from qcompile.errors import DataError, did_you_mean
from qcompile.queries.schema import NumericDomain, Schema
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
    b"PK\x03\x04": "is a zip archive or a spreadsheet; unpack it, or save it as CSV",
}
"""The first bytes of files that are no plain text in UTF-8."""

SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "vertical bars"}
"""Separators of fields that are recognised, and their names."""


@dataclass(frozen=True)
class Layout:
    """The form of a file.

    Attributes:
      header: the names of the columns.
      separator: of the fields.
      compressed: True if the file is compressed with gzip.
    """

    header: tuple[str, ...]
    separator: str
    compressed: bool


def open_csv(parts: Sequence[Part], schema: Schema, connection: Any) -> SourceTable:
    """Open files that have the columns of the schema, in any order. Every field is text: the declared type decides.

    Raises:
      DataError: a file is no such text, or does not fit the schema.
    """
    paths = [part.path for part in parts]
    groups: dict[tuple[Layout, tuple[str, ...]], list[Part]] = {}
    for part in parts:
        groups.setdefault((read_layout(part, schema), part.key_names), []).append(part)
    positions = [_locate(group[0], layout, schema) for (layout, _), group in groups.items()]
    for path in paths:
        require_lines(path)

    def explain(text: str) -> str:
        return explain_csv(paths, text)

    tables = [
        call_engine(lambda: _read_group(layout, group, at, connection), explain)  # noqa: B023 (called at once)
        for ((layout, _), group), at in zip(groups.items(), positions, strict=True)
    ]
    return SourceTable(unite(tables), None, explain)


def _read_group(layout: Layout, parts: Sequence[Part], positions: Sequence[int], connection: Any) -> Any:
    """Read files of one layout, with keys of the same names; the columns are ``c0, c1, ...``."""
    columns = len(layout.header)
    options = {"delim": layout.separator, "compression": "gzip" if layout.compressed else "none"}
    if not uses_keys(positions, columns):
        return select_columns(_read_texts(patterns(parts), columns, connection, **options), positions)
    table = _read_texts(patterns(parts), columns, connection, filename=FILE_COLUMN, **options)
    return select_columns(join_keys(table, parts), positions)


def read_text_columns(paths: Sequence[Path], columns: int, connection: Any) -> Any:
    """Read all fields of plain files with commas as text, in columns ``f0, f1, ...``."""
    return _read_texts(patterns([Part(path) for path in paths]), columns, connection, delim=",", compression="none")


def _read_texts(addresses: Sequence[str], columns: int, connection: Any, **options: Any) -> Any:
    """Read all fields as text: no pattern, no partition folder, and nothing guessed from the rows."""
    table = connection.read_csv(
        addresses,
        columns={f"f{i}": "string" for i in range(columns)},
        header=True,
        hive_partitioning=False,
        quote='"',
        escape='"',
        nullstr="",
        allow_quoted_nulls=False,
        strict_mode=True,
        **options,
    )
    # DuckDB skips blank lines by itself where there are several columns; of a single one they would be nulls.
    return table.filter(table.f0.notnull()) if columns == 1 else table


def _locate(part: Part, layout: Layout, schema: Schema) -> list[int]:
    in_file = [name for name in schema.names if name not in part.key_names]
    if in_file and not any(name in layout.header for name in in_file):
        raise DataError(_no_header(part.path, schema, layout.header))
    if layout.separator == ";":
        _require_no_decimals(part.path, schema)
    return locate_in_part(part, layout.header, schema)


def _require_no_decimals(path: Path, schema: Schema) -> None:
    """Refuse fractions where they may have decimal commas: 3,5 would be no number, and 1.234 might be a thousand.

    It cannot depend on the values: one row would decide how all others are read.
    """
    for attribute in schema:
        if isinstance(attribute.domain, NumericDomain):
            raise DataError(
                f"{path} is separated by semicolons, where decimals often have commas, so that the numeric attribute "
                f"{attribute.name!r} cannot be read reliably; write the file with decimal points, and with commas or "
                "tabs between the fields"
            )


def locate_csv_columns(paths: Sequence[Path], schema: Schema) -> tuple[list[str], list[int]]:
    """Return the one header of plain files with commas, and the position in it of each column of the schema.

    Raises:
      DataError: a file is of another form, or does not fit the schema or the others.
    """
    layouts = [read_layout(Part(path), schema) for path in paths]
    for path, layout in zip(paths, layouts, strict=True):
        if layout != Layout(layouts[0].header, ",", compressed=False):
            raise DataError(
                f"{path} is compressed, has no commas, or another header than {paths[0]}, which Spark cannot read; use "
                "engine='duckdb'"
            )
    return list(layouts[0].header), _locate(Part(paths[0]), layouts[0], schema)


def read_csv_names(path: Path) -> list[str]:
    """Return the header of a file. Its separator is the one that most names are separated by."""
    return list(_read_layout(path, len).header)


def read_layout(part: Part, schema: Schema) -> Layout:
    """Return the form of a file: of the separators, the one that makes most columns of the schema appear.

    Rows are not looked at, as DuckDB's sniffer does: how a file is read must not depend on a value. A name can appear
    by one separator only, except where it is the whole header.

    Raises:
      DataError: the file does not look like text with a header.
    """
    wanted = set(schema.names)
    return _read_layout(part.path, lambda header: len(wanted.intersection(header)))


def _read_layout(path: Path, score: Callable[[list[str]], int]) -> Layout:
    """Return the form of a file with the separator whose header scores most.

    DuckDB takes the first end of a line for that of all lines, also when it is part of a quoted name: lines that end
    otherwise would be passed over in silence.
    """
    _require_text(path)
    text, more = _read_start(path)
    separators = sorted(SEPARATORS, key=lambda s: s != ("\t" if ".tsv" in path.name.lower() else ","))
    headers = {separator: _parse_header(path, text, more, separator) for separator in separators[:1]}
    for separator in separators[1:]:
        fields, complete = _first_record(text, separator)
        if complete or not more:
            headers[separator] = fields
    separator = max(headers, key=lambda s: score(headers[s]))
    header = headers[separator]
    require_column_limit(path, len(header))
    for position, name in enumerate(header, start=1):
        if "\r" in name or "\n" in name:
            raise DataError(
                f"{path}: the name of column {position} has a line break in it; rename the column, or close its quotes"
            )
    return Layout(tuple(header), separator, is_compressed(path))


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
    for piece in read_pieces(path, MAX_LINE):
        if len(piece) == MAX_LINE and b"\n" not in piece and b"\r" not in piece:
            raise DataError(f"{path} has a line longer than {bytes_text(MAX_LINE)}; shorten or leave out its fields")


def _read_start(path: Path) -> tuple[str, bool]:
    """Return the first `MAX_HEADER` bytes as text, and True if there are more.

    Raises:
      DataError: it is not text in UTF-8.
    """
    start = next(read_pieces(path, MAX_HEADER + 1), b"")
    more, start = len(start) > MAX_HEADER, start[:MAX_HEADER]
    line = start.partition(b"\n")[0]
    if line.count(0) > len(line) // 4:  # of which no text in UTF-8 has any, whatever its letters
        kind = "UTF-32" if b"\0\0\0" in line else "UTF-16"
        raise DataError(f"{path} seems to be encoded in {kind}; convert it to UTF-8")
    try:
        # What is cut off at the end may be half of a character.
        return codecs.getincrementaldecoder("utf-8-sig")().decode(start, final=not more), more
    except UnicodeDecodeError:
        pass
    raise DataError(_not_utf8(path))  # out here: the decoding error carries a piece of the file


def _parse_header(path: Path, text: str, more: bool, separator: str) -> list[str]:
    """Return the fields of the first record.

    Raises:
      DataError: there is none, or it is too long.
    """
    fields, complete = _first_record(text, separator)
    if not complete and more:
        limit = bytes_text(MAX_HEADER)
        raise DataError(f"{path}: the first line is longer than {limit}; it must name the columns, with closed quotes")
    if not any(field.strip() for field in fields):
        raise DataError(f"{path} has no header: the first line must name the columns")
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


def _no_header(path: Path, schema: Schema, header: Sequence[str]) -> str:
    # Without a header this line is a record, so nothing of it may be quoted, except names we know anyway.
    hints = [hint for name in schema.names if "Unicode form" in (hint := did_you_mean(name, header))]
    if hints:
        return f"{path} lacks the columns of the schema: {hints[0]}"
    loose = {field.strip().casefold() for field in header}
    alike = [name for name in schema.names if name.strip().casefold() in loose]
    if alike:
        return f"{path} has no column {alike[0]!r}, only one that differs in case or spaces; names must match exactly"
    return f"{path}: the first line names none of the schema's attributes; is the header line missing?"
