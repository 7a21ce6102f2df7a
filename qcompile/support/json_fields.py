"""Typed reading of JSON values from files by anybody: each value is checked, and a refusal names its place.

Python takes true for 1, text for a list, and a half of a surrogate pair for text; what such a value does later is
anybody's guess. So a reader states the type and the range that it expects, and nothing else gets through.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from qcompile.errors import IntegrityError, OptionError, StorageError

Result = TypeVar("Result")

DOCUMENT = "the document"
"""The path of the outermost value."""

LONGEST_NAME = 20
"""Characters of a name in a path; others are text by whoever wrote the file, and not shown."""

LARGEST_INTEGER = 2**63 - 1
"""Integers in files fit into 64 bits, as those of the ``.q`` language do."""


@dataclass(frozen=True, slots=True)
class Field:
    """A JSON value with its place in the file.

    Attributes:
      value: as `json` reads it.
      path: the place, for messages, such as ``workload.families[2].weight``.
    """

    value: Any
    path: str = DOCUMENT

    def refuse(self, expected: str) -> NoReturn:
        """Refuse the value.

        Raises:
          StorageError: always; names the place and what is expected there.
        """
        raise StorageError(
            f"the file is not one that this version of qcompile understands: {self.path} must be {expected}; "
            "make it again"
        )

    def read_object(self, *names: str, optional: Sequence[str] = ()) -> dict[str, Field]:
        """Return the members of an object that has these names and no others.

        Raises:
          StorageError: it is no object, a name is missing, or one is unknown.
        """
        if not isinstance(self.value, dict) or not set(names) <= set(self.value) <= {*names, *optional}:
            self.refuse(f"an object with {', '.join(names) or 'known names'}")
        return {name: Field(value, self._member(name)) for name, value in self.value.items()}

    def read_mapping(self) -> dict[str, Field]:
        """Return the members of an object with any names that are text.

        Raises:
          StorageError: it is no object, or a name is no text.
        """
        if not isinstance(self.value, dict) or not all(map(_is_text, self.value)):
            self.refuse("an object")
        return {name: Field(value, self._member(name)) for name, value in self.value.items()}

    def read_list(self, least: int = 0, most: int | None = None) -> list[Field]:
        """Return the entries of a list.

        Raises:
          StorageError: it is no list, or has fewer or more entries.
        """
        if not isinstance(self.value, list | tuple) or len(self.value) < least:
            self.refuse("a list" if not least else f"a list of {least} or more")
        if most is not None and len(self.value) > most:
            self.refuse(f"a list of at most {most:,}")
        return [Field(value, f"{self.path}[{i}]") for i, value in enumerate(self.value)]

    def read_tuple(self, length: int) -> list[Field]:
        """Return the entries of a list of this length.

        Raises:
          StorageError: it is no such list.
        """
        if not isinstance(self.value, list | tuple) or len(self.value) != length:
            self.refuse(f"a list of {length}")
        return self.read_list()

    def read_text(self, most: int | None = None, printable: bool = False) -> str:
        """Return text: whole Unicode characters, no halves of surrogate pairs.

        Args:
          most: the largest number of characters.
          printable: refuse control characters and line breaks.

        Raises:
          StorageError: it is not like that.
        """
        if not _is_text(self.value) or (printable and not self.value.isprintable()):
            self.refuse("printable text" if printable else "text")
        if most is not None and len(self.value) > most:
            self.refuse(f"text of at most {most:,} characters")
        return str(self.value)

    def read_choice(self, allowed: Sequence[str]) -> str:
        """Return one of some words.

        Raises:
          StorageError: it is another.
        """
        if type(self.value) is not str or self.value not in allowed:
            self.refuse(f"one of {', '.join(allowed)}")
        return self.value

    def read_bool(self) -> bool:
        """Return true or false.

        Raises:
          StorageError: it is neither.
        """
        if type(self.value) is not bool:
            self.refuse("true or false")
        return self.value

    def read_integer(self, least: int = -LARGEST_INTEGER, most: int = LARGEST_INTEGER) -> int:
        """Return an integer within limits; true and 1.0 are none.

        Raises:
          StorageError: it is no integer, or outside.
        """
        if type(self.value) is not int or not least <= self.value <= most:
            self.refuse(f"an integer from {least:,} to {most:,}")
        return self.value

    def read_number(self, above: float = -math.inf, least: float = -math.inf) -> float:
        """Return a finite number, an integer as an integer: it is written again as it was.

        Raises:
          StorageError: it is none, not finite as a double, not greater than ``above`` or less than ``least``.
        """
        if type(self.value) not in (int, float) or not _is_finite(self.value):
            self.refuse("a finite number")
        if not self.value > above or self.value < least:
            self.refuse(f"greater than {above:g}" if self.value <= above else f"at least {least:g}")
        return self.value  # type: ignore[no-any-return]

    def read_optional(self, read: Callable[[Field], Result]) -> Result | None:
        """Return None for null, and otherwise what ``read`` makes of the value."""
        return None if self.value is None else read(self)

    def build(self, make: Callable[[], Result]) -> Result:
        """Return what ``make`` builds of values that were read here.

        Raises:
          StorageError: the values, each of the right type, contradict each other.
        """
        try:
            return make()
        except (IntegrityError, OptionError):
            self.refuse("free of contradictions")

    def _member(self, name: str) -> str:
        shown = name if len(name) <= LONGEST_NAME and name.isascii() and name.isidentifier() else "(a name)"
        return shown if self.path == DOCUMENT else f"{self.path}.{shown}"


_SURROGATE = re.compile("[\ud800-\udfff]")


def _is_text(value: object) -> bool:
    """True for text without halves of surrogate pairs."""
    return type(value) is str and not _SURROGATE.search(value)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False
