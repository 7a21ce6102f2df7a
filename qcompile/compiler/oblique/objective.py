"""The total error of an oblique design, smoothed, with its gradient by what tops leave and by attributes' centres.

F = sum over nodes of sqrt(L), and sqrt(L) is the largest ``S(mu) = tr K^1/2``, ``K = T R D R' T'`` with columns R and
G = T' T. The derivatives are those at fixed mu (envelope theorem):

    by R:  T' K^-1/2 T R D,        by G:  T^-1 K^1/2 T^-T / 2.

Lower Grams are sums of ``rho_S' rho_S``; a lower attribute with centre c has columns ``basis + c 1'`` and leaves
``rho_0 - rho_S c`` to the total.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from qcompile.compiler.oblique.model import Lower, Model, Top
from qcompile.compiler.oblique.smoothing import smoothed
from qcompile.solvers.exact.certificate import DualProblem, RootBlock
from qcompile.support.arrays import Array

RIDGE = 1e-13
"""Share of a Gram's trace that is added to its diagonal: what is left of queries may vanish in some direction."""


@dataclass(frozen=True, eq=False)
class Choice:
    """A point of the search, or a gradient.

    Attributes:
      left: rho per top, ``(k, q)``.
      centres: c per lower class, ``(r,)``; of length 0 where it is not free.
    """

    left: tuple[Array, ...]
    centres: tuple[Array, ...]

    def packed(self) -> Array:
        """All numbers in a row."""
        return np.concatenate([a.ravel() for a in (*self.left, *self.centres)])


def plain_choice(model: Model) -> Choice:
    """The plain decomposition."""
    return Choice(
        tuple(t.plain for t in model.tops),
        tuple(np.zeros(0 if low.joint is None else len(low.basis)) for low in model.lowers),
    )


def unpacked(model: Model, x: Array) -> Choice:
    """The inverse of `Choice.packed`; rho is made symmetric under exchanges of axes."""
    pieces, start = [], 0
    for like in (*plain_choice(model).left, *plain_choice(model).centres):
        pieces.append(x[start : start + like.size].reshape(like.shape))
        start += like.size
    tops = len(model.tops)
    left = tuple(t.symmetric(rho) for t, rho in zip(model.tops, pieces[:tops], strict=True))
    return Choice(left, tuple(pieces[tops:]))


def top_problem(top: Top, left: Array) -> tuple[DualProblem, Array]:
    """The node's problem in symmetric blocks, and the rows R ``(k, cells)`` of the given leftovers."""
    rows = top.queries - left @ top.low
    blocks = tuple(
        RootBlock(c.T @ b.restrict_rows(rows), b.orbits)
        for b, c in zip(top.symmetry.blocks, top.characters, strict=True)
        if c.size
    )
    return DualProblem(blocks, top.symmetry.sizes), rows


