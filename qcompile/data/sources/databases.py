"""Tables in databases, which are only ever read."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from qcompile.data.sources.columns import Source, by_position, ibis_kind, locate, require_types
from qcompile.data.sources.duckdb import engine
from qcompile.data.sources.files import DATABASES
from qcompile.data.sources.guarded import guarded
from qcompile.errors import DataError, OptionError, did_you_mean
from qcompile.queries.schema import Schema
from qcompile.support.files import place

POSTGRES = ("postgres", "postgresql")
"""Schemes of URLs of PostgreSQL servers."""

WAYS = (
    "give a URL such as postgresql://user@host/database, a DuckDB file, or a table of any other database as an Ibis "
    "expression: ibis.connect(...).table(...)"
)


@dataclass(frozen=True)
class Database:
    """A table in a database.

    Attributes:
      url: of a PostgreSQL server's database, ``postgresql://user:password@host:port/database``, or the path of a DuckDB
        file. A password is better left to the environment (PGPASSWORD) or a password file; it is never shown.
      table: its name, exactly as it is stored; or ``schema.name``, where there is no table of that very name.
      schema: the namespace of the table; the connection's default where None.
    """

    url: str
    table: str
    schema: str | None = None

    def __repr__(self) -> str:
        return f"Database({self.place!r}, {self.table!r}, {self.schema!r})"

    @property
    def place(self) -> str:
        """The URL without its password and options, for messages."""
        return redacted(self.url)

    @property
    def backend(self) -> str:
        """What kind of database it is: "duckdb" or "postgres".

        Raises:
          OptionError: of neither kind, or no text.
        """
        if not isinstance(self.url, str | Path):
            raise OptionError(f"the URL of a database is a text; {WAYS}")
        scheme = str(self.url).partition("://")[0].lower() if "://" in str(self.url) else ""
        if scheme in POSTGRES:
            return "postgres"
        if scheme == "duckdb" or (not scheme and Path(self.url).suffix.lower() in DATABASES):
            return "duckdb"
        raise OptionError(f"cannot open {self.place} as a database; {WAYS}")


def redacted(url: str) -> str:
    """A URL without what may be secret: password, options."""
    if "://" not in str(url):
        return str(url) if "=" not in str(url) else "what was given"
    try:
        parts = urlsplit(str(url))
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:  # no number where the port should be, which may be a part of the password
        return f"{str(url).partition('://')[0]}://..."
    user = f"{parts.username}@" if parts.username else ""
    return f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}"


@contextmanager
def connected(database: Database, memory: int | None, workers: int | None) -> Iterator[tuple[Any, Any]]:
    """An Ibis connection that cannot write, and the table.

    On PostgreSQL, everything happens in one transaction: all queries see the same rows, whoever writes meanwhile.

    Args:
      database: what to open.
      memory: bytes that DuckDB may take itself.
      workers: threads of DuckDB.

    Raises:
      OptionError: this kind of database cannot be opened.
      DataError: there is no such database or table.
    """
    opening = _postgres(database) if database.backend == "postgres" else _duckdb(database, memory, workers)
    with opening as connection:
        yield connection, _table(connection, database)


@contextmanager
def _duckdb(database: Database, memory: int | None, workers: int | None) -> Iterator[Any]:
    path = Path(str(database.url).removeprefix("duckdb://"))
    if place(path) != "file":
        raise DataError(f"{path}: no such file")
    with engine(memory, workers, path) as connection:
        yield connection


@contextmanager
def _postgres(database: Database) -> Iterator[Any]:
    if importlib.util.find_spec("psycopg") is None:
        raise OptionError("PostgreSQL needs the driver Psycopg; install it: pip install 'qcompile[postgres]'")
    import ibis

    session = guarded(lambda: _session(str(database.url)), lambda text: _refusal(database, text))
    try:
        with session.transaction():
            yield guarded(lambda: ibis.postgres.from_connection(session), lambda text: _refusal(database, text))
    finally:
        session.close()


def _refusal(database: Database, text: str) -> str:
    """Why there is no connection, without the server's words."""
    if "authentication" in text or "no password" in text:
        why = "the login was refused; check user and password (PGPASSWORD, or a password file)"
    elif "does not exist" in text:
        why = "there is no such database or user"
    else:
        why = "no server answers; check host and port, and that it is up"
    return f"cannot connect to {database.place}: {why}"


def _session(url: str) -> Any:
    import psycopg

    session = psycopg.connect(url, autocommit=True)
    session.read_only = True
    session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    return session


def _table(connection: Any, database: Database) -> Any:
    names = guarded(
        lambda: _tables(connection, database.schema),
        lambda _: f"cannot list the tables of {database.place}; check the schema {database.schema!r}",
    )
    if database.table not in names and database.schema is None and "." in str(database.table):
        schema, _, name = str(database.table).partition(".")
        return _table(connection, replace(database, table=name, schema=schema))
    if database.table not in names:
        hint = did_you_mean(str(database.table), names)
        missing = f"no table {database.table!r}" if database.table else "no table was named"
        raise DataError(f"{database.place}: {missing}" + (f"; {hint}" if hint else "; it has none that can be seen"))
    return guarded(
        lambda: connection.table(database.table, database=database.schema),
        lambda _: f"{database.place}: the table {database.table!r} cannot be opened",
    )


def _tables(connection: Any, schema: str | None) -> list[str]:
    if connection.name != "duckdb":
        return list(connection.list_tables(database=schema))
    # By itself: Ibis asks DuckDB for a result in a way that later versions of it do not know.
    query = "SELECT table_name FROM information_schema.tables WHERE table_schema = coalesce(?, current_schema())"
    return [name for (name,) in connection.con.execute(query, [schema]).fetchall()]


def open_table(table: Any, columns: Schema, connection: Any, where: str) -> Source:
    """A table of any backend of Ibis.

    Args:
      table: the Ibis expression.
      columns: to open.
      connection: its backend.
      where: how messages call it.

    Raises:
      DataError: it does not fit the schema.
    """

    def explain(_: str) -> str:
        return f"{where} could not be read: its database refused the query, or the connection was lost"

    fields = guarded(table.schema, explain)
    positions = locate(columns, list(fields.names), where)
    types = [fields.types[p] for p in positions]
    kinds = require_types(columns, types, ibis_kind)
    named = by_position(table, positions)
    if connection.name == "postgres":
        named = named.select(**{f"c{i}": _plain(named[f"c{i}"]) for i in range(len(types))})
    return Source(named, kinds, explain, unsigned=connection.name == "duckdb")


def _plain(column: Any) -> Any:
    """A column of PostgreSQL without the peculiarities of its type."""
    import ibis

    dtype = column.type()
    if dtype.is_string():
        return column.concat("")  # char(n) compares as if without the blanks at its end; now it has none
    if dtype.is_decimal():
        # numeric goes beyond the range of doubles, where a cast is an error; and its NaN is larger than all numbers.
        size = column.abs()
        odd = ibis.cases((column.cast("string") == "NaN", None), (column > 0, float("inf")), else_=float("-inf"))
        small = ibis.cases((size > 1e308, None), (size < 1e-300, 0), else_=column).cast("float64")
        return ibis.ifelse(size > 1e308, odd, small)
    return column
