"""CSV, TSV, JSON lines, Parquet and Arrow files: paths, folders, patterns, or a list of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, final

from qcompile.data.choose_engine import Place
from qcompile.data.datasets.dataset import TableDataset
from qcompile.data.datasets.find_parts import find_parts
from qcompile.data.datasets.opened import ConnectedTable
from qcompile.data.sources.duckdb import connect_duckdb
from qcompile.data.sources.file_formats import kind_of, most_rows, open_files, read_names
from qcompile.data.sources.parquet import count_parquet_rows
from qcompile.data.sources.parts import Part
from qcompile.errors import DataError, OptionError
from qcompile.queries.schema import Schema

PathLike: TypeAlias = "str | Path"


@final
@dataclass(frozen=True)
class Files(TableDataset):
    """Files that are looked for each time they are needed.

    Attributes:
      paths: one path, folder, pattern or ``file://`` address, or several; see `find_parts`.
    """

    paths: PathLike | tuple[PathLike, ...]

    @classmethod
    def recognise(cls, data: object) -> Files | None:
        """Return the files of a path, or of a list of paths that is not empty; None of anything else."""
        if isinstance(data, str | Path):
            return cls(data)
        if isinstance(data, list | tuple) and data and all(isinstance(path, str | Path) for path in data):
            return cls(tuple(data))
        return None

    @property
    def place(self) -> Place:
        """In files."""
        return "files"

    def columns(self) -> list[object]:
        """Return the names in the first file and of its folders; see `Dataset.columns`."""
        return list(read_names(find_parts(self.paths)[0]))

    def known_rows(self) -> int:
        """Return the number of rows that Parquet files state; 0 for other files."""
        paths = [part.path for part in find_parts(self.paths)]
        return count_parquet_rows(paths) if kind_of(paths[0]) == "Parquet" else 0

    def most_rows(self) -> int:
        """Return an upper bound by the sizes of text files; the rows of Parquet files; 0 for Arrow files.

        Raises:
          DataError: the files cannot be read.
        """
        return sum(most_rows(part.path) for part in find_parts(self.paths))

    def files(self) -> list[Path]:
        """Return the files that are read; none where they cannot be, as opening them explains why."""
        try:
            return [part.path for part in find_parts(self.paths)]
        except DataError:
            return []

    @contextmanager
    def _connect(self, columns: Schema, engine: str, memory: int, workers: int | None) -> Iterator[ConnectedTable]:
        parts = find_parts(self.paths)
        if engine == "spark":
            from qcompile.data.engines import spark

            _require_plain(parts, columns)
            with (
                spark.connect_session(spark.start_session(memory)) as connection,
                spark.open_spark_files(connection, [part.path for part in parts], columns) as (source, rows),
            ):
                yield ConnectedTable(engine, connection, source, rows)
        else:
            with connect_duckdb(memory, workers) as connection:
                yield ConnectedTable(engine, connection, open_files(parts, columns, connection))


def _require_plain(parts: Sequence[Part], columns: Schema) -> None:
    """Refuse files that Spark would read otherwise than DuckDB, or not at all."""
    kind = kind_of(parts[0].path)
    if kind not in ("CSV", "Parquet"):
        raise OptionError(f"engine='spark' reads CSV and Parquet files, these are {kind}; use engine='duckdb'")
    keys = [name for part in parts for name in part.key_names if name in columns]
    if keys:
        raise OptionError(
            f"engine='spark' takes no column from the names of folders, as {keys[0]!r} is; use engine='duckdb', or "
            "pass a Spark DataFrame"
        )
