"""A made table with the columns of Adult, and with the dirt that such files have. Nobody in it exists."""

from __future__ import annotations

import csv
import pathlib

import numpy as np
import numpy.typing as npt

from qcompile.queries.schema import Schema

COLUMNS = ["age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"]
COLUMNS += ["race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income-per-year"]

DIRT: dict[str, tuple[float, tuple[str, ...]]] = {
    "age": (0.004, ("", "16", "120", "-1", " 38", "38.5", "NA")),
    "workclass": (0.004, ("", " Private", "private")),
    "native-country": (0.018, ("?", "?", "?", "?", "", "U.S.")),
    "education": (0.002, ("", "HS grad", "9")),
    "race": (0.001, ("", "white")),
    "sex": (0.001, ("", "M", "F ")),
    "capital-gain": (0.003, ("", "-200", "250000", "1e5")),
    "hours-per-week": (0.005, ("", "0", "168", "forty", "40 ")),
    "income-per-year": (0.002, ("", "<=50K.", ">50k")),
}
"""The share of a column's fields that are spoiled, and what stands in them."""


def write(path: pathlib.Path, schema: Schema, rows: int = 20_000, seed: int = 1994) -> None:
    """Write a table as CSV: correlated, the same for the same seed, and with labels from the schema."""
    rng = np.random.default_rng(seed)
    table = people(schema, rows, rng)
    for name, (share, spoiled) in DIRT.items():
        where = rng.random(rows) < share
        table[name] = np.where(where, rng.choice(np.array(spoiled, dtype=object), rows), table[name])
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(zip(*(table[name] for name in COLUMNS), strict=True))


def people(schema: Schema, rows: int, rng: np.random.Generator) -> dict[str, npt.NDArray[np.object_]]:
    """Columns as text, without dirt: schooling decides on work and hours, and all of them on the income.

    Whoever does not work, most of them young, has "?" in both columns about work.
    """
    age = np.minimum(17 + rng.gamma(2.2, 10, rows), 90).astype(int)
    school = np.clip(np.round(9 + 2.4 * rng.normal(size=rows)), 0, np.minimum(15, age - 12)).astype(int)
    male = rng.random(rows) < 0.67
    married = rng.random(rows) < 0.6 / (1 + np.exp(-(age - 28) / 4))
    usual = rng.random(rows) < 0.47
    hours = np.where(usual, 40, np.clip(34 + 0.8 * school + 12 * rng.normal(size=rows), 1, 99)).astype(int)
    score = 0.45 * (school - 10) + 0.04 * (np.minimum(age, 55) - 40) + 0.04 * (hours - 40) + 1.8 * married - 1.8
    rich = rng.random(rows) < 1 / (1 + np.exp(-score))
    gains = rng.random(rows) < 0.05 + 0.12 * rich
    gain = np.where(gains, np.minimum(rng.lognormal(8.3, 0.9, rows), 99_999), 0).astype(int)
    loss = np.where(~gains & (rng.random(rows) < 0.05), np.clip(rng.normal(1870, 350, rows), 1, 4999), 0).astype(int)
    wed = np.where(married, 1, np.where(rng.random(rows) < 0.6 - (age - 17) / 100, 0, rng.integers(2, 7, rows)))
    home = np.where(married, np.where(male, 0, 1), rng.integers(2, 6, rows))
    codes = {
        "workclass": np.minimum(rng.geometric(0.55, rows) - 1, 7),
        "education": school,
        "marital-status": wed,
        "occupation": np.clip(np.round(13 - 0.9 * school + 2.5 * rng.normal(size=rows)), 0, 13).astype(int),
        "relationship": home,
        "race": np.minimum(rng.geometric(0.84, rows) - 1, 4),
        "sex": male.astype(int),
        "native-country": np.where(rng.random(rows) < 0.9, 0, rng.integers(0, 41, rows)),
        "income-per-year": rich.astype(int),
    }
    idle = rng.random(rows) < np.where(age < 22, 0.2, 0.04)
    labels = {n: np.array([schema[n].label(i) for i in range(schema[n].domain.size)], dtype=object) for n in codes}
    numbers = {"age": age, "fnlwgt": rng.integers(20_000, 400_000, rows), "education-num": school + 1}
    numbers |= {"capital-gain": gain, "capital-loss": loss, "hours-per-week": hours}
    table = {n: labels[n][c] for n, c in codes.items()} | {n: x.astype(str).astype(object) for n, x in numbers.items()}
    return table | {n: np.where(idle, "?", table[n]) for n in ("workclass", "occupation")}
