"""Parking bytes and fetching them again (memory contract 10)."""

from __future__ import annotations

import base64

import msgspec
from attrs import frozen

from crux.domain.artefacts import (
    DEFAULT_TTL_S,
    LONGEST_LABEL,
    MOST_TTL_S,
    Artefact,
    ListArtefacts,
    PutArtefact,
    ReadArtefact,
    decoded,
)
from crux.domain.features import Feature, FeatureOff
from crux.domain.instants import rfc3339
from crux.domain.tokens import utf8_size
from crux.errors import InvalidArgument
from crux.tools.callers import identity
from crux.tools.envelopes import with_envelope
from crux.tools.registry import Call, tool
from crux.tools.results import WithMeta
from crux.tools.schema import arg, shortened

MOST_LISTED = 1000


@frozen
class PutArguments:
    content_bytes_base64: str = arg("The bytes in standard base64, at most 8 MiB of them")
    mime_type: str = arg("What they are, such as text/csv")
    tool_origin: str | None = arg("Which tool made them", default=None)
    ttl_seconds: int | None = arg(
        "Seconds that they are kept, at most 90 days; 0 keeps them, and 7 days unless you say otherwise",
        default=None,
        at_least=0,
    )
    token_budget: int | None = arg("Taken and not looked at", default=None)


class ArtefactShown(msgspec.Struct, frozen=True):
    artefact_id: str
    mime_type: str
    tool_origin: str | None
    size_bytes: int
    created_at: str
    expires_at: str | None


@tool(
    "artefact_put",
    plane="artefacts",
    result=ArtefactShown,
    affinity="memory",
    examples=[{"content_bytes_base64": "e30=", "mime_type": "application/json"}],
)
async def artefact_put(args: PutArguments, call: Call) -> ArtefactShown | FeatureOff:
    """Park bytes that are too large to carry along, under an id made of them; only you can fetch them. The same bytes
    again renew their label and time. Take store_fact for what others should find. Returns the id."""
    owner = identity(call)
    content = decoded(args.content_bytes_base64)
    for name, label in (("mime_type", args.mime_type), ("tool_origin", args.tool_origin or "-")):
        if not label.strip() or utf8_size(label) > LONGEST_LABEL:
            raise InvalidArgument(
                f"'{name}' must not be blank and have at most {LONGEST_LABEL} bytes", data={"param": name}
            )
    ttl_s = DEFAULT_TTL_S if args.ttl_seconds is None else args.ttl_seconds
    if ttl_s > MOST_TTL_S:
        raise InvalidArgument(
            f"'ttl_seconds' must be at most {MOST_TTL_S}, got {ttl_s}; 0 keeps them for ever",
            data={"ttl_seconds": ttl_s, "max_ttl_seconds": MOST_TTL_S},
        )
    if Feature.ARTEFACTS in call.services.switched_off:
        return FeatureOff(Feature.ARTEFACTS)
    put = PutArtefact(owner, content, args.mime_type, args.tool_origin, ttl_s or None)
    return _shown(await call.services.facts.ask(put))


@frozen
class GetArguments:
    artefact_id: str = arg("Id that artefact_put gave")
    token_budget: int | None = arg("Taken and not looked at", default=None)


class ArtefactRead(msgspec.Struct, frozen=True):
    artefact_id: str
    mime_type: str
    tool_origin: str | None
    size_bytes: int
    created_at: str
    expires_at: str | None
    content_base64: str


@tool(
    "artefact_get",
    plane="artefacts",
    result=ArtefactRead,
    affinity="memory",
    examples=[{"artefact_id": "art_example"}],
)
async def artefact_get(args: GetArguments, call: Call) -> ArtefactRead | FeatureOff:
    """Fetch bytes that you have parked, in base64; artefact_list tells their sizes first. Another agent's, and expired
    ones, are unknown."""
    owner = identity(call)
    if Feature.ARTEFACTS in call.services.switched_off:
        return FeatureOff(Feature.ARTEFACTS)
    read = ReadArtefact(owner, args.artefact_id, call.services.clock.now_us())
    found = await call.services.recall.ask(read)
    if found is None:
        raise InvalidArgument(
            f"no artefact {shortened(args.artefact_id)} of yours, or it has expired",
            data={"param": "artefact_id", "artefact_id": args.artefact_id[:LONGEST_LABEL]},
        )
    shown = _shown(found.artefact)
    return ArtefactRead(
        shown.artefact_id,
        shown.mime_type,
        shown.tool_origin,
        shown.size_bytes,
        shown.created_at,
        shown.expires_at,
        base64.b64encode(found.content).decode(),
    )


@frozen
class ListArguments:
    top_k: int = arg("Most entries returned, up to 1000", default=20, at_least=1, clamp=MOST_LISTED)
    scope: str | None = arg("Only those with this in their MIME type, or made by the tool of this name", default=None)
    token_budget: int | None = arg("Taken and not looked at", default=None)


class ArtefactsListed(msgspec.Struct, frozen=True):
    artefacts: tuple[ArtefactShown, ...]
    count: int


@tool(
    "artefact_list",
    plane="artefacts",
    result=ArtefactsListed,
    affinity="memory",
    envelope=True,
    examples=[{"top_k": 10}],
)
async def artefact_list(args: ListArguments, call: Call) -> ArtefactsListed | FeatureOff | WithMeta:
    """List what you have parked, the latest first, without the bytes: ids, types, sizes and when each expires."""
    owner = identity(call)
    if Feature.ARTEFACTS in call.services.switched_off:
        return FeatureOff(Feature.ARTEFACTS)
    now_us = call.services.clock.now_us()
    found = await call.services.recall.ask(ListArtefacts(owner, args.scope, args.top_k, now_us))
    return with_envelope(ArtefactsListed(tuple(map(_shown, found)), len(found)), (), call, now_us)


def _shown(artefact: Artefact) -> ArtefactShown:
    return ArtefactShown(
        artefact.artefact_id,
        artefact.mime_type,
        artefact.tool_origin,
        artefact.size_bytes,
        rfc3339(artefact.created_us),
        None if artefact.expires_us is None else rfc3339(artefact.expires_us),
    )
