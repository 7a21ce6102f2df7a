"""The baseline: AIM with Private-PGM, re-stated on the estimation of the package mbi (2.x).

``python benchmarks/pgm.py [--model-mb MB ...] [--epsilon E] [--seed S] [-o FILE.md]``

A benchmark of error and time on public data, not a release: its noise and its selection come from a seeded NumPy
generator in floating point, which protects nobody.

Sources: AIM, McKenna et al. 2022 (arXiv 2201.12677), algorithms 2 and 3, with the constants of the script that the
authors publish in the repository of mbi; Private-PGM, McKenna et al. 2019 (arXiv 1901.09136).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import chain, combinations
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import qcompile as qc
from benchmarks.adult import ADULT, View, adult, mean_error
from benchmarks.graphical import FloatArray, Model
from benchmarks.memory import peak
from benchmarks.report import megabytes, page, table, write

ALPHA = 0.9
"""The part of a round's budget that goes to measuring; the rest goes to selecting."""

ROUNDS = 16
"""Rounds per attribute that the first noise scale is made for; annealing needs far fewer."""

ITERATIONS = 1000
"""Steps of mirror descent in each round."""

DELTA = "1e-9"
RESULTS = Path(__file__).resolve().parent / "results" / "pgm.json"
PACKAGES = ("mbi", "jax", "numpy")

NOTES = """\
AIM measures noisy marginals one at a time, each chosen by the exponential mechanism, and fits a graphical model to all
of them after each (Private-PGM). *model limit* bounds the junction tree of that model in MB: it grows to this limit in
proportion to the budget that is spent. *error* is the mean over the workload of ||estimate - truth||_1 / N. *seconds*
is the whole mechanism, from exact counts to estimates, *of a core* the processor time of all its threads, which other
work on the machine hardly changes. *selecting* and *fitting* are parts of *seconds*. *MB* is the peak memory of the
process, compiled programs included.

The mechanism is the published script's: the same candidates and weights, 16 rounds per attribute for the first noise
scale, a tenth of each round for selection, annealing, last round, limit on the model, 1,000 steps of mirror descent
from the last model in every round and once more at the end. It is stated anew because the script does not run on mbi
2. What differs, and why:

- The estimates are the model's own marginals. The script samples a synthetic table first and scores that, which adds
  the error of sampling.
- Errors are ||.||_1 / N; the script prints half of it.
- Marginals that the model holds are read from it; the others are eliminated step by step. mbi 2 would compile a program
  for each candidate in each round, which takes ten times as long.
- Numbers are doubles, as the script's were; mbi 2 takes single precision unless told otherwise.
- Selection and noise are drawn from one seeded NumPy generator.
- No structural zeros are given, which is the script's default."""


@dataclass(frozen=True)
class Round:
    """What a round did.

    Attributes:
      view: the marginal that was chosen and measured.
      sigma: the standard deviation of its noise.
      epsilon: of the exponential mechanism.
      spent: the part of rho that is spent after the round.
      candidates: how many marginals the limit on the model left to choose from.
      selecting: seconds for finding the candidates, their estimates and the choice.
      fitting: seconds for fitting the model.
    """

    view: View
    sigma: float
    epsilon: float
    spent: float
    candidates: int
    selecting: float
    fitting: float


@dataclass(frozen=True)
class Outcome:
    """Estimates of the workload's marginals, by view, and the rounds that led to them."""

    estimates: dict[View, FloatArray]
    rounds: tuple[Round, ...]


