"""Extensions over HTTP (extensions contract 3): what is installed, who may use it, trusted keys, and calls."""

from __future__ import annotations

from typing import Final

import trio
from attrs import frozen

from crux.actors.extension_messages import (
    DistrustKey,
    GrantsOf,
    Install,
    IssueGrant,
    ListExtensions,
    ListKeys,
    RevokeGrant,
    ShowExtension,
    TrustKey,
    Uninstall,
)
from crux.domain.extensions import TrustTier, installed_document, key_document
from crux.domain.grants import grant_document
from crux.domain.manifest_rules import schemas_fault
from crux.domain.manifests import MOST_MANIFEST_BYTES, read_manifest
from crux.errors import InvalidArgument, PayloadTooLarge
from crux.tools.schema import arg, parameters_of, parser_of, shortened
from crux.transport.json_text import read_json
from crux.transport.rest.route import AllOf, HttpCall, Reply, json_reply, route

LOOK: Final = AllOf(("admin:read",))
CHANGE: Final = AllOf(("admin:read", "facts:write"))

# One manifest's schemas are judged at a time: it takes up to a second of everybody's.
_JUDGES: Final = trio.CapacityLimiter(1)

_NO_CONTENT: Final = Reply(b"", 204)


@frozen
class KeyBody:
    """A key to be trusted."""

    passport_fpr: str = arg("The fingerprint that signatures name")
    public_key_hex: str = arg("The Ed25519 key, 64 hex digits")
    trust_tier: TrustTier = arg("How far what it signs is trusted")
    added_by: str = arg("Who vouches for it", default="")


@frozen
class GrantBody:
    """What a passport is to be granted; no tool names mean every tool."""

    passport_fpr: str = arg("Who may call")
    allowed_tool_names: tuple[str, ...] = arg("The tools that may be called", default=())
    allowed_prefixes_read: tuple[str, ...] = arg("How entities start that may be read", default=())
    allowed_prefixes_write: tuple[str, ...] = arg("How entities start that may be written", default=())
    rate_limit_per_min: int | None = arg("Most calls in a minute", default=None)


@frozen
class InvokeBody:
    """Who calls; `args`, which may be anything, are read apart."""

    passport_fpr: str | None = arg("Who calls, in place of the header", default=None)


_key_body = parser_of(KeyBody, parameters_of(KeyBody))
_grant_body = parser_of(GrantBody, parameters_of(GrantBody))
_invoke_body = parser_of(InvokeBody, parameters_of(InvokeBody))


@route("GET", "/v1/extensions", LOOK)
async def list_extensions(call: HttpCall) -> Reply:
    """List what is installed, by id, and say whether unsigned manifests are taken."""
    found = await call.ask(call.api.services.extensions, ListExtensions())
    return json_reply(
        {
            "count": len(found),
            "extensions": [installed_document(installed) for installed in found],
            "allow_unsigned_dev": call.api.services.outbound().allow_unsigned,
        }
    )


@route("POST", "/v1/extensions/register", CHANGE, for_operators=True)
async def register(call: HttpCall) -> Reply:
    """Install an extension by its manifest. Nobody may use it before something is granted."""
    body = await call.read_body()
    if len(body) > MOST_MANIFEST_BYTES:
        raise PayloadTooLarge(f"the body must have at most {MOST_MANIFEST_BYTES} bytes, got {len(body)}")
    given = read_json(body)
    if not isinstance(given, dict) or "manifest" not in given:
        raise InvalidArgument(
            f'the body must be an object such as {{"manifest": {{...}}}}, got {shortened(given)}',
            data={"param": "manifest"},
        )
    manifest = read_manifest(given["manifest"])
    fault = await trio.to_thread.run_sync(schemas_fault, manifest, abandon_on_cancel=True, limiter=_JUDGES)
    install = Install(manifest, call.principal.passport, call.api.services.outbound().allow_unsigned, fault)
    return json_reply(installed_document(await call.ask(call.api.services.extensions, install)), 201)


@route("GET", "/v1/extensions/keys", LOOK)
async def list_keys(call: HttpCall) -> Reply:
    """List the keys whose signatures make a manifest installable."""
    keys = await call.ask(call.api.services.extensions, ListKeys())
    return json_reply({"count": len(keys), "keys": {fingerprint: key_document(key) for fingerprint, key in keys}})


