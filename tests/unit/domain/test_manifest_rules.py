import base64
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.bounds import NAME_SHOWN
from crux.domain.extensions import TrustedKey, TrustTier
from crux.domain.manifest_rules import (
    CAPABILITIES,
    check_extension_id,
    check_tool_names,
    folded,
    schemas_fault,
    validate,
)
from crux.domain.manifest_signing import manifest_hash, signing_payload
from crux.domain.manifests import (
    Entry,
    EntryKind,
    Hashes,
    Json,
    Manifest,
    ManifestRefused,
    Signature,
    ToolDeclaration,
)
from crux.domain.tool_schemas import MOST_VALUES
from crux.errors import InvalidArgument
from tests.manifests import PUBLIC_KEY_HEX as PUBLIC
from tests.manifests import SIGNER as ALICE
from tests.manifests import SIGNING_KEY as KEY

TOOL = ToolDeclaration("ext.a.t", "d", Json('{"type":"object"}'))
BARE = Manifest(
    schema="crux.integration.v1",
    id="ext.a",
    name="A",
    version="1",
    publisher_passport_fpr="p",
    summary="",
    entry=Entry(EntryKind.SDK_RECIPE, "t.json"),
)
PROXIED = attrs.evolve(
    BARE,
    entry=Entry(EntryKind.EXTERNAL_TOOL, "t.json"),
    external_tool_endpoint="https://a.example/",
    tools=(TOOL,),
)
WASM = attrs.evolve(
    BARE,
    entry=Entry(EntryKind.WASM, "t.json"),
    tools=(TOOL,),
    wasm_module_sha256="0a" * 32,
    wasm_module_path="extension.wasm",
)
WASM_BY_URL = attrs.evolve(WASM, wasm_module_path=None, wasm_module_url="https://a.example/m.wasm")
RECIPES = [
    kind for kind in EntryKind if kind not in {EntryKind.EXTERNAL_TOOL, EntryKind.WASM, EntryKind.EXTERNAL_HELPER}
]

NO_TOOL = "invalid identifier 'tools only valid when entry.kind=external_tool or wasm'"
NO_ENDPOINT = "invalid identifier 'external_tool_endpoint only valid when entry.kind=external_tool'"
NO_MODULE = "invalid identifier 'wasm_module_* fields only valid when entry.kind=wasm'"
UNSIGNED = (
    "field 'signature' is required: sign the manifest with a trusted key, or set "
    "CORECRUXD_EXTENSIONS_ALLOW_UNSIGNED=1 to install unsigned ones while you develop"
)
SHORT = 400


def keyring(tier: TrustTier = TrustTier.COMMUNITY_REVIEWED) -> dict[str, TrustedKey]:
    return {ALICE: TrustedKey(PUBLIC, tier, 0)}


def signed(manifest: Manifest) -> Manifest:
    """As a signing tool leaves it: with the signature and the hash."""
    sig = base64.b64encode(KEY.sign(signing_payload(manifest))).decode()
    return attrs.evolve(
        manifest, signature=Signature("ed25519", ALICE, sig), hashes=Hashes(manifest=manifest_hash(manifest))
    )


def refusal(manifest: Manifest, *, allow_unsigned: bool = True) -> str:
    with pytest.raises(ManifestRefused) as raised:
        validate(manifest, keyring(), allow_unsigned=allow_unsigned)
    assert isinstance(raised.value, InvalidArgument)
    assert raised.value.status == 400
    return raised.value.message


def required(field: str) -> str:
    return f"field '{field}' is required"


def tools(**changes: Any) -> dict[str, Any]:
    return {"tools": (TOOL, attrs.evolve(TOOL, **changes))}


