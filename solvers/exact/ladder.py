"""The dual problem of centred prefixes in time linear in the cells: no matrix is ever made.

With weights mu on n cells, ``K = R D R'`` of the n-1 thresholds is the covariance of a Brownian bridge with increments
mu, whose inverse T is tridiagonal, plus ``d d'``, d the cumulative sums of mu - u. By `root_quadrature` S = tr K^1/2
and v_j = r_j' K^-1/2 r_j are sums over poles t of what resistor ladders give: the thresholds are nodes with resistance
t to ground, the cells are resistors mu_j between neighbours, and the ends are grounded. With the resistances a_j and
b_j to ground on the two sides of cell j, and i_j the currents when every cell also holds a voltage u_j,

    v_j = sum over t of  c_t (1 / (a_j + mu_j + b_j) - i_j^2 / sum_k u_k i_k).

(The second part is the border that centring adds; at mu = u all currents are 1.) Resistances and voltages follow one
another by sections ``a -> (a + mu) / (1 + (a + mu) / t)``, which compose as 3 x 3 matrices without negative entries:
they are multiplied in pairs, pairs of pairs and so on, so that rounding errors grow with the logarithm of n only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from qcompile.solvers.exact.certificate import EPS, DualPoint
from qcompile.solvers.exact.root_quadrature import RootQuadrature, root_quadrature
from qcompile.support.arrays import Array

PIECE = 2**18
"""Cells times poles that are worked on at once (2 MB an array): it stays in the processor's cache."""

ACCURACY = 1e-7
"""Relative error of the quadrature."""

OPERATIONS = 64
"""Rounding errors of a section and its share in the result, in units of 2^-52, that a bound gives up for each level of
pairs: about 20 are made, none of them amplified by what follows."""

SHORT = 8
"""Sections that are gone through one after another."""

Sections: TypeAlias = tuple[Array, ...]
"""Arrays a, b, c, e, f, h over sections: ``[[a, b, 0], [c, 1, 0], [e, f, h]]`` acts on (resistance, 1, voltage)."""


@dataclass(frozen=True, eq=False)
class PrefixLadder:
    """The dual problem of the centred prefixes of n cells; see `certificate.DualProblem`.

    Attributes:
      centring: the weights u, ``(n,)``, of sum 1.
    """

    centring: Array

    @property
    def sizes(self) -> Array:
        """Every cell is an orbit of its own."""
        return np.ones(len(self.centring))

    def uniform(self) -> Array:
        """The same weight on every cell."""
        return np.full(len(self.centring), 1 / len(self.centring))

    def quadrature(self, mu: Array) -> RootQuadrature:
        """For the spectrum of K: Gershgorin's bound of T below, the trace of K above."""
        total, apart = np.cumsum(mu)[:-1], np.cumsum(mu - self.centring)[:-1]
        least = 0.5 / float((1 / mu[:-1] + 1 / mu[1:]).max())
        largest = float((np.abs(total * (1 - total)) + apart * apart).sum())
        return root_quadrature(min(least, largest / 2), largest, ACCURACY)

    def evaluate(self, mu: Array) -> DualPoint:
        """S and v; mu > 0 and of sum 1. See `certificate.evaluate`."""
        rule = self.quadrature(mu)
        v, taken = np.zeros(len(mu)), np.zeros(len(mu))
        step = max(1, PIECE // len(mu))
        for start in range(0, len(rule.poles), step):
            weights = rule.weights[start : start + step, None]
            resistance, currents = self._currents(mu, rule.poles[start : start + step, None])
            border = currents * currents / (currents @ self.centring)[:, None]
            v += (weights / resistance).sum(axis=0)
            taken += (weights * border).sum(axis=0)
        value = float(mu @ (v - taken))
        levels = len(mu).bit_length()
        error = OPERATIONS * levels * EPS * float(mu @ (np.abs(v) + np.abs(taken)))
        return DualPoint(mu, value, (value - error) / (1 + rule.excess), np.maximum(v - taken, 0.0), ())

    def _currents(self, mu: Array, poles: Array) -> tuple[Array, Array]:
        """The resistance of each cell's loop, and the current through it: ``(poles, cells)``."""
        below = above = self._side(mu, self.centring, poles)
        if not (_is_mirrored(mu) and _is_mirrored(self.centring)):
            above = self._side(mu[::-1], self.centring[::-1], poles)
        resistance = mu + (below[0] + above[0][:, ::-1])  # in this order mirrored weights have a mirrored result
        return resistance, (self.centring + (below[1] + above[1][:, ::-1])) / resistance

    def _side(self, mu: Array, u: Array, poles: Array) -> tuple[Array, Array]:
        """Resistance and voltage to ground on the near side of each cell, from its first end: ``(poles, cells)``."""
        scale = 1 / (1 + mu[:-1] / poles)
        sections = (scale, mu[:-1] * scale, scale / poles, np.zeros_like(scale), u[:-1] * scale, scale)
        resistance, voltage = _states(sections)
        return _behind_zero(resistance), _behind_zero(voltage)


def _is_mirrored(x: Array) -> bool:
    return bool((x == x[::-1]).all())


def _behind_zero(x: Array) -> Array:
    return np.concatenate([np.zeros((len(x), 1)), x], axis=1)


def _states(sections: Sections) -> tuple[Array, Array]:
    """Resistance and voltage behind each section of a ladder that begins at ground: ``(poles, sections)``."""
    count = sections[0].shape[1]
    resistance, voltage = np.empty_like(sections[0]), np.empty_like(sections[0])
    if count <= SHORT:
        at: tuple[Array | float, Array | float] = (0.0, 0.0)
        for j in range(count):
            at = resistance[:, j], voltage[:, j] = _through(tuple(s[:, j] for s in sections), *at)
        return resistance, voltage
    first, second = (tuple(s[:, i : count - count % 2 : 2] for s in sections) for i in (0, 1))
    resistance[:, 1::2], voltage[:, 1::2] = _states(_composed(first, second))
    others = tuple(s[:, 2::2] for s in sections)
    width = others[0].shape[1]
    resistance[:, 2::2], voltage[:, 2::2] = _through(
        others, resistance[:, 1::2][:, :width], voltage[:, 1::2][:, :width]
    )
    resistance[:, 0], voltage[:, 0] = _through(tuple(s[:, 0] for s in sections), 0.0, 0.0)
    return resistance, voltage


def _through(section: Sections, resistance: Array | float, voltage: Array | float) -> tuple[Array, Array]:
    """What is behind a section, from what is in front of it."""
    a, b, c, e, f, h = section
    scale = 1 / (c * resistance + 1)
    return (a * resistance + b) * scale, (e * resistance + f + h * voltage) * scale


def _composed(first: Sections, second: Sections) -> Sections:
    """Two sections as one."""
    a, b, c, e, f, h = first
    a2, b2, c2, e2, f2, h2 = second
    scale = 1 / (c2 * b + 1)
    return (
        (a2 * a + b2 * c) * scale,
        (a2 * b + b2) * scale,
        (c2 * a + c) * scale,
        (e2 * a + f2 * c + h2 * e) * scale,
        (e2 * b + f2 + h2 * f) * scale,
        h2 * h * scale,
    )
