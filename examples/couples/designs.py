"""What optimised centring and blocks buy for the couples workload: the table of this folder's README. Takes minutes."""

from __future__ import annotations

import pathlib
import time

import qcompile as qc

DESIGNS: dict[str, tuple[str, bool | str]] = {
    "uniform": ("uniform", False),
    "optimised centring": ("optimised", False),
    "blocks": ("uniform", "auto"),
    "both": ("optimised", "auto"),
}


def main() -> None:
    workload = qc.load(pathlib.Path(__file__).with_name("couples.q"))
    plans = {}
    for name, (centring, blocks) in DESIGNS.items():
        start = time.perf_counter()
        plans[name] = qc.compile(workload, centring=centring, blocks=blocks)
        found = ", ".join("+".join(b) for b in plans[name].closure.blocks) or "none"
        print(f"{name}: {time.perf_counter() - start:.0f} s, blocks {found}", flush=True)
    print("\n| family | " + " | ".join(plans) + " |\n|---" * 1 + "|---" * len(plans) + "|")
    for f in workload.families:
        errors = [(p.family_errors(f).total / f.count) ** 0.5 for p in plans.values()]
        print(f"| {f.name} | " + " | ".join(f"{e:.3f}" for e in errors) + " |")
    print("| all queries | " + " | ".join(f"{p.rmse():.4f}" for p in plans.values()) + " |")
    print("| total weighted squared error | " + " | ".join(f"{p.sse():,.0f}" for p in plans.values()) + " |")


if __name__ == "__main__":
    main()