# Each row breaks one rule; the rows of one table stand in the order in which the rules are tried.
COMMON: list[tuple[dict[str, Any], str]] = [
    ({"schema": "crux.integration.v2"}, "invalid schema 'crux.integration.v2', expected 'crux.integration.v1'"),
    ({"id": " "}, required("id")),
    ({"name": "\t\n"}, required("name")),
    ({"version": ""}, required("version")),
    ({"publisher_passport_fpr": ""}, required("publisher_passport_fpr")),
    ({"id": "ext a"}, "invalid identifier 'ext a'"),
    ({"entry": Entry(EntryKind.EXTERNAL_HELPER, " ")}, required("entry.path")),
    (
        {"capabilities": ("facts:read", "facts:fly", "x")},
        f"unknown capability 'facts:fly', known are {', '.join(CAPABILITIES)}",
    ),
]
HASH = (
    {"hashes": Hashes(manifest="blake3:00")},
    "manifest hash mismatch: expected 'blake3:00', actual '{}'",
)
EXTERNAL: list[tuple[dict[str, Any], str]] = [
    ({"external_tool_endpoint": None}, required("external_tool_endpoint")),
    (
        {"external_tool_endpoint": "HTTPS://a"},
        "invalid identifier 'external_tool_endpoint must be an http(s) URL, got 'HTTPS://a''",
    ),
    ({"tools": ()}, required("tools")),
    ({"wasm_module_sha256": ""}, NO_MODULE),
]
MODULE: list[tuple[dict[str, Any], str]] = [
    ({"tools": ()}, required("tools")),
    ({"external_tool_endpoint": ""}, NO_ENDPOINT),
    ({"wasm_module_sha256": None}, required("wasm_module_sha256")),
    ({"wasm_module_path": None}, required("wasm_module_path or wasm_module_url")),
]
NEITHER: list[tuple[dict[str, Any], str]] = [
    ({"external_tool_endpoint": ""}, NO_ENDPOINT),
    ({"tools": (TOOL,)}, NO_TOOL),
    ({"wasm_module_path": ""}, NO_MODULE),
]
ORDERS = [(PROXIED, [*COMMON, *EXTERNAL, HASH]), (WASM, [*COMMON, *MODULE, HASH]), (BARE, [*COMMON, *NEITHER, HASH])]


def worded(message: str, manifest: Manifest) -> str:
    return message.format(manifest_hash(manifest)) if "mismatch" in message else message


@pytest.mark.parametrize(
    ("good", "change", "message"),
    [(good, change, message) for good, rows in ORDERS for change, message in rows]
    + [
        (PROXIED, {"external_tool_endpoint": " \n"}, required("external_tool_endpoint")),
        (
            PROXIED,
            {"external_tool_endpoint": "ftp://a"},
            "invalid identifier 'external_tool_endpoint must be an http(s) URL, got 'ftp://a''",
        ),
        (PROXIED, tools(name=" "), required("tools[].name")),
        (PROXIED, tools(description=" "), required("tools[].description")),
        (PROXIED, tools(name="", description=""), required("tools[].name")),
        (PROXIED, {"wasm_module_path": ""}, NO_MODULE),
        (PROXIED, {"wasm_module_url": ""}, NO_MODULE),
        (WASM, tools(name=" "), required("tools[].name")),
        (WASM, tools(description=" "), required("tools[].description")),
        (
            WASM,
            tools(auth_shared_secret_id="s"),
            "invalid identifier 'tools[].auth_shared_secret_id only valid when entry.kind=external_tool'",
        ),
        (WASM, {"wasm_module_sha256": " "}, required("wasm_module_sha256")),
        *(
            (
                WASM,
                {"wasm_module_sha256": text},
                f"invalid identifier 'wasm_module_sha256 must be 64 lowercase hex digits, got '{text}''",
            )
            for text in ("0A" * 32, "0a" * 31 + "0", "0a" * 32 + "0", "0g" * 32, "0a" * 32 + "\n")
        ),
        (WASM, {"wasm_module_path": " "}, required("wasm_module_path")),
        *(
            (
                WASM,
                {"wasm_module_path": path},
                f"invalid identifier 'wasm_module_path must be relative and without '..', got '{path}''",
            )
            for path in ("/m.wasm", "..", "a/../m.wasm")
        ),
        (
            WASM,
            {"wasm_module_url": "https://a"},
            "invalid identifier 'wasm_module_path and wasm_module_url exclude each other'",
        ),
        *(
            (
                WASM_BY_URL,
                {"wasm_module_url": url},
                f"invalid identifier 'wasm_module_url must be an https URL, got '{url}''",
            )
            for url in ("http://a", "HTTPS://a", "")
        ),
        *((BARE, {"id": text}, f"invalid identifier '{text}'") for text in ("a/b", "é", "a\n", "a b", "a:b")),
        (BARE, {"wasm_module_url": ""}, NO_MODULE),
        (BARE, {"wasm_module_sha256": ""}, NO_MODULE),
        (
            BARE,
            {"entry": Entry(EntryKind.EXTERNAL_HELPER, "x")},
            "executable helpers are disabled: entry.kind 'external_helper' cannot be installed",
        ),
    ],
)
def test_a_broken_rule_is_told_in_the_words_of_the_seed(good: Manifest, change: dict[str, Any], message: str) -> None:
    validate(good, {}, allow_unsigned=True)
    broken = attrs.evolve(good, **change)
    assert refusal(broken) == worded(message, broken)


