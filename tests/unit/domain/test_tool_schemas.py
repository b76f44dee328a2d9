import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.tool_schemas import MOST_ITEMS, MOST_NESTED, Measure, measure, schema_fault

DRAFTS = [
    "http://json-schema.org/draft-03/schema",
    "http://json-schema.org/draft-04/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
]

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


def by_recursion(value: Any) -> Measure:
    if not isinstance(value, (list, dict)):
        return Measure(1, 0, 0)
    inner = [by_recursion(item) for item in (value if isinstance(value, list) else value.values())]
    own = len(value) if isinstance(value, list) and not all(isinstance(item, str) for item in value) else 0
    return Measure(
        1 + sum(of.values for of in inner),
        max([own, *(of.longest_list for of in inner)]),
        1 + max([0, *(of.nested for of in inner)]),
    )


def nested(depth: int) -> Any:
    schema: Any = {}
    for _ in range(depth - 1):
        schema = {"not": schema}
    return schema


@given(values)
def test_the_measure_is_that_of_every_part_together(value: Any) -> None:
    assert measure(value) == by_recursion(value)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        True,
        False,
        {"type": "array", "items": {"type": "string"}},
        {"unknown": "keyword"},
        {"pattern": r"^\p{L}+$"},
        {"pattern": "(?<year>[0-9]{4})"},
        {"$schema": "https://example.com/own-dialect"},
        {"$schema": "http://["},
    ],
)
def test_a_schema_is_taken(schema: Any) -> None:
    assert schema_fault(schema) is None


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        (None, "$: None is not of type 'object', 'boolean'"),
        (5, "$: 5 is not of type 'object', 'boolean'"),
        ("object", "$: 'object' is not of type 'object', 'boolean'"),
        ([{}], "$: [{}] is not of type 'object', 'boolean'"),
        ({"type": "text"}, "$.type: 'text' is not valid under any of the given schemas"),
        ({"properties": {"a": {"minLength": -1}}}, "$.properties.a.minLength: -1 is less than the minimum of 0"),
        ({"required": "a"}, "$.required: 'a' is not of type 'array'"),
        ({"$schema": 5}, "$['$schema']: 5 is not of type 'string'"),
        ({"$schema": "https://example.com/own-dialect", "required": "a"}, "$.required: 'a' is not of type 'array'"),
    ],
)
def test_what_is_no_schema_is_told_where_it_fails(schema: Any, fault: str) -> None:
    assert schema_fault(schema) == fault


@pytest.mark.parametrize("end", ["", "#"])
@pytest.mark.parametrize("draft", DRAFTS)
def test_a_schema_is_held_against_the_draft_that_it_names(draft: str, end: str) -> None:
    assert schema_fault({"$schema": draft + end}) is None
    assert schema_fault({"$schema": draft + end, "properties": 5}) == "$.properties: 5 is not of type 'object'"
    # A truth value up to draft 4, a number since.
    old = draft in DRAFTS[:2]
    assert (schema_fault({"$schema": draft + end, "exclusiveMinimum": True, "minimum": 0}) is None) == old
    assert (schema_fault({"$schema": draft + end, "exclusiveMinimum": 1, "minimum": 0}) is None) == (not old)


@pytest.mark.parametrize("key", ["$ref", "$dynamicRef", "$id"])
@pytest.mark.parametrize("draft", [*DRAFTS, None])
def test_a_reference_to_the_outside_is_never_fetched(
    draft: str | None, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    named = {} if draft is None else {"$schema": draft}
    # An address that answers to nobody, should the network be asked all the same.
    assert schema_fault({**named, "properties": {"a": {key: "http://127.0.0.1:9/schema.json"}}}) is None


def test_a_schema_has_a_greatest_depth() -> None:
    assert schema_fault(nested(MOST_NESTED)) is None
    assert schema_fault(nested(MOST_NESTED + 1)) == (f"it is nested {MOST_NESTED + 1} deep, the most is {MOST_NESTED}")


def test_a_list_in_a_schema_has_a_greatest_length_unless_all_of_it_is_text() -> None:
    assert schema_fault({"enum": list(range(MOST_ITEMS))}) is None
    assert schema_fault({"enum": list(range(MOST_ITEMS + 1))}) == (
        f"a list in it has {MOST_ITEMS + 1} items, the most is {MOST_ITEMS} where they are not all text"
    )
    assert schema_fault({"enum": [str(n) for n in range(MOST_ITEMS + 1)]}) is None
