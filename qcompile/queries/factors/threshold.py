"""Affine and abs: thresholds on an integer linear form of several attributes, or on its absolute value.

A query ``form <= c`` is a union of level sets of the form. So everything reduces to one integer per cell, the
first threshold that it meets: answers are sums by that integer followed by a cumulative sum.
"""

from __future__ import annotations

import abc
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from qcompile.errors import IntegrityError
from qcompile.queries.factors.base import Factor, Key
from qcompile.queries.factors.sumset import distinct, sumset
from qcompile.queries.schema import Attribute, IntegerDomain
from qcompile.support.arrays import Array, IntArray, cells, require_memory

FORMS = 4
"""Numbers of each cell that live at once while a form is evaluated."""

LARGEST_VALUE = 2**62
"""Forms are evaluated in 64-bit integers."""


class Threshold(Factor):
    """``form <= c`` (or ``>= c``) for each threshold c, ascending.

    Attributes:
      coefficients: one non-zero integer per attribute, multiplying its value (not its code).
      constant: added to the form (0 for affine, whose thresholds absorb it).
      thresholds: the values of c, ascending; None for every attainable one.
      at_least: queries are ``form >= c`` instead of ``form <= c``.
    """

    def __init__(
        self,
        attributes: Sequence[Attribute],
        coefficients: Sequence[int],
        thresholds: Sequence[int] | None = None,
        *,
        constant: int = 0,
        at_least: bool = False,
    ) -> None:
        self.attributes = tuple(attributes)
        self.coefficients = tuple(coefficients)
        self.constant = constant
        self.thresholds = None if thresholds is None else tuple(thresholds)
        self.at_least = at_least
        self._check()

    def _check(self) -> None:
        if len(self.attributes) < 2 or len(set(self.names)) != len(self.attributes):
            raise IntegrityError(f"{self.kind} needs two or more different attributes")
        if len(self.coefficients) != len(self.attributes) or 0 in self.coefficients:
            raise IntegrityError(f"{self.kind} needs one non-zero coefficient per attribute")
        for a in self.attributes:
            if not isinstance(a.domain, IntegerDomain) or a.policy.kind == "other":
                raise IntegrityError(f"{self.kind} needs integer values on every cell; {a.name!r} does not have them")
        if self.thresholds is not None and not self.thresholds:
            raise IntegrityError(f"{self.kind} needs at least one threshold")
        if self.thresholds is not None and any(
            b <= a for a, b in zip(self.thresholds, self.thresholds[1:], strict=False)
        ):
            raise IntegrityError("thresholds must be strictly increasing")
        largest = sum(
            abs(c) * max(abs(d.low), abs(d.high)) for c, d in zip(self.coefficients, self._domains, strict=True)
        )
        if largest + abs(self.constant) >= LARGEST_VALUE:
            raise IntegrityError(f"the values of the {self.kind} form do not fit into 63 bits")

    @property
    def _domains(self) -> tuple[IntegerDomain, ...]:
        return tuple(a.domain for a in self.attributes if isinstance(a.domain, IntegerDomain))

    @abc.abstractmethod
    def _finish(self, form: IntArray) -> IntArray:
        """From values of the linear form to the values that are compared."""

    @property
    def axis_order(self) -> tuple[int, ...]:
        """By coefficient, then size, so that ``a + 2*b`` and ``2*b + a`` have one key."""
        axes = list(zip(self.coefficients, self.shape, strict=True))
        return tuple(sorted(range(len(axes)), key=axes.__getitem__))

    @property
    def base(self) -> int:
        """The form's value at the first cell."""
        return self.constant + sum(c * d.low for c, d in zip(self.coefficients, self._domains, strict=True))

    @property
    def linear_ends(self) -> tuple[int, int]:
        """The least and the largest value of the linear form with its constant, both attained."""
        terms = [_multiples(c, d) for c, d in zip(self.coefficients, self._domains, strict=True)]
        return self.constant + sum(t[0] for t in terms), self.constant + sum(t[-1] for t in terms)

    @property
    def roles(self) -> tuple[Hashable, ...]:
        """Axes with equal coefficients may be exchanged."""
        return tuple(self.coefficients[i] for i in self.axis_order)

    @property
    def key(self) -> Key:
        """Sizes, coefficients, and thresholds relative to the form's value at the first cell."""
        order = self.axis_order
        shape, coefficients = (tuple(v[i] for i in order) for v in (self.shape, self.coefficients))
        return (self.kind, shape, coefficients, *self._relative(), self.at_least)

    @abc.abstractmethod
    def _relative(self) -> Key:
        """Thresholds and offset in a form that does not change when all values shift."""

    @cached_property
    def attainable(self) -> IntArray:
        """The values the compared form can take, ascending; built from sumsets, not from cells."""
        terms = [_multiples(c, d) for c, d in zip(self.coefficients, self._domains, strict=True)]
        return distinct(self._finish(sumset(f"the {self.kind} form {self.form}", terms) + self.constant))

    @cached_property
    def levels(self) -> IntArray:
        """The thresholds as an array."""
        return self.attainable if self.thresholds is None else np.array(self.thresholds, dtype=np.int64)

    @property
    def count(self) -> int:
        """Number of thresholds; for A + B, all attainable: n_a + n_b - 1."""
        return len(self.levels)

    @property
    def form(self) -> str:
        """The linear form as canonical text, e.g. ``2*hours - hushrs``."""
        text = ""
        for c, name in zip(self.coefficients, self.names, strict=True):
            sign = ("-" if c < 0 else "") if not text else (" - " if c < 0 else " + ")
            text += sign + (f"{abs(c)}*" if abs(c) != 1 else "") + name
        if self.constant:
            text += f" {'-' if self.constant < 0 else '+'} {abs(self.constant)}"
        return text

    @property
    def column(self) -> str:
        """The form itself."""
        return self.form

    def labels(self, start: int = 0, stop: int | None = None) -> list[str]:
        """``<= c`` or ``>= c``."""
        sign = ">=" if self.at_least else "<="
        return [f"{sign} {c}" for c in self.levels[start:stop].tolist()]

    @cached_property
    def _first(self) -> IntArray:
        """Per cell (flat): the index of the first query, in cumulative order, that contains it; count for none."""
        require_memory(f"the {self.kind} form {self.form}", FORMS * cells(self.shape), "use bins or smaller domains")
        values: Any = np.int64(self.constant)
        for c, d in zip(self.coefficients, self._domains, strict=True):
            values = np.add.outer(values, c * np.arange(d.low, d.high + 1))
        values = self._finish(np.asarray(values)).ravel()
        if self.at_least:  # in cumulative order the largest threshold comes first
            return np.asarray(np.searchsorted(-self.levels[::-1], -values, side="left"), dtype=np.int64)
        return np.asarray(np.searchsorted(self.levels, values, side="left"), dtype=np.int64)

    def _cumulate(self, level_sums: Array) -> Array:
        answers = np.cumsum(level_sums, axis=0)
        return answers[::-1] if self.at_least else answers

    def apply(self, x: Array) -> Array:
        """Sum the cells by the first threshold they meet, then cumulate."""
        batch = x.shape[len(self.shape) :]
        return self._cumulate(self._level_sums(x.reshape(cells(self.shape), -1))).reshape(self.count, *batch)

    def _level_sums(self, flat: Array) -> Array:
        from scipy.sparse import csr_array

        n = flat.shape[0]
        sums = csr_array((np.ones(n), (self._first, np.arange(n))), shape=(self.count + 1, n))
        return np.asarray(sums @ flat)[: self.count]

    def adjoint(self, y: Array) -> Array:
        """Each cell collects the answers of the queries that contain it."""
        tail = np.zeros((self.count + 1, *y.shape[1:]))
        ordered = y[::-1] if self.at_least else y
        tail[:-1] = np.cumsum(ordered[::-1], axis=0)[::-1]
        return tail[self._first].reshape(*self.shape, *y.shape[1:])

    def contract(self, weights: Sequence[Array | None]) -> Array:
        """Weighted histogram of (level, kept cell), cumulated: never larger than its result."""
        from scipy.sparse import coo_array

        first = self._first  # refuses forms on too many cells, before the arrays below are made
        kept = tuple(n for n, w in zip(self.shape, weights, strict=True) if w is None)
        column = np.zeros((), dtype=np.int64)
        weight: Array = np.ones(())
        for n, w in zip(self.shape, weights, strict=True):
            ones = w is None
            column = np.add.outer(column * n, np.arange(n)) if ones else np.add.outer(column, np.zeros(n, np.int64))
            weight = np.multiply.outer(weight, np.ones(n) if w is None else w)
        width = cells(kept)
        require_memory(f"the projection of {self!r}", self.count * width, "use fewer thresholds or bins")
        table = coo_array((weight.ravel(), (first, column.ravel())), shape=(self.count + 1, width)).toarray()
        return self._cumulate(table[: self.count]).reshape(self.count, *kept)


