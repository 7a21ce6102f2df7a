"""The options of a run: each is listed, documented and checked here, and nowhere else."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from qcompile.data.choose_engine import ENGINES
from qcompile.data.encode.reading import Reading
from qcompile.errors import OptionError
from qcompile.estimates.references import REFERENCES
from qcompile.plan.basis import BASES
from qcompile.privacy.budget import ACCOUNTINGS
from qcompile.privacy.exact_numbers import Number
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.privacy.unit import CountColumn
from qcompile.release.provenance import MECHANISMS, NOISES
from qcompile.support.memory import memory_limit
from qcompile.support.options import bool_option, name_option, one_of, whole
from qcompile.support.threads import threads

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a run.

    Attributes:
      mechanism: "batch" measures every node as the plan says; "adaptive" chooses, round by round, the marginal that the
        estimates so far are worst at (AIM+GReM, arXiv 2602.05674).
      reference: the model that best estimates are shrunk towards: "none", "independence", "tree", "loglinear" or
        "auto". An adaptive run uses it inside the loop, too.
      basis: the strategies of an adaptive run: "compiled", the plan's own, or "residual".
      noise: "rounded", the exactly rounded Gaussian; "opendp", the slow cross-check; "none", for tests: the release is
        stamped NOT PRIVATE.
      accounting: "zcdp", which a ledger adds up; "gaussian", the exact Gaussian curve (smaller errors for the same
        epsilon and delta; a batch with rounded noise only).
      ledger: the account that is charged before any noise is drawn: a `Ledger` or its path.
      dataset: the name of the dataset, which must be that of the ledger if the ledger has one.
      output: the release's file. One that exists is kept as ``output.1``, ``output.2``, ... A run with an output can
        be resumed: until the release has its name, the folder ``output.unfinished`` holds the measurements. A batch
        with an output needs little memory, however much it measures.
      resume: finish the run to ``output`` that was stopped or killed. Plan, data, budget and options must be the same;
        nothing is charged twice, and no measurement on disk is drawn again.
      engine: the engine that counts: "memory", "duckdb", "database", "spark" or "auto", see
        `qcompile.data.opening.open_data`.
      unit: the column with the ids of the privacy unit: at most `contributions` rows of each unit count, the others are
        left out before counting. Without it no unit may have more rows than the plan's `contributions`.
      count_column: the column with the number of rows that each row of the data stands for. Without `max_count` the
        guarantee is for one unit of the column, as for a table with a row per unit.
      max_count: the largest number that a row of the data can stand for: the guarantee is for a row of the data, the
        noise is as many times as large, and larger counts are cut to it.
      count_step: of weights: the step, such as "0.01", to whose multiples they are rounded, with `max_count`.
      strict_values: accept, although a ledger is charged, that a value that no policy covers ends the run with an
        error: the error reveals that there is such a value. Otherwise, with a ledger, attributes without a policy are
        refused, and rows with a null in a clipped column, or with a count that is none, are left out.
      workers: threads that measure; one per core where None. The measurements do not depend on it.
      max_memory: bytes, 80 % of what is free where None; a run that needs more to measure is refused before it starts.
        Rows that do not fit are counted in another way.
      test_seed: deterministic noise for tests: stamped NOT PRIVATE, and refused with a ledger.

    Raises:
      OptionError: an option has a value it cannot take, or two contradict each other.
    """

    mechanism: str = "batch"
    reference: str = "auto"
    basis: str = "compiled"
    noise: str = "rounded"
    accounting: str = "zcdp"
    ledger: Ledger | str | Path | None = None
    dataset: str | None = None
    output: str | Path | None = None
    resume: bool = False
    engine: str = "auto"
    unit: str | None = None
    count_column: str | None = None
    max_count: Number | None = None
    count_step: Number | None = None
    strict_values: bool = False
    workers: int | None = None
    max_memory: int | None = None
    test_seed: int | None = None

    def __post_init__(self) -> None:
        self._check_values()
        self._check_mechanism()
        self._check_noise()
        self._check_dataset()
        if self.resume and self.output is None:
            raise OptionError("resume=True finishes a run that writes a release; give its output")

    def _check_values(self) -> None:
        allowed = {
            "mechanism": MECHANISMS,
            "reference": REFERENCES,
            "basis": BASES,
            "noise": NOISES,
            "accounting": ACCOUNTINGS,
            "engine": ENGINES,
        }
        for name, values in allowed.items():
            one_of(name, getattr(self, name), values)
        bool_option("resume", self.resume)
        bool_option("strict_values", self.strict_values)
        threads(self.workers)
        if self.max_memory is not None:
            whole("max_memory", self.max_memory, 1)
        if self.test_seed is not None:
            whole("test_seed", self.test_seed, 0)
        Reading(self.unit, count_column=self.count_column, max_count=self.max_count, count_step=self.count_step)

    def _check_dataset(self) -> None:
        if self.dataset is None:
            return
        name_option("dataset", self.dataset)
        if self.ledger is None:
            raise OptionError("dataset= is compared with the name in the ledger; give a ledger, or leave it out")

    def _check_mechanism(self) -> None:
        if self.mechanism == "batch":
            if self.basis != "compiled":
                raise OptionError(
                    f"basis={self.basis!r} is for mechanism='adaptive'; a batch measures what the plan says"
                )
            return
        if self.accounting != "zcdp":
            raise OptionError(
                "accounting='gaussian' holds for a batch only, as the selections of an adaptive run are accounted in "
                "zCDP; use accounting='zcdp'"
            )

    def _check_noise(self) -> None:
        if self.accounting == "gaussian" and self.noise == "opendp":
            raise OptionError(
                "accounting='gaussian' holds for rounded noise only; use accounting='zcdp' with noise='opendp'"
            )
        if self.noise == "opendp" and self.test_seed is not None:
            raise OptionError("noise='opendp' draws from OpenDP's own generator; it cannot take a test seed")
        if self.ledger is not None and self.noise == "none":
            raise OptionError("noise='none' protects nobody and cannot be charged to a ledger; leave the ledger out")
        if self.ledger is not None and self.test_seed is not None:
            raise OptionError(
                "a test seed makes noise that is NOT PRIVATE and cannot be charged to a ledger; leave out one of them"
            )

    @property
    def counted(self) -> CountColumn | None:
        """The column of counts.

        Raises:
          OptionError: its options contradict each other.
        """
        return CountColumn.of(self.count_column, self.max_count, self.count_step)

    @property
    def leaves_rows_out(self) -> bool:
        """Whether rows with a null in a clipped column, or no count, are left out: with a ledger, unless strict."""
        return self.ledger is not None and not self.strict_values

    @property
    def memory_limit(self) -> int:
        """Bytes that the run may take."""
        return memory_limit() if self.max_memory is None else self.max_memory

    @property
    def threads(self) -> int:
        """Number of threads that measure."""
        return threads(self.workers)


