import json
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.manifests import (
    MOST_ITEMS,
    MOST_JSON_BYTES,
    MOST_MANIFEST_BYTES,
    MOST_TEXT_BYTES,
    DataAccess,
    Entry,
    EntryKind,
    Hashes,
    Json,
    Manifest,
    Network,
    Safety,
    Sandbox,
    Signature,
    ToolDeclaration,
    manifest_document,
    policy_document,
    read_manifest,
)
from crux.errors import InvalidArgument

MOST_U64 = 2**64 - 1

# The manifest that the seed prints.
QUOTE: dict[str, Any] = {
    "schema": "crux.integration.v1",
    "id": "ext.example.quote",
    "name": "Quote of the Day",
    "version": "0.1.0",
    "publisher_passport_fpr": "p_community_alice",
    "summary": "Returns a quote and records it as a fact.",
    "entry": {"kind": "external_tool", "path": "tools/quote.json"},
    "capabilities": ["facts:read", "facts:write"],
    "network": {"allowed_hosts": ["tools.example.com:443"]},
    "safety": {"sandbox": "none", "max_runtime_ms": 3000, "max_output_bytes": 65536},
    "external_tool_endpoint": "https://tools.example.com/crux/invoke",
    "tools": [
        {
            "name": "ext.example.quote.daily",
            "description": "Return today's quote.",
            "input_schema": {"type": "object", "properties": {"topic": {"type": "string"}}},
        }
    ],
}
TOOL = QUOTE["tools"][0]
BARE: dict[str, Any] = {
    name: QUOTE[name] for name in ("schema", "id", "name", "version", "publisher_passport_fpr", "summary")
} | {"entry": {"kind": "sdk_recipe", "path": "p"}}
DEFAULTS = {
    "capabilities": [],
    "network": {"allowed_hosts": [], "requires_user_token": False},
    "data_access": {"tenant_scopes": ["selected"], "content_preview": False, "private_facts": False},
    "safety": {"sandbox": "none", "max_runtime_ms": 0, "max_output_bytes": 0},
}

texts = st.text(max_size=8)
flags = st.booleans()
numbers = st.integers(0, MOST_U64)
several = st.lists(texts, max_size=3).map(tuple)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | flags | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
schemas = values.map(lambda value: Json(msgspec.json.encode(value).decode()))
tools = st.builds(
    ToolDeclaration,
    name=texts,
    description=texts,
    input_schema=schemas,
    # `null` stands for its absence, as it does for all that may be absent.
    consequence_metadata=st.none() | schemas.filter(lambda own: own.text != "null"),
    auth_shared_secret_id=st.none() | texts,
)
manifests = st.builds(
    Manifest,
    schema=texts,
    id=texts,
    name=texts,
    version=texts,
    publisher_passport_fpr=texts,
    summary=texts,
    entry=st.builds(Entry, st.sampled_from(EntryKind), texts),
    capabilities=several,
    network=st.builds(Network, several, flags),
    data_access=st.builds(DataAccess, several, flags, flags),
    safety=st.builds(Safety, st.sampled_from(Sandbox), numbers, numbers),
    hashes=st.builds(Hashes, st.none() | texts, st.none() | texts),
    signature=st.none() | st.builds(Signature, texts, texts, texts, st.none() | texts),
    external_tool_endpoint=st.none() | texts,
    tools=st.lists(tools, max_size=3).map(tuple),
    wasm_module_path=st.none() | texts,
    wasm_module_url=st.none() | texts,
    wasm_module_sha256=st.none() | texts,
)


def with_tool(**changes: Any) -> dict[str, Any]:
    return QUOTE | {"tools": [TOOL | changes]}


def refusal(value: object) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as raised:
        read_manifest(value)
    return raised.value


def test_the_manifest_of_the_seed_is_read_whole() -> None:
    assert read_manifest(QUOTE) == Manifest(
        schema="crux.integration.v1",
        id="ext.example.quote",
        name="Quote of the Day",
        version="0.1.0",
        publisher_passport_fpr="p_community_alice",
        summary="Returns a quote and records it as a fact.",
        entry=Entry(EntryKind.EXTERNAL_TOOL, "tools/quote.json"),
        capabilities=("facts:read", "facts:write"),
        network=Network(("tools.example.com:443",)),
        safety=Safety(Sandbox.NONE, 3000, 65536),
        external_tool_endpoint="https://tools.example.com/crux/invoke",
        tools=(
            ToolDeclaration(
                "ext.example.quote.daily",
                "Return today's quote.",
                Json('{"type":"object","properties":{"topic":{"type":"string"}}}'),
            ),
        ),
    )


@given(manifests)
def test_what_is_shown_is_read_as_the_same_manifest(manifest: Manifest) -> None:
    document = manifest_document(manifest)
    assert read_manifest(document) == manifest
    assert read_manifest(msgspec.json.decode(msgspec.json.encode(document))) == manifest


