"""Runs that are killed with SIGKILL at any moment, and resumed: the ledger adds up, a release is whole or not there.

Where something had been drawn and is resumed, it is charged once and drawn once.
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import subprocess
import sys
from fractions import Fraction
from typing import Any

import pytest

from qcompile.api import compile
from qcompile.queries.factors import Marginal, Prefix
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


UNFINISHED = "x.release.unfinished"


def is_hidden_part(name: str) -> bool:
    return name.startswith(".x.release.") and name.endswith(".part")


def check(kill: dict[str, Any]) -> None:
    killed, again = kill["killed"], kill["again"]
    assert killed["entries"] in (0, 1), kill
    assert Fraction(killed["spent"]) == Fraction(killed["entries"], 7)
    if killed["release"] is not None:  # whole, as its answers were asked for; and paid for
        assert killed["entries"] == 1
    assert set(killed["recorded"]) <= {killed["release"], None}
    # Whatever else lies there is hidden or the unfinished run, and is called neither a release nor a ledger.
    assert all(name in ("l-journal", UNFINISHED) or is_hidden_part(name) for name in killed["others"])
    unfinished = UNFINISHED in killed["others"]
    assert unfinished or killed["entries"] == (killed["release"] is not None), "what is paid for can be had"
    # The same run once more, resumed where it was unfinished: paid for once, its release complete and recorded.
    assert kill["status"] == 0, kill
    assert again["entries"] == (1 if unfinished else killed["entries"] + 1)
    assert Fraction(again["spent"]) == Fraction(again["entries"], 7)
    assert again["recorded"][-1] == again["release"] is not None
    assert not {"l-journal", UNFINISHED} & set(again["others"])
    if unfinished and killed["release"] is not None:  # it had its name: it is not made again
        assert again["release"] == killed["release"]
    # What an earlier run paid for is kept aside.
    assert ("x.release.1" in again["others"]) == (killed["release"] is not None and not unfinished)
    check_draws(killed, again)


def check_draws(killed: dict[str, Any], again: dict[str, Any]) -> None:
    """Every number that was on disk at the kill is that of the release: nothing was drawn twice for one charge."""
    rounds, grids = again["rounds"], dict[int, list[float]]()
    if rounds is not None:
        assert killed["notes"] == rounds[: len(killed["notes"])]
        for node, _, grid, _ in (step for r in rounds for step in r["steps"]):
            grids.setdefault(node, []).append(grid)
    for nodes, sizes, values in killed["drawn"]:
        ends = list(itertools.accumulate(sizes))
        for node, size, end in zip(nodes, sizes, ends, strict=True):
            drawn, final = values[end - size : end], again["values"][node]
            if rounds is None:
                assert drawn == final
            elif len(grids[node]) == 1:  # of several measurements a release has the average
                assert [v * grids[node][0] for v in drawn] == final


MECHANISMS = ["batch", "adaptive"]

SOME = ["batch", pytest.param("adaptive", marks=pytest.mark.slow)]
"""An adaptive run takes the same steps; `test_at_random_moments` always kills it, too."""


@pytest.mark.parametrize("mechanism", SOME)
def test_before_and_after_every_step(mechanism: str, plan_file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    found = kills(plan_file, tmp_path, "steps", mechanism, "ledger")
    assert len(found) == 34
    for kill in found:
        check(kill)
    charged = {kill["where"]: kill["killed"]["entries"] for kill in found}
    assert charged["before charge 1"] == charged["before insert 1"] == charged["after insert 1"] == 0
    assert charged["after charge 1"] == charged["before noted 1"] == charged["before part 1"] == 1
    parts = {kill["where"]: len(kill["killed"]["drawn"]) for kill in found}
    assert parts["before link 1"] == 0
    assert parts["after link 1"] == parts["after whole 1"] == parts["before noted 2"] == parts["after part 1"] == 1
    assert parts["after link 2"] == parts["after whole 2"] == parts["after part 2"] == 2
    released = {kill["where"]: kill["killed"]["release"] is not None for kill in found}
    assert not released["before name 1"]
    assert released["after name 1"]
    assert released["before removal 1"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_at_random_moments(mechanism: str, plan_file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    found = kills(plan_file, tmp_path, "8", mechanism, "ledger", "1")
    assert len(found) == 8
    for kill in found:
        check(kill)


@pytest.mark.parametrize("mechanism", SOME)
def test_a_seeded_run_that_is_resumed_is_the_run_that_was_not_stopped(
    mechanism: str, plan_file: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    found = kills(plan_file, tmp_path, "steps", mechanism, "seed")
    assert {len(kill["killed"]["drawn"]) for kill in found} >= {0, 1, 2}
    begun_anew = kills(plan_file, tmp_path, "1", mechanism, "seed", "1")
    assert {kill["again"]["release"] for kill in [*found, *begun_anew]} == {begun_anew[0]["again"]["release"]}
    assert begun_anew[0]["again"]["release"] is not None


@pytest.mark.slow
def test_at_two_hundred_random_moments(plan_file: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Before the charge and after the release; the moments between them are those of the test of every step."""
    found = kills(plan_file, tmp_path, "200", "batch", "ledger", "2")
    assert len(found) == 200
    for kill in found:
        check(kill)
    states = {(kill["killed"]["entries"], kill["killed"]["release"] is not None) for kill in found}
    assert states >= {(0, False), (1, True)}
