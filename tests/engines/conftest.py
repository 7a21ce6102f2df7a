"""A PostgreSQL server and a Spark session, where they can be had; without them the tests that need one are skipped.

With QCOMPILE_ENGINES=1 (`make test-engines`) they fail instead.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import pytest

ASKED = os.environ.get("QCOMPILE_ENGINES") == "1"


def absent(reason: str) -> NoReturn:
    """Skip, or fail where the engines were asked for."""
    if ASKED:
        pytest.fail(f"{reason}; run .ci/provision")
    pytest.skip(reason)


def asked() -> None:
    """Skip what takes its time, unless the engines were asked for."""
    if not ASKED:
        pytest.skip("starts another engine; run by make test-engines")


@dataclass(frozen=True)
class Server:
    """A PostgreSQL server on loopback.

    Attributes:
      port: where it listens.
      folder: of its log.
    """

    port: int
    folder: pathlib.Path

    def url(self, user: str = "owner", password: str = "") -> str:
        """The URL of its database."""
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@127.0.0.1:{self.port}/postgres"


def binaries() -> pathlib.Path:
    """The folder of PostgreSQL's programs: on the path, or where Debian puts them."""
    found = shutil.which("initdb")
    if found:
        return pathlib.Path(found).parent
    folders = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if not folders:
        absent("PostgreSQL is not installed")
    return folders[-1]


def as_user(*command: str | pathlib.Path) -> list[str]:
    """A command as somebody else, where this is root: PostgreSQL refuses to serve as root."""
    words = [str(word) for word in command]
    return ["runuser", "-u", "postgres", "--", *words] if os.geteuid() == 0 else words


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A new server with one superuser, "owner", and "reader", who has a password and may only read."""
    asked()
    if importlib.util.find_spec("psycopg") is None:
        absent("Psycopg is not installed")
    programs = binaries()
    # Not in pytest's folder, which is closed to other users.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="qcompile-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        options = ["--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--username=owner", "--no-sync"]
        _run(as_user(programs / "initdb", "-D", folder / "data", *options))
        yield from _serving(programs, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _serving(programs: pathlib.Path, folder: pathlib.Path) -> Iterator[Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = f"-p {port} -h 127.0.0.1 -k {folder} -F"
    _run(as_user(programs / "pg_ctl", "-D", folder / "data", "-l", folder / "log", "-w", "-o", settings, "start"))
    try:
        server = Server(port, folder)
        with connect(server) as owner:
            owner.execute("CREATE ROLE reader LOGIN PASSWORD 'hunter2'")
            owner.execute("GRANT pg_read_all_data TO reader")
            owner.execute("REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC")
        yield server
    finally:
        _run(as_user(programs / "pg_ctl", "-D", folder / "data", "-m", "immediate", "stop"))


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60, cwd="/")
    assert done.returncode == 0, done.stderr


def connect(server: Server) -> Any:
    """A connection of the owner, who may write."""
    import psycopg

    return psycopg.connect(server.url(), autocommit=True)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Spark session on two threads of this machine."""
    asked()
    if importlib.util.find_spec("pyspark") is None:
        absent("PySpark is not installed")
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        absent("Java is not installed")
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