@given(manifests)
def test_what_is_signed_is_shown_first_and_as_it_is_signed(manifest: Manifest) -> None:
    policy = policy_document(manifest)
    assert list(manifest_document(manifest).items())[: len(policy)] == list(policy.items())


def test_defaults_are_shown_and_absent_members_are_not() -> None:
    assert manifest_document(read_manifest(BARE)) == BARE | DEFAULTS


def test_members_that_are_present_are_shown() -> None:
    signature = {"alg": "a", "passport_fpr": "f", "sig": "s"}
    given = with_tool(consequence_metadata={"a": 1}, auth_shared_secret_id="s") | {
        "hashes": {"bundle": "b"},
        "signature": signature,
        "wasm_module_path": "p",
        "wasm_module_url": "u",
        "wasm_module_sha256": "h",
    }
    assert manifest_document(read_manifest(given)) == DEFAULTS | given | {
        "network": {"allowed_hosts": ["tools.example.com:443"], "requires_user_token": False}
    }


def test_unknown_members_are_dropped_at_every_level() -> None:
    given = with_tool(colour="red") | {"colour": 1, "entry": QUOTE["entry"] | {"colour": None}}
    given["network"] = QUOTE["network"] | {"colour": []}
    assert read_manifest(given) == read_manifest(QUOTE)


@pytest.mark.parametrize(
    "name",
    sorted(field.name for field in attrs.fields(Manifest) if field.default is not attrs.NOTHING),
)
def test_null_is_the_absence_of_what_may_be_absent(name: str) -> None:
    without = {key: value for key, value in QUOTE.items() if key != name}
    assert read_manifest(QUOTE | {name: None}) == read_manifest(without)


@pytest.mark.parametrize("block", ["network", "data_access", "safety", "hashes"])
def test_null_inside_a_block_is_an_absence_too(block: str) -> None:
    fields = attrs.fields(type(getattr(read_manifest(BARE), block)))
    assert read_manifest(BARE | {block: {field.name: None for field in fields}}) == read_manifest(BARE)


def test_a_schema_may_be_any_json_and_keeps_the_order_of_its_members() -> None:
    (tool,) = read_manifest(with_tool(input_schema={"b": 1, "a": [1.5, None, "é"]})).tools
    assert tool.input_schema.text == '{"b":1,"a":[1.5,null,"é"]}'
    assert read_manifest(with_tool(input_schema=None)).tools[0].input_schema == Json("null")


@pytest.mark.parametrize("name", sorted(BARE))
def test_what_must_be_there_is_missed_by_name(name: str) -> None:
    error = refusal({key: value for key, value in QUOTE.items() if key != name})
    assert (error.message, error.status, error.data) == (f"field '{name}' is required", 400, {"param": name})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"entry": {"path": "p"}}, "field 'entry.kind' is required"),
        ({"entry": {"kind": "wasm"}}, "field 'entry.path' is required"),
        ({"signature": {"passport_fpr": "f", "sig": "s"}}, "field 'signature.alg' is required"),
        ({"signature": {"alg": "a", "sig": "s"}}, "field 'signature.passport_fpr' is required"),
        ({"signature": {"alg": "a", "passport_fpr": "f"}}, "field 'signature.sig' is required"),
        ({"tools": [TOOL, {"description": "d", "input_schema": {}}]}, "field 'tools[1].name' is required"),
        ({"tools": [TOOL, {"name": "n", "input_schema": {}}]}, "field 'tools[1].description' is required"),
        ({"tools": [TOOL, {"name": "n", "description": "d"}]}, "field 'tools[1].input_schema' is required"),
        ({"id": 5}, "field 'id' must be a string, got a number"),
        ({"id": None}, "field 'id' must be a string, got null"),
        ({"summary": True}, "field 'summary' must be a string, got a boolean"),
        ({"external_tool_endpoint": {}}, "field 'external_tool_endpoint' must be a string, got an object"),
        ({"entry": "x"}, "field 'entry' must be an object, got a string"),
        ({"entry": {"kind": 1, "path": "p"}}, "field 'entry.kind' must be a string, got a number"),
        ({"safety": {"sandbox": "vm"}}, "field 'safety.sandbox' must be one of none, command, wasm"),
        ({"tools": {}}, "field 'tools' must be a list, got an object"),
        ({"tools": [1]}, "field 'tools[0]' must be an object, got a number"),
        ({"capabilities": "facts:read"}, "field 'capabilities' must be a list, got a string"),
        ({"network": {"allowed_hosts": ["a", 1]}}, "field 'network.allowed_hosts[1]' must be a string, got a number"),
        ({"network": []}, "field 'network' must be an object, got a list"),
        (
            {"network": {"requires_user_token": 1}},
            "field 'network.requires_user_token' must be true or false, got a number",
        ),
        (
            {"data_access": {"private_facts": "yes"}},
            "field 'data_access.private_facts' must be true or false, got a string",
        ),
        ({"safety": {"max_runtime_ms": True}}, "field 'safety.max_runtime_ms' must be a whole number, got a boolean"),
        ({"safety": {"max_runtime_ms": "5"}}, "field 'safety.max_runtime_ms' must be a whole number, got a string"),
        ({"safety": {"max_runtime_ms": 1.0}}, "field 'safety.max_runtime_ms' must be a whole number, got a number"),
        ({"safety": {"max_output_bytes": -1}}, f"field 'safety.max_output_bytes' must be from 0 to {MOST_U64}"),
        (
            {"safety": {"max_output_bytes": MOST_U64 + 1}},
            f"field 'safety.max_output_bytes' must be from 0 to {MOST_U64}",
        ),
        ({"id": 5, "name": 5}, "field 'id' must be a string, got a number"),
    ],
)
def test_a_refusal_names_the_first_member_and_what_it_must_be(change: dict[str, Any], message: str) -> None:
    error = refusal(QUOTE | change)
    assert error.message == message
    assert error.data == {"param": message.split("'")[1]}


