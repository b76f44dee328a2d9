"""The rules of a call to an extension's endpoint: what may go out, and what of the answer is believed (seed 002).

`tools.dispatch` applies them in their order. Source: seed 002 sections 5.2 to 5.5, extensions contract 8.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from attrs import evolve, frozen

from crux.domain.bounds import NAME_SHOWN
from crux.domain.endpoints import Endpoint, check_allowed, read_endpoint
from crux.domain.extensions import ExtensionGrant, InstalledExtension
from crux.domain.manifests import EntryKind, Manifest
from crux.domain.outbound_config import ALLOW_PLAIN_HTTP, OutboundConfig
from crux.domain.outbound_refusals import (
    MalformedResponse,
    NoGrant,
    NotEncodable,
    NotExternalTool,
    PlainHttpBlocked,
    RequestTooLarge,
    ResponseTooLarge,
    ToolNotInGrant,
    ToolNotInManifest,
    UpstreamError,
)
from crux.domain.raw_json import MOST_NESTED, is_too_deep, string_fault

# Characters of an answer that is not a success, as its refusal quotes it.
MOST_QUOTED: Final = 512
# Writes of one answer: all of them are stored in one transaction.
MOST_WRITES: Final = 1000


@frozen
class Budget:
    """What one call may take of time and of answer."""

    timeout_s: float
    max_response_bytes: int


@frozen
class Answer:
    """What an endpoint answered; the body is as long as its cap at most."""

    status: int
    body: bytes


@frozen
class AcceptedWrite:
    """A write that the grant covers: its place in the answer, and the confidence within 0 and 1."""

    index: int
    entity: str
    key: str
    value: str
    confidence: float


@frozen(kw_only=True)
class DispatchOutcome:
    """A call that went well: `result` is the endpoint's own JSON text, `writes` are for the caller to store."""

    result: bytes
    writes: tuple[AcceptedWrite, ...]
    drop_reasons: tuple[str, ...]
    upstream_status: int
    elapsed_ms: int
    request_id: str

    def document(self) -> dict[str, object]:
        """What the caller of the tool gets (seed 002 section 5.4)."""
        return {
            "result": msgspec.Raw(self.result),
            "accepted_fact_writes": len(self.writes),
            "dropped_fact_writes": len(self.drop_reasons),
            "drop_reasons": self.drop_reasons,
            "upstream_status": self.upstream_status,
            "elapsed_ms": self.elapsed_ms,
            "request_id": self.request_id,
        }


class ProposedWrite(msgspec.Struct, frozen=True):
    """A write that an endpoint asks for."""

    entity: str
    key: str
    value: str
    confidence: float = 1.0


class Response(msgspec.Struct, frozen=True):
    """The shape of an answer; what else it holds is ignored (seed 002 section 5.2)."""

    result: msgspec.Raw
    fact_writes: list[ProposedWrite] = []


class _Envelope(msgspec.Struct, frozen=True):
    tool: str
    args: object
    calling_passport_id: str
    request_id: str


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Response).decode


def endpoint_of(manifest: Manifest, config: OutboundConfig) -> Endpoint:
    """Where the extension is called; the steps 1 to 5 of the pipeline, each with its own refusal."""
    if manifest.entry.kind is not EntryKind.EXTERNAL_TOOL:
        raise NotExternalTool(
            f"extension '{manifest.id}' has entry.kind {manifest.entry.kind.spoken}, expected ExternalTool"
        )
    url = manifest.external_tool_endpoint
    if not url:
        raise NotExternalTool(f"extension '{manifest.id}' has no external_tool_endpoint")
    if not url.startswith("https://") and not (config.allow_plain_http and url.startswith("http://")):
        raise PlainHttpBlocked(f"plain http endpoint blocked (set {ALLOW_PLAIN_HTTP}=true for dev)")
    endpoint = read_endpoint(url)
    check_allowed(endpoint, manifest.network.allowed_hosts, manifest.id)
    return endpoint


def check_call(installed: InstalledExtension, grant: ExtensionGrant, tool: str, passport: str) -> None:
    """The steps 6 to 8: the tool is declared, the grant is this caller's for this extension, and reaches the tool."""
    manifest = installed.manifest
    if all(declared.name != tool for declared in manifest.tools):
        raise ToolNotInManifest(f"tool '{tool[:NAME_SHOWN]}' is not declared by extension '{manifest.id}'")
    if (grant.extension_id, grant.passport_fpr) != (manifest.id, passport):
        raise NoGrant("scope violation")
    if not grant.allows(tool):
        raise ToolNotInGrant("scope violation")


