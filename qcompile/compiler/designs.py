"""The free choices of a plan before its nodes are solved: centring weights and blocks.

The plain decomposition is always among the designs, so that no choice is worse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from qcompile.compiler.blocks import EFFORTS, Blocks, choose_blocks
from qcompile.compiler.centring import optimised_centrings
from qcompile.lattice.oblique import Oblique
from qcompile.queries.workload import Workload
from qcompile.solvers.solution import Solution
from qcompile.support.arrays import Array


@dataclass(frozen=True, eq=False)
class Design:
    """One choice.

    Attributes:
      centring: weights per attribute name; uniform where absent.
      blocks: names of the families of each unsplit block.
      oblique: what some nodes measure beyond their own residual.
      solutions: of these nodes, in the same order.
    """

    centring: Mapping[str, Array] = field(default_factory=dict)
    blocks: Blocks = ()
    oblique: tuple[Oblique, ...] = ()
    solutions: tuple[Solution, ...] = ()


def designs(
    workload: Workload,
    plain: Design,
    *,
    optimise: bool,
    search: str,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Design]:
    """The distinct designs to be compared, the plain one first.

    Args:
      workload: the families.
      plain: the weights and blocks that the user wrote out.
      optimise: True if centring weights may be optimised.
      search: effort of the search for blocks: "no", "auto" or "yes".
      progress: called by each search with (steps done, most steps).
    """
    compared = [plain]
    if search != "no":
        compared.append(Design(plain.centring, choose_blocks(workload, plain.centring, EFFORTS[search], progress)))
    if optimise:
        for weights in optimised_centrings(workload, plain.blocks, progress):
            compared.append(Design(weights, plain.blocks))
            if search != "no":
                compared.append(Design(weights, choose_blocks(workload, weights, EFFORTS[search], progress)))
        split = list(dict.fromkeys(d.blocks for d in compared if d.blocks != plain.blocks))
        for blocks in split:
            compared += [Design(weights, blocks) for weights in optimised_centrings(workload, blocks, progress)]
    return _distinct(compared)


def _distinct(compared: list[Design]) -> list[Design]:
    """Without those that say the same as an earlier one."""
    kept: dict[object, Design] = {}
    for d in compared:
        weights = tuple(sorted((name, u.tobytes()) for name, u in d.centring.items()))
        kept.setdefault((weights, tuple(sorted(d.blocks))), d)
    return list(kept.values())
