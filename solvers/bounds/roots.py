"""Roots R of a problem's Gram, G = R' R: the short side where rank is small, dense otherwise.

Rank is decided on the terms scaled to equal trace, before weighting, so that a light family cannot vanish from
the span. It is decided on the whole: in a subspace that the queries do not reach at all, rounding errors are the
largest eigenvalues that there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from qcompile.errors import OptionError
from qcompile.lattice.gram import RANK_TOLERANCE
from qcompile.lattice.lattice import Problem, Term
from qcompile.solvers.bounds.spectra import gram_rank
from qcompile.support.arrays import Array, cells, outer

EIGENVALUE_TOLERANCE = 1e-12
"""Eigenvalues below this share of the largest count as zero: rounding leaves about 1e-15 of it."""


def term_rank(term: Term) -> int:
    """Rank of a Kronecker term; an upper bound where finding it would take too long."""
    return math.prod(gram_rank(g.gram) for g in term.groups)


def term_matrix(term: Term, shape: Sequence[int]) -> Array:
    """The Kronecker product of a term's Grams on the node's axes, ``(cells, cells)``, without coefficient."""
    tensor = outer([g.gram.matrix.reshape(*g.gram.shape, *g.gram.shape) for g in term.groups])
    left, right, start = {}, {}, 0
    for g in term.groups:
        k = len(g.axes)
        left.update({a: start + i for i, a in enumerate(g.axes)})
        right.update({a: start + k + i for i, a in enumerate(g.axes)})
        start += 2 * k
    d = range(len(shape))
    return tensor.transpose(*(left[a] for a in d), *(right[a] for a in d)).reshape(cells(shape), cells(shape))


def term_root(term: Term, shape: Sequence[int]) -> Array:
    """The Kronecker product of the groups' roots on the node's axes, ``(rank, cells)``, without coefficient."""
    tensor = outer([g.gram.root.reshape(-1, *g.gram.shape) for g in term.groups])
    rows, where, start = [], {}, 0
    for g in term.groups:
        rows.append(start)
        where.update({a: start + 1 + i for i, a in enumerate(g.axes)})
        start += 1 + len(g.axes)
    return tensor.transpose(*rows, *(where[a] for a in range(len(shape)))).reshape(-1, cells(shape))


def short_root(problem: Problem) -> Array:
    """R with as many rows as the rank, from the terms' own roots stacked: ``(rank, cells)``."""
    roots = [term_root(t, problem.shape) for t in problem.terms]
    if len(roots) == 1:
        return np.asarray(np.sqrt(problem.terms[0].weighted) * roots[0])
    _, s, vt = np.linalg.svd(np.concatenate([r / np.linalg.norm(r) for r in roots]), full_matrices=False)
    basis = vt[s > RANK_TOLERANCE * s[0]]
    projected = [np.sqrt(t.weighted) * r @ basis.T for t, r in zip(problem.terms, roots, strict=True)]
    return np.asarray(_triangle(sum(p.T @ p for p in projected)) @ basis)


def dense_gram(problem: Problem) -> Array:
    """The weighted Gram, ``(cells, cells)``."""
    total = np.zeros((problem.cells, problem.cells))
    for t in problem.terms:
        total += t.weighted * term_matrix(t, problem.shape)
    return total


def span_gram(problem: Problem) -> Array:
    """The Gram with every term scaled to trace 1: its rank decides the span."""
    total = np.zeros((problem.cells, problem.cells))
    for t in problem.terms:
        total += term_matrix(t, problem.shape) / t.trace
    return total


def dense_root(gram: Array, span: Array) -> Array:
    """R of full row rank for a dense Gram, with the row space of ``span``: ``(rank, columns)``.

    Raises:
      OptionError: the Gram is singular on that space, to double precision.
    """
    return dense_roots([(gram, span)])[0]


def dense_roots(blocks: Sequence[tuple[Array, Array]]) -> list[Array]:
    """R for every diagonal block of one Gram, given as pairs of the block and of that of ``span``; see `dense_root`."""
    spectra = [np.linalg.eigh(span) for _, span in blocks]
    least = EIGENVALUE_TOLERANCE * max(float(values[-1]) for values, _ in spectra)
    bases = [vectors[:, values > least].T for values, vectors in spectra]
    return [_root_on(basis, gram) for basis, (gram, _) in zip(bases, blocks, strict=True)]


def _root_on(basis: Array, gram: Array) -> Array:
    return np.asarray(_triangle(basis @ gram @ basis.T) @ basis) if len(basis) else basis


def _triangle(gram: Array) -> Array:
    """Upper triangular T with T' T a positive definite matrix."""
    try:
        return np.asarray(np.linalg.cholesky(gram).T)
    except np.linalg.LinAlgError:
        raise OptionError(
            f"queries of rank {len(gram)} that are solved together are of lower rank in double precision: the weights "
            "of families, or the entries of their matrices, are too far apart; bring them nearer to each other, or "
            "compile these families apart"
        ) from None
