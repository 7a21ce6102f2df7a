"""What the demos share: run qcompile commands as a user would type them, and show them."""

from __future__ import annotations

import pathlib
import subprocess
import sys

COMMAND = pathlib.Path(sys.executable).with_name("qcompile")


def show(title: str, *arguments: str, folder: pathlib.Path) -> None:
    """Print a command line, run it in ``folder``, and stop the demo if it fails."""
    words = " ".join(f"'{a}'" if " " in a else a for a in arguments)
    print(f"\n=== {title}\n$ qcompile {words}", flush=True)
    done = subprocess.run([COMMAND, *arguments], cwd=folder, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
