"""Which manifests may be installed (seed 002 section 5.1, extensions contract 2.1 and 2.2; Decision 49)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from crux.domain.bounds import NAME_SHOWN
from crux.domain.extensions import TrustedKey, TrustTier
from crux.domain.manifest_signing import manifest_hash, verified_tier
from crux.domain.manifests import SCHEMA, EntryKind, Manifest, ManifestRefused
from crux.domain.tool_schemas import MOST_VALUES, measure, schema_fault, takes_an_object
from crux.errors import InvalidArgument

ALLOW_UNSIGNED: Final = "CORECRUXD_EXTENSIONS_ALLOW_UNSIGNED"
# What a manifest may say that it wants; a grant alone decides what it may do (extensions contract 2.4).
CAPABILITIES: Final = (
    "integrations:read",
    "integrations:install",
    "integrations:grant",
    "integrations:disable",
    "facts:read",
    "facts:write",
    "facts:private:read",
    "sessions:read",
    "sessions:write",
    "passport:read",
    "tenant:metadata:read",
    "tenant:chunks:read",
    "tenant:content:preview",
    "admin:read",
)
TOOL_PREFIX: Final = "ext."
_REQUIRED = ("id", "name", "version", "publisher_passport_fpr")
_MANIFEST_ID = re.compile(r"[A-Za-z0-9._-]+")
# What clients take as a name, and the form without dots of it.
MOST_NAME: Final = 128
_TOOL_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{MOST_NAME}}}")
_EXTENSION_ID = re.compile(r"[a-z0-9._-]{1,128}")
# The first are words of routes beside which an id of that name could not be reached; clients resolve the last two.
_TAKEN_IDS = frozenset({"keys", "registry", "register", "install-from-registry", ".", ".."})
_SHA256 = re.compile(r"[0-9a-f]{64}")
_FOLD = str.maketrans("-.", "__")


def check_extension_id(text: str) -> None:
    """Raise `InvalidArgument` unless an extension may be kept under this id (extensions contract 2.2)."""
    if not _EXTENSION_ID.fullmatch(text):
        raise InvalidArgument(
            f"an extension's id must be 1 to 128 of a-z, 0-9, '.', '-' and '_', got '{_shown(text)}'",
            data={"param": "id"},
        )
    if text in _TAKEN_IDS:
        raise InvalidArgument(
            f"'{text}' cannot be an extension's id: it stands for something else in URLs", data={"param": "id"}
        )


def validate(manifest: Manifest, keyring: Mapping[str, TrustedKey], *, allow_unsigned: bool) -> TrustTier:
    """The tier at which the manifest may be installed, with the keys of `keyring` trusted.

    The first rule that it breaks, in the contract's order, raises `ManifestRefused`. `allow_unsigned` is for a manifest
    without a signature only: one that is there has to hold.
    """
    _check_identity(manifest)
    kind = manifest.entry.kind
    if kind is EntryKind.EXTERNAL_HELPER:
        raise ManifestRefused("executable helpers are disabled: entry.kind 'external_helper' cannot be installed")
    if kind is EntryKind.EXTERNAL_TOOL:
        _check_external_tool(manifest)
    elif kind is EntryKind.WASM:
        _check_wasm(manifest)
    else:
        _check_no_endpoint(manifest)
        if manifest.tools:
            raise _invalid("tools only valid when entry.kind=external_tool or wasm")
        _check_no_module(manifest)
    declared, actual = manifest.hashes.manifest, manifest_hash(manifest)
    if declared is not None and declared != actual:
        raise ManifestRefused(f"manifest hash mismatch: expected '{_shown(declared)}', actual '{actual}'")
    if manifest.signature is not None:
        return verified_tier(manifest, manifest.signature, keyring)
    if not allow_unsigned:
        raise ManifestRefused(
            "field 'signature' is required: sign the manifest with a trusted key, or set "
            f"{ALLOW_UNSIGNED}=1 to install unsigned ones while you develop"
        )
    return TrustTier.UNKNOWN


def check_tool_names(manifest: Manifest, builtins: Collection[str], others: Mapping[str, str]) -> None:
    """Raise `ManifestRefused` for a tool that no client could call, or take for another (Decision 49).

    `builtins` are the daemon's own tools, `others` those of the other extensions, each with the extension's id.
    """
    taken = {folded(name): f"'{_shown(name)}' of extension '{owner}'" for name, owner in others.items()}
    taken |= {folded(name): f"the built-in tool '{name}'" for name in builtins}
    for tool in manifest.tools:
        if not tool.name.startswith(TOOL_PREFIX) or tool.name == TOOL_PREFIX:
            raise ManifestRefused(f"tool '{_shown(tool.name)}' must have a name that starts with '{TOOL_PREFIX}'")
        if not _TOOL_NAME.fullmatch(tool.name):
            raise ManifestRefused(
                f"tool '{_shown(tool.name)}' must have a name of at most {MOST_NAME} letters, digits, '.', '_' and '-'"
            )
        if (other := taken.get(folded(tool.name))) is not None:
            raise ManifestRefused(
                f"tool '{_shown(tool.name)}' has the name of {other}: '-', '.' and '_' count as the same"
            )
        taken[folded(tool.name)] = f"'{_shown(tool.name)}' of this manifest"


def schemas_fault(manifest: Manifest) -> str | None:
    """What is wrong with an `input_schema`, if anything: clients drop a whole list for one that is not as they want it.

    It takes up to a second, and asks for nothing but the manifest: not for an actor to do while others wait for it.
    """
    schemas = {tool.name: msgspec.json.decode(tool.input_schema.text) for tool in manifest.tools}
    if (values := sum(measure(schema).values for schema in schemas.values())) > MOST_VALUES:
        return f"the schemas of a manifest must hold at most {MOST_VALUES} values, got {values}"
    for name, schema in schemas.items():
        if (fault := schema_fault(schema)) is not None:
            return f"the input_schema of tool '{_shown(name)}' is no valid JSON Schema: {_shown(fault)}"
        if not takes_an_object(schema):
            return (
                f'the input_schema of tool \'{_shown(name)}\' must be an object with "type": "object", and each of its '
                "properties an object: clients refuse a whole list for another one"
            )
    return None


def folded(name: str) -> str:
    """The form in which two tool names must differ: hosts write `_` for the characters that they do not take."""
    return name.translate(_FOLD)


def _check_identity(manifest: Manifest) -> None:
    if manifest.schema != SCHEMA:
        raise ManifestRefused(f"invalid schema '{_shown(manifest.schema)}', expected '{SCHEMA}'")
    for field in _REQUIRED:
        _check_filled(getattr(manifest, field), field)
    if not _MANIFEST_ID.fullmatch(manifest.id):
        raise _invalid(_shown(manifest.id))
    _check_filled(manifest.entry.path, "entry.path")
    for capability in manifest.capabilities:
        if capability not in CAPABILITIES:
            raise ManifestRefused(f"unknown capability '{_shown(capability)}', known are {', '.join(CAPABILITIES)}")


def _check_external_tool(manifest: Manifest) -> None:
    url = manifest.external_tool_endpoint
    _check_filled(url, "external_tool_endpoint")
    if url is None or not url.startswith(("https://", "http://")):
        raise _invalid(f"external_tool_endpoint must be an http(s) URL, got '{_shown(url or '')}'")
    _check_tools(manifest)
    _check_no_module(manifest)


def _check_wasm(manifest: Manifest) -> None:
    _check_tools(manifest)
    _check_no_endpoint(manifest)
    digest = manifest.wasm_module_sha256
    _check_filled(digest, "wasm_module_sha256")
    if not _SHA256.fullmatch(digest or ""):
        raise _invalid(f"wasm_module_sha256 must be 64 lowercase hex digits, got '{_shown(digest or '')}'")
    path, url = manifest.wasm_module_path, manifest.wasm_module_url
    if path is not None and url is not None:
        raise _invalid("wasm_module_path and wasm_module_url exclude each other")
    if path is not None:
        _check_filled(path, "wasm_module_path")
        if path.startswith("/") or ".." in path:
            raise _invalid(f"wasm_module_path must be relative and without '..', got '{_shown(path)}'")
    elif url is None:
        raise _missing("wasm_module_path or wasm_module_url")
    elif not url.startswith("https://"):
        raise _invalid(f"wasm_module_url must be an https URL, got '{_shown(url)}'")


def _check_tools(manifest: Manifest) -> None:
    if not manifest.tools:
        raise _missing("tools")
    for tool in manifest.tools:
        _check_filled(tool.name, "tools[].name")
        _check_filled(tool.description, "tools[].description")
        if manifest.entry.kind is EntryKind.WASM and tool.auth_shared_secret_id is not None:
            raise _invalid("tools[].auth_shared_secret_id only valid when entry.kind=external_tool")


def _check_no_module(manifest: Manifest) -> None:
    modules = (manifest.wasm_module_path, manifest.wasm_module_url, manifest.wasm_module_sha256)
    if any(value is not None for value in modules):
        raise _invalid("wasm_module_* fields only valid when entry.kind=wasm")


def _check_no_endpoint(manifest: Manifest) -> None:
    if manifest.external_tool_endpoint is not None:
        raise _invalid("external_tool_endpoint only valid when entry.kind=external_tool")


def _check_filled(value: str | None, field: str) -> None:
    if value is None or not value.strip():
        raise _missing(field)


def _missing(field: str) -> ManifestRefused:
    return ManifestRefused(f"field '{field}' is required", data={"param": field})


def _invalid(text: str) -> ManifestRefused:
    return ManifestRefused(f"invalid identifier '{text}'")


def _shown(text: str) -> str:
    return text[:NAME_SHOWN]
