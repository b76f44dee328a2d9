"""How the tools of extensions stand in `tools/list` (seed 11.9, extensions contract 9.1)."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from attrs import frozen

from crux.domain.capability import capability_of
from crux.domain.consequence import consequence_of
from crux.domain.extensions import GrantedTool
from crux.domain.router import Router
from crux.domain.surface import ExtensionNames
from crux.tools.registry import Tier


@frozen(eq=False)
class ListedExtensionTool:
    """One entry: `declared` is the name in the manifest, `name` the one that is shown, `entry` the JSON of it all."""

    name: str
    declared: str
    entry: bytes

    affinity: ClassVar = None
    floor_rank: ClassVar = None


def listed(granted: GrantedTool, names: ExtensionNames, router: Router | None) -> ListedExtensionTool:
    """The entry of a granted tool."""
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
    return ListedExtensionTool(name, tool.name, msgspec.json.encode(entry))
