"""Block-diagonalisation of a Gram by symmetries that are their own inverse.

When G is unchanged by a group of cell permutations an optimal V can be chosen unchanged too. For commuting involutions
(swapping two equal axes, reversing all axes) the characters of the group split the cells' space into blocks, each
spanned by one vector per orbit: with two involutions four blocks of a quarter of the size, a sixteenth of the work.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qcompile.support.arrays import Array, IntArray, cells

TOLERANCE = 1e-11
"""Relative; asymmetry below it is rounding error of the Gram."""

Invariant = Callable[[IntArray], bool]
"""Called with a permutation of the cells; True if it leaves a Gram unchanged."""


@dataclass(frozen=True, eq=False)
class SymmetryBlock:
    """The subspace of one character: sparse orthonormal columns T on the cells.

    Attributes:
      cell: row of each non-zero of T.
      column: its column.
      value: its value.
      orbits: the orbit of each column.
      size: number of cells.
    """

    cell: IntArray
    column: IntArray
    value: Array
    orbits: IntArray
    size: int

    def restrict(self, gram: Array) -> Array:
        """``T' G T``, ``(columns, columns)``."""
        t = self.sparse()
        return np.asarray(t.T @ (t.T @ gram).T)

    def restrict_rows(self, rows: Array) -> Array:
        """``rows T``, ``(rows, columns)``."""
        return np.asarray((self.sparse().T @ rows.T).T)

    def expand(self, rows: Array) -> Array:
        """Rows on the block's columns as rows on the cells: ``rows T'``."""
        return np.asarray((self.sparse() @ rows.T).T)

    def sparse(self) -> Any:
        """T, ``(cells, columns)``."""
        from scipy.sparse import csr_array

        return csr_array((self.value, (self.cell, self.column)), shape=(self.size, len(self.orbits)))


@dataclass(frozen=True, eq=False)
class Symmetry:
    """Orbits of the cells and the blocks of all characters.

    Attributes:
      blocks: one per character that occurs.
      sizes: number of cells of each orbit.
    """

    blocks: tuple[SymmetryBlock, ...]
    sizes: Array


def find_symmetry(shape: Sequence[int], invariant: Invariant) -> Symmetry:
    """The symmetry under swaps of equal axes and the reversal of all axes, as far as they commute."""
    generators: list[IntArray] = []
    for permutation in _candidates(shape):
        if all((permutation[f] == f[permutation]).all() for f in generators) and invariant(permutation):
            generators.append(permutation)
    return _split(cells(shape), generators)


def matrix_invariant(*grams: Array) -> Invariant:
    """The test for dense Grams, all of which must be unchanged."""
    return lambda permutation: all(_matrix_unchanged(g, permutation) for g in grams)


def root_invariant(root: Array) -> Invariant:
    """The test for ``R' R`` from R alone: permuting R's columns must be an orthogonal map of its rows."""
    basis, triangle = np.linalg.qr(root.T)
    inverse = np.linalg.solve(triangle, basis.T).T  # the pseudo-inverse: R has full row rank
    scale, identity = 100 * TOLERANCE * np.abs(root).max(), np.eye(len(root))

    def unchanged(permutation: IntArray) -> bool:
        moved = root[:, permutation]
        q = moved @ inverse
        return bool(np.abs(q @ q.T - identity).max() <= 100 * TOLERANCE and np.abs(q @ root - moved).max() <= scale)

    return unchanged


def _candidates(shape: Sequence[int]) -> list[IntArray]:
    """Swaps of equal axes, then the reversal of all axes, as permutations of the cells."""
    index = np.arange(cells(shape), dtype=np.int64).reshape(tuple(shape))
    pairs = itertools.combinations(range(len(shape)), 2)
    swaps = [np.swapaxes(index, i, j).ravel() for i, j in pairs if shape[i] == shape[j]]
    return [*swaps, np.flip(index).ravel()]


def _matrix_unchanged(gram: Array, permutation: IntArray) -> bool:
    diagonal = np.diag(gram)
    scale = TOLERANCE * np.abs(diagonal).max()
    if np.abs(diagonal[permutation] - diagonal).max() > scale:  # cheap, and almost always decides
        return False
    return bool(np.abs(gram[np.ix_(permutation, permutation)] - gram).max() <= scale)


def _split(n: int, involutions: list[IntArray]) -> Symmetry:
    """Blocks of the group that commuting involutions generate."""
    elements = [np.arange(n, dtype=np.int64)]
    for f in involutions:
        elements += [f[e] for e in elements]
    images = np.stack(elements)  # bit b of an element's position says whether involution b is in it
    leaders, orbit_of = np.unique(images.min(axis=0), return_inverse=True)
    sizes = np.bincount(orbit_of).astype(np.float64)
    blocks = []
    for character in range(len(elements)):
        signs = np.array([1 - 2 * ((e & character).bit_count() % 2) for e in range(len(elements))], dtype=np.int64)
        block = _block(n, images[:, leaders], signs)
        if len(block.orbits):
            blocks.append(block)
    return Symmetry(tuple(blocks), sizes)


def _block(n: int, images: IntArray, signs: IntArray) -> SymmetryBlock:
    """Columns sum_h sign(h) e_h(c), normalised, one per orbit; absent where the signs cancel."""
    orbits = images.shape[1]
    flat = images + n * np.arange(orbits)
    entries, position = np.unique(flat, return_inverse=True)
    weights = np.broadcast_to(signs[:, None], flat.shape).ravel().astype(np.float64)
    values = np.bincount(position.ravel(), weights)
    kept = np.abs(values) > 0.5
    column, cell, values = entries[kept] // n, entries[kept] % n, values[kept]
    norms = np.sqrt(np.bincount(column, values**2, minlength=orbits))
    present, renumbered = np.unique(column, return_inverse=True)
    return SymmetryBlock(cell, renumbered.astype(np.int64), values / norms[column], present.astype(np.int64), n)
