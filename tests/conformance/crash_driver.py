"""Runs that are killed: a process that forks one child per run and kills it with SIGKILL at a moment it draws.

Started by `test_crashes` as a process of its own, so that it has no threads when it forks. Prints one JSON line per
kill: what was found in the folder right after it, and after the same run was made once more, undisturbed.
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from functools import partial

# All that a run imports is loaded before the forks: its moments are its own work, and no child imports it again.
# No connection is opened here, and no thread started.
import duckdb.func  # noqa: F401
import ibis.backends.duckdb  # noqa: F401
import rich.progress  # noqa: F401
import scipy.special  # noqa: F401

from qcompile.api import load_release
from qcompile.cli.app import execute as command
from qcompile.privacy.budget import Budget
from qcompile.privacy.ledger import charges
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.release.files import KIND, VERSION
from qcompile.release.rounds import history_data
from qcompile.run.journal import Journal, journal, measurements, parts
from qcompile.support import archive
from qcompile.support import numbered_backup as keeping

RHO = "1/7"
MECHANISM = sys.argv[4]
OUTPUT, UNFINISHED = "x.release", "x.release.unfinished"


def run(plan: pathlib.Path, folder: pathlib.Path) -> int:
    """What is killed: the command line, from reading a table to writing a release; resumed where it is unfinished."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    setattr(measurements, "PART", 300)  # noqa: B010 - measurements go to disk in several parts
    files = ["--data", str(plan.with_name("d.csv")), "-o", str(folder / OUTPUT)]
    files += ["--ledger", str(folder / "l")] if (folder / "l").exists() else ["--test-seed", "5"]
    files += ["--resume"] if (folder / UNFINISHED).exists() else []
    return command(
        ["run", str(plan), "--rho", RHO, "--strict-values", "--workers", "1", "--mechanism", MECHANISM, *files]
    )


def found(folder: pathlib.Path) -> dict[str, object]:
    """What is on the disk: the ledger's charges, the release if it has its name, everything else."""
    ledger = Ledger.open(folder / "l") if (folder / "l").exists() else None
    entries = () if ledger is None else ledger.entries
    content, values, rounds = None, None, None
    if (folder / OUTPUT).exists():
        release = load_release(folder / OUTPUT)
        release.answers("p")
        content = archive.read(folder / OUTPUT, KIND, VERSION)[2]
        values = [v.tolist() for v in release.values]
        rounds = None if release.history is None else history_data(release.history)["rounds"]
    drawn = [(parts.read_part(p), p) for p in sorted(folder.glob(f"{UNFINISHED}/0*.npy"))]
    return {
        "entries": len(entries),
        "spent": "0" if ledger is None else str(ledger.spent),
        "recorded": [e.content for e in entries],
        "release": content,
        "values": values,
        "rounds": rounds,
        "drawn": [
            [part.nodes, part.sizes, parts.read_values(path, 0, sum(part.sizes)).tolist()] for part, path in drawn
        ],
        "notes": [part.note for part, _ in drawn],
        "others": sorted(p.name for p in folder.iterdir() if p.name not in ("l", OUTPUT)),
    }


def child(plan: pathlib.Path, folder: pathlib.Path, prepare: Callable[[], None]) -> int:
    """A forked process that makes the run, or dies in it."""
    pid = os.fork()
    if pid:
        return pid
    try:
        prepare()
        os._exit(run(plan, folder))
    finally:
        os._exit(1)


def report(plan: pathlib.Path, folder: pathlib.Path, where: str) -> None:
    """What is left after a kill, and that the same run works afterwards."""
    killed = found(folder)
    _, status = os.waitpid(child(plan, folder, lambda: None), 0)
    print(json.dumps({"where": where, "killed": killed, "again": found(folder), "status": status}), flush=True)


def at_random(plan: pathlib.Path, root: pathlib.Path, kills: int, seed: int, ledger: bool) -> None:
    """Kills at moments spread evenly over the time that a run takes, and a little beyond."""
    draw = random.Random(seed)
    start = time.perf_counter()
    first = fresh(root / "timed", ledger)
    os.waitpid(child(plan, first, lambda: None), 0)
    duration = time.perf_counter() - start
    for i in range(kills):
        folder, moment = fresh(root / f"r{i}", ledger), draw.uniform(0, 1.2 * duration)
        pid = child(plan, folder, lambda: None)
        time.sleep(moment)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        report(plan, folder, "random")


def at_steps(plan: pathlib.Path, root: pathlib.Path, ledger: bool) -> None:
    """Kills right before and right after each step that writes, which random moments may miss."""
    steps: dict[str, tuple[object, str]] = {
        "charge": (Ledger, "charge"),
        "insert": (charges, "insert_charge"),
        "part": (Journal, "append"),
        "link": (os, "link"),
        "whole": (journal, "write_part"),
        "noted": (Journal, "_note"),
        "write": (archive, "fill"),
        "sync": (os, "fsync"),
        "keep": (keeping, "keep_aside"),
        "name": (keeping, "_add_name"),
        "record": (Ledger, "record"),
        "removal": (Journal, "remove"),
        "tidying": (shutil, "rmtree"),
    }
    if not ledger:
        steps = {name: step for name, step in steps.items() if name not in ("charge", "insert", "record")}
    for name, (owner, function) in steps.items():
        assert hasattr(owner, function), "a process that cannot be prepared would die before its run"
        for when in ("before", "after"):
            for time_ in (1, 2) if name in ("part", "link", "whole", "noted") else (1,):
                where = f"{when} {name} {time_}"
                folder = fresh(root / where, ledger)
                prepare = partial(dying, owner, function, when, time_)
                os.waitpid(child(plan, folder, prepare), 0)
                report(plan, folder, where)


def dying(owner: object, name: str, when: str, calls: int) -> None:
    """Make a function kill its process when it is called for the so manieth time."""
    original, left = getattr(owner, name), itertools.count(calls, -1)

    def killed(*args: object, **options: object) -> object:
        last = next(left) == 1
        if last and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        found = original(*args, **options)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(owner, name, killed)


def fresh(folder: pathlib.Path, ledger: bool = True) -> pathlib.Path:
    folder.mkdir()
    if ledger:
        Ledger.create(folder / "l", Budget(rho=1))
    return folder


def main() -> None:
    plan, root = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    plan.with_name("d.csv").write_text("a,b,c\n" + "".join(f"{i % 40},{i % 30},{i % 6}\n" for i in range(500)))
    command(["check", str(root / "none.q")])  # loads the rest of Typer, in vain
    ledger = sys.argv[5] == "ledger"
    if sys.argv[3] == "steps":
        at_steps(plan, root, ledger)
    else:
        at_random(plan, root, int(sys.argv[3]), int(sys.argv[6]), ledger)


if __name__ == "__main__":
    main()
