"""Random small plans: a seed gives a workload, the options it is compiled with, a budget and a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from qcompile.api import Plan, compile
from qcompile.privacy.budget import Budget
from qcompile.queries.factors import Abs, Affine, Circular, Factor, Marginal, Matrix, Predicate, Prefix, Random, Range
from qcompile.queries.factors.base import OneAttribute
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, Policy, Schema
from qcompile.queries.workload import Family, Workload
from qcompile.solvers.attribute_strategies import STRATEGIES
from qcompile.support.arrays import Array, IntArray

SOLVERS = ("auto", "exact", "conic", "rp", "rp+", "wff")

LARGEST_DOMAIN = {"conic": 36, "exact": 72}
"""Cells of the whole domain up to which a solver stays quick."""

OTHER_DOMAINS = 120

PAIRS_WRITTEN_OUT = 27
"""Cells up to which two rows are replaced by two others in every possible way."""

ONE_WAY: tuple[type[OneAttribute], ...] = (Marginal, Prefix, Range, Circular)


@dataclass(frozen=True, eq=False)
class Design:
    """Everything that one random plan and its run depend on.

    Attributes:
      seed: gives all the rest.
      workload: what is asked.
      solver: of `compile`, like the following ones.
      gap: likewise.
      centring: "uniform", "optimised", or weights per attribute.
      blocks: False, "auto", or lists of family names.
      strategies: of ``solver="rp+"``.
      neighbours: "add-remove" or "replace-one".
      contributions: rows of one unit.
      budget: of the run.
      accounting: "zcdp" or "gaussian".
      counts: a table over the whole domain, some of its cells empty.
    """

    seed: int
    workload: Workload
    solver: str
    gap: float
    centring: str | dict[str, Array]
    blocks: bool | str | list[list[str]]
    strategies: dict[str, str | Array] | None = field(repr=False)
    neighbours: str
    contributions: int
    budget: Budget
    accounting: str
    counts: IntArray

    @property
    def charge(self) -> Fraction:
        """The rho that the run spends."""
        return self.budget.charge(self.accounting)

    @property
    def data(self) -> dict[tuple[str, ...], IntArray]:
        """The table as a run takes it."""
        return {self.workload.schema.names: self.counts}

    def plan(self) -> Plan:
        """Compile it."""
        return compile(
            self.workload,
            solver=self.solver,
            gap=self.gap,
            centring=self.centring,
            blocks=self.blocks,
            strategies=self.strategies,
            neighbours=self.neighbours,
            contributions=self.contributions,
        )

    def __str__(self) -> str:
        attributes = ", ".join(f"{a.name}[{a.size}]{' drop' * dropping(a)}" for a in self.workload.schema)
        families = "; ".join(f"{f.text} weight {f.weight:.3g}" for f in self.workload.families)
        centring = self.centring if isinstance(self.centring, str) else "given"
        return (
            f"random_design({self.seed}): {self.solver}, gap {self.gap:.1g}, {centring} centring, blocks {self.blocks},"
            f" {self.neighbours}, {self.contributions} rows, {self.budget!r} by {self.accounting}, {attributes}:"
            f" {families}"
        )


def dropping(attribute: Attribute) -> bool:
    """Whether rows leave the counts because of this attribute."""
    return attribute.policy.kind == "drop"


def random_design(seed: int) -> Design:
    """The design of a seed; solvers, relations and rows of a unit take turns, all else is drawn."""
    rng = np.random.default_rng([seed, 20231])
    solver = SOLVERS[seed % len(SOLVERS)]
    neighbours = ("add-remove", "replace-one")[seed // len(SOLVERS) % 2]
    contributions = 1 + seed // (2 * len(SOLVERS)) % 3
    limit = LARGEST_DOMAIN.get(solver, OTHER_DOMAINS)
    if (neighbours, contributions) == ("replace-one", 2):
        limit = PAIRS_WRITTEN_OUT
    attributes = _attributes(rng, limit)
    workload = Workload(Schema(tuple(attributes)), tuple(_families(rng, attributes)))
    return Design(
        seed=seed,
        workload=workload,
        solver=solver,
        gap=float(10.0 ** rng.integers(-7, -1)),
        centring=_centring(rng, solver, attributes),
        blocks=_blocks(rng, solver, [f.name for f in workload.families]),
        strategies={a.name: _strategy(rng, a.size) for a in attributes} if solver == "rp+" else None,
        neighbours=neighbours,
        contributions=contributions,
        budget=_budget(rng),
        accounting=str(rng.choice(["zcdp", "gaussian"])),
        counts=_counts(rng, tuple(a.size for a in attributes)),
    )


def _attributes(rng: np.random.Generator, limit: int) -> list[Attribute]:
    while True:
        found = [_attribute(rng, name) for name in "abcd"[: rng.integers(2, 5)]]
        sizes = [a.size for a in found]
        if math.prod(sizes) <= limit and max(sizes) > 1:
            return found


def _attribute(rng: np.random.Generator, name: str) -> Attribute:
    size = int(rng.integers(1, 6))
    if rng.random() < 0.7:
        low = int(rng.integers(-3, 4))
        policy = Policy("drop") if rng.random() < 0.2 else Policy("clip")
        return Attribute(name, IntegerDomain(low, low + size - 1), policy)
    policies = [Policy(), Policy("drop"), Policy("other", "else")]
    return Attribute(name, CategoryDomain(tuple(f"{name}{i}" for i in range(size))), policies[rng.integers(3)])


def _families(rng: np.random.Generator, attributes: Sequence[Attribute]) -> list[Family]:
    """One to five families; the first is never constant, so that there is something to spend a budget on."""
    widest = max(attributes, key=lambda a: a.size)
    rest = [a for a in attributes if a is not widest]
    made = [_family(rng, 0, (_one_way(rng, widest), *_maybe(rng, rest)))]
    kinds = list(KINDS)
    for i in range(1, int(rng.integers(1, 6))):
        if rng.random() < 0.25:
            made.append(_choice(rng, i, attributes))
        else:
            made.append(_family(rng, i, KINDS[kinds[rng.integers(len(kinds))]](rng, attributes)))
    return made


def _family(
    rng: np.random.Generator, number: int, factors: tuple[Factor, ...], choose: tuple[int, int] | None = None
) -> Family:
    text = " * ".join(f"{f.kind}({', '.join(f.names)})" for f in factors) or "total"
    each = "" if choose is None else f"each {choose[0]}..{choose[1]} of "
    return Family(f"family {number}", each + text, factors, float(10.0 ** rng.uniform(-3, 3)), choose)


def _choice(rng: np.random.Generator, number: int, attributes: Sequence[Attribute]) -> Family:
    low = int(rng.integers(0, len(attributes)))
    high = int(rng.integers(low, min(3, len(attributes)) + 1)) if low <= 3 else low
    return _family(rng, number, tuple(_one_way(rng, a) for a in attributes), (low, high))


def _one_way(rng: np.random.Generator, attribute: Attribute) -> Factor:
    return ONE_WAY[rng.integers(len(ONE_WAY))](attribute)


def _maybe(rng: np.random.Generator, attributes: Sequence[Attribute]) -> tuple[Factor, ...]:
    """Some one-way factors beside others, in any order of attributes."""
    chosen = [a for a in _shuffled(rng, attributes) if rng.random() < 0.4]
    return tuple(_one_way(rng, a) for a in chosen[:2])


def _shuffled(rng: np.random.Generator, attributes: Sequence[Attribute]) -> list[Attribute]:
    return [attributes[i] for i in rng.permutation(len(attributes))]


def _product(rng: np.random.Generator, attributes: Sequence[Attribute]) -> tuple[Factor, ...]:
    return _maybe(rng, attributes)


def _form(rng: np.random.Generator, attributes: Sequence[Attribute]) -> tuple[Factor, ...]:
    """Affine or abs on two or three integer attributes, with all thresholds or with some."""
    integers = [a for a in _shuffled(rng, attributes) if isinstance(a.domain, IntegerDomain)]
    count = int(rng.integers(2, 4))
    if len(integers) < 2:
        return _product(rng, attributes)
    on = integers[:count]
    coefficients = [int(c) for c in rng.choice([-2, -1, 1, 1, 2], size=len(on))]
    some = sorted({int(t) for t in rng.integers(-2, 7, size=3)})
    kind, least = (Abs, int(rng.integers(-1, 2))) if rng.random() < 0.5 else (Affine, 0)
    form = kind(on, coefficients, some if rng.random() < 0.3 else None, constant=least, at_least=rng.random() < 0.2)
    return (form, *_maybe(rng, [a for a in attributes if a not in on]))


def _given(rng: np.random.Generator, attributes: Sequence[Attribute]) -> tuple[Factor, ...]:
    """Random bits, a matrix or a predicate on one or two attributes."""
    on = _shuffled(rng, attributes)[: rng.integers(1, 3)]
    shape = tuple(a.size for a in on)
    kind = rng.integers(3)
    factor: Factor = Predicate(on, rng.random(shape) < 0.5, "drawn")
    if kind == 0:
        factor = Random(on, 0.4, int(rng.integers(1, 6)), int(rng.integers(1000)))
    elif kind == 1:
        factor = Matrix(on, np.round(rng.normal(size=(int(rng.integers(1, 5)), *shape)) * 10) / 4)
    return (factor, *_maybe(rng, [a for a in attributes if a not in on]))


KINDS: dict[str, Callable[[np.random.Generator, Sequence[Attribute]], tuple[Factor, ...]]] = {
    "total": lambda rng, attributes: (),
    "product": _product,
    "joint marginal": lambda rng, attributes: tuple(map(Marginal, _shuffled(rng, attributes)[:2])),
    "form": _form,
    "given": _given,
}
"""How factors of a family are drawn."""


def _centring(rng: np.random.Generator, solver: str, attributes: Sequence[Attribute]) -> str | dict[str, Array]:
    kind = rng.integers(3)
    if kind == 0 or solver in ("rp", "wff"):
        return "uniform"
    if kind == 1 and solver != "rp+":
        return "optimised"
    return {a.name: _shares(rng, a.size) for a in attributes if rng.random() < 0.8}


def _shares(rng: np.random.Generator, size: int) -> Array:
    u = rng.random(size) ** 2 + 0.02
    return np.asarray(u / u.sum())


def _blocks(rng: np.random.Generator, solver: str, names: list[str]) -> bool | str | list[list[str]]:
    kind = rng.integers(3)
    if solver in ("rp", "rp+", "wff") or kind == 0:
        return False
    if kind == 1:
        return "auto"
    place = rng.integers(0, 3, size=len(names))
    return [b for b in ([n for n, p in zip(names, place, strict=True) if p == i] for i in (1, 2)) if b]


def _strategy(rng: np.random.Generator, size: int) -> str | Array:
    if rng.random() < 0.2:
        return np.asarray(np.vstack([np.eye(size), rng.normal(size=(1, size))]))
    return sorted(STRATEGIES)[rng.integers(len(STRATEGIES))]


def _budget(rng: np.random.Generator) -> Budget:
    kind = rng.integers(4)
    if kind == 0:
        return Budget(epsilon=f"{10 ** rng.uniform(-1.5, 1):.3g}", delta=f"1e-{rng.integers(3, 13)}")
    if kind == 1:
        return Budget(rho=Fraction(int(rng.integers(1, 100)), int(rng.integers(1, 1000))))
    amount = f"{10 ** rng.uniform(-2, 1):.4g}"
    return Budget(mu=amount) if kind == 2 else Budget(cost=amount)


def _counts(rng: np.random.Generator, shape: tuple[int, ...]) -> IntArray:
    largest = 10.0 ** rng.uniform(0, 8)
    return np.asarray(np.floor(rng.random(shape) ** 3 * largest) * (rng.random(shape) < 0.8), dtype=np.int64)
