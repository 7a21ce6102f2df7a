"""Checks of the values that callers give for options."""

from __future__ import annotations

from collections.abc import Sequence

from qcompile.errors import OptionError, did_you_mean


def one_of(name: str, value: str, allowed: Sequence[str]) -> str:
    """The value, where it is one of those allowed.

    Raises:
      OptionError: it is not; with a suggestion.
    """
    if value not in allowed:
        raise OptionError(f"{name} cannot be {value!r}; {did_you_mean(str(value), allowed)}")
    return value


def whole(name: str, value: int, least: int, of: str = "") -> int:
    """The value, where it is a whole number of at least ``least``; ``of`` says of what, for the message.

    Raises:
      OptionError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        what = f"a whole number of {of}" if of else "a whole number"
        raise OptionError(f"{name} must be {what}, at least {least}, got {value!r}")
    return value


def share(name: str, value: float, example: str) -> float:
    """The value, where it lies strictly between 0 and 1.

    Raises:
      OptionError: it does not.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise OptionError(f"{name} must be between 0 and 1 ({example}), got {value!r}")
    return float(value)
