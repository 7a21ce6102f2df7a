"""What a plan is free to choose before its nodes are solved: centring weights and blocks.

The plain decomposition is always among the designs, so that whatever is chosen is never worse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from qcompile.compiler.blocks import EFFORTS, Blocks, choose_blocks
from qcompile.compiler.centring import optimised_centrings
from qcompile.queries.workload import Workload
from qcompile.support.arrays import Array


@dataclass(frozen=True, eq=False)
class Design:
    """One choice.

    Attributes:
      centring: weights per attribute name; uniform where absent.
      blocks: names of the families of each unsplit block.
    """

    centring: Mapping[str, Array] = field(default_factory=dict)
    blocks: Blocks = ()


def designs(
    workload: Workload,
    plain: Design,
    *,
    optimise: bool,
    search: str,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Design]:
    """The designs worth solving, the plain one first.

    Args:
      workload: the families.
      plain: what was given.
      optimise: whether centring weights may be optimised.
      search: "no", "auto" or "yes": whether, and how hard, blocks are looked for.
      progress: of each search, told how many steps are done and may be needed.
    """
    found = [plain]
    if search != "no":
        found.append(Design(plain.centring, choose_blocks(workload, plain.centring, EFFORTS[search], progress)))
    if optimise:
        for weights in optimised_centrings(workload, plain.blocks, progress):
            found.append(Design(weights, plain.blocks))
            if search != "no":
                found.append(Design(weights, choose_blocks(workload, weights, EFFORTS[search], progress)))
        split = list(dict.fromkeys(d.blocks for d in found if d.blocks != plain.blocks))
        for blocks in split:
            found += [Design(weights, blocks) for weights in optimised_centrings(workload, blocks, progress)]
    return _distinct(found)


def _distinct(found: list[Design]) -> list[Design]:
    """Without those that say the same as an earlier one."""
    kept: dict[object, Design] = {}
    for d in found:
        weights = tuple(sorted((name, u.tobytes()) for name, u in d.centring.items()))
        kept.setdefault((weights, tuple(sorted(d.blocks))), d)
    return list(kept.values())
