"""Parts of one data set: files, and the keys in the names of the folders they are in (``year=2020``).

The keys of a folder are a column of each file below it, as Hive, Spark and DuckDB write partitioned tables. DuckDB's
own reading of them is not used: it takes keys from all folders of a path, the user's home included, lets a key
take the place of a column in the file, and guesses types from all values together.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from qcompile.data.sources.columns import AnyColumn, arrow_kind, declared_kinds, locate
from qcompile.errors import DataError
from qcompile.queries.schema import Attribute, Schema

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The text of a null in the name of a folder."""

FILE_COLUMN = "\ue000 file"
"""The name of the column in which DuckDB returns the path of a row's file; no column of a file is called so."""

INTEGER = re.compile(r"-?[0-9]{1,18}")
"""Texts of keys that are whole numbers; all of them are 64-bit integers."""


@dataclass(frozen=True)
class Part:
    """A file of a data set.

    Attributes:
      path: of the file.
      keys: names and values from the names of the folders that it is in, outermost first; None is a null.
    """

    path: Path
    keys: tuple[tuple[str, str | None], ...] = ()

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the keys."""
        return tuple(name for name, _ in self.keys)


def locate_in_part(part: Part, names: Sequence[object], schema: Schema) -> list[int]:
    """Return the position of each attribute among the columns of a part, its keys after those of the file.

    Args:
      part: the file.
      names: of the columns in the file.
      schema: the columns to look for.

    Raises:
      DataError: a column is missing, there more than once, or both in the file and in the name of a folder.
    """
    for name in part.key_names:
        if name in schema and name in names:
            raise DataError(
                f"{part.path}: {name!r} is a column of the file and a key in the name of a folder, and they may "
                "differ; rename one of them"
            )
    return locate(schema, [*names, *part.key_names], str(part.path))


def uses_keys(positions: Sequence[int], columns: int) -> bool:
    """True if one of the positions is that of a key, after so many columns of the file."""
    return any(position >= columns for position in positions)


def patterns(parts: Sequence[Part]) -> list[str]:
    """Return the paths of parts as DuckDB takes them, with nothing in them that it takes for a pattern."""
    return [glob.escape(_address(part)) for part in parts]


def _address(part: Part) -> str:
    """Return the path by which DuckDB names a file: without links, as it leaves out what is before ``..``."""
    return str(part.path.resolve())


def join_keys(table: Any, parts: Sequence[Part]) -> Any:
    """Return a table with the keys of the parts as its last columns, texts, in place of the paths of the files.

    Args:
      table: Ibis table whose last column is `FILE_COLUMN`; the others lose their names, any of which may be a key's.
      parts: with keys of the same names.
    """
    import ibis
    import pyarrow as pa

    keys = {f"key{i}": pa.array([part.keys[i][1] for part in parts], pa.string()) for i in range(len(parts[0].keys))}
    lookup = ibis.memtable(pa.table({"part": [_address(part) for part in parts], **keys}))
    *columns, file = table.columns
    table = table.select(**{f"f{i}": table[name] for i, name in enumerate(columns)}, file=table[file])
    joined = table.left_join(lookup, table["file"] == lookup["part"])
    # A file that DuckDB calls otherwise must not become one whose keys are nulls.
    unknown = joined["part"].isnull()
    known = {key: ibis.ifelse(unknown, _error()("a file that was not asked for"), joined[key]) for key in keys}
    return joined.mutate(**known).drop("file", "part")


@cache
def _error() -> Any:
    """Return DuckDB's function that raises its text: Ibis does not know it."""
    import ibis

    return ibis.udf.scalar.builtin(name="error", signature=(("string",), "string"))(lambda text: None)


def key_type(attribute: Attribute, parts: Sequence[Part]) -> Any:
    """Return the Arrow type of a key: 64-bit integer or text, as the schema declares it.

    Without a declaration it is an integer where all values are, as in DuckDB.

    Args:
      attribute: that has the key's name; an attribute that no key has is an integer or a text, too.
      parts: all files.

    Raises:
      DataError: the schema declares numbers, and a folder has none.
    """
    import pyarrow as pa

    values = [value for part in parts for name, value in part.keys if name == attribute.name and value is not None]
    odd = [value for value in values if not INTEGER.fullmatch(value)]
    if isinstance(attribute, AnyColumn):
        return pa.string() if odd else pa.int64()
    if declared_kinds(attribute) != {"number"}:
        return pa.string()
    if odd:
        raise DataError(
            f"attribute {attribute.name!r}: the folder '{attribute.name}={odd[0]}' names no whole number, but the "
            "schema declares numbers; rename the folder, or declare texts"
        )
    return pa.int64()


