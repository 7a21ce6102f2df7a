"""Explicit, predicate and random factors: query matrices without structure, held densely."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from qcompile.errors import IntegrityError
from qcompile.queries.factors.base import Dense, Key
from qcompile.queries.schema import Attribute
from qcompile.support.arrays import Array, BoolArray, cells, digest, require_memory


class Matrix(Dense):
    """A workload matrix the user gives: one row per query, columns in C order of the attributes.

    Attributes:
      path: where it was read from, as written in the workload file.
    """

    kind = "matrix"

    def __init__(self, attributes: Sequence[Attribute], matrix: Array, path: str = "") -> None:
        matrix = np.ascontiguousarray(matrix, dtype=np.float64)
        if matrix.ndim < 1 or matrix.shape[0] == 0:
            raise IntegrityError("a matrix factor needs at least one row")
        if not np.isfinite(matrix).all():
            raise IntegrityError("a matrix factor needs finite entries")
        super().__init__(attributes, matrix)
        self.path = path

    @cached_property
    def key(self) -> Key:
        """Shape and contents."""
        return (self.kind, self.shape, digest(self._matrix))

    @cached_property
    def magnitude(self) -> float:
        """The largest absolute entry."""
        return float(np.abs(self._matrix).max())

    @property
    def column(self) -> str:
        """The attributes."""
        return ", ".join(self.names)

    def labels(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Row numbers, from 0."""
        return [f"row {i}" for i in range(self.count)[start:stop]]


class Predicate(Dense):
    """One counting query: the cells for which a predicate holds.

    Attributes:
      text: the predicate, as it labels the answer.
    """

    kind = "count"

    def __init__(self, attributes: Sequence[Attribute], holds: BoolArray, text: str) -> None:
        super().__init__(attributes, np.asarray(holds, dtype=np.float64)[None])
        self.text = text

    @cached_property
    def key(self) -> Key:
        """Shape and contents; the text does not enter."""
        return (self.kind, self.shape, digest(self._matrix))

    @property
    def column(self) -> str:
        """The attributes."""
        return ", ".join(self.names)

    def labels(self, start: int = 0, stop: int | None = None) -> list[str]:
        """The predicate."""
        return [self.text][start:stop]


class Random(Dense):
    """Random 0/1 queries: bit (i, j) is 1 when hash(seed, i * cells + j) < p * 2^64.

    The hash is `hash64`, written out below, so that the workload is the same on every machine, for ever.

    Attributes:
      p: the probability of a 1.
      seed: a non-negative integer. It chooses public queries, not noise.
    """

    kind = "random"

    def __init__(self, attributes: Sequence[Attribute], p: float, count: int, seed: int) -> None:
        if not 0 < p <= 1 or count < 1 or not 0 <= seed < 2**64:
            raise IntegrityError("random needs 0 < p <= 1, count >= 1 and 0 <= seed < 2^64")
        self.attributes = tuple(attributes)
        self.p, self._count, self.seed = p, count, seed

    @property
    def count(self) -> int:
        """As asked."""
        return self._count

    @cached_property
    def _matrix(self) -> Array:  # type: ignore[override]  # made on first use; Dense holds it from the start
        size = self.count * cells(self.shape)
        require_memory(f"random({', '.join(self.names)})", size, "ask for fewer queries or smaller domains")
        bits = hash64(self.seed, np.arange(size, dtype=np.uint64)) < np.uint64(min(int(self.p * 2**64), 2**64 - 1))
        return bits.astype(np.float64).reshape(self.count, *self.shape)

    @property
    def key(self) -> Key:
        """Shape, probability, count and seed."""
        return (self.kind, self.shape, self.p, self.count, self.seed)

    @property
    def column(self) -> str:
        """The attributes."""
        return ", ".join(self.names)

    def labels(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Query numbers, from 0."""
        return [f"random {i}" for i in range(self.count)[start:stop]]


def hash64(seed: int, counter: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Counter-based 64-bit hash: the SplitMix64 finaliser of ``finaliser(seed) + (counter + 1) * golden``.

    Reference: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014), figure 15.
    """
    golden = np.uint64(0x9E3779B97F4A7C15)
    start = _finalise(np.array([seed], dtype=np.uint64))[0]
    with np.errstate(over="ignore"):
        return _finalise(start + (counter + np.uint64(1)) * golden)


def _finalise(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
