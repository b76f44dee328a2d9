"""Reading arguments: every type, every bound, every message."""

from collections.abc import Mapping

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.decay import Horizon
from crux.errors import InvalidArgument
from crux.tools.schema import arg, input_schema, parameters_of, parser_of, shortened


@frozen
class Wishes:
    most: int | None = arg("At most so many", default=None, at_least=0, declare_least=True)
    name: str = arg("A name", default="x", declare_default=False)
    secret: str | None = arg("Not listed", default=None, hidden=True)


@frozen
class Named:
    name: str = arg("A name")


@frozen
class Nested:
    wishes: Wishes = arg("Wishes", default=Wishes(), declare_default=False, additional_properties=False)
    one: Named | None = arg("One", default=None)


NESTED = parameters_of(Nested)
parse_nested = parser_of(Nested, NESTED)


@frozen
class Arguments:
    name: str = arg("A name")
    count: int = arg("How many", default=10, at_least=1, clamp=100)
    share: float = arg("How much", default=1.0, within=(0.0, 1.0))
    flag: bool = arg("Whether", default=False)
    horizon: Horizon | None = arg("Which", default=None)
    tags: tuple[str, ...] = arg("Tags", default=(), declare_default=False)
    secret: str | None = arg("Not listed", default=None, hidden=True)


PARAMETERS = parameters_of(Arguments)
parse = parser_of(Arguments, PARAMETERS)


@pytest.mark.parametrize(
    ("given_arguments", "message"),
    [
        ({}, "'name' is required: a string (A name)"),
        ({"name": None}, "'name' is required: a string (A name)"),
        ({"name": 7}, "'name' must be a string, got 7"),
        ({"name": ["a"]}, "'name' must be a string, got [\"a\"]"),
        ({"name": "n", "count": "10"}, "'count' must be an integer, at least 1, got \"10\""),
        ({"name": "n", "count": 0}, "'count' must be an integer, at least 1, got 0"),
        ({"name": "n", "count": 1.5}, "'count' must be an integer, at least 1, got 1.5"),
        ({"name": "n", "count": True}, "'count' must be an integer, at least 1, got true"),
        ({"name": "n", "share": -0.01}, "'share' must be a number from 0 to 1, got -0.01"),
        ({"name": "n", "share": 1.01}, "'share' must be a number from 0 to 1, got 1.01"),
        (
            {"name": "n", "share": 10**400},
            "'share' must be a number from 0 to 1, got 1000000000000000000000000000000000000000…",
        ),
        ({"name": "n", "share": "1"}, "'share' must be a number from 0 to 1, got \"1\""),
        ({"name": "n", "flag": 1}, "'flag' must be true or false, got 1"),
        ({"name": "n", "flag": "true"}, "'flag' must be true or false, got \"true\""),
        ({"name": "n", "horizon": "soon"}, "'horizon' must be one of volatile, medium, stable, none, got \"soon\""),
        ({"name": "n", "horizon": 3}, "'horizon' must be one of volatile, medium, stable, none, got 3"),
        ({"name": "n", "tags": "a"}, "'tags' must be an array of strings, got \"a\""),
        ({"name": "n", "tags": ["a", 1]}, "'tags' must be an array of strings, got [\"a\",1]"),
        ([1], "'arguments' must be an object, got [1]"),
        ("x", "'arguments' must be an object, got \"x\""),
    ],
)
def test_what_is_wrong_is_refused_by_name(given_arguments: object, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse(given_arguments)
    assert caught.value.message == message


def test_a_refusal_holds_what_was_expected_and_of_an_enum_each_name() -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse({"name": "n", "horizon": "soon"})
    names = ["volatile", "medium", "stable", "none"]
    assert caught.value.data == {"param": "horizon", "expected": f"one of {', '.join(names)}", "allowed": names}
    with pytest.raises(InvalidArgument) as caught:
        parse({"name": 7})
    assert caught.value.data == {"param": "name", "expected": "a string"}


def test_an_enum_s_own_class_says_how_a_member_may_be_spelt() -> None:
    assert parse({"name": "n", "horizon": " MEDIUM\n"}).horizon is Horizon.MEDIUM


@pytest.mark.parametrize(("value", "read"), [(1, 1), (100, 100), (101, 100), (10**30, 100), (5.0, 5), (None, 10)])
def test_an_integer_above_its_clamp_becomes_the_clamp(value: object, read: int) -> None:
    assert parse({"name": "n", "count": value}).count == read


@pytest.mark.parametrize("share", [0, 0.0, 0.5, 1, 1.0])
def test_the_ends_of_a_range_belong_to_it(share: float) -> None:
    assert parse({"name": "n", "share": share}).share == share


def test_null_is_the_same_as_absent_and_unknown_arguments_are_ignored() -> None:
    assert parse({"name": "n", "count": None, "tags": None, "whatever": object}) == Arguments("n")


def test_every_type_is_read_as_itself() -> None:
    given_arguments = {
        "name": "n", "count": 2, "share": 0.5, "flag": True, "horizon": "stable", "tags": ["a", "b"], "secret": "s",
    }  # fmt: skip
    assert parse(given_arguments) == Arguments("n", 2, 0.5, True, Horizon.STABLE, ("a", "b"), "s")


def test_the_schema_lists_what_may_be_sent() -> None:
    assert input_schema(PARAMETERS, [{"name": "x"}]) == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "A name"},
            "count": {"type": "integer", "description": "How many", "default": 10},
            "share": {"type": "number", "description": "How much", "default": 1.0},
            "flag": {"type": "boolean", "description": "Whether", "default": False},
            "horizon": {
                "type": "string",
                "enum": ["volatile", "medium", "stable", "none"],
                "description": "Which",
            },
            "tags": {"type": "array", "items": {"type": "string"}, "description": "Tags"},
        },
        "required": ["name"],
        "examples": [{"name": "x"}],
    }