@pytest.mark.parametrize(
    ("good", "first", "second"),
    [
        (good, rows[at], later)
        for good, rows in ORDERS
        for at in range(len(rows))
        for later in rows[at + 1 :]
        if not rows[at][0].keys() & later[0].keys()
    ],
)
def test_of_two_broken_rules_the_first_is_told(
    good: Manifest, first: tuple[dict[str, Any], str], second: tuple[dict[str, Any], str]
) -> None:
    broken = attrs.evolve(good, **first[0], **second[0])
    assert refusal(broken) == worded(first[1], broken)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        # A capability before the helper's refusal, the helper's before what any kind may have.
        (
            {"entry": Entry(EntryKind.EXTERNAL_HELPER, "x"), "capabilities": ("x",)},
            f"unknown capability 'x', known are {', '.join(CAPABILITIES)}",
        ),
        (
            {"entry": Entry(EntryKind.EXTERNAL_HELPER, "x"), "tools": (TOOL,), "hashes": Hashes("x")},
            "executable helpers are disabled: entry.kind 'external_helper' cannot be installed",
        ),
        # A wrong hash before the signature.
        (
            {"hashes": Hashes("x"), "signature": Signature("rsa", "x", "x")},
            f"manifest hash mismatch: expected 'x', actual '{manifest_hash(BARE)}'",
        ),
        ({"signature": Signature("rsa", "x", "x")}, "signature.alg must be 'ed25519', got 'rsa'"),
    ],
)
def test_the_order_holds_across_the_kinds(change: dict[str, Any], message: str) -> None:
    assert refusal(attrs.evolve(BARE, **change)) == message


def test_the_secret_of_a_wasm_tool_is_told_with_its_tool_before_the_endpoint() -> None:
    broken = attrs.evolve(WASM, **tools(auth_shared_secret_id="s"), external_tool_endpoint="x", wasm_module_sha256=None)
    assert "auth_shared_secret_id" in refusal(broken)
    assert refusal(attrs.evolve(broken, tools=(attrs.evolve(TOOL, description=""), *broken.tools))) == required(
        "tools[].description"
    )


