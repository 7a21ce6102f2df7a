"""CSV, Parquet and Arrow files: a path, a folder of Parquet files, or a list of paths of one kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, final

from qcompile.data.choose_engine import Place
from qcompile.data.datasets.dataset import TableDataset, existing_files
from qcompile.data.datasets.opened import ConnectedTable
from qcompile.data.sources.csv import read_csv_names
from qcompile.data.sources.duckdb import connect_duckdb
from qcompile.data.sources.file_formats import CSV, PARQUET, find_files, is_arrow, open_files, read_names, suffix
from qcompile.data.sources.parquet import count_parquet_rows
from qcompile.queries.schema import Schema

PathLike: TypeAlias = "str | Path"


@final
@dataclass(frozen=True)
class Files(TableDataset):
    """Files that are looked for each time they are needed.

    Attributes:
      paths: one path, which may be a folder; or a list of paths of files.
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
        """Return the names in the first file; see `Dataset.columns`."""
        return list(read_names(find_files(self.paths)))

    def known_rows(self) -> int:
        """Return the number of rows that Parquet files state; 0 for other files."""
        paths = find_files(self.paths)
        return count_parquet_rows(paths) if suffix(paths[0]) == PARQUET else 0

    def most_rows(self) -> int:
        """Return an upper bound by the sizes of CSV files; the rows of Parquet files; 0 for Arrow files.

        Raises:
          DataError: the files cannot be read.
        """
        paths = find_files(self.paths)
        if is_arrow(paths):
            return 0  # mapped into memory anyway
        if suffix(paths[0]) == CSV:
            # Each field of a record takes one byte at least: its separator, or the line's end.
            return sum(path.stat().st_size // max(1, len(read_csv_names(path))) for path in paths)
        return count_parquet_rows(paths)

    def files(self) -> list[Path]:
        """Return the files that exist, and all files of a folder."""
        return existing_files(map(Path, self.paths if isinstance(self.paths, tuple) else (self.paths,)))

    @contextmanager
    def _connect(self, columns: Schema, engine: str, memory: int, workers: int | None) -> Iterator[ConnectedTable]:
        paths = find_files(self.paths)
        if engine == "spark":
            from qcompile.data.engines import spark

            with (
                spark.connect_session(spark.start_session(memory)) as connection,
                spark.open_spark_files(connection, paths, columns) as (source, rows),
            ):
                yield ConnectedTable(engine, connection, source, rows)
        else:
            with connect_duckdb(memory, workers) as connection:
                yield ConnectedTable(engine, connection, open_files(paths, columns, connection))
