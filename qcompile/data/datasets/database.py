"""Tables in databases, which are only ever read."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, final

from qcompile.data.choose_engine import Place
from qcompile.data.datasets.dataset import TableDataset, existing_files
from qcompile.data.datasets.opened import ConnectedTable
from qcompile.data.sources.duckdb import connect_duckdb
from qcompile.data.sources.duckdb_columns import describe_relation, explain_relation, open_duckdb_relation, quote_name
from qcompile.data.sources.engine_errors import call_engine
from qcompile.data.sources.file_formats import DATABASES, FILES, kind_of
from qcompile.data.sources.ibis_columns import open_ibis_table
from qcompile.errors import DataError, OptionError, did_you_mean
from qcompile.queries.schema import Schema
from qcompile.support.files import place as place_on_disk

POSTGRES = ("postgres", "postgresql")
"""Schemes of URLs of PostgreSQL servers."""

WAYS = (
    "give a URL such as postgresql://user@host/database, a DuckDB file, or a table of any other database as an Ibis "
    "expression: ibis.connect(...).table(...)"
)


@final
@dataclass(frozen=True)
class Database(TableDataset):
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
        return f"Database({self.address!r}, {self.table!r}, {self.schema!r})"

    @classmethod
    def recognise(cls, data: object) -> Database | None:
        """Return the database itself, which is a dataset already; None of anything else."""
        return data if isinstance(data, cls) else None

    @classmethod
    def named(cls, url: str, table: str) -> Database:
        """Return the table of that name, as the command line names it.

        Args:
          url: see the class.
          table: see the class.

        Raises:
          OptionError: the URL is the path of a file that is no database.
        """
        if kind_of(Path(url)) is not None:
            raise OptionError(f"--table names a table of a database, but the data is {FILES}; leave it out")
        return cls(url, table)

    @property
    def address(self) -> str:
        """The URL without its password and options, for messages."""
        return redact_url(self.url)

    @property
    def relation(self) -> str:
        """The table as SQL of DuckDB names it."""
        return ".".join(quote_name(name) for name in (self.schema, self.table) if name is not None)

    @property
    def place(self) -> Place:
        """In a DuckDB file or on a server; see `Dataset.place`."""
        return "duckdb" if self.backend == "duckdb" else "server"

    @property
    def backend(self) -> str:
        """The kind of the database: "duckdb" or "postgres".

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
        raise OptionError(f"cannot open {self.address} as a database; {WAYS}")

    def columns(self) -> list[object]:
        """Return the names of all columns; see `Dataset.columns`."""
        with _connect(self, None, None) as connection:
            found = find_table(connection, self)
            if self.backend == "duckdb":
                relation, explain = found.relation, partial(explain_relation, self.address)
                return [name for name, _ in call_engine(lambda: describe_relation(connection, relation), explain)]
            return list(_ibis_table(connection, found).columns)

    def files(self) -> list[Path]:
        """Return the file of a DuckDB database, if it is there; none of a server."""
        return existing_files([duckdb_path(self)])

    @contextmanager
    def _connect(self, columns: Schema, engine: str, memory: int, workers: int | None) -> Iterator[ConnectedTable]:
        with _connect(self, memory, workers) as connection:
            found = find_table(connection, self)
            if self.backend == "duckdb":
                source = open_duckdb_relation(found.relation, columns, connection, self.address)
            else:
                source = open_ibis_table(_ibis_table(connection, found), columns, connection, self.address)
            yield ConnectedTable(engine, connection, source)


def duckdb_path(database: Database) -> Path:
    """Return the path of a DuckDB file from the path or the URL of a database."""
    return Path(str(database.url).removeprefix("duckdb://"))


CERTAIN_URL = re.compile(
    r"(?P<start>[A-Za-z][A-Za-z0-9+.-]*://)"
    r"((?P<user>[\w.%+-]*)(:[^:/?#@\s]*)?@)?"
    r"(?P<rest>([\w.-]+|\[[0-9A-Fa-f:.]+\])?(:[0-9]*)?(/[^:?#@=]*)?)"
    r"(\?[^@]*)?"
)
"""URLs of which each part has one reading only: no sign that separates parts is within a part."""


