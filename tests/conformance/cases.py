"""Small workloads that between them hold every kind of factor and everything that once went wrong elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from qcompile.api import Plan, compile
from qcompile.queries.factors import Abs, Affine, Circular, Marginal, Matrix, Predicate, Prefix, Random, Range
from qcompile.queries.schema import Policy, Schema
from qcompile.queries.workload import Workload, default_factor
from qcompile.support.arrays import Array
from tests.conformance.helpers import category, family, integer, integers, some_weights, with_other, workload

A, B, C, D = integers(3, 4, 3, 2)
ONE = integer("one", 1)
P, Q, R, S = (integer(name, 3) for name in "pqrs")
SHIFTED = integer("s", 4, low=-2)
HOUR, PAY = with_other(integer("hour", 4), cyclic=True), with_other(integer("pay", 3))
KIND = with_other(category("kind", 2))
ODD_SUM = np.array([[(i + j) % 2 == 1 for j in range(4)] for i in range(3)])

WORKLOADS: dict[str, Callable[[], Workload]] = {
    "total": lambda: workload([A], family()),
    "total of nothing else": lambda: workload([A, B], family(), family(Prefix(B))),
    "one attribute of each kind": lambda: workload(
        [A, B, C, D], family(Marginal(A)), family(Prefix(B)), family(Range(C)), family(Circular(D))
    ),
    "marginals up to three ways": lambda: workload(
        [A, B, D], family(Marginal(A), Marginal(B), Marginal(D), choose=(0, 3), name="all")
    ),
    "prefixes up to three ways": lambda: workload(
        [A, B, D], family(Prefix(A), Prefix(B), Prefix(D), choose=(1, 3), name="all")
    ),
    "circular pairs": lambda: workload(
        [A, B, C], family(Circular(A), Circular(B), Circular(C), choose=(1, 2), name="x")
    ),
    "same size, different factors": lambda: workload(
        [A, C], family(Prefix(A), Range(C)), family(Marginal(A), Circular(C))
    ),
    "attributes out of order": lambda: workload(
        [C, D, A], family(Prefix(A), Marginal(D), Range(C)), family(Range(D), Prefix(C))
    ),
    "size one first": lambda: workload([ONE, A], family(Prefix(ONE), Prefix(A)), family(Range(ONE))),
    "size one only": lambda: workload([ONE], family(Prefix(ONE))),
    "size one in the middle": lambda: workload(
        [D, ONE, A], family(Marginal(D), Circular(ONE), Range(A)), family(Affine([A, ONE], [1, 1]), Prefix(D))
    ),
    "other cells": lambda: workload(
        [D, HOUR, PAY], family(Circular(HOUR), Prefix(PAY)), family(Range(PAY)), family(Marginal(HOUR), Prefix(D))
    ),
    "arcs beside an other cell": lambda: workload([D, HOUR], family(Circular(HOUR)), family(Marginal(D))),
    "pairs with other cells": lambda: workload(
        [D, PAY, KIND],
        family(*map(default_factor, (D, PAY, KIND)), choose=(1, 2), name="pairs"),
        family(Range(KIND), Circular(PAY)),
    ),
    "affine": lambda: workload([A, B, D], family(Affine([A, B], [1, 1])), family(Prefix(D), Prefix(A))),
    "affine out of order": lambda: workload(
        [B, SHIFTED, A], family(Affine([A, SHIFTED], [2, -1])), family(Abs([SHIFTED, B], [1, 1], [1, 3]))
    ),
    "abs and a third factor": lambda: workload([A, D, C], family(Abs([A, C], [1, -1]), Prefix(D)), family(Range(A))),
    "affine of three": lambda: workload([A, D, C], family(Affine([D, A, C], [1, -1, 2])), family(Marginal(C))),
    "mixed on one pair": lambda: workload(
        [A, B], family(Prefix(A), Prefix(B)), family(Affine([A, B], [1, 1])), family(Abs([B, A], [1, -1]))
    ),
    "random": lambda: workload([B, C], family(Random([C, B], 0.3, 5, 11)), family(Prefix(B))),
    "single predicates": lambda: workload(
        [A, B],
        family(Predicate([A, B], ODD_SUM, "odd"), name="odd"),
        family(Predicate([B], np.arange(4) > 1, "b > 1"), name="b"),
    ),
    "matrix with a constant row": lambda: workload(
        [A, D],
        family(Matrix([A], np.array([[1.0, 1, 1], [1, -2, 0.5]])), Marginal(D)),
        family(Matrix([D], np.ones((2, 2)))),
    ),
    "weights far apart": lambda: workload(
        [A, B], family(Prefix(A), weight=1e6), family(Range(A), Prefix(B)), family(Marginal(B), weight=30.0)
    ),
    "hybrid": lambda: workload(
        [category("k", 2), A, category("m", 3), B],
        family(
            Marginal(category("k", 2)), Prefix(A), Marginal(category("m", 3)), Prefix(B), choose=(1, 3), name="hybrid"
        ),
    ),
    "repeated sizes": lambda: workload(
        [P, Q, R, S],
        family(Prefix(P), Range(Q), Prefix(R), Marginal(S), choose=(2, 2), name="pairs"),
        family(Abs([Q, P], [1, -1])),
        family(Abs([R, S], [1, -1])),
    ),
}


ONLY_TOTALS = ("total", "size one only")
"""Workloads that need no budget where one row is replaced."""

LARGE = ("hybrid", "repeated sizes")
"""Workloads on 72 and 81 cells: too many pairs of rows to write out."""

STRATEGIES = ("haar", "identity", "hierarchical", "prefix")


@dataclass(frozen=True)
class Case:
    """A workload with the options it is compiled with."""

    name: str
    solver: str
    skewed: bool = False
    contributions: int = 1
    optimised: bool = False
    blocks: str = "no"
    neighbours: str = "add-remove"
    drop: bool = False

    def workload(self) -> Workload:
        made = WORKLOADS[self.name]()
        if not self.drop:
            return made
        first, *others = made.schema
        return Workload(Schema((replace(first, policy=Policy("drop")), *others)), made.families)

    def centring(self) -> dict[str, Array]:
        return {a.name: some_weights(a.size, i) for i, a in enumerate(self.workload().schema)} if self.skewed else {}

    def strategies(self) -> dict[str, str] | None:
        if self.solver != "rp+":
            return None
        return {a.name: STRATEGIES[i % len(STRATEGIES)] for i, a in enumerate(self.workload().schema)}

    def given_blocks(self) -> bool | str | list[list[str]]:
        """Searched for; or the families dealt out to two blocks and the lattice, whether that is wise or not."""
        if self.blocks != "dealt":
            return self.blocks == "auto" and "auto"
        names = [f.name for f in self.workload().families]
        return [dealt for dealt in (names[0::3], names[1::3]) if dealt]

    def plan(self, gap: float = 1e-6) -> Plan:
        return compile(
            self.workload(),
            solver=self.solver,
            gap=gap,
            centring="optimised" if self.optimised else self.centring() or "uniform",
            blocks=self.given_blocks(),
            strategies=self.strategies(),
            contributions=self.contributions,
            neighbours=self.neighbours,
        )

    def __str__(self) -> str:
        extra = {
            "skewed": self.skewed,
            "optimised": self.optimised,
            f"blocks {self.blocks}": self.blocks != "no",
            f"{self.contributions} rows": self.contributions > 1,
            "replaced": self.neighbours == "replace-one",
            "dropped": self.drop,
        }
        return ", ".join([self.name, self.solver, *(text for text, there in extra.items() if there)])


CASES = [
    *(Case(name, solver) for name in WORKLOADS for solver in ("auto", "exact", "rp", "wff", "conic")),
    *(Case(name, solver, skewed=True) for name in WORKLOADS for solver in ("auto", "exact", "conic")),
    *(Case(name, "rp+", skewed=skewed) for name in WORKLOADS for skewed in (False, True)),
    *(Case(name, "auto", optimised=True, blocks=blocks) for name in WORKLOADS for blocks in ("no", "auto")),
    *(Case(name, "auto", skewed=True, blocks="dealt") for name in WORKLOADS),
    Case("hybrid", "auto", contributions=3),
    Case("mixed on one pair", "exact", blocks="auto", contributions=2),
    *(
        Case(name, solver, neighbours="replace-one")
        for name in WORKLOADS
        for solver in ("auto", "rp", "wff", "conic")
        if name not in ONLY_TOTALS
    ),
    *(Case(n, "auto", neighbours="replace-one", optimised=True) for n in WORKLOADS if n not in ONLY_TOTALS),
    *(
        Case(n, "auto", neighbours="replace-one", skewed=True, blocks="dealt")
        for n in WORKLOADS
        if n not in ONLY_TOTALS
    ),
    *(Case(n, "auto", neighbours="replace-one", contributions=2) for n in WORKLOADS if n not in LARGE),
    *(Case(n, "auto", neighbours="replace-one", drop=True) for n in WORKLOADS),
]
