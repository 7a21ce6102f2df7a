"""Typed reading: each reader takes its own type and range, and a refusal names the place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from qcompile.errors import IntegrityError, StorageError
from qcompile.support.json_fields import LARGEST_INTEGER, Field

READ: dict[str, tuple[Callable[[Field], Any], list[Any], list[Any]]] = {
    "integer": (lambda f: f.read_integer(0, 9), [0, 9], [True, False, -1, 10, 1.0, "1", None, [1], 10**30]),
    "any integer": (Field.read_integer, [-LARGEST_INTEGER, LARGEST_INTEGER], [LARGEST_INTEGER + 1, 10**400]),
    "number": (Field.read_number, [0, 0.5, -1e300], [True, "1", None, float("nan"), float("inf"), 10**400, [1.0]]),
    "positive": (lambda f: f.read_number(above=0), [5e-324, 1], [0, 0.0, -0.0, -1]),
    "share": (lambda f: f.read_number(least=0.5), [0.5, 1], [0.4999, 0]),
    "text": (Field.read_text, ["", "x\n", "é🙂"], ["\ud800", "a\udfffb", 1, None, ["x"], b"x"]),
    "printable": (lambda f: f.read_text(3, printable=True), ["abc"], ["abcd", "a\n", "\x1b", "\u202e"]),
    "choice": (lambda f: f.read_choice(("a", "b")), ["a"], ["c", "", 0, None, ["a"], {"a": 1}]),
    "bool": (Field.read_bool, [True, False], [0, 1, "true", None, []]),
    "list": (lambda f: len(f.read_list(1, 2)), [[1], [1, 2]], [[], [1, 2, 3], "ab", {"a": 1}, None]),
    "tuple": (lambda f: len(f.read_tuple(2)), [[1, 2]], [[1], [1, 2, 3], "ab", None]),
    "object": (lambda f: list(f.read_object("a", optional=["b"])), [{"a": 1}, {"a": 1, "b": 2}], [{}, {"b": 1}, []]),
    "names": (lambda f: list(f.read_object("a")), [{"a": 1}], [{"a": 1, "c": 2}, None, "a"]),
    "mapping": (lambda f: list(f.read_mapping()), [{}, {"x": 1}], [{"\ud800": 1}, [], None]),
    "optional": (lambda f: f.read_optional(Field.read_bool), [None, True], [0, ""]),
}


@pytest.mark.parametrize("name", READ)
def test_a_reader_takes_its_type_and_range_alone(name: str) -> None:
    read, good, bad = READ[name]
    for value in good:
        read(Field(value))
    for value in bad:
        with pytest.raises(StorageError, match="the document must be"):
            read(Field(value))


def test_a_number_stays_what_it_was() -> None:
    """Written again, it has the same hash."""
    assert [repr(Field(v).read_number()) for v in (1, 1.0)] == ["1", "1.0"]


def test_a_refusal_names_the_place_but_no_foreign_text() -> None:
    field = Field({"plan": {"solutions": [{"axes": [False]}], "\x1b": 1, "x" * 50: 2, "of": 3}})
    plan = field.read_object("plan")["plan"].read_mapping()
    axes = plan["solutions"].read_list()[0].read_object("axes")["axes"].read_list()
    with pytest.raises(StorageError, match=r"plan\.solutions\[0\]\.axes\[0\] must be an integer from 0 to 5"):
        axes[0].read_integer(0, 5)
    assert [plan[name].path for name in ("\x1b", "x" * 50, "of")] == ["plan.(a name)", "plan.(a name)", "plan.of"]


def test_what_contradicts_itself_is_refused() -> None:
    def contradict() -> int:
        raise IntegrityError("text of the file")

    with pytest.raises(StorageError, match="x must be free of contradictions"):
        Field(1, "x").build(contradict)
    assert Field(1).build(lambda: 2) == 2