def redact_url(url: str) -> str:
    """Return a URL without its password and its options, which may be secret.

    Where the parts are not certain, no more than the scheme is left.
    """
    text = str(url)
    certain = CERTAIN_URL.fullmatch(text)
    if certain:
        user = f"{certain['user']}@" if certain["user"] else ""
        return f"{certain['start']}{user}{certain['rest']}"
    scheme, colon, _ = text.partition(":")
    if "://" in text or (colon and scheme.lower() in POSTGRES):
        return f"{scheme}://..."
    is_file = Path(text).suffix.lower() in DATABASES and not (":" in text and "@" in text)
    return text if "=" not in text and (is_file or not re.search("[:@]", text)) else "the address"


def _connect(database: Database, memory: int | None, workers: int | None) -> AbstractContextManager[Any]:
    """An Ibis connection that cannot write.

    On PostgreSQL, everything happens in one transaction: all queries see the same rows, whoever writes meanwhile.

    Args:
      database: the one to open.
      memory: bytes that DuckDB may take itself.
      workers: threads of DuckDB.

    Raises:
      OptionError: this kind of database cannot be opened.
      DataError: there is no such database.
    """
    return _postgres(database) if database.backend == "postgres" else _duckdb(database, memory, workers)


@contextmanager
def _duckdb(database: Database, memory: int | None, workers: int | None) -> Iterator[Any]:
    path = duckdb_path(database)
    if place_on_disk(path) != "file":
        raise DataError(f"{path}: no such file")
    with connect_duckdb(memory, workers, path) as connection:
        # A view could read other files, which nobody named and which may change, or never end.
        connection.raw_sql("SET enable_external_access = false")
        yield connection


@contextmanager
def _postgres(database: Database) -> Iterator[Any]:
    if importlib.util.find_spec("psycopg") is None:
        raise OptionError("PostgreSQL needs the driver Psycopg; install it: pip install 'qcompile[postgres]'")
    import ibis

    session = call_engine(lambda: _session(str(database.url)), lambda text: _refusal(database, text))
    try:
        with session.transaction():
            yield call_engine(lambda: ibis.postgres.from_connection(session), lambda text: _refusal(database, text))
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
    return f"cannot connect to {database.address}: {why}"


def _session(url: str) -> Any:
    import psycopg

    session = psycopg.connect(url, autocommit=True)
    session.read_only = True
    session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    return session


def find_table(connection: Any, database: Database) -> Database:
    """Return the table by its own name and that of its schema.

    Raises:
      DataError: there is none.
    """
    names = call_engine(
        lambda: _tables(connection, database.schema),
        lambda _: f"cannot list the tables of {database.address}; check the schema {database.schema!r}",
    )
    if database.table in names:
        return database
    if database.schema is None and "." in str(database.table):
        schema, _, name = str(database.table).partition(".")
        return find_table(connection, replace(database, table=name, schema=schema))
    hint = did_you_mean(str(database.table), names)
    missing = f"no table {database.table!r}" if database.table else "no table was named"
    raise DataError(f"{database.address}: {missing}" + (f"; {hint}" if hint else "; it has none that can be seen"))


def _ibis_table(connection: Any, database: Database) -> Any:
    return call_engine(
        lambda: connection.table(database.table, database=database.schema),
        lambda _: f"{database.address}: the table {database.table!r} cannot be opened",
    )


def _tables(connection: Any, schema: str | None) -> list[str]:
    if connection.name != "duckdb":
        return list(connection.list_tables(database=schema))
    # By itself: Ibis asks DuckDB for a result in a way that later versions of it do not know.
    query = "SELECT table_name FROM information_schema.tables WHERE table_schema = coalesce(?, current_schema())"
    return [name for (name,) in connection.con.execute(query, [schema]).fetchall()]