@dataclass(eq=False)
class Objective:
    """F for a power p, called with all numbers in a row.

    Attributes:
      model: the nodes.
      power: p of the power mean.
    """

    model: Model
    power: float
    starts: dict[Hashable, Array] = field(default_factory=dict)

    def __call__(self, x: Array) -> tuple[float, Array]:
        """Log F and its gradient."""
        model, choice = self.model, unpacked(self.model, x)
        slopes = Choice(tuple(np.zeros_like(a) for a in choice.left), tuple(np.zeros_like(a) for a in choice.centres))
        total = sum(self._top(n, choice, slopes) for n in range(len(model.tops)))
        total += sum(self._lower(n, choice, slopes) for n in range(len(model.lowers)))
        total += self._constant(choice, slopes)
        left = tuple(t.symmetric(g) for t, g in zip(model.tops, slopes.left, strict=True))
        return float(np.log(total)), Choice(left, slopes.centres).packed() / total

    def _top(self, number: int, choice: Choice, slopes: Choice) -> float:
        top = self.model.tops[number]
        problem, rows = top_problem(top, choice.left[number])
        found = smoothed(problem, self.starts.get(("top", number)), self.power)
        self.starts["top", number] = found.mu
        inverse, used = np.zeros((len(rows), len(rows))), [c for c in top.characters if c.size]
        for c, (values, vectors) in zip(used, found.eigen, strict=True):
            inverse += (c @ vectors / np.sqrt(values)) @ (c @ vectors).T
        weights = np.zeros(rows.shape[1])
        for b in top.symmetry.blocks:
            weights[b.cell] = found.mu[b.orbits[b.column]]
        slopes.left[number][:] -= len(top.members) * inverse @ ((rows * weights) @ top.low.T)
        return len(top.members) * found.value

    def _lower(self, number: int, choice: Choice, slopes: Choice) -> float:
        lower, centre = self.model.lowers[number], choice.centres[number]
        gram = lower.gram + sum(
            share * into.T @ (rho.T @ rho + rest) @ into for rho, rest, into, share, _, _ in self._uses(lower, choice)
        )
        gram = (gram + gram.T) / 2 + RIDGE * np.trace(gram) * np.eye(len(gram))
        triangle = np.linalg.cholesky(gram).T
        columns = lower.basis + (centre[:, None] if centre.size else 0.0)
        problem = DualProblem((RootBlock(triangle @ columns, np.arange(columns.shape[1])),), np.ones(columns.shape[1]))
        found = smoothed(problem, self.starts.get(("lower", number)), self.power)
        self.starts["lower", number] = found.mu
        ((values, vectors),) = found.eigen
        half = np.linalg.solve(triangle, vectors * values**0.25)  # V^-1 = T^-1 K^1/2 T^-T
        by_gram = lower.members / 2 * (half @ half.T)
        for rho, _, into, share, top, part in self._uses(lower, choice):
            slopes.left[top][:, part] += 2 * share * rho @ (into @ by_gram @ into.T)
        if centre.size:
            turned = triangle.T @ (vectors * values**-0.25)
            slopes.centres[number][:] += lower.members * (turned @ (turned.T @ (columns @ found.mu)))
        return lower.members * found.value

    def _uses(self, lower: Lower, choice: Choice) -> list[tuple[Array, Array, Array, float, int, slice]]:
        """Per top above and place: rho there, the Gram of the rest, the change of basis, how many, top and columns."""
        found = []
        for (number, axes), count in lower.uses.items():
            top, places = self.model.tops[number], self.model.tops[number].subsets_at(axes)
            for subset in places:
                part, into = top.part(subset), top.bases[subset] @ lower.basis.T
                found.append(
                    (choice.left[number][:, part], top.rest[part, part], into, count / len(places), number, part)
                )
        return found

    def _constant(self, choice: Choice, slopes: Choice) -> float:
        """The total's share: the root of the sum of squares of what reaches it."""
        model, square, back = self.model, self.model.constant, list[tuple[Array, Array]]()
        for lower, centre, slope in zip(model.lowers, choice.centres, slopes.centres, strict=True):
            if lower.joint is not None:
                towards = np.concatenate([[1.0], -centre])
                image = lower.members * (lower.joint @ towards)
                square += float(towards @ image)
                back.append((slope, -2 * image[1:]))
        for number, top in enumerate(model.tops):
            square += self._constant_of(number, top, choice, slopes, back)
        root = float(np.sqrt(max(square, 0.0)))
        for slope, change in back:
            slope += change / (2 * root + RIDGE)
        return root

    def _constant_of(
        self, number: int, top: Top, choice: Choice, slopes: Choice, back: list[tuple[Array, Array]]
    ) -> float:
        model, rho = self.model, choice.left[number]
        towards = np.zeros(rho.shape[1])
        towards[0] = 1.0
        moved = []
        for subset, c in enumerate(model.centre_of[number]):
            if c >= 0:
                into = top.bases[subset] @ model.lowers[c].basis.T
                towards[top.part(subset)] = -into @ choice.centres[c]
                moved.append((top.part(subset), c, into))
        image, rest = rho @ towards, top.rest @ towards
        members = len(top.members)
        back.append((slopes.left[number], 2 * members * np.outer(image, towards)))
        by_towards = 2 * members * (rho.T @ image + rest)
        back.extend((slopes.centres[c], -into.T @ by_towards[part]) for part, c, into in moved)
        return float(members * (image @ image + towards @ rest))
