"""Tables to count so that a scan of the rows serves many views.

A view is a set of attributes. Views whose union has few cells are counted as one table over the union, and summed out
of it; several such tables are counted in one scan, as long as they fit in memory together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from qcompile.queries.schema import Schema
from qcompile.support.arrays import cells

Names: TypeAlias = tuple[str, ...]

UNION_CELLS = 2**17
"""Cells of a union at most. Measured with 10 attributes of 10 to 20 values: larger ones leave the processor's cache,
and take longer to fetch from a database, than the scans they save."""

SCAN_BYTES = 2**28
"""Bytes of the tables that one scan fills, unless a single view has more."""

LOOK_AHEAD = 512
"""Views that are considered for a union; with more of them, those behind wait for a later one."""


@dataclass(frozen=True)
class Union:
    """Views that are counted together.

    Attributes:
      names: all attributes of the views, in schema order.
      views: as they were asked for.
    """

    names: Names
    views: tuple[Names, ...]


def plan_unions(schema: Schema, views: Sequence[Names], limit: int = UNION_CELLS) -> list[Union]:
    """Put every view into one union of at most ``limit`` cells, or of a single view; greedy, large views first."""
    masks = [sum(1 << schema.positions[n] for n in view) for view in views]
    sizes = {1 << i: attribute.size for i, attribute in enumerate(schema)}
    # Sorting is stable: equal views stay in their order.
    left = sorted(range(len(views)), key=lambda i: (-cells(schema.shape(views[i])), masks[i]))
    unions = []
    while left:
        near = left[:LOOK_AHEAD]
        union = _grow_union(masks[near[0]], [masks[i] for i in near], sizes, limit)
        inside = [i for i in near if masks[i] | union == union]
        left = [i for i in near if masks[i] | union != union] + left[LOOK_AHEAD:]
        names = tuple(n for p, n in enumerate(schema.names) if union >> p & 1)
        unions.append(Union(names, tuple(views[i] for i in inside)))
    return unions


def _grow_union(union: int, masks: Sequence[int], sizes: dict[int, int], limit: int) -> int:
    """Add attributes to a union: each time those that let most views in."""
    size = _cells(union, sizes)
    while True:
        room, outside = limit // size, ~union
        gains = Counter([m & outside for m in masks])
        sized = ((count, -_cells(more, sizes), more) for more, count in gains.items() if more)
        fitting = [gain for gain in sized if -gain[1] <= room]
        if not fitting:
            return union
        _, added, more = max(fitting)
        union, size = union | more, size * -added


def _cells(mask: int, sizes: dict[int, int]) -> int:
    product = 1
    while mask:
        lowest = mask & -mask
        product *= sizes[lowest]
        mask ^= lowest
    return product


def group_scans(schema: Schema, unions: Sequence[Union]) -> Iterator[list[Union]]:
    """Yield groups of unions that fill no more than `SCAN_BYTES` together."""
    group: list[Union] = []
    held = 0
    for union in unions:
        need = 8 * cells(schema.shape(union.names))
        if group and held + need > SCAN_BYTES:
            yield group
            group, held = [], 0
        group.append(union)
        held += need
    if group:
        yield group