class RunKeywords(TypedDict, total=False):
    """The fields of `RunOptions` as keyword arguments, for type checkers; a test keeps both equal."""

    mechanism: str
    reference: str
    basis: str
    noise: str
    accounting: str
    ledger: Ledger | str | Path | None
    dataset: str | None
    output: str | Path | None
    resume: bool
    engine: str
    unit: str | None
    count_column: str | None
    max_count: Number | None
    count_step: Number | None
    strict_values: bool
    workers: int | None
    max_memory: int | None
    test_seed: int | None


def shows_run_options(function: F) -> F:
    """Let `help` and completion show the fields of `RunOptions` in place of ``**options``, with their documentation."""
    signature = inspect.signature(function)
    listed = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    options = [p for p in inspect.signature(RunOptions).parameters.values()]
    own = [p for p in listed if p.kind is p.KEYWORD_ONLY]
    first = [p for p in listed if p.kind is not p.KEYWORD_ONLY]
    documented = inspect.cleandoc(str(RunOptions.__doc__)).split("Attributes:\n")[1].split("\n\nRaises:")[0]
    text = inspect.cleandoc(str(function.__doc__))
    function.__doc__ = text.replace("  **options: the fields of `RunOptions`.", documented)
    function.__signature__ = signature.replace(parameters=[*first, *options, *own])  # type: ignore[attr-defined]
    return function
