"""The variant of an answer: unbiased or best, and how best estimates are processed."""

from __future__ import annotations

from dataclasses import dataclass

from qcompile.errors import OptionError
from qcompile.estimates.best import ESTIMATES, PROCESSING
from qcompile.release.answers.measurements import Measurements
from qcompile.support.options import one_of

NOMINAL = "nominal: what was measured depended on earlier measurements"
"""Added to the interval method of an adaptive run; docs/adaptive.md gives the reason."""


@dataclass(frozen=True)
class Variant:
    """How a question is answered.

    Attributes:
      estimate: "unbiased" or "best".
      processing: of best estimates, one of `qcompile.estimates.best.PROCESSING`; "none" for unbiased ones.
      reference: model behind the best estimates.
    """

    estimate: str
    processing: str
    reference: str

    @property
    def is_best(self) -> bool:
        """True for best estimates, which are biased and have no standard error."""
        return self.estimate == "best"

    def __str__(self) -> str:
        return f"best, reference {self.reference}, {self.processing}" if self.is_best else self.estimate


def choose_variant(
    measurements: Measurements, estimate: str | None, processing: str | None, cell_by_cell: bool
) -> Variant:
    """Check the options of a question and fill in their defaults.

    Args:
      measurements: decide the default: "unbiased" for a batch, "best" for an adaptive run.
      estimate: as asked; None for the default.
      processing: as asked; None for the default.
      cell_by_cell: True where cells are asked for. Removing negative counts cell by cell shifts every sum of cells, so
        it is the default for cells only.

    Raises:
      OptionError: an option is unknown, or the two contradict each other.
    """
    default = "unbiased" if measurements.history is None else "best"
    chosen = one_of("estimate", default if estimate is None else estimate, ESTIMATES)
    if chosen == "unbiased":
        if processing not in (None, "none"):
            raise OptionError(
                f"processing={processing!r} makes estimates biased; ask for estimate='best' with it, or leave it out"
            )
        return Variant(chosen, "none", measurements.reference)
    if not measurements.plan.closure.first_block:
        raise OptionError("this plan measures blocks only, which have no best estimates; ask for estimate='unbiased'")
    default = "nonnegative" if cell_by_cell else "none"
    processed = one_of("processing", default if processing is None else processing, PROCESSING)
    return Variant(chosen, processed, measurements.reference)


def interval_method(measurements: Measurements, method: str) -> str:
    """The description of an interval, marked as nominal for an adaptive run."""
    return method if measurements.history is None else f"{method}, {NOMINAL}"
