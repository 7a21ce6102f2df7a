"""A run that is killed with SIGKILL at any moment: the ledger adds up, and a release is whole or not there."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from fractions import Fraction
from typing import Any

import pytest

from qcompile.compiler import compile
from qcompile.factors import Marginal, Prefix
from tests.conformance.helpers import family, integers, workload

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    a, b, c = integers(40, 30, 6)
    path = tmp_path_factory.mktemp("plan") / "x.plan"
    compile(workload([a, b, c], family(Prefix(a), Prefix(b), name="p"), family(Marginal(c), Prefix(b)))).save(path)
    return path


def kills(plan_file: pathlib.Path, folder: pathlib.Path, *arguments: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.conformance.crash_driver", str(plan_file), str(folder), *arguments]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def is_hidden_part(name: str) -> bool:
    return name.startswith(".x.release.") and name.endswith(".part")


def check(kill: dict[str, Any]) -> None:
    killed, again = kill["killed"], kill["again"]
    assert killed["entries"] in (0, 1), kill
    assert Fraction(killed["spent"]) == Fraction(killed["entries"], 7)
    if killed["release"] is not None:  # whole, as its answers were asked for; and paid for
        assert killed["entries"] == 1
    assert set(killed["recorded"]) <= {killed["release"], None}
    # Whatever else lies there is hidden and is called neither a release nor a ledger.
    assert all(name == "l-journal" or is_hidden_part(name) for name in killed["others"])
    # The same run once more: one charge more, and its release complete and recorded.
    assert kill["status"] == 0
    assert again["entries"] == killed["entries"] + 1
    assert Fraction(again["spent"]) == Fraction(again["entries"], 7)
    assert again["recorded"][-1] == again["release"] is not None
    assert again["recorded"][:-1] == killed["recorded"]
    assert again["release"] != killed["release"]
    assert "l-journal" not in again["others"]
    # What the first run paid for is kept aside.
    assert ("x.release.1" in again["others"]) == (killed["release"] is not None)


def test_before_and_after_every_step(plan_file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    found = kills(plan_file, tmp_path, "steps")
    assert len(found) == 16
    for kill in found:
        check(kill)
    charged = {kill["where"]: kill["killed"]["entries"] for kill in found}
    assert charged["before charge"] == charged["before insert"] == charged["after insert"] == 0
    assert charged["after charge"] == charged["before measure"] == charged["after record"] == 1
    released = {kill["where"]: kill["killed"]["release"] is not None for kill in found}
    assert not released["before name"]
    assert released["after name"]


def test_at_random_moments(plan_file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    found = kills(plan_file, tmp_path, "8", "1")
    assert len(found) == 8
    for kill in found:
        check(kill)


@pytest.mark.slow
def test_at_two_hundred_random_moments(plan_file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Before the charge and after the release; the moments between them are those of the test of every step."""
    found = kills(plan_file, tmp_path, "200", "2")
    assert len(found) == 200
    for kill in found:
        check(kill)
    states = {(kill["killed"]["entries"], kill["killed"]["release"] is not None) for kill in found}
    assert states >= {(0, False), (1, True)}