@route("POST", "/v1/extensions/keys", CHANGE, for_operators=True)
async def trust_key(call: HttpCall) -> Reply:
    """Trust a key, in place of an earlier one with its fingerprint; installed extensions keep their tier."""
    body = _key_body(await call.json_object())
    trust = TrustKey(body.passport_fpr, body.public_key_hex, body.trust_tier, body.added_by, call.principal.passport)
    await call.ask(call.api.services.extensions, trust)
    return json_reply({"passport_fpr": body.passport_fpr}, 201)


@route("DELETE", "/v1/extensions/keys/<text:passport_fpr>", CHANGE, for_operators=True)
async def distrust_key(call: HttpCall, passport_fpr: str) -> Reply:
    """Trust a key no more; what it let in stays installed."""
    await call.ask(call.api.services.extensions, DistrustKey(passport_fpr, call.principal.passport))
    return _NO_CONTENT


@route("GET", "/v1/extensions/<extension_id>", LOOK)
async def show_extension(call: HttpCall, extension_id: str) -> Reply:
    """Read one extension as it was installed."""
    return json_reply(installed_document(await call.ask(call.api.services.extensions, ShowExtension(extension_id))))


@route("DELETE", "/v1/extensions/<extension_id>", CHANGE, for_operators=True)
async def uninstall(call: HttpCall, extension_id: str) -> Reply:
    """Remove an extension and end its grants; installing it again revives none (Decision 26)."""
    await call.ask(call.api.services.extensions, Uninstall(extension_id, call.principal.passport))
    return _NO_CONTENT


@route("GET", "/v1/extensions/<extension_id>/grants", LOOK)
async def list_grants(call: HttpCall, extension_id: str) -> Reply:
    """List who may use an extension, by passport; nobody may use one that is not installed."""
    grants = await call.ask(call.api.services.extensions, GrantsOf(extension_id))
    documents = [grant_document(grant) for grant in grants]
    return json_reply({"extension_id": extension_id, "count": len(grants), "grants": documents})


@route("POST", "/v1/extensions/<extension_id>/grants", CHANGE, for_operators=True)
async def issue_grant(call: HttpCall, extension_id: str) -> Reply:
    """Let a passport use an extension, from its next call on."""
    body = _grant_body(await call.json_object())
    issue = IssueGrant(
        extension_id=extension_id,
        passport_fpr=body.passport_fpr,
        allowed_tool_names=body.allowed_tool_names,
        allowed_prefixes_read=body.allowed_prefixes_read,
        allowed_prefixes_write=body.allowed_prefixes_write,
        rate_limit_per_min=body.rate_limit_per_min,
        by=call.principal.passport,
    )
    return json_reply(grant_document(await call.ask(call.api.services.extensions, issue)), 201)


@route("DELETE", "/v1/extensions/<extension_id>/grants/<text:passport_fpr>", CHANGE, for_operators=True)
async def revoke_grant(call: HttpCall, extension_id: str, passport_fpr: str) -> Reply:
    """End a grant; calls that are under way are answered."""
    await call.ask(call.api.services.extensions, RevokeGrant(extension_id, passport_fpr, call.principal.passport))
    return _NO_CONTENT


@route("POST", "/v1/extensions/<extension_id>/tools/<text:tool_name>/invoke", CHANGE)
async def invoke(call: HttpCall, extension_id: str, tool_name: str) -> Reply:
    """Call a tool of an extension in the name of a passport (seed 002 section 5.4)."""
    given = await call.json_object()
    passport = call.principal.acting_as(_invoke_body(given).passport_fpr)
    if passport is None:
        raise InvalidArgument(
            "passport_fpr required (body field or X-Corecrux-Passport-Id header)", data={"param": "passport_fpr"}
        )
    args = given.get("args", {})
    return Reply(await call.api.services.extension_calls.invoke(extension_id, tool_name, args, passport))


ROUTES = (
    list_extensions,
    register,
    list_keys,
    trust_key,
    distrust_key,
    show_extension,
    uninstall,
    list_grants,
    issue_grant,
    revoke_grant,
    invoke,
)