@pytest.mark.parametrize(
    "manifest",
    [
        PROXIED,
        WASM,
        WASM_BY_URL,
        *(attrs.evolve(BARE, entry=Entry(kind, "anything at all")) for kind in RECIPES),
        attrs.evolve(PROXIED, external_tool_endpoint="http://plain.example"),
        attrs.evolve(PROXIED, tools=(attrs.evolve(TOOL, auth_shared_secret_id="s"),)),
        attrs.evolve(BARE, id="A-Z_0.9"),
        attrs.evolve(BARE, capabilities=CAPABILITIES + CAPABILITIES),
        attrs.evolve(BARE, publisher_passport_fpr="cuecrux:first-party"),
        attrs.evolve(BARE, hashes=Hashes(manifest_hash(BARE), "anything")),
    ],
)
def test_a_manifest_that_keeps_the_rules_is_taken_unsigned_only_where_that_is_allowed(manifest: Manifest) -> None:
    assert validate(manifest, {}, allow_unsigned=True) is TrustTier.UNKNOWN
    assert refusal(manifest, allow_unsigned=False) == UNSIGNED


@pytest.mark.parametrize("allow_unsigned", [True, False])
@pytest.mark.parametrize("tier", TrustTier)
@pytest.mark.parametrize("manifest", [PROXIED, WASM, BARE])
def test_a_signed_manifest_has_the_tier_of_its_key(manifest: Manifest, tier: TrustTier, allow_unsigned: bool) -> None:
    assert validate(signed(manifest), keyring(tier), allow_unsigned=allow_unsigned) is tier


@pytest.mark.parametrize("allow_unsigned", [True, False])
def test_a_signature_that_is_there_has_to_hold_whatever_is_allowed(allow_unsigned: bool) -> None:
    manifest = signed(PROXIED)
    other = attrs.evolve(manifest, summary="other", hashes=Hashes())
    assert "does not verify" in refusal(other, allow_unsigned=allow_unsigned)
    with pytest.raises(ManifestRefused, match="no trusted key"):
        validate(manifest, {}, allow_unsigned=allow_unsigned)


def test_there_are_fourteen_capabilities() -> None:
    assert len(set(CAPABILITIES)) == len(CAPABILITIES) == 14
    assert {"admin:read", "facts:private:read", "tenant:content:preview"} <= set(CAPABILITIES)


def test_a_refusal_repeats_no_more_than_the_start_of_a_long_text() -> None:
    assert len(refusal(attrs.evolve(PROXIED, external_tool_endpoint="x" * 8000))) < SHORT
    assert refusal(attrs.evolve(PROXIED, id="é" * 8000)) == f"invalid identifier '{'é' * NAME_SHOWN}'"


@pytest.mark.parametrize("text", ["a", "x" * 128, "ext.example-1_quote", "...", "key", "registry2"])
def test_an_id_is_taken(text: str) -> None:
    check_extension_id(text)


@pytest.mark.parametrize("text", ["", "x" * 129, "Ext.a", "a b", "a/b", "a:b", "é", "a\n", "a%2e"])
def test_an_id_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="must be 1 to 128 of a-z, 0-9") as raised:
        check_extension_id(text)
    assert raised.value.status == 400


@pytest.mark.parametrize("text", ["keys", "registry", "register", "install-from-registry", ".", ".."])
def test_an_id_that_urls_have_another_use_for_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="stands for something else in URLs"):
        check_extension_id(text)


def named(*names: str) -> Manifest:
    return attrs.evolve(PROXIED, tools=tuple(attrs.evolve(TOOL, name=name) for name in names))


def collision(manifest: Manifest, builtins: tuple[str, ...] = (), others: dict[str, str] | None = None) -> str:
    with pytest.raises(ManifestRefused) as raised:
        check_tool_names(manifest, builtins, others or {})
    return raised.value.message


@pytest.mark.parametrize("name", ["store_fact", "Ext.a", "ext_a", "ext", "ext.", " ext.a"])
def test_a_tool_of_an_extension_says_so_in_its_name(name: str) -> None:
    assert collision(named("ext.a.t", name)) == f"tool '{name}' must have a name that starts with 'ext.'"