def key_scalar(value: str | None, type_: Any) -> Any:
    """Return the value of a key as an Arrow scalar of the type that `key_type` returned."""
    import pyarrow as pa

    return pa.scalar(value, pa.string()).cast(type_)


def common_type(attribute: Attribute, parts: Sequence[Part], types: Sequence[Any]) -> Any:
    """Return the Arrow type to which a column of all parts can be converted without a change of any comparison.

    Integers of all widths are one, and so are the types of texts. With doubles, integers and decimals are doubles, as
    which attributes are compared anyway; but ids are not, as large ones would become others. Floats of 32 bits compare
    otherwise than doubles of the same text, and are of one type with themselves only. A column of nulls is any.

    Args:
      attribute: the column.
      parts: the files.
      types: of the column in each.

    Raises:
      DataError: the types are of different kinds.
    """
    import pyarrow as pa

    first = next((i for i, type_ in enumerate(types) if not pa.types.is_null(type_)), 0)
    common = types[first]
    for part, type_ in zip(parts, types, strict=True):
        joint = common if pa.types.is_null(type_) else _joint_type(common, type_, isinstance(attribute, AnyColumn))
        if joint is None:
            raise DataError(
                f"{part.path} and {parts[first].path} differ in the type of column {attribute.name!r}, {type_} and "
                f"{types[first]}; files read together need the same: write one of them anew"
            )
        common = joint
    return common


def _joint_type(one: Any, other: Any, is_id: bool) -> Any:
    import pyarrow as pa

    if one == other:
        return one
    kinds = {arrow_kind(one), arrow_kind(other)}
    if kinds == {"text"}:
        return pa.large_string()
    both = (one, other)
    if all(map(pa.types.is_signed_integer, both)) or all(_is_small_integer(type_) for type_ in both):
        return pa.int64()
    exact = all(pa.types.is_integer(t) or pa.types.is_decimal(t) or pa.types.is_float64(t) for t in both)
    return pa.float64() if kinds == {"number"} and exact and not is_id else None


def _is_small_integer(type_: Any) -> bool:
    """True for integers that 64 bits with a sign can hold."""
    import pyarrow as pa

    return bool(pa.types.is_integer(type_) and type_ != pa.uint64())


def join_arrays(attribute: Attribute, parts: Sequence[Part], arrays: Sequence[Any]) -> Any:
    """Return the columns of all parts as one Arrow array of their common type.

    Raises:
      DataError: the types are of different kinds.
    """
    import pyarrow as pa

    common = common_type(attribute, parts, [array.type for array in arrays])
    chunks = [chunk for array in arrays for chunk in (array.chunks if isinstance(array, pa.ChunkedArray) else [array])]
    return pa.chunked_array([chunk if chunk.type == common else chunk.cast(common) for chunk in chunks], common)


def unite(tables: Sequence[Any]) -> Any:
    """Return all rows of Ibis tables with the same columns."""
    import ibis

    if len(tables) == 1:
        return tables[0]
    # In halves: a chain of a thousand tables would be nested a thousand deep.
    middle = len(tables) // 2
    return ibis.union(unite(tables[:middle]), unite(tables[middle:]))


def convert(column: Any, type_: Any, common: Any) -> Any:
    """Return an Ibis column as of the common type of all parts; unchanged where it is of this type already.

    Args:
      column: to convert.
      type_: the Arrow type that it has, or for the text of a key shall have.
      common: the Arrow type of `common_type`.
    """
    import ibis
    import pyarrow as pa

    is_key_text = column.type().is_string() and arrow_kind(common) == "number"
    if type_ == common and not is_key_text:
        return column
    return ibis.null(ibis.dtype(common)) if pa.types.is_null(type_) else column.cast(ibis.dtype(common))
