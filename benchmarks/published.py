"""The published figures, from the files in ``benchmarks/published``; each names its source in comment lines."""

from __future__ import annotations

import csv
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "published"


def published(table: int) -> list[dict[str, str]]:
    """The rows of a table of the paper, all columns as text."""
    with (FOLDER / f"table{table}.csv").open(newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def source(table: int) -> str:
    """Where a table's figures come from."""
    lines = (FOLDER / f"table{table}.csv").read_text().splitlines()
    return " ".join(line.removeprefix("#").strip() for line in lines if line.startswith("#"))
