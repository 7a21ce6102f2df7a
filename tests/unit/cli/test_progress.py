"""Progress bars: with rate and time left on a terminal, and not a byte of them anywhere else."""

from __future__ import annotations

import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import time

import pytest

WORK = """
import sys, time
from qcompile.cli.output import progress
with progress("writing") as step:
    for done in range(1, 31):
        step(1000 * done, 40_000)
        time.sleep(0.02)
    time.sleep(0.2)
print("done")
"""


def shown(command: list[str], folder: pathlib.Path) -> str:
    """What a command writes to a terminal of 100 columns."""
    master, slave = pty.openpty()
    environment = {**os.environ, "COLUMNS": "100", "TERM": "xterm"}
    process = subprocess.Popen(command, cwd=folder, stdout=slave, stderr=slave, stdin=slave, env=environment)
    os.close(slave)
    content, end = b"", time.monotonic() + 60
    while time.monotonic() < end:
        if not select.select([master], [], [], 0.5)[0]:
            if process.poll() is not None:
                break
            continue
        try:
            piece = os.read(master, 65536)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        content += piece
    os.close(master)
    assert process.wait(timeout=10) == 0
    return content.decode()


def test_a_terminal_sees_rate_and_time_left(tmp_path: pathlib.Path) -> None:
    text = shown([sys.executable, "-c", WORK], tmp_path)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
    assert "writing" in plain
    assert re.search(r"[\d,]+/40,000", plain)
    assert re.search(r"[\d,]+/s", plain)
    assert re.search(r"\d:\d\d:\d\d", plain)
    assert plain.rstrip().endswith("done")  # the bar is wiped out


def test_a_pipe_sees_nothing(tmp_path: pathlib.Path) -> None:
    for extra in ({}, {"FORCE_COLOR": "1", "TTY_COMPATIBLE": "1", "TTY_INTERACTIVE": "1"}):
        environment = {**os.environ, **extra}
        found = subprocess.run([sys.executable, "-c", WORK], capture_output=True, cwd=tmp_path, env=environment)
        assert found.returncode == 0
        assert found.stderr == b""
        assert found.stdout == b"done\n"


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("released")
    (folder / "w.q").write_text(
        "schema { a : integer 0..19 clip; b : integer 0..19 clip }\nworkload { both : prefix(a) * prefix(b) }\n"
    )
    (folder / "d.csv").write_text("a,b\n1,2\n3,4\n")
    return folder


def test_commands_show_bars_on_a_terminal_only(released: pathlib.Path) -> None:
    command = str(pathlib.Path(sys.executable).with_name("qcompile"))
    run = [command, "run", "w.q", "--data", "d.csv", "--rho", "1", "-o", "w.release"]
    write = [command, "answers", "w.release", "both", "--all", "-o", "t.csv"]
    text = shown(run, released)
    assert "solving" in text
    assert "measuring" in text
    assert "writing" in shown(write, released)
    found = subprocess.run(write, capture_output=True, cwd=released, text=True)
    assert found.stdout == "400 answers written to t.csv\n"
    assert found.stderr == "estimates: unbiased; intervals: pointwise 95 %\n"
    assert len((released / "t.csv").read_text().splitlines()) == 401
