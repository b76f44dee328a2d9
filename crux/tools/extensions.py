"""Calls to the tools of extensions: who may make them, how they go out, and what is kept of the answer (seed 002).

Both edges come through here: the HTTP API calls `Invoker.invoke`, MCP the `ExtensionTool` that a name stands for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar, Final

import msgspec
import trio
from attrs import frozen

from crux.actors.extension_messages import Lookup, Resolve
from crux.actors.mailbox import Mailbox
from crux.domain.bounds import NAME_SHOWN
from crux.domain.capability import capability_of
from crux.domain.commands import Put, Transact
from crux.domain.extensions import ExtensionGrant, InstalledExtension
from crux.domain.facts import draft_fact
from crux.domain.manifests import EntryKind
from crux.domain.outbound import AcceptedWrite, DispatchOutcome, narrowed
from crux.domain.privacy import ANONYMOUS, PrivacyRules
from crux.domain.traces import Effect
from crux.errors import CruxError, Forbidden, InvalidArgument, NotBuilt, NotFound, UnknownTool
from crux.tools.registry import Call, Services
from crux.tools.results import WithMeta
from crux.tools.schema import shortened

# What the grant's last look and the store may take each, also when nobody waits for the call any more.
KEEP_S: Final = 5.0

# A tool's name, and the form of it for hosts that take no dots.
_NAMES = ("ext.", "ext_")
_encode = msgspec.json.Encoder().encode

# The way of one call: what is installed, the caller's grant, the tool, its arguments, and who calls.
Dispatch = Callable[[InstalledExtension, ExtensionGrant, str, object, str], Awaitable[DispatchOutcome]]


@frozen
class Invoker:
    """The `ExtensionCalls` of the daemon."""

    extensions: Mailbox
    facts: Mailbox
    dispatch: Dispatch
    privacy: PrivacyRules

    async def invoke(self, extension_id: str, tool: str, args: object, passport: str) -> bytes:
        installed, grant = await self._standing(extension_id, tool, passport)
        outcome = await self.dispatch(installed, grant, tool, args, passport)
        if outcome.writes:
            # The endpoint has done its part: a caller who leaves now changes nothing about what is kept of that.
            with trio.CancelScope(shield=True):
                outcome = await self._kept(outcome, grant)
        return _encode(outcome.document())

    async def _kept(self, outcome: DispatchOutcome, grant: ExtensionGrant) -> DispatchOutcome:
        """The outcome once its writes are on disk: all, or none where the grant ended while the endpoint was at it."""
        lookup = Lookup(grant.extension_id, grant.passport_fpr)
        standing = await self.extensions.ask(lookup, deadline_s=KEEP_S)
        outcome = narrowed(outcome, grant.allowed_prefixes_write if standing.grant == grant else ())
        if outcome.writes:
            steps = tuple(self._put(write, grant.passport_fpr) for write in outcome.writes)
            await self.facts.ask(Transact(steps), deadline_s=KEEP_S)
        return outcome

    async def _standing(self, extension_id: str, tool: str, passport: str) -> tuple[InstalledExtension, ExtensionGrant]:
        """What is installed under the id, and the passport's grant; the checks 0c to 0f."""
        standing = await self.extensions.ask(Lookup(extension_id, passport))
        installed, grant = standing.installed, standing.grant
        if installed is None:
            raise NotFound(f"extension '{extension_id[:NAME_SHOWN]}' not installed")
        if grant is None:
            raise Forbidden(f"passport '{passport}' has no grant for extension '{extension_id}'")
        if not grant.allows(tool):
            raise Forbidden(f"tool '{tool[:NAME_SHOWN]}' is not in the grant's allowed_tool_names")
        kind = installed.manifest.entry.kind
        if kind is EntryKind.WASM:
            raise NotBuilt("this daemon is built without a WebAssembly runtime: extensions of the kind wasm do not run")
        if kind is not EntryKind.EXTERNAL_TOOL:
            raise InvalidArgument(
                f"extension '{extension_id}' has unsupported entry.kind {kind.spoken} for tool dispatch"
            )
        return installed, grant

    def _put(self, write: AcceptedWrite, passport: str) -> Put:
        return Put(
            draft_fact(
                entity=write.entity,
                key=write.key,
                value=write.value,
                confidence=write.confidence,
                viewer=ANONYMOUS,
                rules=self.privacy,
                actor=passport,
            )
        )


class DispatchFailed(CruxError):
    """An extension's tool gave no outcome."""


@frozen
class ExtensionTool:
    """What a call over MCP names: `found` is the extension that declares it, and the declared name.

    In figures all of them go by one name, since who installs extensions may call their tools anything.
    """

    asked: str
    found: tuple[str, str] | None

    name: ClassVar = "extension"
    effect: ClassVar = Effect.TOOL_DISPATCH

    @property
    def gated_as(self) -> str:
        """The name by which a capability token permits it."""
        return self.asked if self.found is None else self.found[1]

    def parse(self, given: object) -> dict[str, object]:
        if given is None:
            return {}
        if not isinstance(given, dict):
            raise InvalidArgument(f"'arguments' must be an object, got {shortened(given)}")
        return given

    async def run(self, args: dict[str, object], call: Call) -> WithMeta:
        """Call it (extensions contract 9.2): -32602 without a passport, -32603 for every failure on the way."""
        passport = call.extension_passport
        if passport is None:
            raise InvalidArgument("tools of extensions are granted to passports: connect with an agent's token")
        if self.found is None:
            raise UnknownTool(f"unknown extension tool: {self.asked[:NAME_SHOWN]}")
        extension_id, tool = self.found
        try:
            outcome = await call.services.extension_calls.invoke(extension_id, tool, args, passport)
        except CruxError as error:
            raise DispatchFailed(
                f"the extension call failed with status {error.status}: {error.message}", data=_told(error)
            ) from error
        meta = {"extension_id": extension_id, "rcx_capability": capability_of(tool)}
        return WithMeta(msgspec.Raw(outcome), {"crux": meta})


def _told(error: CruxError) -> dict[str, object]:
    """What a program needs of a failure beside its text (design Decision 17)."""
    wait = {} if error.retry_after_s is None else {"retry_after_s": error.retry_after_s}
    return {**(error.data or {}), "status": error.status, **wait}


async def extension_tool(name: str, services: Services) -> ExtensionTool | None:
    """What `name` stands for, None where no extension's tool has such a name."""
    if not name.startswith(_NAMES):
        return None
    return ExtensionTool(name, await services.extensions.ask(Resolve(name)))
