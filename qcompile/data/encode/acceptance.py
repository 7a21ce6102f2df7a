"""The choice of encoded rows that are counted, and the refusal of data that does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from qcompile.data.encode.cells import code_dtype, omitted_code, refused_code
from qcompile.data.encode.reading import Reading
from qcompile.data.encode.row_counts import LARGEST_TOTAL
from qcompile.errors import DataError, SizeError
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, Schema

Codes: TypeAlias = npt.NDArray[Any]


class RowFilter:
    """Keeps the rows of each batch that are counted, and notes values that have to be refused.

    Attributes:
      total: the rows that count so far.
    """

    def __init__(self, schema: Schema, reading: Reading) -> None:
        self.schema, self.reading = schema, reading
        self.total = 0
        self._refused: set[str] = set()
        self._bad_counts = False

    def apply(self, columns: Sequence[Codes]) -> tuple[list[Codes], npt.NDArray[np.float64] | None]:
        """Return the codes of the rows that are counted, in schema order, and their weights; None for one each.

        Args:
          columns: codes in schema order; behind them, with a unit, whether a row is kept, or the column of counts.
        """
        attributes = list(self.schema)
        codes = [c.astype(code_dtype(a), copy=False) for a, c in zip(attributes, columns, strict=False)]
        for attribute, code in zip(attributes, codes, strict=True):
            if may_refuse(attribute, self.reading.leave_out) and (code == refused_code(attribute)).any():
                self._refused.add(attribute.name)
        left = self._left(codes, columns)
        if self._refused:  # the data will be refused, and a signal is no cell
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
        gone = [c == s for a, c in signals if (s := omitted_code(a, self.reading.leave_out)) is not None]
        return ~np.logical_or.reduce(gone) if gone else None

    def _weights(self, counts: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        weights = np.asarray(counts, dtype=np.float64)
        good = weights >= 0  # not NaN, which a null becomes
        if good.all():
            return weights
        self._bad_counts = True
        return np.where(good, weights, 0)

    def require(self) -> None:
        """Refuse the data if a value of any batch has to be refused.

        Raises:
          DataError, SizeError: see `require_accepted`.
        """
        require_accepted(self.schema, self.reading, self._refused, self._bad_counts, self.total)


def require_accepted(schema: Schema, reading: Reading, bad: Iterable[str], bad_counts: bool, total: int) -> None:
    """Refuse data with values that no policy covers.

    Args:
      schema: the attributes.
      reading: how the data is read.
      bad: names of the attributes with such values.
      bad_counts: True if the column of counts holds something that is no count.
      total: rows that count, or steps of their counts.

    Raises:
      DataError: there is something to refuse. The message names columns only.
      SizeError: the counts are too large to be added up; a `DataError` where values are refused anyway.
    """
    names = set(bad)
    problems = [refusal_message(a) for a in schema if a.name in names]
    if bad_counts:
        problems.append(_bad_counts_message(reading))
    elif total >= LARGEST_TOTAL:
        large = f"column {reading.count_column!r} counts 2^53 rows or more, which cannot be added up exactly"
        if reading.leave_out:
            raise SizeError(large)
        problems.append(large)
    if problems:
        raise DataError("\n".join(problems))


def _bad_counts_message(reading: Reading) -> str:
    column = f"column {reading.count_column!r} has nulls or values that are not"
    if reading.counted is not None and reading.counted.step is not None:
        return f"{column} numbers from 0, so they cannot be weights; fix the data"
    return (
        f"{column} whole numbers from 0 to 2^53, so they cannot be counts; fix the data, or, for weights, declare the "
        "largest and a step: --max-count, --count-step (max_count, count_step)"
    )


def may_refuse(attribute: Attribute, leave_out: bool) -> bool:
    """True if there may be values that no policy covers."""
    return attribute.policy.kind == "strict" or (attribute.policy.kind == "clip" and not leave_out)


def refusal_message(attribute: Attribute) -> str:
    """Return the message for an attribute with values that no policy covers."""
    if attribute.policy.kind == "clip":
        numbers = "whole numbers" if isinstance(attribute.domain, IntegerDomain) else "numbers"
        problem = f"has nulls or values that are not {numbers}, which cannot be clipped"
        remedy = "fix the data, or declare drop or other"
    else:
        problem = "has nulls or values outside its domain, and no policy for them"
        clip = "" if isinstance(attribute.domain, CategoryDomain) or attribute.cyclic else "clip, "
        remedy = f"fix the data, or declare {clip}drop or other"
    return f"attribute {attribute.name!r} {problem}; {remedy}"
