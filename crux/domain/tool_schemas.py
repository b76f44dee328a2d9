"""Whether what a manifest gives as a tool's `input_schema` is a JSON Schema, checked at bounded cost.

Nothing is resolved: a `$ref` to the outside stays what it is, a text.
"""

from __future__ import annotations

from typing import Any, Final

from attrs import frozen

# The time to check a schema goes with the values in it, and in some lists with the square of their length: items have
# to be distinct, and only texts are quick to tell apart. Depth costs stack.
MOST_VALUES: Final = 10_000
MOST_ITEMS: Final = 500
MOST_NESTED: Final = 64


@frozen
class Measure:
    """How large a JSON value is: the values in it and itself, the longest list that holds more than text, the depth of
    lists and objects."""

    values: int
    longest_list: int
    nested: int


def measure(value: object) -> Measure:
    """The size of decoded JSON, however deep."""
    values = longest_list = nested = 0
    level = [value]
    while level:
        values += len(level)
        lists = [inner for inner in level if isinstance(inner, list)]
        objects = [inner for inner in level if isinstance(inner, dict)]
        nested += bool(lists or objects)
        longest_list = max([longest_list, *(len(inner) for inner in lists if not _is_text(inner))])
        level = [item for inner in lists for item in inner] + [item for inner in objects for item in inner.values()]
    return Measure(values, longest_list, nested)


def schema_fault(schema: object) -> str | None:
    """What keeps decoded JSON from being a JSON Schema, None where it is one.

    It is held against the draft that its `$schema` names, or else 2020-12. Patterns are not: they are ECMAScript's.
    """
    size = measure(schema)
    if size.longest_list > MOST_ITEMS:
        return f"a list in it has {size.longest_list} items, the most is {MOST_ITEMS} where they are not all text"
    if size.nested > MOST_NESTED:
        return f"it is nested {size.nested} deep, the most is {MOST_NESTED}"
    # Only an install needs it, and it takes longer to import than the rest of the domain.
    import jsonschema.validators as drafts  # noqa: PLC0415

    latest = drafts.Draft202012Validator
    known: dict[str, Any] = {
        draft.META_SCHEMA["$schema"].rstrip("#"): draft
        for draft in (
            drafts.Draft3Validator,
            drafts.Draft4Validator,
            drafts.Draft6Validator,
            drafts.Draft7Validator,
            drafts.Draft201909Validator,
            latest,
        )
    }
    named = schema.get("$schema") if isinstance(schema, dict) else None
    draft = known.get(named.rstrip("#"), latest) if isinstance(named, str) else latest
    error = next(draft(draft.META_SCHEMA).iter_errors(schema), None)
    return None if error is None else f"{error.json_path}: {error.message}"


def takes_an_object(schema: object) -> bool:
    """Whether a valid schema is of the shape that MCP asks of an `inputSchema`, and official clients insist on."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return False
    properties = schema.get("properties", {})
    return isinstance(properties, dict) and all(isinstance(inner, dict) for inner in properties.values())


def _is_text(items: list[object]) -> bool:
    return all(isinstance(item, str) for item in items)
