"""Every factor and every query against docs/language.md in plain Python, row by row, on random schemas and data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from random import Random
from typing import TypeAlias

import pytest

from qcompile.api import Release, compile
from qcompile.errors import WorkloadError
from qcompile.privacy.budget import Budget
from tests.conformance.language_model import (
    Column,
    Conditions,
    Node,
    Row,
    counted_rows,
    label_condition,
    random_column,
    random_rows,
)

ROWS = 60
ASKED = 25
Form: TypeAlias = tuple[str, str, tuple[str, str], tuple[int, int, int]]
KINDS = ("marginal", "prefix", "range", "circular")


class World:
    """A random schema with data, and a release of it without noise."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.columns = [random_column(name, random) for name in "abc"]
        self.conditions = Conditions(self.columns)
        data = random_rows(self.columns, ROWS, random)
        self.rows: list[Row] = counted_rows(self.columns, data)
        self.drawn = [self.conditions.draw(random) for _ in range(ASKED)]
        self.products = [[(c, random.choice(KINDS)) for c in self.columns] for _ in range(2)]
        self.forms = list(self._forms(random))
        self.release = compile(self.text).run(data, Budget(rho=1), noise="none")

    def _forms(self, random: Random) -> Sequence[Form]:
        """Kind, text, and names with coefficients and a constant, of sums of integers with a value in each cell."""
        usable = [c.name for c in self.columns if c.kind == "integer" and c.policy != "other"]
        found = []
        for x, y in itertools.combinations(usable, 2):
            p, q, k = random.choice([1, 2, -1]), random.choice([1, -1, -3]), random.randint(-2, 2)
            text = f"{p}*{x} + {q}*{y} + {k}".replace("+ -", "- ")
            found += [("affine", text, (x, y), (p, q, k)), ("abs", text, (x, y), (p, q, k))]
        return found

    @property
    def text(self) -> str:
        singles = [f"{kind} {c.name} : {kind}({c.name})" for c in self.columns for kind in KINDS]
        products = [" * ".join(f"{kind}({c.name})" for c, kind in p) for p in self.products]
        lines = [
            *(s.replace(" ", "_", 1) for s in singles),
            "all : marginal(a, b, c)",
            "total",
            "defaults : each 1..2 of all",
            *(f"product_{i} : {p}" for i, p in enumerate(products)),
            *(f"{kind}_{i} : {kind}({text} <= *)" for i, (kind, text, _, _) in enumerate(self.forms)),
            *(f"upper_{i} : {kind}({text} >= *)" for i, (kind, text, _, _) in enumerate(self.forms)),
            *(f"q_{i} : count({self.conditions.text(node)})" for i, node in enumerate(self.drawn)),
        ]
        schema = "\n".join(c.text for c in self.columns)
        return f"schema {{\n{schema}\n}}\nworkload {{\n{chr(10).join(dict.fromkeys(lines))}\n}}"

    def count(self, node: Node) -> int:
        return sum(self.conditions.holds(node, row) for row in self.rows)

    def ask(self, node: Node) -> float:
        return self.release.ask(f"count({self.conditions.text(node)})").estimate


def close(x: float, y: float) -> bool:
    return math.isclose(x, y, abs_tol=1e-6)


def answers(release: Release, name: str) -> list[dict[str, object]]:
    return list(release.answers(name).to_pylist())


def check_labels(world: World, name: str, kinds: Sequence[tuple[Column, str]]) -> None:
    """Each answer is the number of rows that its labels state, and asking the labels gives the same number."""
    found = answers(world.release, name)
    assert found
    random = Random(name)
    for answer in found:
        parts = [label_condition(c, k, str(answer[c.name])) for c, k in kinds if answer.get(c.name) is not None]
        node = parts[0]
        for part in parts[1:]:
            node = ("and", node, part)
        assert close(float(str(answer["estimate"])), world.count(node)), (world.text, answer)
        if len(found) < 40 or random.random() < 20 / len(found):
            assert close(world.ask(node), world.count(node)), (world.text, answer)


def check_forms(world: World) -> None:
    for i, (kind, text, (x, y), (p, q, k)) in enumerate(world.forms):
        values = [p * row[x] + q * row[y] + k for row in world.rows]
        values = [abs(v) for v in values] if kind == "abs" else values
        for name, holds in ((f"{kind}_{i}", int.__le__), (f"upper_{i}", int.__ge__)):
            for answer in answers(world.release, name):
                label = next(str(v) for key, v in answer.items() if key.startswith(("abs(", *"-123abc")))
                sign, _, level = label.partition(" ")
                # The constant of affine is on the other side of the label.
                bound = int(level) + (k if kind == "affine" else 0)
                expected = sum(holds(v, bound) for v in values)
                assert close(float(str(answer["estimate"])), expected), (world.text, answer)
                asked = world.release.ask(f"{kind}({text} {sign} {bound})")
                assert close(asked.estimate, expected)


def check_conditions(world: World) -> None:
    total = len(world.rows)
    for i, node in enumerate(world.drawn):
        (answer,) = answers(world.release, f"q_{i}")
        assert close(float(str(answer["estimate"])), world.count(node)), (world.text, node)
        if not world.conditions.satisfiable(node):
            with pytest.raises(WorkloadError, match="no row can meet"):
                world.ask(node)
            continue
        asked = world.release.ask(f"count({world.conditions.text(node)})")
        assert close(asked.estimate, world.count(node))
        assert any("also counts the rows where" in n for n in asked.notes) == world.conditions.surprises(node), (
            world.text,
            node,
        )
        if world.conditions.satisfiable(("not", node)):
            assert close(world.ask(("not", node)) + world.count(node), total)


def check_world(seed: int) -> None:
    world = World(seed)
    assert close(world.release.ask("total").estimate, len(world.rows))
    for column in world.columns:
        for kind in KINDS:
            check_labels(world, f"{kind}_{column.name}", [(column, kind)])
    defaults = [
        (c, "circular" if c.cyclic else "marginal" if c.kind == "category" else "prefix") for c in world.columns
    ]
    check_labels(world, "defaults", defaults)
    check_labels(world, "all", [(c, "marginal") for c in world.columns])
    for i, product in enumerate(world.products):
        check_labels(world, f"product_{i}", product)
    check_forms(world)
    check_conditions(world)


@pytest.mark.parametrize("seed", [4, 5, 8, 9])  # together they have all kinds of domains, policies and factors
def test_random_worlds(seed: int) -> None:
    check_world(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 300, 10))
def test_many_random_worlds(first: int) -> None:
    for seed in range(first, first + 10):
        check_world(seed)
