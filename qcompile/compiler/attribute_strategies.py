"""The user's strategies of ``solver="rp+"``: a matrix per attribute, by name, from a file or given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qcompile.errors import OptionError, did_you_mean
from qcompile.lattice.lattice import Lattice
from qcompile.queries.schema import Schema
from qcompile.solvers.bases.residual_planner_plus import DEFAULT_STRATEGY, STRATEGIES, named_strategy, solve_plus
from qcompile.solvers.solution import Solution
from qcompile.support.arrays import Array, digest


@dataclass(frozen=True, eq=False)
class AttributeStrategy:
    """What is measured on one attribute.

    Attributes:
      label: a name of `STRATEGIES`, or what identifies the given matrix.
      matrix: ``(rows, size)``.
    """

    label: str
    matrix: Array


def attribute_strategies(schema: Schema, given: Mapping[str, str | Path | Array]) -> dict[str, AttributeStrategy]:
    """A strategy for every attribute, the default where none is given.

    Args:
      schema: the attributes.
      given: per attribute name a name of `STRATEGIES`, the path of a .npy or .csv file, or a matrix.

    Raises:
      OptionError: an unknown attribute or strategy, or a matrix that does not fit.
    """
    for name in given:
        if name not in schema:
            raise OptionError(f"a strategy is given for {name!r}; {did_you_mean(name, schema.names)}")
    return {a.name: _strategy(a.name, a.size, given.get(a.name, DEFAULT_STRATEGY)) for a in schema}


def _strategy(name: str, size: int, value: str | Path | Array) -> AttributeStrategy:
    if isinstance(value, str) and value in STRATEGIES:
        return AttributeStrategy(value, named_strategy(value, size))
    matrix = _matrix(name, value) if isinstance(value, str | Path) else _given(name, value)
    if matrix.ndim != 2 or matrix.shape[1] != size or not np.isfinite(matrix).all():
        raise OptionError(
            f"the strategy of {name!r} must be a matrix of finite numbers with {size} columns, got shape {matrix.shape}"
        )
    return AttributeStrategy(f"matrix {digest(matrix)[:12]}", matrix)


def _given(name: str, value: Array) -> Array:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise OptionError(f"the strategy of {name!r} must be a matrix of numbers, got {value!r}") from None


def _matrix(name: str, path: str | Path) -> Array:
    path = Path(path)
    if not path.exists():
        known = ", ".join(STRATEGIES)
        raise OptionError(f"the strategy of {name!r}, {str(path)!r}, is neither one of {known} nor a file")
    try:
        if path.suffix == ".npy":
            return np.asarray(np.load(path, allow_pickle=False), dtype=np.float64)
        return np.loadtxt(path, delimiter=",", ndmin=2)
    except (OSError, ValueError) as e:
        raise OptionError(f"{path} cannot be read as a matrix: {e}; use .npy, or numbers separated by commas") from e


def solve_with_strategies(lattice: Lattice, strategies: Mapping[str, AttributeStrategy]) -> tuple[Solution, ...]:
    """ResidualPlanner+ on every class.

    Args:
      lattice: decomposed with the strategies' labels, so that nodes of a class share them.
      strategies: per attribute name.

    Raises:
      OptionError: a strategy does not span the queries of a node.
    """
    first: dict[int, int] = {}
    for position, c in enumerate(lattice.class_of.tolist()):
        first.setdefault(c, position)
    solutions = []
    for c, problem in enumerate(lattice.classes):
        node = lattice.nodes[first[c]]
        axes = [node[i] for i in lattice.orders[first[c]]]
        chosen = [strategies[lattice.schema.attributes[i].name] for i in axes]
        u = [lattice.centring[i] for i in axes]
        try:
            solutions.append(solve_plus(problem, [s.matrix for s in chosen], u, [s.label for s in chosen]))
        except OptionError as e:
            names = ", ".join(lattice.schema.attributes[i].name for i in axes)
            raise OptionError(f"on the node of {names} (its axes, in this order): {e}") from e
    return tuple(solutions)
