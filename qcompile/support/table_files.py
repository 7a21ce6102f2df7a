"""Tables on disk: Parquet, Arrow, CSV and JSON lines, written batch by batch, and in place only when they are whole.

Parquet and Arrow files keep the labels as dictionaries and the table's metadata. The other formats have no place for
metadata: answers that are not plain unbiased estimates get a column with a note.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from qcompile.errors import OptionError
from qcompile.support.files import replacing

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 2**20
"""Rows of a row group of Parquet: fewer make files larger and slower to read."""

LINES = 2**14
"""Lines of JSON that are put together at a time: text columns hold at most 2 GB."""


class Writer(Protocol):
    """Takes the batches of a table in their order."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; batches have the schema of the table."""


OpenWriter: TypeAlias = AbstractContextManager[Writer]


def require_format(path: str | Path) -> str:
    """Return the ending of a file's name, which is its format.

    Raises:
      OptionError: there is no such format.
    """
    ending = Path(path).suffix.lower()
    if ending not in FORMATS:
        raise OptionError(f"cannot tell the format of {str(path)!r}; end the name with {', '.join(FORMATS)}")
    return ending


@contextmanager
def open_table(path: str | Path, schema: pa.Schema) -> Iterator[Writer]:
    """Open a table's file in the format of its ending; it is written in one step when the block succeeds.

    Args:
      path: ends with .csv, .parquet, .arrow or .jsonl.
      schema: of all batches, with metadata.

    Raises:
      OptionError: another ending.
      StorageError: the file cannot be written; what was there before is still there.
    """
    writer = FORMATS[require_format(path)]
    with replacing(path) as temporary, writer(temporary, schema) as opened:
        yield opened


def write_table(table: pa.Table, path: str | Path) -> None:
    """Write a table that is in memory; see `open_table`."""
    whole = table.unify_dictionaries()  # the formats want one dictionary for all batches
    with open_table(path, whole.schema) as writer:
        for batch in whole.to_batches():
            writer.write(batch)


@contextmanager
def _parquet(path: Path, schema: pa.Schema) -> Iterator[Writer]:
    import pyarrow.parquet

    # Noisy numbers are all different: a dictionary of them would save nothing. Statistics of each group (the least and
    # the largest label) would help few readers, and make writing take three times as long.
    labels = [f.name for f in schema if f.type != "double"]
    with pyarrow.parquet.ParquetWriter(str(path), schema, use_dictionary=labels, write_statistics=False) as file:
        groups = _Groups(file)
        yield groups
        groups.flush()


class _Groups:
    """Collects batches to row groups of a useful size."""

    def __init__(self, file: Any) -> None:
        self._file, self._waiting, self._rows = file, list[Any](), 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Keep the rows until there are enough."""
        self._waiting.append(batch)
        self._rows += batch.num_rows
        if self._rows >= ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the collected rows."""
        import pyarrow as pa

        if self._waiting:
            self._file.write_table(pa.Table.from_batches(self._waiting), row_group_size=2 * ROWS)
        self._waiting, self._rows = [], 0


@contextmanager
def _arrow(path: Path, schema: pa.Schema) -> Iterator[Writer]:
    import pyarrow as pa

    options = pa.ipc.IpcWriteOptions(compression="lz4")  # as feather files have it
    with pa.ipc.new_file(str(path), schema, options=options) as file:
        yield file


@contextmanager
def _csv(path: Path, schema: pa.Schema) -> Iterator[Writer]:
    import pyarrow.csv

    text = _Text(schema)
    with pyarrow.csv.CSVWriter(str(path), text.schema) as file:
        yield _Through(lambda batch: file.write_batch(text.of(batch)))


@contextmanager
def _json_lines(path: Path, schema: pa.Schema) -> Iterator[Writer]:
    text = _Text(schema, _json_texts)
    with path.open("wb") as stream:

        def write(batch: pa.RecordBatch) -> None:
            for start in range(0, batch.num_rows, LINES):
                stream.write(_lines(text.of(batch.slice(start, LINES))))

        yield _Through(write)


