"""Names that are written with letters of several scripts, but look the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from qcompile.queries.schema import CategoryDomain

if TYPE_CHECKING:
    from qcompile.queries.schema import Schema

LATIN = str.maketrans(
    "АВЕКМНОРСТУХаеорсухіјѕһԁԛԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧογ",  # noqa: RUF001  # the Cyrillic and the Greek letters are meant
    "ABEKMHOPCTYXaeopcyxijshdqwABEZHIKMNOPTYXoy",
)
"""Cyrillic and Greek letters to the Latin ones that look like them."""


def warn_of_look_alikes(schema: Schema) -> Iterator[str]:
    """Yield a warning for each pair of attributes, or of labels of an attribute, that look the same."""
    yield from _pairs("attributes", schema.names)
    for attribute in schema:
        if isinstance(attribute.domain, CategoryDomain):
            labels = [label for label in attribute.domain.labels if isinstance(label, str)]
            yield from _pairs(f"labels of {attribute.name!r}:", labels)


def _pairs(what: str, names: Iterable[str]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for name in names:
        first = seen.setdefault(name.translate(LATIN), name)
        if first != name:
            yield f"{what} {first!a} and {name!a} look the same, as {name!r}, but have letters of different scripts"
