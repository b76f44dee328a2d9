"""The manifest of an extension (`crux.integration.v1`): what it is, what it asks for, which tools it brings.

What one looks like, and how it is read and shown; `manifest_rules` says which of them may be installed. Source: seed
002 section 5.1, extensions contract 2.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import attrs
import msgspec
from attrs import frozen

from crux.domain.strict_reading import Unexpected, read_record, strict_converter
from crux.errors import InvalidArgument

SCHEMA = "crux.integration.v1"

# What a stranger's manifest may cost to keep and to list. Sizes are bytes of UTF-8, those of JSON in its compact form.
MOST_MANIFEST_BYTES: Final = 1024 * 1024
MOST_ITEMS: Final = 256
MOST_TEXT_BYTES: Final = 8 * 1024
MOST_JSON_BYTES: Final = 64 * 1024


class SpokenEnum(StrEnum):
    """Words that texts for people write in another way."""

    @property
    def spoken(self) -> str:
        """The word as refusals and descriptions have it, such as `HttpRecipe` (extensions contract 2.3)."""
        return "".join(part.capitalize() for part in self.value.split("_"))


class EntryKind(SpokenEnum):
    """What an extension is made of."""

    MCP_CONFIG = "mcp_config"
    HTTP_RECIPE = "http_recipe"
    SDK_RECIPE = "sdk_recipe"
    CLI_RECIPE = "cli_recipe"
    WEBHOOK_ADAPTER = "webhook_adapter"
    FILE_WATCHER = "file_watcher"
    EXTERNAL_HELPER = "external_helper"
    EXTERNAL_TOOL = "external_tool"
    WASM = "wasm"


class Sandbox(StrEnum):
    """A label for people: the entry's kind decides what runs."""

    NONE = "none"
    COMMAND = "command"
    WASM = "wasm"


class ManifestRefused(InvalidArgument):
    """A manifest that reads well and is not to be installed."""


@frozen
class Json:
    """Any JSON value, held as its compact text, so that it cannot change under whoever holds it."""

    text: str

    @classmethod
    def of(cls, value: object) -> Json:
        return cls(msgspec.json.encode(value).decode())


@frozen
class Entry:
    kind: EntryKind
    path: str


@frozen
class Network:
    allowed_hosts: tuple[str, ...] = ()
    requires_user_token: bool = False


@frozen
class DataAccess:
    tenant_scopes: tuple[str, ...] = ("selected",)
    content_preview: bool = False
    private_facts: bool = False


@frozen
class Safety:
    """Budgets of one call; 0 is the daemon's own value, and none is ever above that."""

    sandbox: Sandbox = Sandbox.NONE
    max_runtime_ms: int = 0
    max_output_bytes: int = 0


@frozen
class Hashes:
    manifest: str | None = None
    bundle: str | None = None


@frozen
class Signature:
    """`sig` is standard base64 of 64 bytes."""

    alg: str
    passport_fpr: str
    sig: str
    public_key_hex: str | None = None


@frozen
class ToolDeclaration:
    """One tool. `input_schema` is handed to MCP clients and checks no call."""

    name: str
    description: str
    input_schema: Json
    consequence_metadata: Json | None = None
    auth_shared_secret_id: str | None = None


@frozen(kw_only=True)
class Manifest:
    """One version of one extension."""

    schema: str
    id: str
    name: str
    version: str
    publisher_passport_fpr: str
    summary: str
    entry: Entry
    capabilities: tuple[str, ...] = ()
    network: Network = Network()
    data_access: DataAccess = DataAccess()
    safety: Safety = Safety()
    hashes: Hashes = Hashes()
    signature: Signature | None = None
    external_tool_endpoint: str | None = None
    tools: tuple[ToolDeclaration, ...] = ()
    wasm_module_path: str | None = None
    wasm_module_url: str | None = None
    wasm_module_sha256: str | None = None


def read_manifest(value: object) -> Manifest:
    """The manifest that decoded JSON stands for. Members that the contract does not know are dropped.

    `null` for a member that may be absent is the same as its absence. Raises `InvalidArgument` that names the first
    member which is missing, of the wrong type, or too large.
    """
    manifest = read_record(_converter, value, Manifest, "a manifest")
    # What is kept counts, with its defaults, so that it can be read again.
    if (size := len(msgspec.json.encode(manifest_document(manifest)))) > MOST_MANIFEST_BYTES:
        raise InvalidArgument(f"a manifest must have at most {MOST_MANIFEST_BYTES} bytes as compact JSON, got {size}")
    return manifest


def manifest_document(manifest: Manifest) -> dict[str, object]:
    """The manifest as JSON-ready members, from which `read_manifest` gives it back.

    What is absent and has no default is left out, and so is an empty list of tools (extensions contract 2).
    """
    hashes = _present(bundle=manifest.hashes.bundle, manifest=manifest.hashes.manifest)
    return policy_document(manifest) | _present(
        hashes=hashes or None,
        signature=manifest.signature and _present(**attrs.asdict(manifest.signature)),
        external_tool_endpoint=manifest.external_tool_endpoint,
        tools=[_tool_document(tool) for tool in manifest.tools] or None,
        wasm_module_path=manifest.wasm_module_path,
        wasm_module_url=manifest.wasm_module_url,
        wasm_module_sha256=manifest.wasm_module_sha256,
    )


def policy_document(manifest: Manifest) -> dict[str, object]:
    """The members that a signature covers, in the order in which it covers them (extensions contract 5.1)."""
    network, data_access, safety = manifest.network, manifest.data_access, manifest.safety
    return {
        "schema": manifest.schema,
        "id": manifest.id,
        "name": manifest.name,
        "version": manifest.version,
        "publisher_passport_fpr": manifest.publisher_passport_fpr,
        "summary": manifest.summary,
        "entry": {"kind": manifest.entry.kind.value, "path": manifest.entry.path},
        "capabilities": list(manifest.capabilities),
        "network": {
            "allowed_hosts": list(network.allowed_hosts),
            "requires_user_token": network.requires_user_token,
        },
        "data_access": {
            "tenant_scopes": list(data_access.tenant_scopes),
            "content_preview": data_access.content_preview,
            "private_facts": data_access.private_facts,
        },
        "safety": {
            "sandbox": safety.sandbox.value,
            "max_runtime_ms": safety.max_runtime_ms,
            "max_output_bytes": safety.max_output_bytes,
        },
    }


def _tool_document(tool: ToolDeclaration) -> dict[str, object]:
    own = tool.consequence_metadata
    # The schema stands here whatever it is: `null` is a value of it, not its absence.
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": msgspec.json.decode(tool.input_schema.text),
    } | _present(
        consequence_metadata=None if own is None else msgspec.json.decode(own.text),
        auth_shared_secret_id=tool.auth_shared_secret_id,
    )


def _present(**members: object) -> dict[str, object]:
    return {name: value for name, value in members.items() if value is not None}


def _json(value: object, _: object) -> Json:
    text = msgspec.json.encode(value)
    if len(text) > MOST_JSON_BYTES:
        raise Unexpected(f"must have at most {MOST_JSON_BYTES} bytes as compact JSON, got {len(text)}")
    return Json(text.decode())


_converter: Final = strict_converter(EntryKind, Sandbox, most_items=MOST_ITEMS, most_text_bytes=MOST_TEXT_BYTES)
_converter.register_structure_hook(Json, _json)