def test_an_unknown_kind_is_told_the_known_ones() -> None:
    assert refusal(QUOTE | {"entry": {"kind": "daemon", "path": "p"}}).message == (
        f"field 'entry.kind' must be one of {', '.join(EntryKind)}"
    )


@pytest.mark.parametrize(
    ("value", "kind"), [(None, "null"), ("x", "a string"), ([QUOTE], "a list"), (1, "a number"), (True, "a boolean")]
)
def test_a_manifest_is_an_object(value: object, kind: str) -> None:
    error = refusal(value)
    assert (error.message, error.data) == (f"a manifest must be an object, got {kind}", {"param": "a manifest"})


def test_numbers_go_up_to_64_bits() -> None:
    assert read_manifest(QUOTE | {"safety": {"max_runtime_ms": MOST_U64}}).safety.max_runtime_ms == MOST_U64


@pytest.mark.parametrize(
    ("path", "fine", "name"),
    [
        ("tools", [TOOL] * MOST_ITEMS, "tools"),
        ("capabilities", ["x"] * MOST_ITEMS, "capabilities"),
        ("network", {"allowed_hosts": ["x"] * MOST_ITEMS}, "network.allowed_hosts"),
        ("data_access", {"tenant_scopes": ["x"] * MOST_ITEMS}, "data_access.tenant_scopes"),
    ],
)
def test_a_list_has_a_greatest_length(path: str, fine: Any, name: str) -> None:
    read_manifest(QUOTE | {path: fine})
    (items,) = [fine] if isinstance(fine, list) else fine.values()
    items.append(items[0])
    assert refusal(QUOTE | {path: fine}).message == (
        f"field '{name}' must have at most {MOST_ITEMS} items, got {MOST_ITEMS + 1}"
    )


def test_a_text_has_a_greatest_size_in_bytes() -> None:
    fine = "é" * (MOST_TEXT_BYTES // 2)
    read_manifest(with_tool(description=fine))
    assert refusal(with_tool(description=fine + "x")).message == (
        f"field 'tools[0].description' must have at most {MOST_TEXT_BYTES} bytes of UTF-8, got {MOST_TEXT_BYTES + 1}"
    )


@pytest.mark.parametrize("name", ["input_schema", "consequence_metadata"])
def test_free_json_has_a_greatest_size(name: str) -> None:
    fine = "x" * (MOST_JSON_BYTES - 2)
    read_manifest(with_tool(**{name: fine}))
    assert refusal(with_tool(**{name: fine + "x"})).message == (
        f"field 'tools[0].{name}' must have at most {MOST_JSON_BYTES} bytes as compact JSON, got {MOST_JSON_BYTES + 1}"
    )


def test_a_manifest_has_a_greatest_size_with_its_defaults_and_without_what_is_dropped() -> None:
    def filled(room: int) -> dict[str, Any]:
        return QUOTE | {"tools": [TOOL | {"input_schema": "x" * 65_000}] * 16 + [TOOL | {"input_schema": "x" * room}]}

    empty = (
        DEFAULTS | filled(0) | {"network": {"allowed_hosts": ["tools.example.com:443"], "requires_user_token": False}}
    )
    room = MOST_MANIFEST_BYTES - len(json.dumps(empty, separators=(",", ":")))
    largest = read_manifest(filled(room) | {"dropped": "x" * MOST_MANIFEST_BYTES})
    assert read_manifest(manifest_document(largest)) == largest
    assert refusal(filled(room + 1)).message == (
        f"a manifest must have at most {MOST_MANIFEST_BYTES} bytes as compact JSON, got {MOST_MANIFEST_BYTES + 1}"
    )


@pytest.mark.parametrize(
    ("kind", "spoken"),
    [(EntryKind.HTTP_RECIPE, "HttpRecipe"), (EntryKind.WASM, "Wasm"), (EntryKind.MCP_CONFIG, "McpConfig")],
)
def test_a_kind_has_a_name_for_refusals(kind: EntryKind, spoken: str) -> None:
    assert kind.spoken == spoken
