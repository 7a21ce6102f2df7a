"""The largest variance of a query: plans beside the optimum of ResidualPlanner and a bound of any mechanism.

``python benchmarks/largest.py [-o FILE.md]``
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.report import page, table, write
from benchmarks.routes.residual_planner import costs, losses
from qcompile.api import Plan, compile
from qcompile.plan.standing import least_cost

INTRODUCTION = """\
The largest variance of a query at privacy cost 1, which is the budget that the same limit on every query needs. *total*
is the plan of least total error, *max* that of `objective="max"`, *blocks* with `blocks="auto"`, all as ratios to
*bound*, which is proven: for workloads that a single block answers it holds for any matrix mechanism, and for marginals
too, as the residual basis is optimal for them. *ResidualPlanner* is the optimum of its maximum-variance program (arXiv
2305.08175), solved with CVXPY; it is for marginals alone, where plans are compiled with `objective_gap=1e-4`, elsewhere
with the usual 1 %. *seconds* are those of *max* and *blocks*."""


def ordered(sizes: dict[str, int], *families: str) -> str:
    """A workload over integers."""
    lines = "; ".join(f"{name} : integer 0..{n - 1}" for name, n in sizes.items())
    return f"schema {{ {lines} }}\nworkload {{ {'; '.join(families)} }}"


def marginals(sizes: Sequence[int], largest: int) -> str:
    """All marginals of up to ``largest`` attributes."""
    listed = "; ".join(f"a{i} : integer 0..{n - 1}" for i, n in enumerate(sizes))
    names = ", ".join(f"a{i}: marginal" for i in range(len(sizes)))
    return f"schema {{ {listed} }}\nworkload {{ each 1..{largest} of ({names}) }}"


MARGINALS: dict[str, tuple[tuple[int, ...], int]] = {
    "1-3-way marginals, 4 x 5 x 6": ((4, 5, 6), 3),
    "1-2-way marginals, 2, 10, 20 values": ((2, 10, 20), 2),
    "1-2-way marginals, 2, 2, 10, 50, 100 values": ((2, 2, 10, 50, 100), 2),
    "1-3-way marginals, 2 to 100 values, 8 attributes": ((2, 3, 5, 8, 12, 20, 50, 100), 3),
}

OTHERS = {
    "prefix 16": ordered({"a": 16}, "prefix(a)"),
    "prefix 64": ordered({"a": 64}, "prefix(a)"),
    "range 16": ordered({"a": 16}, "range(a)"),
    "range 32": ordered({"a": 32}, "range(a)"),
    "prefix x prefix 8 x 8": ordered({"a": 8, "b": 8}, "prefix(a) * prefix(b)"),
    "affine 8 x 8": ordered({"a": 8, "b": 8}, "affine(a + b <= *)"),
    "range x range 6 x 6": ordered({"a": 6, "b": 6}, "range(a) * range(b)"),
    "total, prefix x prefix, abs, 10 x 10": ordered(
        {"a": 10, "b": 10}, "total", "prefix(a) * prefix(b)", "abs(a - b <= *)"
    ),
}


def residual_planner(sizes: Sequence[int], largest: int) -> float:
    """The least largest variance at cost 1 with independent noise of variance s_tau on every residual tau.

    Minimise sum of p_tau / s_tau over s with, for every marginal, sum over its tau of v_tau s_tau at most 1.
    """
    import cvxpy as cp

    nodes = [t for k in range(largest + 1) for t in itertools.combinations(range(len(sizes)), k)]
    place = {node: i for i, node in enumerate(nodes)}
    s = cp.Variable(len(nodes), pos=True)
    limits = []
    for view in nodes[1:]:
        below = [t for k in range(len(view) + 1) for t in itertools.combinations(range(len(view)), k)]
        shares = losses([sizes[i] for i in view], below)
        limits.append(sum(v * s[place[tuple(view[i] for i in t)]] for v, t in zip(shares, below, strict=True)) <= 1)
    problem = cp.Problem(cp.Minimize(costs(sizes, nodes) @ cp.inv_pos(s)), limits)
    return float(problem.solve(solver=cp.CLARABEL))


def largest_variance(plan: Plan) -> float:
    """Of a query, at cost 1."""
    return max(plan.family_errors(f).largest for f in plan.workload.families)


def row(name: str, text: str, peer: float | None) -> list[str]:
    """One workload in all ways."""
    start = time.perf_counter()
    plain = compile(text, objective="max", objective_gap=0.01 if peer is None else 1e-4)
    middle = time.perf_counter()
    blocks = compile(text, objective="max", blocks="auto") if peer is None else plain
    end = time.perf_counter()
    solved = blocks.solved
    assert solved is not None
    total = largest_variance(compile(text)) / solved.bound
    ratios = [f"{r:.4f}" for r in (total, least_cost(plain) / solved.bound, least_cost(blocks) / solved.bound)]
    if peer is None:
        return [name, f"{solved.bound:.4f}", *ratios, "", f"{middle - start:.1f}", f"{end - middle:.1f}"]
    return [name, f"{solved.bound:.4f}", *ratios[:2], "", f"{peer / solved.bound:.4f}", f"{middle - start:.1f}", ""]


HEAD = ("workload", "bound", "total", "max", "blocks", "ResidualPlanner", "seconds", "seconds (blocks)")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("-o", "--output", type=Path, help="a Markdown file")
    options = parser.parse_args(arguments)
    rows = [row(name, marginals(*shape), residual_planner(*shape)) for name, shape in MARGINALS.items()]
    rows += [row(name, text, None) for name, text in OTHERS.items()]
    write(page("The largest variance", [INTRODUCTION], [table(HEAD, rows)]), options.output)


if __name__ == "__main__":
    main()