class _Through:
    """A writer from a function."""

    def __init__(self, write: Callable[[pa.RecordBatch], None]) -> None:
        self.write = write


class _Text:
    """Batches with labels as text, and with a column of notes where the estimates need one.

    Args:
      schema: with metadata ``estimate`` and ``interval``, or without.
      texts: what to do to every text, a dictionary's once.

    Attributes:
      schema: of the batches that come out.
    """

    def __init__(self, schema: pa.Schema, texts: Callable[[Any], Any] = lambda texts: texts) -> None:
        import pyarrow as pa

        self._note, self._texts = _note(schema), texts
        self._seen = dict[int, tuple[Any, Any]]()  # by a column's place: its last dictionary, before and after
        fields = [pa.field(f.name, pa.string() if pa.types.is_dictionary(f.type) else f.type) for f in schema]
        if self._note is not None:
            fields.append(pa.field("note" if "note" not in schema.names else "how it was made", pa.string()))
        self.schema = pa.schema(fields)

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch of the schema to text."""
        import pyarrow as pa

        columns = list(batch.columns)
        if self._note is not None:
            places = pa.array(np.zeros(batch.num_rows, dtype=np.int32))
            columns.append(pa.DictionaryArray.from_arrays(places, pa.array([self._note], pa.string())))
        plain = [self._plain(place, column) for place, column in enumerate(columns)]
        return pa.RecordBatch.from_arrays(plain, schema=self.schema)

    def _plain(self, place: int, column: Any) -> Any:
        import pyarrow as pa

        if pa.types.is_dictionary(column.type):
            return self._dictionary(place, column.dictionary).take(column.indices)
        return self._texts(column) if pa.types.is_string(column.type) else column

    def _dictionary(self, place: int, dictionary: Any) -> Any:
        before, after = self._seen.get(place, (None, None))
        if before is None or not before.equals(dictionary):
            after = self._texts(dictionary)
            self._seen[place] = dictionary, after
        return after


def _note(schema: pa.Schema) -> str | None:
    """Return the note for formats without metadata; None for unbiased estimates of a batch, or no answers."""
    metadata = schema.metadata or {}
    if not {b"estimate", b"interval"} <= metadata.keys():
        return None
    made, interval = (metadata[key].decode() for key in (b"estimate", b"interval"))
    return None if made == "unbiased" and "nominal" not in interval else f"{made}; intervals: {interval}"


def _json_texts(texts: Any) -> Any:
    """Encode texts as JSON strings."""
    import pyarrow as pa

    return pa.array([None if t is None else json.dumps(t, ensure_ascii=False) for t in texts.to_pylist()], pa.string())


def _lines(batch: pa.RecordBatch) -> memoryview:
    """Encode rows as JSON, an object a line; column by column, which is many times faster than row by row.

    Args:
      batch: its texts are JSON already.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    parts, constant = list[Any](), "{"
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        constant += f"{json.dumps(name, ensure_ascii=False)}: "
        if column.null_count == len(column):
            constant += "null, "
        else:
            parts += [constant, pc.fill_null(_values(column), "null")]
            constant = ", "
    end = constant.removesuffix(", ") + "}\n"
    lines = pc.binary_join_element_wise(*parts, end, "") if parts else pa.array([end] * len(batch), pa.string())
    _, offsets, content = lines.buffers()
    first, last = (pa.Array.from_buffers(pa.int32(), len(lines) + 1, [None, offsets])[i].as_py() for i in (0, -1))
    return memoryview(content)[first:last]


def _values(column: Any) -> Any:
    """Encode a column as JSON: the shortest text of each number, null for infinities."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_floating(column.type):
        return column.cast(pa.string())
    finite = pc.is_finite(column)
    return pc.if_else(finite, column, None).cast(pa.string())


FORMATS: dict[str, Callable[[Path, Any], OpenWriter]] = {
    ".csv": _csv,
    ".parquet": _parquet,
    ".arrow": _arrow,
    ".jsonl": _json_lines,
}
"""By the ending of the file's name."""
