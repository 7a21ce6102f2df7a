"""Which encoded rows count, and whether the data is accepted at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from qcompile.data.encode.cells import code_dtype, left_out, refused
from qcompile.data.encode.reading import Reading
from qcompile.errors import DataError
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, Schema

Codes: TypeAlias = npt.NDArray[Any]

LARGEST_TOTAL = 2**53
"""Sums below are exact in 64-bit integers and in doubles alike."""


class Judge:
    """Sifts batches of encoded rows, and remembers what has to be refused.

    Attributes:
      total: the rows that count so far.
    """

    def __init__(self, schema: Schema, reading: Reading) -> None:
        self.schema, self.reading = schema, reading
        self.total = 0
        self._refused: set[str] = set()
        self._bad_counts = False

    def sift(self, columns: Sequence[Codes]) -> tuple[list[Codes], npt.NDArray[np.float64] | None]:
        """The codes of those rows of a batch that count, in schema order, and what they stand for; None for one each.

        Args:
          columns: codes in schema order; behind them, with a unit, whether a row is kept, or the column of counts.
        """
        attributes = list(self.schema)
        codes = [c.astype(code_dtype(a), copy=False) for a, c in zip(attributes, columns, strict=False)]
        for attribute, code in zip(attributes, codes, strict=True):
            if may_refuse(attribute, self.reading.leave_out) and (code == refused(attribute)).any():
                self._refused.add(attribute.name)
        left = self._left(codes, columns)
        if self._refused:  # nothing will come of it, and a signal is no cell
            left = np.zeros(len(codes[0]), dtype=np.bool_)
        if left is not None and not left.all():
            codes = [c[left] for c in codes]
        if self.reading.count_column is None:
            self.total += len(codes[0])
            return codes, None
        weights = self._weights(columns[-1])
        weights = weights if left is None else weights[left]
        self.total += int(weights.sum())
        return codes, weights

    def _left(self, codes: list[Codes], columns: Sequence[Codes]) -> npt.NDArray[np.bool_] | None:
        if self.reading.unit is not None:
            return columns[-1].astype(np.bool_, copy=False)
        signals = zip(self.schema, codes, strict=True)
        gone = [c == s for a, c in signals if (s := left_out(a, self.reading.leave_out)) is not None]
        return ~np.logical_or.reduce(gone) if gone else None

    def _weights(self, counts: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        weights = np.asarray(counts, dtype=np.float64)
        # Written so that NaN, which is what a null becomes, fails too.
        good = (weights >= 0) & (weights <= LARGEST_TOTAL) & (weights == np.floor(weights))
        if good.all():
            return weights
        self._bad_counts = True
        return np.where(good, weights, 0)

    def require(self) -> None:
        """Refuse the data for what was seen in any batch.

        Raises:
          DataError: some attribute has values without a fate, or the counts are none; names the columns, nothing else.
        """
        require_accepted(self.schema, self.reading, self._refused, self._bad_counts, self.total)


def require_accepted(schema: Schema, reading: Reading, bad: Iterable[str], bad_counts: bool, total: int) -> None:
    """Refuse data with values without a fate.

    Args:
      schema: the attributes.
      reading: how the data is read.
      bad: names of the attributes with such values.
      bad_counts: whether the column of counts holds anything else than whole numbers from 0.
      total: rows that count.

    Raises:
      DataError: there is something to refuse.
    """
    names = set(bad)
    problems = [complaint(a) for a in schema if a.name in names]
    if bad_counts:
        problems.append(
            f"column {reading.count_column!r} has nulls or values that are not whole numbers from 0 to 2^53, so they "
            "cannot be counts; mend the data"
        )
    elif total >= LARGEST_TOTAL:
        problems.append(f"column {reading.count_column!r} counts 2^53 rows or more, which cannot be added up exactly")
    if problems:
        raise DataError("\n".join(problems))


def may_refuse(attribute: Attribute, leave_out: bool) -> bool:
    """Whether a value can be without a fate."""
    return attribute.policy.kind == "strict" or (attribute.policy.kind == "clip" and not leave_out)


def complaint(attribute: Attribute) -> str:
    """What is wrong with an attribute that has values without a fate, and what to do."""
    if attribute.policy.kind == "clip":
        numbers = "whole numbers" if isinstance(attribute.domain, IntegerDomain) else "numbers"
        what = f"has nulls or values that are not {numbers}, which cannot be clipped"
        remedy = "mend the data, or declare drop or other"
    else:
        what = "has nulls or values outside its domain, and no policy for them"
        clip = "" if isinstance(attribute.domain, CategoryDomain) or attribute.cyclic else "clip, "
        remedy = f"mend the data, or declare {clip}drop or other"
    return f"attribute {attribute.name!r} {what}; {remedy}"
