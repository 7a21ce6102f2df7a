"""A raw, messy table from the file to answers: the Adult extract, or a made table with the same columns.

    python examples/adult/adult.py [adult.csv] [--plot ages.png]

The file needs its header line, commas without spaces behind them, and "?" for what is not known; see adult.q for what
becomes of each value. Without a file, a made table is used. The true counts are shown at the end, which is possible
because this is an example: with a confidential table nobody may see them.
"""

from __future__ import annotations

import argparse
import collections
import csv
import math
import pathlib
import subprocess
import sys
import tempfile

import made_table
import numpy as np
import numpy.typing as npt

import qcompile as qc
from qcompile.queries.schema import Schema

HERE = pathlib.Path(__file__).resolve().parent
COMMAND = pathlib.Path(sys.executable).with_name("qcompile")
BUDGET = ("--epsilon", "1", "--delta", "1e-9")

Counts = npt.NDArray[np.float64]


def show(folder: pathlib.Path, title: str, *arguments: str) -> None:
    """Print a command line as a user would type it, run it, and stop if it fails."""
    words = " ".join(f"'{a}'" if " " in a else a for a in arguments)
    print(f"\n=== {title}\n$ qcompile {words}", flush=True)
    if subprocess.run([COMMAND, *arguments], cwd=folder, stderr=subprocess.STDOUT, check=False).returncode:
        sys.exit(1)


def commands(folder: pathlib.Path, data: pathlib.Path) -> None:
    """Everything up to the release is the command line that any user has."""
    show(folder, "Compiled without a look at the data", "compile", "adult.q", "-o", "adult.plan")
    show(folder, "The account of the table", "ledger", "create", "adult.ledger", *BUDGET)
    run = ("run", "adult.plan", "--data", str(data), *BUDGET, "--ledger", "adult.ledger", "-o", "adult.release")
    show(folder, "Every error is stated before anything is read or spent", *run, "--dry-run")
    show(
        folder,
        "The run; on request it tells the curator, and nobody else, what became of the values",
        *run,
        "--confidential-diagnostics",
    )
    show(folder, "Answers", "answers", "adult.release", "earnings", "--limit", "8")
    query = 'count(education in {"Bachelors", "Masters", "Doctorate"} and sex = "Female")'
    show(folder, "Any question within the plan", "ask", "adult.release", query)


def truth(path: pathlib.Path, schema: Schema) -> Counts:
    """Age by education, counted by hand: the rows that adult.q counts, and ages clipped as it says."""
    dropping = [a for a in schema if a.policy.kind == "drop"]
    clipping = [a for a in schema if a.policy.kind == "clip"]
    counts: collections.Counter[tuple[float, object]] = collections.Counter()
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            known = all(row[a.name] in a.domain_labels for a in dropping)
            numbers = {a.name: number(row[a.name]) for a in clipping}
            whole = all(numbers[n] % 1 == 0 for n in ("age", "hours-per-week"))
            if known and whole and not any(map(math.isnan, numbers.values())):
                counts[min(max(numbers["age"], 17), 90), row["education"]] += 1
    return np.array(
        [[float(counts[age, label]) for label in schema["education"].domain_labels] for age in range(17, 91)]
    )


def number(field: str) -> float:
    """A number between spaces, or not-a-number."""
    try:
        return float(field)
    except ValueError:
        return math.nan


def compare(release: qc.Release, exact: Counts) -> None:
    """What nobody can do with a confidential table: the errors that were stated, beside those that came out."""
    answer = release.marginal(("age", "education"))
    off = answer.array - exact
    print("\n=== Age by education, against the truth, which only an example can know")
    print(f"people: {release.ask('total').estimate:,.0f}, in truth {exact.sum():,.0f}")
    print(f"cells: {off.size:,}; root-mean-square error {np.sqrt((off**2).mean()):.2f},", end=" ")
    print(f"stated before the run {np.sqrt((np.asarray(answer.std_error) ** 2).mean()):.2f}")
    print(f"intervals of 95 % that hold the truth: {(np.abs(off) < 1.96 * answer.std_error).mean():.1%}")
    print("\n  education      estimate  std_error  truth")
    summed = release.marginal(("education",))
    for i, label in enumerate(release.plan.workload.schema["education"].domain_labels):
        error = np.broadcast_to(summed.std_error, summed.array.shape)[i]
        print(f"  {label!s:<13} {summed.array[i]:>9,.0f} {error:>10,.1f} {exact[:, i].sum():>6,.0f}")


def plot(release: qc.Release, exact: Counts, target: str) -> None:
    """The ages with their intervals, as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    answer = release.marginal(("age",))
    ages = np.arange(17, 91)
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    axes.errorbar(ages, answer.array, 1.96 * answer.std_error, fmt=".", label="released, with 95 % intervals")
    axes.plot(ages, exact.sum(axis=1), drawstyle="steps-mid", label="truth")
    axes.set(xlabel="age", ylabel="people")
    axes.legend()
    figure.savefig(target)
    print(f"\nwritten to {target}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("path", nargs="?", help="your copy of the raw table; without it, one is made")
    parser.add_argument("--plot", metavar="FILE", help="a picture of the ages; needs matplotlib")
    options = parser.parse_args()
    # All files go into a folder that is removed: the account of a real table would be kept.
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "adult.q").write_bytes((HERE / "adult.q").read_bytes())
        if options.path is None:
            data = folder / "adult.csv"
            made_table.write(data, qc.load(HERE / "adult.q").schema)
        else:
            data = pathlib.Path(options.path).resolve()
        commands(folder, data)
        release = qc.load_release(folder / "adult.release")
        exact = truth(data, release.plan.workload.schema)
    compare(release, exact)
    if options.plot:
        plot(release, exact, options.plot)


if __name__ == "__main__":
    main()
