"""Checks of option values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qcompile.errors import OptionError, did_you_mean


def one_of(name: str, value: str, allowed: Sequence[str]) -> str:
    """Return the value if it is allowed.

    Raises:
      OptionError: it is not; with a suggestion.
    """
    if value not in allowed:
        raise OptionError(f"{name} cannot be {value!r}; {did_you_mean(str(value), allowed)}")
    return value


def whole(name: str, value: Any, least: int, of: str = "", most: int | None = None) -> int:
    """Return the value if it is a whole number of at least ``least``; ``of`` is its unit, for the message.

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
    """Return the value if it is a bool, not a number.

    Raises:
      OptionError: it is not.
    """
    if not isinstance(value, bool):
        raise OptionError(f"{name} must be True or False, got {value!r}")
    return value


def require_other(target: str | Path, source: str | Path) -> None:
    """Refuse a target that is the same file as a source, under any name.

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
    """Return the value if it lies strictly between 0 and 1.

    Raises:
      OptionError: it does not.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise OptionError(f"{name} must be between 0 and 1 ({example}), got {value!r}")
    return float(value)


def positive(name: str, value: Any, what: str) -> float:
    """Return the value if it is a finite number > 0; ``what`` says what it means, for the message.

    Raises:
      OptionError: it is not.
    """
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not 0 < value < float("inf"):
        raise OptionError(f"{name} must be {what}: a finite number > 0, got {value!r}")
    return float(value)


def name_option(name: str, value: Any) -> str:
    """Return the value if it is a name: text on one line, not empty, without blanks around it.

    Raises:
      OptionError: it is not.
    """
    if not isinstance(value, str) or not value.isprintable() or not value.strip() or value != value.strip():
        raise OptionError(f"{name} must be a name, text on one line, got {value!r}")
    return value
