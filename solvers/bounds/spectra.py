"""Eigenvalues of Grams without eigenvectors: closed forms, and Grams that share an eigenbasis.

The singular values of the prefix and range queries are those of difference operators. With P = I - 11'/n:

    prefix P:   1 / (2 sin(k pi / 2n)),                                          k = 1..n-1
    range P:    sqrt(n+1) / (2 sin(k pi / n)), k < n/2, and sqrt(n+1) / (2 sin(k pi / (n+1))), k = 1..floor(n/2)
    prefix:     1 / (2 sin((2k-1) pi / (4n+2))),                                 k = 1..n
    range:      sqrt(n+1) / (2 sin(k pi / (2n+2))),                              k = 1..n

The Gram of the ranges is n+1 times the inverse of tridiag(-1, 2, -1); centred, its even eigenvectors keep a flat end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qcompile.lattice.gram import ExchangeableGram, Gram
from qcompile.lattice.projection import u_key, zero_weights
from qcompile.queries.factors import Prefix, Range
from qcompile.support.arrays import Array

SQUARE_CELLS = 2500
"""Cells up to which the spectrum of a Gram held as a square matrix is computed: a few seconds."""

SHARED_CELLS = 512
"""Cells up to which a shared eigenbasis is looked for by decomposing a combination of the Grams."""

COMMUTING = 1e-10
"""Relative size of what a shared eigenbasis may leave off the diagonal."""


def singular_values(gram: Gram) -> Array | None:
    """The nonzero singular values of the queries W, ``G = W' W``; None where they would take too long."""
    closed = _closed_form(gram)
    if closed is not None:
        return closed
    if not has_spectrum(gram):
        return None
    return np.asarray(np.linalg.norm(gram.root, axis=1))  # the rows of the root are orthogonal


def has_spectrum(gram: Gram) -> bool:
    """True if the eigenvectors of a Gram can be had in reasonable time."""
    return gram.rows is not None or gram.cells <= SQUARE_CELLS


def gram_rank(gram: Gram) -> int:
    """Rank of a Gram; an upper bound where finding it would take too long."""
    values = singular_values(gram)
    return gram.cells if values is None else len(values)


def _closed_form(gram: Gram) -> Array | None:
    if isinstance(gram, ExchangeableGram):
        return np.sqrt(gram.eigenvalues)
    if len(gram.shape) != 1 or gram.key[:1] not in ((Prefix.kind,), (Range.kind,)):
        return None
    n = gram.cells
    kind, _, *outside, centring = gram.key
    centred = centring == ((True, ""),)
    if not centred and centring != ((True, u_key(zero_weights(n))),):
        return None
    if kind == Prefix.kind:
        # One more ordered cell in place of the other cell adds one query, the total, which centring makes 0.
        return _prefix(n if centred else n - len(outside), centred)
    return None if centred and outside else _range(n - len(outside), centred)


def _prefix(n: int, centred: bool) -> Array:
    k = np.arange(1, n + (not centred))
    return np.asarray(0.5 / np.sin(k * np.pi / (2 * n) if centred else (2 * k - 1) * np.pi / (4 * n + 2)))


def _range(n: int, centred: bool) -> Array:
    if not centred:
        return np.asarray(np.sqrt(n + 1) / (2 * np.sin(np.arange(1, n + 1) * np.pi / (2 * n + 2))))
    even, odd = np.arange(1, (n + 1) // 2), np.arange(1, n // 2 + 1)
    return np.asarray(np.sqrt(n + 1) / (2 * np.sin(np.concatenate([even * np.pi / n, odd * np.pi / (n + 1)]))))


def constant_diagonal(gram: Gram) -> bool:
    """True if all cells have the same weight, as every shift- or permutation-invariant Gram must have.

    Far cheaper than the whole test, and it decides almost always.
    """
    diagonal = gram.diagonal
    return bool(np.ptp(diagonal) <= 1e-11 * diagonal.max())


def is_exchangeable(gram: Gram) -> bool:
    """`Gram.is_exchangeable`, decided by the diagonal where that is enough."""
    return len(gram.shape) == 1 and constant_diagonal(gram) and gram.is_exchangeable


def is_circulant(gram: Gram) -> bool:
    """`Gram.is_circulant`, decided by the diagonal where that is enough."""
    return len(gram.shape) == 1 and constant_diagonal(gram) and gram.is_circulant


def scalar(gram: Gram) -> tuple[float, int] | None:
    """The only nonzero eigenvalue and its multiplicity, of a multiple of ``I`` or ``I - 11'/n``; None for others."""
    n = gram.cells
    if len(gram.shape) != 1 or not constant_diagonal(gram):
        return None
    if is_exchangeable(gram):
        return gram.trace / (n - 1), n - 1
    return (gram.trace / n, n) if gram.is_diagonal_plus(gram.trace / n, 0.0) else None


def shared_eigenvalues(grams: Sequence[Gram]) -> list[Array] | None:
    """Eigenvalues of Grams on the same axes in a basis common to all of them.

    Args:
      grams: of equal shape.

    Returns:
      One array per Gram, entry i belonging to the same eigenvector in all; None where no common basis is found. A
      space on which every Gram is a multiple of the identity stays out where all vanish on it.
    """
    scalars = [scalar(g) for g in grams]
    others = {g.key: g for g, s in zip(grams, scalars, strict=True) if s is None}
    if len(others) <= 1:
        return _with_scalars(grams, scalars, [*others.values()])
    if all(is_circulant(g) for g in grams):
        return [g.spectrum.ravel() for g in grams]
    return _common_basis(grams) if grams[0].cells <= SHARED_CELLS else None


def _with_scalars(
    grams: Sequence[Gram], scalars: Sequence[tuple[float, int] | None], other: Sequence[Gram]
) -> list[Array] | None:
    """Multiples of the identity of a space, and at most one Gram within it: its own eigenbasis serves all."""
    sizes = {s[1] for s in scalars if s is not None}
    if len(sizes) > 1:
        return None
    m = sizes.pop() if sizes else grams[0].cells
    values = np.zeros(m)
    for g in other:
        singular = singular_values(g)
        if singular is None or len(singular) > m:
            return None
        values[: len(singular)] = singular**2
    return [values if s is None else np.full(m, s[0]) for s in scalars]


def _common_basis(grams: Sequence[Gram]) -> list[Array] | None:
    """Commuting matrices are all diagonal in the eigenbasis of a generic combination."""
    generic = sum(g.matrix / g.trace / (2 + np.sin(1.0 + i)) for i, g in enumerate(grams))
    _, vectors = np.linalg.eigh(generic)
    diagonals = []
    for g in grams:
        rotated = vectors.T @ g.matrix @ vectors
        diagonal = np.diag(rotated).copy()
        if np.abs(rotated - np.diag(diagonal)).max() > COMMUTING * diagonal.max():
            return None
        diagonals.append(np.maximum(diagonal, 0.0))
    return diagonals