def aim_pgm(
    counts: Mapping[View, npt.NDArray[Any]],
    domain: Mapping[str, int],
    workload: Sequence[View],
    rho: float,
    model_mb: float,
    seed: int,
    iterations: int = ITERATIONS,
    *,
    rounds: int | None = None,
    progress: Callable[[Round], None] = lambda _: None,
) -> Outcome:
    """Answer marginals by AIM with Private-PGM.

    Args:
      counts: exact counts of every view of `closure` (workload), one axis per attribute of the view.
      domain: number of values by attribute.
      workload: the marginals to answer, each with weight 1; attributes in the order of the domain.
      rho: the zCDP budget, > 0, all of which is spent.
      model_mb: the limit on the model, in MB (2^20 bytes) at 8 bytes per cell of its junction tree.
      seed: of the noise and the selection.
      iterations: steps of mirror descent per round; mbi does them in blocks of 50.
      rounds: that the first noise scale is made for; 16 per attribute by default.
      progress: is told of each round when it is over.

    Raises:
      ImportError: mbi is not installed.
      ValueError: rho or the limit is not > 0, or there are fewer rounds than attributes.
    """
    planned = ROUNDS * len(domain) if rounds is None else rounds
    _require(rho, model_mb, planned, len(domain))
    weights = _weights(workload)
    generator = np.random.default_rng(seed)
    model = Model(domain, iterations)
    sigma, epsilon = _scales(rho / planned)
    spent = 0.0
    for single in (v for v in weights if len(v) == 1):
        model.add(single, _noisy(counts[single], sigma, generator), sigma)
        spent += _cost(sigma)
    model.fit()
    done: list[Round] = []
    last = False
    while not last:
        last = rho - spent < 2 * _cost(sigma, epsilon)
        if last:
            sigma, epsilon = _scales(rho - spent)
        spent += _cost(sigma, epsilon)
        start = time.perf_counter()
        estimates = model.marginals(_affordable(weights, model, model_mb * spent / rho))
        view = select(estimates, counts, weights, sigma, epsilon, generator)
        selected = time.perf_counter()
        model.add(view, _noisy(counts[view], sigma, generator), sigma)
        model.fit()
        moved = np.abs(model.marginals([view])[view] - estimates[view]).sum()
        fitted = time.perf_counter()
        done.append(Round(view, sigma, epsilon, spent / rho, len(estimates), selected - start, fitted - selected))
        progress(done[-1])
        if moved <= _expected_noise(sigma, estimates[view].size):
            sigma, epsilon = sigma / 2, epsilon * 2
    model.fit()
    return Outcome(model.marginals(workload), tuple(done))


def _require(rho: float, model_mb: float, planned: int, attributes: int) -> None:
    if not (rho > 0 and model_mb > 0):
        raise ValueError(f"rho and model_mb must be > 0, got rho={rho!r} and model_mb={model_mb!r}")
    if planned < attributes:
        # Each attribute's own marginal takes 0.9 of a planned round before the first round begins.
        raise ValueError(f"rounds must be at least the number of attributes, {attributes}, got {planned}")


def closure(workload: Sequence[View]) -> list[View]:
    """All non-empty subsets of the workload's views, small ones first: the candidates, whose counts `aim_pgm` takes."""
    subsets = chain.from_iterable(combinations(view, k) for view in workload for k in range(1, len(view) + 1))
    return sorted(set(subsets), key=lambda view: (len(view), view))


def _weights(workload: Sequence[View]) -> dict[View, int]:
    """The weight of each candidate: how many attributes it shares with the views of the workload, summed."""
    return {view: sum(len({*view} & {*other}) for other in workload) for view in closure(workload)}


def _scales(rho: float) -> tuple[float, float]:
    """The noise scale and the epsilon of the exponential mechanism of a round that costs rho."""
    return math.sqrt(1 / (2 * ALPHA * rho)), math.sqrt(8 * (1 - ALPHA) * rho)


def _cost(sigma: float, epsilon: float = 0.0) -> float:
    """The rho of a Gaussian measurement of sensitivity 1 and of an exponential mechanism: together, of a round."""
    return 1 / (2 * sigma**2) + epsilon**2 / 8


def _expected_noise(sigma: float, cells: int) -> float:
    """The expected L1 norm of the noise of so many cells."""
    return math.sqrt(2 / math.pi) * sigma * cells


def _noisy(exact: npt.NDArray[Any], sigma: float, generator: np.random.Generator) -> FloatArray:
    return exact + generator.normal(scale=sigma, size=exact.shape)


def _affordable(weights: Mapping[View, int], model: Model, limit: float) -> list[View]:
    """The candidates that the model holds already, or that keep it within the limit (MB)."""
    return [view for view in weights if model.holds(view) or model.megabytes_with(view) <= limit]


