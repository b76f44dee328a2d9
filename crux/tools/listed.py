"""How tools stand in `tools/list`: those of the catalogue, and those of extensions (seed 11.8 and 11.9, extensions
contract 9.1)."""

from __future__ import annotations

import msgspec
from attrs import frozen

from crux.domain.capability import capability_of
from crux.domain.consequence import consequence_of
from crux.domain.extensions import GrantedTool
from crux.domain.router import Router
from crux.domain.surface import ExtensionNames
from crux.tools.registry import Tier, Tool


@frozen(eq=False)
class ListedTool:
    """One entry: `name` is the one that is shown, `gated_as` the one by which a capability token permits the tool,
    `entry` the JSON of it all."""

    name: str
    gated_as: str
    entry: bytes
    affinity: str | None = None
    floor_rank: int | None = None


def listed_own(tool: Tool, router: Router | None) -> ListedTool:
    """The entry of a tool of the catalogue."""
    entry = msgspec.json.encode(tool.listing(router))
    return ListedTool(tool.name, tool.gated_as, entry, tool.affinity, tool.floor_rank)


def listed_granted(granted: GrantedTool, names: ExtensionNames, router: Router | None) -> ListedTool:
    """The entry of a granted tool of an extension."""
    tool, installed = granted.tool, granted.installed
    name = tool.name.replace(".", "_") if names is ExtensionNames.SAFE else tool.name
    consequence = consequence_of(tool.name).as_metadata()
    meta: dict[str, object] = {"consequence_metadata": consequence}
    schema: object = msgspec.json.decode(tool.input_schema.text)
    if isinstance(schema, dict):
        own = tool.consequence_metadata
        schema["x-crux-extension"] = {
            "extension_id": installed.manifest.id,
            "manifest_hash": installed.manifest_hash,
            "trust_tier": installed.trust_tier,
            "rcx_capability": capability_of(tool.name),
        }
        schema["x-crux-consequence-metadata"] = consequence if own is None else msgspec.Raw(own.text.encode())
        if router is not None:
            schema |= router.schema_stamp()
    if router is not None:
        meta |= router.stamp()
    mark = f"[{Tier.LOCAL}][extension:{installed.manifest.id}][trust:{installed.trust_tier.spoken}]"
    entry = {
        "name": name,
        "description": f"{mark} {tool.description}",
        "inputSchema": schema,
        "_meta": {"crux": meta},
    }
    return ListedTool(name, tool.name, msgspec.json.encode(entry))
