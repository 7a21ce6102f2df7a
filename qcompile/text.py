"""Words and numbers as people read them."""

from __future__ import annotations


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """A count with its noun, e.g. ``1 block`` or ``1,200 blocks``; ``nouns`` where that is not noun + s."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {nouns or noun + 's'}"