def select(
    estimates: Mapping[View, FloatArray],
    counts: Mapping[View, npt.NDArray[Any]],
    weights: Mapping[View, int],
    sigma: float,
    epsilon: float,
    generator: np.random.Generator,
) -> View:
    """The exponential mechanism on AIM's quality score: weighted L1 errors, less the noise that measuring brings."""
    views = list(estimates)
    scores = np.array(
        [weights[v] * (np.abs(counts[v] - m).sum() - _expected_noise(sigma, m.size)) for v, m in estimates.items()]
    )
    sensitivity = max(weights[v] for v in views)
    return views[int(np.argmax(scores * epsilon / (2 * sensitivity) + generator.gumbel(size=len(views))))]


def measure(folder: Path, epsilon: float, model_mb: float, seed: int, iterations: int) -> dict[str, Any]:
    """One run on all 2-way marginals of Adult, with its progress on stderr: a JSON object for `section`."""
    domain, _ = data = adult(folder)
    workload = list(combinations(domain, 2))
    exact = data.exact(closure(workload))
    rho = float(qc.Budget(epsilon=epsilon, delta=DELTA).rho)
    start, worked = time.perf_counter(), time.process_time()
    outcome = aim_pgm(exact, domain, workload, rho, model_mb, seed, iterations, progress=_tell)
    return {
        "epsilon": epsilon,
        "delta": DELTA,
        "rho": rho,
        "model_mb": model_mb,
        "seed": seed,
        "iterations": iterations,
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time() - worked,
        "error": mean_error(outcome.estimates, {view: exact[view] for view in workload}),
        "peak": peak(),
        "versions": {name: version(name) for name in PACKAGES},
        "rounds": [asdict(r) for r in outcome.rounds],
    }


def _tell(r: Round) -> None:
    print(
        f"{' x '.join(r.view)}: sigma {r.sigma:.0f}, {r.spent:.1%} spent, {r.candidates} candidates, "
        f"selecting {r.selecting:.1f} s, fitting {r.fitting:.1f} s",
        file=sys.stderr,
        flush=True,
    )


COLUMNS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "model limit (MB)": lambda r: f"{r['model_mb']:g}",
    "epsilon": lambda r: f"{r['epsilon']:g}",
    "error": lambda r: f"{r['error']:.4f}",
    "seconds": lambda r: f"{r['seconds']:.0f}",
    "of a core": lambda r: f"{r['cpu']:.0f}",
    "selecting": lambda r: f"{sum(x['selecting'] for x in r['rounds']):.0f}",
    "fitting": lambda r: f"{sum(x['fitting'] for x in r['rounds']):.0f}",
    "rounds": lambda r: str(len(r["rounds"])),
    "MB": lambda r: megabytes(r["peak"]),
    "seed": lambda r: str(r["seed"]),
}
"""The columns of the section, and how each is read from a result of `measure`."""


def section(results: Sequence[Mapping[str, Any]]) -> str:
    """A Markdown section of what `measure` returned, run by run."""
    versions = sorted({", ".join(f"{name} {v}" for name, v in r["versions"].items()) for r in results})
    lines = [[cell(result) for cell in COLUMNS.values()] for result in results]
    title = "## AIM with Private-PGM: all 2-way marginals of Adult"
    return "\n\n".join([title, f"With {'; '.join(versions)}.", table(list(COLUMNS), lines), NOTES])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run AIM with Private-PGM on Adult once per limit, each in a fresh process; keep the results and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model-mb", type=float, nargs="+", default=[1.0, 10.0], help="limits on the model")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=ITERATIONS, help="steps of mirror descent per round")
    parser.add_argument("--data", type=Path, default=ADULT, help="the folder with adult.csv and adult-domain.json")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the results are kept")
    parser.add_argument("-o", "--output", type=Path, help="write the page to this file instead of printing it")
    chosen = parser.parse_args(arguments)
    results = []
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        for limit in chosen.model_mb:
            job = (chosen.data, chosen.epsilon, limit, chosen.seed, chosen.iterations)
            results.append(pool.submit(measure, *job).result())
            chosen.json.write_text(json.dumps(results, indent=1) + "\n")
    write(page("AIM with Private-PGM", [], [section(results)]), chosen.output)


if __name__ == "__main__":
    main()
