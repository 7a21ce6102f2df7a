"""Private-PGM on the package mbi (2.x): a graphical model that is fitted to noisy marginals.

Source: McKenna et al. 2019 (arXiv 1901.09136).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.adult import View

FloatArray = npt.NDArray[np.float64]


class Model:
    """Noisy marginals and the graphical model that mbi fits to them.

    Args:
      domain: number of values by attribute.
      iterations: steps of mirror descent of each fit, which starts from the last one; mbi does them in blocks of 50.

    Raises:
      ImportError: mbi is not installed.
    """

    def __init__(self, domain: Mapping[str, int], iterations: int) -> None:
        self._jax, self._mbi = _packages()
        self._domain = self._mbi.Domain.fromdict(dict(domain))
        self._iterations = iterations
        self._measurements: list[Any] = []
        self._fitted: Any = None

    def add(self, view: View, noisy: FloatArray, sigma: float) -> None:
        """Take a measurement into the next fit.

        Args:
          view: the attributes of the marginal.
          noisy: its counts with noise, one axis per attribute.
          sigma: the standard deviation of the noise, in counts.
        """
        self._measurements.append(self._mbi.LinearMeasurement(noisy.ravel(), view, stddev=sigma))

    def fit(self) -> None:
        """Fit to all measurements; mbi takes the best unbiased estimate from them as the number of rows."""
        self._fitted = self._mbi.estimation.MirrorDescent().estimate(
            self._domain, self._measurements, iters=self._iterations, warm_start=self._fitted
        )

    def holds(self, view: View) -> bool:
        """Whether the view is inside a clique that the model was fitted to."""
        return bool(self._fitted.marginals.supports(view))

    def megabytes_with(self, view: View) -> float:
        """Size of the junction tree if the view were measured, in MB (2^20 bytes) at 8 bytes per cell."""
        cliques = [*self._fitted.cliques, view]
        return float(self._mbi.junction_tree.hypothetical_model_size(self._domain, cliques))

    def marginals(self, views: Iterable[View]) -> dict[View, FloatArray]:
        """The model's marginals, in counts, one axis per attribute of the view."""
        return {view: np.asarray(self._factor(view).datavector(flatten=False), dtype=np.float64) for view in views}

    def _factor(self, view: View) -> Any:
        if self.holds(view):
            return self._fitted.project(view)
        # Compiled, each elimination is a program of its own that takes ten times as long to make as this takes to run.
        with self._jax.disable_jit():
            eliminate = self._mbi.marginal_oracles.variable_elimination
            return eliminate(self._fitted.potentials, view, float(self._fitted.total))


def _packages() -> tuple[Any, Any]:
    """The packages jax and mbi as mbi asks to be used: in doubles, without a cache of programs on disk."""
    try:
        import jax

        # Both settings must stand before mbi is first imported.
        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_enable_compilation_cache", False)
        import mbi
    except ImportError as error:
        raise ImportError(f"Private-PGM needs the package mbi ({error}): pip install 'qcompile[bench]'") from error
    return jax, mbi