def _multiples(coefficient: int, domain: IntegerDomain) -> range:
    """The multiples of a domain's values, ascending."""
    ends = sorted((coefficient * domain.low, coefficient * domain.high))
    return range(ends[0], ends[1] + 1, abs(coefficient))


class Affine(Threshold):
    """``c_1 A_1 + c_2 A_2 + ... <= c``; A + B over n_a and n_b consecutive values has n_a + n_b - 1 queries."""

    kind = "affine"

    def _finish(self, form: IntArray) -> IntArray:
        return form

    def _relative(self) -> Key:
        base = self.base
        return (None if self.thresholds is None else tuple(c - base for c in self.thresholds),)


class Abs(Threshold):
    """``abs(c_1 A_1 + c_2 A_2 + ... + constant) <= c``, for instance ``abs(A - B) <= c``."""

    kind = "abs"

    @property
    def column(self) -> str:
        """``abs(form)``."""
        return f"abs({self.form})"

    def _finish(self, form: IntArray) -> IntArray:
        return np.abs(form)

    @property
    def roles(self) -> tuple[Hashable, ...]:
        """In ``abs(A - B)`` over equal domains the two attributes may be exchanged too."""
        roles = super().roles
        mirrored = len(roles) == 2 and self.base == 0 and sum(self.coefficients) == 0
        return (0, 0) if mirrored else roles

    def _relative(self) -> Key:
        return (self.base, self.thresholds)