def budget_of(manifest: Manifest, config: OutboundConfig) -> Budget:
    """The daemon's bounds, or the manifest's where those are tighter (step 9)."""
    safety = manifest.safety
    timeout_s: float = config.timeout_s
    if safety.max_runtime_ms:
        timeout_s = min(timeout_s, safety.max_runtime_ms / 1000)
    most = config.max_response_bytes
    if safety.max_output_bytes:
        most = min(most, safety.max_output_bytes)
    return Budget(timeout_s, most)


def cap_of(grant: ExtensionGrant, config: OutboundConfig) -> int:
    """How many calls a minute the grant is good for (step 10)."""
    return config.default_rate_per_min if grant.rate_limit_per_min is None else grant.rate_limit_per_min


def request_body(tool: str, args: object, passport: str, request_id: str, config: OutboundConfig) -> bytes:
    """What is sent: compact JSON within the daemon's cap (step 11)."""
    try:
        body = _encode(_Envelope(tool, args, passport, request_id))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise NotEncodable(f"the arguments cannot be written as JSON: {error}") from error
    if len(body) > config.max_request_bytes:
        raise RequestTooLarge(f"request too large ({len(body)} bytes, max {config.max_request_bytes})")
    return body


def check_size(read: int, most: int) -> None:
    """Raise `ResponseTooLarge` where more than `most` bytes of an answer were read (step 13)."""
    if read > most:
        raise ResponseTooLarge(f"response too large ({read} bytes, max {most})")


def response_in(answer: Answer) -> Response:
    """What the endpoint says; the steps 14 and 15.

    One write that is not of the documented shape spoils it all, since nobody can say what else is wrong then.
    """
    if not 200 <= answer.status <= 299:
        quoted = answer.body.decode(errors="replace")[:MOST_QUOTED]
        raise UpstreamError(f"upstream returned status {answer.status}: {quoted}")
    if not answer.body:
        raise _malformed("the body is empty")
    try:
        answer.body.decode()  # no string of `result` is looked at otherwise
        if (fault := string_fault(answer.body)) is not None:
            raise _malformed(fault)
        response = _decode(answer.body)
    except RecursionError:
        raise _malformed(f"nested deeper than {MOST_NESTED}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _malformed(str(error)) from error
    if is_too_deep(answer.body):
        raise _malformed(f"nested deeper than {MOST_NESTED}")
    if len(response.fact_writes) > MOST_WRITES:
        raise _malformed(f"expected at most {MOST_WRITES} fact_writes, got {len(response.fact_writes)}")
    return response


def sorted_out(
    writes: Sequence[ProposedWrite], prefixes: tuple[str, ...]
) -> tuple[tuple[AcceptedWrite, ...], tuple[str, ...]]:
    """The writes that a grant of `prefixes` covers, and what is told of each of the others (step 16).

    Raises `MalformedResponse` for a covered one that is no fact.
    """
    accepted, dropped = [], []
    for index, write in enumerate(writes):
        if not write.entity.startswith(prefixes):
            dropped.append(_not_covered(index, write.entity))
            continue
        for name, text in (("entity", write.entity), ("key", write.key)):
            if not text.strip():
                raise _malformed(f"fact_writes[{index}].{name} must not be blank")
        confidence = min(max(write.confidence, 0.0), 1.0)
        accepted.append(AcceptedWrite(index, write.entity, write.key, write.value, confidence))
    return tuple(accepted), tuple(dropped)


def narrowed(outcome: DispatchOutcome, prefixes: tuple[str, ...]) -> DispatchOutcome:
    """The outcome with those of its writes alone that a grant of `prefixes` covers: what was granted when the call went
    out may be granted no more (seed 002 section 5.5)."""
    kept = tuple(write for write in outcome.writes if write.entity.startswith(prefixes))
    late = (
        _not_covered(write.index, write.entity) for write in outcome.writes if not write.entity.startswith(prefixes)
    )
    return evolve(outcome, writes=kept, drop_reasons=(*outcome.drop_reasons, *late))


def _not_covered(index: int, entity: str) -> str:
    return f"fact_writes[{index}] entity '{entity}' not covered by grant.allowed_prefixes_write"


def _malformed(what: str) -> MalformedResponse:
    return MalformedResponse(f"upstream returned malformed response: {what}")