@pytest.mark.parametrize(
    ("given_arguments", "read"),
    [
        ({}, Nested()),
        ({"wishes": None, "one": None}, Nested()),
        ({"wishes": {}}, Nested()),
        ({"wishes": {"most": None, "whatever": 1}, "whatever": {}}, Nested()),
        ({"wishes": {"most": 0, "secret": "s"}, "one": {"name": "n"}}, Nested(Wishes(0, "x", "s"), Named("n"))),
    ],
)
def test_an_object_is_read_as_arguments_are(given_arguments: object, read: Nested) -> None:
    assert parse_nested(given_arguments) == read


@pytest.mark.parametrize(
    ("given_arguments", "param", "message"),
    [
        ({"wishes": []}, "wishes", "'wishes' must be an object, got []"),
        ({"wishes": "x"}, "wishes", "'wishes' must be an object, got \"x\""),
        ({"wishes": {"most": -1}}, "wishes.most", "'wishes.most' must be an integer, at least 0, got -1"),
        ({"wishes": {"most": True}}, "wishes.most", "'wishes.most' must be an integer, at least 0, got true"),
        ({"one": {}}, "one.name", "'one.name' is required: a string (A name)"),
    ],
)
def test_what_is_wrong_within_an_object_is_refused_by_its_path(
    given_arguments: object, param: str, message: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_nested(given_arguments)
    assert caught.value.message == message
    assert caught.value.data is not None
    assert caught.value.data["param"] == param


def test_an_object_is_listed_with_its_members_and_closed_where_it_is_declared_so() -> None:
    assert input_schema(NESTED, [{}], additional_properties=False) == {
        "type": "object",
        "properties": {
            "wishes": {
                "type": "object",
                "properties": {
                    "most": {"type": "integer", "description": "At most so many", "minimum": 0},
                    "name": {"type": "string", "description": "A name"},
                },
                "description": "Wishes",
                "additionalProperties": False,
            },
            "one": {
                "type": "object",
                "properties": {"name": {"type": "string", "description": "A name"}},
                "required": ["name"],
                "description": "One",
            },
        },
        "additionalProperties": False,
        "examples": [{}],
    }


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from([parameter.name for parameter in PARAMETERS]), json_values) | json_values)
def test_arguments_are_read_or_refused_and_nothing_else(arguments: object) -> None:
    try:
        read = parse(arguments)
    except InvalidArgument:
        return
    assert isinstance(read, Arguments)
    assert 1 <= read.count <= 100
    assert 0 <= read.share <= 1


def test_a_long_value_is_shortened_in_a_message() -> None:
    assert shortened("x" * 100) == '"' + "x" * 39 + "…"


@frozen
class Record:
    payload: Mapping[str, object] = arg("Any members")


def test_an_object_of_any_members_is_read_as_it_is() -> None:
    parameters = parameters_of(Record)
    assert input_schema(parameters, [{}])["properties"] == {"payload": {"type": "object", "description": "Any members"}}
    parse_record = parser_of(Record, parameters)
    assert parse_record({"payload": {"a": [1, None]}}).payload == {"a": [1, None]}
    with pytest.raises(InvalidArgument, match=r"'payload' must be an object, got \[1\]"):
        parse_record({"payload": [1]})
