"""Checks of the values that callers give for options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qcompile.errors import OptionError, did_you_mean


def one_of(name: str, value: str, allowed: Sequence[str]) -> str:
    """The value, where it is one of those allowed.

    Raises:
      OptionError: it is not; with a suggestion.
    """
    if value not in allowed:
        raise OptionError(f"{name} cannot be {value!r}; {did_you_mean(str(value), allowed)}")
    return value


def whole(name: str, value: Any, least: int, of: str = "", most: int | None = None) -> int:
    """The value, where it is a whole number of at least ``least``; ``of`` says of what, for the message.

    Raises:
      OptionError: it is not.
    """
    if isinstance(value, np.integer):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        what = f"a whole number of {of}" if of else "a whole number"
        raise OptionError(f"{name} must be {what}, at least {least}, got {value!r}")
    if most is not None and value > most:
        raise OptionError(f"{name} can be at most {most:,}; give a smaller number")
    return value


def bool_option(name: str, value: bool) -> bool:
    """The value, where it is true or false and nothing that merely counts as one of them.

    Raises:
      OptionError: it is not.
    """
    if not isinstance(value, bool):
        raise OptionError(f"{name} must be True or False, got {value!r}")
    return value


def require_other(target: str | Path, source: str | Path) -> None:
    """Refuse to write where something is read, by whatever name.

    Raises:
      OptionError: both are the same file, or would be.
    """
    try:
        same = Path(target).resolve() == Path(source).resolve() or Path(target).samefile(source)
    except (OSError, RuntimeError):  # one of them does not exist, or cannot be looked at
        same = False
    if same:
        raise OptionError(f"writing {target} would overwrite {source}, which is in use here; give another name")


def share(name: str, value: float, example: str) -> float:
    """The value, where it lies strictly between 0 and 1.

    Raises:
      OptionError: it does not.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise OptionError(f"{name} must be between 0 and 1 ({example}), got {value!r}")
    return float(value)
