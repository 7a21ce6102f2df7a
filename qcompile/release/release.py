"""The release: noisy measurements with their terms, and the questions that they answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from qcompile.adaptive.history import History
from qcompile.errors import OptionError
from qcompile.plan.plan import Plan
from qcompile.privacy.noise.scale import Scale
from qcompile.release.answers import intervals
from qcompile.release.answers.family_answers import read_family
from qcompile.release.answers.marginal_answer import estimate_marginal
from qcompile.release.answers.measurements import Measurements
from qcompile.release.answers.query_answer import answer_query
from qcompile.release.answers.results import Answer, Marginal
from qcompile.release.answers.selection import Of, Where, select
from qcompile.release.coverage import coverage_table
from qcompile.release.provenance import NOT_PRIVATE, Provenance
from qcompile.release.values import NodeValues
from qcompile.support.arrays import Array
from qcompile.support.text import plural

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """A publishable record, immutable, and the questions that it answers.

    Attributes:
      plan: what was measured.
      provenance: the terms.
      scales: the noise of each class in a batch, in steps of counts (see `Provenance.count_step`); empty where the run
        was adaptive.
      values: per node, its measurements: multiples of the grid with rounded noise, else numbers; of an adaptive run the
        averages, in steps of counts, empty where a node was not measured. Of a large file they are read on demand.
      history: what an adaptive run did, round by round; None for a batch.
    """

    plan: Plan
    provenance: Provenance
    scales: tuple[Scale, ...]
    values: Sequence[NodeValues]
    history: History | None = None

    def __repr__(self) -> str:
        workload, terms = self.plan.workload, self.provenance
        size = f"{self.plan.queries:,} queries in {plural(len(workload.families), 'family', 'families')}"
        stamped = f", {NOT_PRIVATE}" if any(s.startswith(NOT_PRIVATE) for s in terms.stamps) else ""
        counted = "" if self.plan.counted is None else f", rows: {self.plan.counted}"
        return f"<Release: {terms.mechanism}, {size}, rho {float(terms.charge):.6g}{counted}{stamped}>"

    @cached_property
    def _measurements(self) -> Measurements:
        return Measurements(self.plan, self.scales, self.values, self.history, self.provenance.reference)

    @property
    def variances(self) -> Array:
        """Variance of each node's measurements, by its position; infinite where a node was not measured.

        The rounding to the grid is included. For an adaptive run it is the variance of the average measurement, as if
        the measured nodes had been fixed beforehand.
        """
        return self._measurements.variances

    def measured(self, node: int) -> Array:
        """The measurements y of a node or block in counts, ``(rows,)``, by its position in the lattice."""
        return self._measurements.in_counts(node)

    def answers(
        self,
        family: str,
        alpha: float = 0.05,
        simultaneous: bool = False,
        estimate: str | None = None,
        processing: str | None = None,
        of: Of = None,
        where: Where = None,
    ) -> pa.Table:
        """The answers of a family, or those of them that are selected.

        Args:
          family: its name.
          alpha: intervals cover with probability 1 - alpha.
          simultaneous: all intervals of the table together, instead of each by itself: those of the selected answers
            where something is selected, of all answers of the family otherwise.
          estimate: "unbiased" (the default for a batch): with standard errors; null where an adaptive run did not
            measure what a query depends on. "best" (the default for an adaptive run): with references and processing,
            biased, without standard errors.
          processing: of best estimates: "none", "nonnegative", "consistent" or "integer"; usually "nonnegative" for
            families of marginals alone, and "none" for others, whose queries add up many cells.
          of: the attributes of the products wanted, in any order: only products over exactly these.
          where: by label column, the label or labels wanted, such as ``{"age": "<= 40"}``.

        Returns:
          One row per query in query order; label columns (text), estimate, std_error, lower, upper. The table's
          metadata say how estimates and intervals were made, under ``estimate`` and ``interval``.

        Raises:
          OptionError: no such family, attributes, column or label, or an option out of range.
          SizeError: these are too many answers for one table; `batches` has no limit.
        """
        intervals.check_alpha(alpha)
        selection = select(self.plan.workload, family, of, where)
        selection.require_table()
        return read_family(self._measurements, selection, alpha, simultaneous, estimate, processing).read_all()

    def batches(
        self,
        family: str,
        alpha: float = 0.05,
        simultaneous: bool = False,
        estimate: str | None = None,
        processing: str | None = None,
        of: Of = None,
        where: Where = None,
    ) -> pa.RecordBatchReader:
        """The rows of `answers` in batches, of any number and in bounded memory; arguments as there.

        Returns:
          An iterator over record batches, each made when it is asked for; its schema has the metadata of the table.

        Raises:
          OptionError: see `answers`.
          SizeError: a single product has too many answers for memory.
        """
        intervals.check_alpha(alpha)
        selection = select(self.plan.workload, family, of, where)
        return read_family(self._measurements, selection, alpha, simultaneous, estimate, processing)

    def marginal(
        self, attributes: Sequence[str], estimate: str | None = None, processing: str | None = None
    ) -> Marginal:
        """The contingency table on some attributes, axes in the order asked.

        Args:
          attributes: their names.
          estimate: see `answers`.
          processing: see `answers`.

        Raises:
          OptionError: an unknown or repeated attribute, or an option that cannot be.
          NotEstimableError: not every cell is in the span of what was measured.
        """
        return estimate_marginal(self._measurements, attributes, estimate, processing)

    def ask(self, query: str, estimate: str | None = None, processing: str | None = None) -> Answer:
        """The answer to any single query in the span, written in the ``.q`` language.

        Args:
          query: the text.
          estimate: see `answers`.
          processing: see `answers`.

        Raises:
          WorkloadError: the text has errors, or no row of the domains can meet the query; carries their positions.
          OptionError: an option that cannot be.
          NotEstimableError: the query lies outside the span of what was measured.
        """
        return answer_query(self._measurements, query, estimate, processing)

    def rounds(self) -> pa.Table:
        """The rounds of an adaptive run, one row each; columns as of `qcompile.release.rounds.rounds_table`.

        Raises:
          OptionError: this is a batch, which has no rounds.
        """
        from qcompile.release.rounds import rounds_table

        if self.history is None:
            raise OptionError("a batch measures everything at once and has no rounds; see plan.explain()")
        return rounds_table(self.history, self.plan)

    def coverage(self) -> pa.Table:
        """How far each family was measured: family, queries, unbiased (the number with an unbiased estimate)."""
        return coverage_table(self._measurements)
