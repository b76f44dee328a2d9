"""How a tool's arguments are declared: one attrs class gives the parser, the JSON Schema and the reference.

    @frozen
    class Arguments:
        entity: str = arg("What the fact is about")
        top_k: int = arg("Most facts returned", default=10, at_least=1, clamp=1000)

A wrong type, a value out of range or an unknown enum member is refused by name; an enum's own class says how a member
may be spelt. A number above its clamp becomes the clamp (Decision 18); null is the same as absent (Decision 43);
unknown arguments are ignored, since clients send them, also where the schema declares that there are no others.

The type of an argument may be such a class itself: that is an object, and a message names a member of it with its path,
such as `hints.max_capabilities`. `Mapping[str, object]` is an object of any members, which nobody may change.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeVar

import attrs
import msgspec
from attrs import frozen

from crux.errors import InvalidArgument

T = TypeVar("T")

_ABOUT = "crux.about"
_SHOWN_LENGTH = 40
_LARGEST_NUMBER = 2**1023  # beyond it an integer of JSON is no float


@frozen
class About:
    """What a declaration says of an argument beyond its name and type."""

    text: str
    required: bool
    at_least: float | None
    at_most: float | None
    clamp: int | None
    declare_default: bool
    declare_least: bool
    hidden: bool
    additional_properties: bool
    schema: Mapping[str, object]


def arg(
    text: str,
    *,
    default: object = attrs.NOTHING,
    within: tuple[float, float] = (float("-inf"), float("inf")),
    at_least: float | None = None,
    clamp: int | None = None,
    declare_default: bool = True,
    declare_least: bool = False,
    hidden: bool = False,
    additional_properties: bool = True,
    schema: Mapping[str, object] = MappingProxyType({}),
) -> Any:
    """Declare an argument: its help, and its default where it may be left out.

    `hidden` arguments are read and not listed. `declare_default=False` keeps the default out of the schema,
    `declare_least` puts `at_least` into it. Of an object, `additional_properties=False` declares that it has no
    members but those of its class. `schema` are further members of the argument's schema.
    """
    low, high = within
    about = About(
        text=text,
        required=default is attrs.NOTHING,
        at_least=at_least if at_least is not None else (low if low != float("-inf") else None),
        at_most=high if high != float("inf") else None,
        clamp=clamp,
        declare_default=declare_default and default is not None,
        declare_least=declare_least,
        hidden=hidden,
        additional_properties=additional_properties,
        schema=schema,
    )
    return attrs.field(default=default, metadata={_ABOUT: about})


@frozen
class Kind:
    """A type of JSON value: its schema, its name in a message, and `read`, which raises ValueError for any other.

    `members` are those of an object.
    """

    schema: Mapping[str, object]
    noun: str
    read: Callable[[object], object]
    members: tuple[Parameter, ...] = ()


def _read_string(value: object) -> str:
    if type(value) is not str:
        raise ValueError
    return value


def _read_boolean(value: object) -> bool:
    if type(value) is not bool:
        raise ValueError
    return value


def _read_integer(value: object) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():  # 5.0 is an integer in JSON Schema
        return int(value)
    raise ValueError


def _read_number(value: object) -> float:
    if type(value) is float:
        return value
    if type(value) is int and abs(value) < _LARGEST_NUMBER:
        return float(value)
    raise ValueError


def _read_strings(value: object) -> tuple[str, ...]:
    if type(value) is not list:
        raise ValueError
    return tuple(_read_string(item) for item in value)


def _read_object(value: object) -> Mapping[str, object]:
    if type(value) is not dict:
        raise ValueError
    return value


_KINDS: Mapping[object, Kind] = {
    str: Kind({"type": "string"}, "a string", _read_string),
    bool: Kind({"type": "boolean"}, "true or false", _read_boolean),
    int: Kind({"type": "integer"}, "an integer", _read_integer),
    float: Kind({"type": "number"}, "a number", _read_number),
    tuple[str, ...]: Kind({"type": "array", "items": {"type": "string"}}, "an array of strings", _read_strings),
    Mapping[str, object]: Kind({"type": "object"}, "an object", _read_object),
}


def _kind_of(annotation: object, path: str) -> Kind:
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        (annotation,) = (part for part in typing.get_args(annotation) if part is not type(None))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        names = [member.value for member in annotation]

        def read(value: object) -> object:
            return annotation(_read_string(value))

        return Kind({"type": "string", "enum": names}, f"one of {', '.join(names)}", read)
    if isinstance(annotation, type) and attrs.has(annotation):
        return _object_of(annotation, parameters_of(annotation, f"{path}."))
    return _KINDS[annotation]


def _object_of(record: type, members: tuple[Parameter, ...]) -> Kind:
    parse: Callable[[object], object] = parser_of(record, members)

    def read(value: object) -> object:
        if type(value) is not dict:
            raise ValueError
        return parse(value)

    return Kind(_object_schema(members), "an object", read, members)


@frozen
class Parameter:
    """One argument of a tool, ready to be read and described. `path` is its name as a message tells it."""

    name: str
    path: str
    about: About
    default: object
    kind: Kind

    @property
    def expected(self) -> str:
        """What a value must be, in words."""
        low, high = self.about.at_least, self.about.at_most
        if low is not None and high is not None:
            return f"{self.kind.noun} from {low:g} to {high:g}"
        return self.kind.noun if low is None else f"{self.kind.noun}, at least {low:g}"

    def read(self, value: object) -> object:
        """The value as its type; raises `InvalidArgument` naming the argument and what was expected."""
        try:
            found: Any = self.kind.read(value)
        except ValueError:
            raise self._refusal(value) from None
        about = self.about
        if about.at_least is not None and not found >= about.at_least:
            raise self._refusal(value)
        if about.at_most is not None and not found <= about.at_most:
            raise self._refusal(value)
        return about.clamp if about.clamp is not None and found > about.clamp else found

    def schema(self) -> dict[str, object]:
        schema = {**self.kind.schema, "description": self.about.text}
        if self.about.declare_default and not self.about.required:
            schema["default"] = self.default.value if isinstance(self.default, Enum) else self.default
        if self.about.declare_least:
            schema["minimum"] = self.about.at_least
        if not self.about.additional_properties:
            schema["additionalProperties"] = False
        return {**schema, **self.about.schema}

    def _refusal(self, value: object) -> InvalidArgument:
        allowed = {"allowed": self.kind.schema["enum"]} if "enum" in self.kind.schema else {}
        return InvalidArgument(
            f"'{self.path}' must be {self.expected}, got {shortened(value)}",
            data={"param": self.path, "expected": self.expected, **allowed},
        )


def parameters_of(arguments: type, prefix: str = "") -> tuple[Parameter, ...]:
    """The parameters that an arguments class declares, in order; `prefix` is the path of the object that it is."""
    hints = typing.get_type_hints(arguments)
    return tuple(
        Parameter(field.name, path, field.metadata[_ABOUT], field.default, _kind_of(hints[field.name], path))
        for field in attrs.fields(arguments)
        for path in [f"{prefix}{field.name}"]
    )


def parser_of(arguments: type[T], parameters: Sequence[Parameter]) -> Callable[[object], T]:
    """A function from the `arguments` member of a call to an instance; it raises `InvalidArgument`."""
    required = [parameter for parameter in parameters if parameter.about.required]

    def parse(given: object) -> T:
        if given is None:
            given = {}
        if not isinstance(given, dict):
            raise InvalidArgument(f"'arguments' must be an object, got {shortened(given)}")
        for parameter in required:
            if given.get(parameter.name) is None:
                raise InvalidArgument(
                    f"'{parameter.path}' is required: {parameter.expected} ({parameter.about.text})",
                    data={"param": parameter.path, "required": True},
                )
        return arguments(
            **{
                parameter.name: parameter.read(value)
                for parameter in parameters
                if (value := given.get(parameter.name)) is not None
            }
        )

    return parse


def input_schema(
    parameters: Sequence[Parameter],
    examples: Sequence[Mapping[str, object]],
    *,
    additional_properties: bool = True,
) -> dict[str, object]:
    """The JSON Schema that `tools/list` shows (catalogue rules, section 2)."""
    return {
        **_object_schema(parameters),
        **({} if additional_properties else {"additionalProperties": False}),
        "examples": list(examples),
    }


def _object_schema(parameters: Sequence[Parameter]) -> dict[str, object]:
    listed = [parameter for parameter in parameters if not parameter.about.hidden]
    required = [parameter.name for parameter in listed if parameter.about.required]
    return {
        "type": "object",
        "properties": {parameter.name: parameter.schema() for parameter in listed},
        **({"required": required} if required else {}),
    }


def shortened(value: object) -> str:
    """A value as JSON, cut to a length that suits a message."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}…"
