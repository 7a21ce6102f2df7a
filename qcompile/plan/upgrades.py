"""Plans of older formats as documents of the newest one, a step for each format.

A step adds what the format before it could not say, with the value that its plans had. The arrays stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from qcompile.support.json_fields import Field

Document = Mapping[str, Any]


def _add_blocks(plan: Document) -> Document:
    """1 to 2: plans had no blocks."""
    return {"blocks": [], **plan}


def _add_designs(plan: Document) -> Document:
    """2 to 3: blocks were chosen by the user alone, no attribute had a strategy, and designs were not compared."""
    options = Field(plan).read_mapping().get("options", Field(None)).read_mapping()
    chosen = "given" if plan.get("blocks") else "no"
    values = {"blocks": chosen, "strategies": [], **{name: option.value for name, option in options.items()}}
    return {"plain_sse": None, **plan, "options": values}


def _keep(plan: Document) -> Document:
    """Steps that allow more: 3 to 4, ordered factors without the ``other`` cell; 4 to 5, residual bases by name."""
    return plan


STEPS: dict[int, Callable[[Document], Document]] = {1: _add_blocks, 2: _add_designs, 3: _keep, 4: _keep}
"""By the format that a step begins with."""

OLDEST = min(STEPS)
"""The oldest format of plans that is read: the first that there was."""


def upgrade_plan(plan: Document, version: int) -> Document:
    """Return a plan as the newest format writes it.

    Args:
      plan: the document of a plan file, or of the plan in a release.
      version: its format.

    Raises:
      StorageError: it is no plan of that format.
    """
    for number, step in STEPS.items():
        if number >= version:
            plan = step(plan)
    return plan
