"""Spark, for tables that one machine cannot count: sessions, files, and the encoded table kept in its memory."""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from qcompile.data.sources.columns import SourceTable, locate, require_types, select_columns
from qcompile.data.sources.csv import explain_csv, locate_csv_columns, read_text_columns, require_lines
from qcompile.data.sources.duckdb import connect_duckdb
from qcompile.data.sources.engine_errors import call_engine, quiet
from qcompile.data.sources.file_formats import kind_of
from qcompile.data.sources.parquet import count_parquet_rows, damage_message, read_common_fields
from qcompile.errors import DataError, OptionError
from qcompile.queries.schema import Schema

SET_BY_IBIS = ("spark.sql.session.timeZone", "spark.sql.mapKeyDedupPolicy")
"""Settings of a session that Ibis changes when it connects."""

EMPTY = "\ue000 an empty text in quotes \ue000"
"""The text that Spark reads in place of one, as it cannot tell it from an empty field otherwise."""

_NUMBERS = itertools.count()

PATTERN = re.compile(r"[*?\[\]{}\\:,]")
"""Characters that Spark takes for a pattern, or refuses, in a path."""


def start_session(memory: int | None = None) -> Any:
    """Return the active Spark session, or a new one, quiet and without a web page; it is left running.

    Args:
      memory: bytes for a new session on this machine.

    Raises:
      OptionError: PySpark or Java is missing, or Spark does not start.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise OptionError("engine='spark' needs PySpark; install it: pip install 'qcompile[spark]'")
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    elsewhere = active is not None or os.environ.get("SPARK_REMOTE") or os.environ.get("JAVA_HOME")
    if not elsewhere and shutil.which("java") is None:
        raise OptionError("engine='spark' needs Java 17, which is not found; install it (default-jre-headless)")
    return active or _start(SparkSession.builder, memory)


def _start(builder: Any, memory: int | None) -> Any:
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.app.name": "qcompile"}
    # Spark makes this folder, which stays empty; by itself, it does so wherever it is started.
    settings["spark.sql.warehouse.dir"] = str(Path(tempfile.gettempdir()) / "qcompile-spark")
    if memory is not None:
        settings["spark.driver.memory"] = f"{max(512, memory >> 20)}m"
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        with quiet(), _silence_stderr():
            started = call_engine(builder.getOrCreate, lambda _: "Spark could not be started")
    except (DataError, RuntimeError):
        started = None
    if started is None:
        raise OptionError("Spark could not be started; check its installation, its settings and that Java is 17 or 21")
    context = getattr(started, "sparkContext", None)  # there is none where the session is another machine's
    if context is not None:
        context.setLogLevel("OFF")  # an executor's complaint would show values of the data
    return started


@contextmanager
def _silence_stderr() -> Iterator[None]:
    """Keep a program that is started from writing on stderr: Spark names the machine there, and quotes values."""
    sys.stderr.flush()
    before, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nothing)


@contextmanager
def connect_session(spark: Any) -> Iterator[Any]:
    """Yield an Ibis connection to a session; its settings are restored in the end."""
    import ibis

    before = {name: spark.conf.get(name, None) for name in SET_BY_IBIS}
    with quiet():
        connection = ibis.pyspark.connect(spark)
    try:
        yield connection
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


@contextmanager
def view_frame(connection: Any, frame: Any) -> Iterator[Any]:
    """Yield a Spark DataFrame as an Ibis table, under a name that is dropped in the end."""
    name = f"qcompile_{os.getpid()}_{next(_NUMBERS)}"
    frame.createTempView(name)
    try:
        with quiet():
            yield connection.table(name)
    finally:
        frame.sparkSession.catalog.dropTempView(name)


@contextmanager
def cache_table(connection: Any, table: Any, explain: Callable[[str], str]) -> Iterator[Any]:
    """Yield an Ibis table whose rows Spark keeps in memory, never on disk; rows that do not fit are computed again."""
    from pyspark.storagelevel import StorageLevel

    frame = call_engine(
        lambda: connection._session.sql(connection.compile(table)).persist(StorageLevel.MEMORY_ONLY), explain
    )
    try:
        with view_frame(connection, frame) as kept:
            yield kept
    finally:
        frame.unpersist()


@contextmanager
def open_spark_files(connection: Any, paths: Sequence[Path], columns: Schema) -> Iterator[tuple[SourceTable, int]]:
    """Yield files that Spark reads, and their number of rows as another reader counts them.

    Spark forgives much in a CSV file that means a mistake: so DuckDB parses it first, by the rules that hold for all
    engines.

    Raises:
      DataError: Spark cannot read such a path, or a file is damaged or does not fit.
    """
    for path in paths:
        if PATTERN.search(str(path.absolute())) or path.name[0] in "._":
            raise DataError(f"{path}: Spark cannot read a file of that name; rename it, or use engine='duckdb'")
    if kind_of(paths[0]) == "CSV":
        yield from _csv(connection, paths, columns)
    else:
        yield from _parquet(connection, paths, columns)


def _csv(connection: Any, paths: Sequence[Path], columns: Schema) -> Iterator[tuple[SourceTable, int]]:
    header, positions = locate_csv_columns(paths, columns)
    for path in paths:
        require_lines(path)

    def explain(text: str) -> str:
        return explain_csv(paths, text)

    with connect_duckdb() as duckdb:
        rows = call_engine(lambda: int(duckdb.execute(read_text_columns(paths, len(header), duckdb).count())), explain)
    frame = call_engine(
        lambda: connection._session.read.csv(
            _addresses(paths),
            schema=", ".join(f"f{i} string" for i in range(len(header))),
            header=True,
            enforceSchema=True,
            multiLine=True,
            quote='"',
            escape='"',
            nullValue="",
            emptyValue=EMPTY,
            mode="FAILFAST",
            encoding="UTF-8",
            maxColumns=len(header) + 1,
            maxCharsPerColumn=-1,
        ),
        explain,
    )
    with view_frame(connection, frame) as table:
        named = select_columns(table, positions)
        texts = {name: (named[name] == EMPTY).ifelse("", named[name]) for name in named.columns}
        yield SourceTable(named.select(**texts), None, explain, unsigned=False), rows


def _parquet(connection: Any, paths: Sequence[Path], columns: Schema) -> Iterator[tuple[SourceTable, int]]:
    fields = read_common_fields(paths)
    positions = locate(columns, fields.names, str(paths[0]))
    kinds = require_types(columns, [fields.field(i).type for i in positions])
    damaged = f"{damage_message(paths)}; or it has types or names that Spark cannot read: then use engine='duckdb'"
    frame = call_engine(
        lambda: connection._session.read.parquet(*_addresses(paths)).toDF(*(f"f{i}" for i in range(len(fields)))),
        lambda _: damaged,
    )
    with view_frame(connection, frame) as table:
        source = SourceTable(select_columns(table, positions), kinds, lambda _: damaged, unsigned=False)
        yield source, count_parquet_rows(paths)


def _addresses(paths: Sequence[Path]) -> list[str]:
    return [f"file://{path.absolute()}" for path in paths]