@pytest.mark.parametrize("name", ["ext.a.b", "ext.a-b", "ext.a_b", "ext-a-b"])
def test_a_tool_has_no_name_of_another_also_after_folding(name: str) -> None:
    as_one = "'-', '.' and '_' count as the same"
    assert collision(named("ext.a.b"), builtins=("query", name)) == (
        f"tool 'ext.a.b' has the name of the built-in tool '{name}': {as_one}"
    )
    assert collision(named("ext.a.b"), others={"ext.x": "ext.o", name: "ext.o"}) == (
        f"tool 'ext.a.b' has the name of '{name}' of extension 'ext.o': {as_one}"
    )


@pytest.mark.parametrize("name", ["ext.a.b", "ext.a-b", "ext.a_b"])
def test_a_manifest_has_no_two_tools_of_one_name(name: str) -> None:
    assert collision(named("ext.a.b", "ext.a", name)) == (
        f"tool '{name}' has the name of 'ext.a.b' of this manifest: '-', '.' and '_' count as the same"
    )


def test_names_that_differ_are_taken() -> None:
    check_tool_names(named("ext.a.b", "ext.a.c", "ext.A.b"), ("query", "a_b"), {"ext.a.d": "ext.o"})
    check_tool_names(BARE, ("query",), {"ext.a": "ext.o"})


@given(st.text("ab-._", max_size=8), st.text("ab-._", max_size=8))
def test_names_fold_alike_if_they_differ_in_separators_only(one: str, other: str) -> None:
    alike = len(one) == len(other) and all(a == b or {a, b} <= set("-._") for a, b in zip(one, other, strict=True))
    assert (folded(one) == folded(other)) == alike
    assert folded(folded(one)) == folded(one)


TAKEN = {"type": "object"}


def with_schemas(*schemas: Any) -> Manifest:
    declared = [
        ToolDeclaration(f"ext.a.t{at}", "d", Json(msgspec.json.encode(schema).decode()))
        for at, schema in enumerate(schemas)
    ]
    return attrs.evolve(PROXIED, tools=tuple(declared))


def fault(manifest: Manifest) -> str:
    found = schemas_fault(manifest)
    assert found is not None
    return found


def test_a_schema_that_is_none_is_refused_with_its_tool_and_the_reason() -> None:
    assert schemas_fault(with_schemas(TAKEN, {**TAKEN, "properties": {"a": {"type": "string"}}})) is None
    assert fault(with_schemas(TAKEN, {"type": "text"})) == (
        "the input_schema of tool 'ext.a.t1' is no valid JSON Schema: "
        "$.type: 'text' is not valid under any of the given schemas"
    )
    assert len(fault(with_schemas({"type": "x" * 8000}))) < SHORT


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": "string"},
        {"type": ["object", "null"]},
        {"properties": {"a": {}}},
        {"type": "object", "properties": {"a": True}},
    ],
)
def test_a_schema_that_clients_refuse_a_whole_list_for_is_refused(schema: object) -> None:
    told = """the input_schema of tool 'ext.a.t0' must be an object with "type": "object", and each of its properties"""
    assert fault(with_schemas(schema)).startswith(told)


@pytest.mark.parametrize("name", ["ext.a b", "ext.\n", "ext.<b>", "ext.a\u202eb", "ext.é", "ext." + "a" * 125])
def test_a_tool_s_name_is_one_that_clients_take(name: str) -> None:
    assert "at most 128 letters, digits, '.', '_' and '-'" in collision(named(name))
    check_tool_names(named("ext." + "a" * 124, "ext.A-b_c.9"), (), {})


def test_the_schemas_of_a_manifest_are_of_bounded_size_together() -> None:
    half = {"type": "object", "required": [str(at) for at in range(MOST_VALUES // 2 - 3)]}
    assert schemas_fault(with_schemas(half, half)) is None
    assert fault(with_schemas(half, half, True)) == (
        f"the schemas of a manifest must hold at most {MOST_VALUES} values, got {MOST_VALUES + 1}"
    )
