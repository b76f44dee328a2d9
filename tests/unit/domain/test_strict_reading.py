from enum import StrEnum

import pytest
from attrs import frozen

from crux.domain.strict_reading import MOST_NUMBER, read_record, strict_converter
from crux.errors import InvalidArgument


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@frozen
class Leaf:
    name: str
    colours: tuple[Colour, ...] = ()


@frozen
class Tree:
    age: int
    leaves: tuple[Leaf, ...] = ()
    wet: bool = False
    best: Leaf | None = None


CONVERTER = strict_converter(Colour, most_items=2, most_text_bytes=4)


def read(value: object) -> Tree:
    return read_record(CONVERTER, value, Tree, "a tree")


def test_a_record_is_read_with_all_that_it_holds() -> None:
    given = {"age": MOST_NUMBER, "leaves": [{"name": "éé", "colours": ["red", "blue"]}], "wet": True, "x": 1}
    assert read(given) == Tree(MOST_NUMBER, (Leaf("éé", (Colour.RED, Colour.BLUE)),), wet=True)
    assert read({"age": 0, "leaves": None, "wet": None, "best": None}) == Tree(0)
    assert read({"age": 0, "best": {"name": "a"}}).best == Leaf("a")


@pytest.mark.parametrize(
    ("value", "message", "param"),
    [
        (5, "a tree must be an object, got a number", "a tree"),
        ({}, "field 'age' is required", "age"),
        ({"age": -1}, f"field 'age' must be from 0 to {MOST_NUMBER}", "age"),
        ({"age": MOST_NUMBER + 1}, f"field 'age' must be from 0 to {MOST_NUMBER}", "age"),
        ({"age": False}, "field 'age' must be a whole number, got a boolean", "age"),
        ({"age": 0, "wet": 0}, "field 'wet' must be true or false, got a number", "wet"),
        ({"age": 0, "best": {}}, "field 'best.name' is required", "best.name"),
        ({"age": 0, "best": []}, "field 'best' must be an object, got a list", "best"),
        ({"age": 0, "leaves": {}}, "field 'leaves' must be a list, got an object", "leaves"),
        ({"age": 0, "leaves": [{"name": "a"}] * 3}, "field 'leaves' must have at most 2 items, got 3", "leaves"),
        ({"age": 0, "leaves": [{"name": "a"}, None]}, "field 'leaves[1]' must be an object, got null", "leaves[1]"),
        (
            {"age": 0, "leaves": [{"name": "ééx"}]},
            "field 'leaves[0].name' must have at most 4 bytes of UTF-8, got 5",
            "leaves[0].name",
        ),
        (
            {"age": 0, "leaves": [{"name": "a", "colours": ["red", "RED"]}]},
            "field 'leaves[0].colours[1]' must be one of red, blue",
            "leaves[0].colours[1]",
        ),
        (
            {"age": 0, "leaves": [{"name": "a", "colours": [1]}]},
            "field 'leaves[0].colours[0]' must be a string, got a number",
            "leaves[0].colours[0]",
        ),
        ({"age": "0", "wet": 1}, "field 'age' must be a whole number, got a string", "age"),
    ],
)
def test_a_refusal_names_the_first_member_that_is_not_what_it_must_be(value: object, message: str, param: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        read(value)
    assert (raised.value.message, raised.value.data) == (message, {"param": param})
