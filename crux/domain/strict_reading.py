"""Reading decoded JSON into attrs records, each value for what it is: never a number for text, or text for a list."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Any, Final, TypeVar, get_args, get_origin

import attrs
from cattrs import ClassValidationError, Converter, IterableValidationError
from cattrs.gen import make_dict_structure_fn

from crux.domain.tokens import utf8_size
from crux.errors import InvalidArgument

MOST_NUMBER: Final = 2**64 - 1

T = TypeVar("T")

_NAMES = {bool: "a boolean", str: "a string", list: "a list", dict: "an object", type(None): "null"}


class Unexpected(ValueError):
    """A value is not what it must be; the text says what that is, and goes on from the name of its member."""


def strict_converter(*words: type[StrEnum], most_items: int, most_text_bytes: int) -> Converter:
    """A converter for records of text, truth values, unsigned 64-bit numbers, these `words`, and tuples of such.

    Members that a record does not have are dropped; `null` for one with a default is the same as its absence. A list
    has at most `most_items`, a text `most_text_bytes` bytes of UTF-8.
    """
    converter = Converter(detailed_validation=True)
    converter.register_structure_hook_factory(attrs.has, _record_of)
    converter.register_structure_hook_factory(_is_tuple, partial(_tuple_of, most=most_items))
    converter.register_structure_hook(str, partial(_text, most_bytes=most_text_bytes))
    converter.register_structure_hook(bool, _truth)
    converter.register_structure_hook(int, _number)
    for known in words:
        converter.register_structure_hook(known, _word)
    return converter


def read_record(converter: Converter, value: object, wanted: type[T], title: str) -> T:
    """The record that `value` stands for.

    Raises `InvalidArgument` that names the first member which is missing or not what it must be, as in
    `tools[0].name`; `title` is what a refusal calls the whole.
    """
    try:
        return converter.structure(value, wanted)
    except (ClassValidationError, Unexpected) as error:
        path, cause = _first(error)
        text = "is required" if isinstance(cause, KeyError) else str(cause)
        raise InvalidArgument(f"{_called(path, title)} {text}", data={"param": path or title}) from None


def _called(path: str, title: str) -> str:
    return f"field '{path}'" if path else title


def _first(error: BaseException) -> tuple[str, BaseException]:
    """The path of the first member that is at fault, in the order of the record's fields, and what is wrong there."""
    path = ""
    while isinstance(error, ClassValidationError | IterableValidationError):
        if isinstance(error, ClassValidationError):
            error, member = error.group_exceptions()[0][0]
            path = f"{path}.{member.name}".lstrip(".")
        else:
            error, place = error.group_exceptions()[0][0]
            path = f"{path}[{place.index}]"
    return path, error


def _is_tuple(wanted: Any) -> bool:
    return get_origin(wanted) is tuple


def _tuple_of(wanted: Any, converter: Converter, most: int) -> Callable[[object, object], tuple[object, ...]]:
    items: Any = list[get_args(wanted)[0]]  # type: ignore[misc]  # known at run time only

    def read(value: object, _: object) -> tuple[object, ...]:
        if not isinstance(value, list):
            raise Unexpected(f"must be a list, got {_kind(value)}")
        if len(value) > most:
            raise Unexpected(f"must have at most {most} items, got {len(value)}")
        return tuple(converter.structure(value, items))

    return read


def _record_of(wanted: Any, converter: Converter) -> Callable[[object, object], object]:
    build = make_dict_structure_fn(wanted, converter, _cattrs_detailed_validation=True)
    needed = {field.name for field in attrs.fields(wanted) if field.default is attrs.NOTHING}

    def read(value: object, _: object) -> object:
        if not isinstance(value, dict):
            raise Unexpected(f"must be an object, got {_kind(value)}")
        return build({name: of for name, of in value.items() if of is not None or name in needed}, wanted)

    return read


def _text(value: object, _: object, most_bytes: int) -> str:
    if not isinstance(value, str):
        raise Unexpected(f"must be a string, got {_kind(value)}")
    if (size := utf8_size(value)) > most_bytes:
        raise Unexpected(f"must have at most {most_bytes} bytes of UTF-8, got {size}")
    return value


def _truth(value: object, _: object) -> bool:
    if not isinstance(value, bool):
        raise Unexpected(f"must be true or false, got {_kind(value)}")
    return value


def _number(value: object, _: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unexpected(f"must be a whole number, got {_kind(value)}")
    if not 0 <= value <= MOST_NUMBER:
        raise Unexpected(f"must be from 0 to {MOST_NUMBER}")
    return value


def _word(value: object, words: type[StrEnum]) -> StrEnum:
    if not isinstance(value, str):
        raise Unexpected(f"must be a string, got {_kind(value)}")
    try:
        return words(value)
    except ValueError:
        raise Unexpected(f"must be one of {', '.join(words)}") from None


def _kind(value: object) -> str:
    """The name of a JSON value's type; the value itself may be anything and is not repeated."""
    return _NAMES.get(type(value), "a number")
