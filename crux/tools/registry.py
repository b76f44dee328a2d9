"""What a tool is, and how one is declared."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Any, Protocol

from attrs import frozen

from crux.actors.clock import Clock
from crux.actors.mailbox import Mailbox
from crux.domain.callers import passport_key
from crux.domain.consequence import consequence_of
from crux.domain.decay import DecayPolicy
from crux.domain.documents import Document, Prepared
from crux.domain.features import Feature
from crux.domain.outbound_config import OutboundConfig
from crux.domain.privacy import PrivacyRules, Viewer
from crux.domain.revocation import Revocation
from crux.domain.router import Router
from crux.domain.traces import Effect
from crux.tools.output import output_paths
from crux.tools.schema import Parameter, input_schema, parameters_of, parser_of

CRC_SCHEMA = "https://cuecrux.com/contracts/crc-v1.schema.json"
UPGRADE_DOCS = "https://crux.cuecrux.com/docs/platform/"
CRC_WHEN = (
    'Always, unless the call says contract: "legacy" (or v0, none, off), which gives the plain object of the same rows.'
)


class Tier(StrEnum):
    """Where a tool's work is done."""

    LOCAL = "local"
    HOSTED = "hosted"


# The revocation of an agent's passport, if there is one.
Revocations = Callable[[str], Awaitable[Revocation | None]]
# Told when a result of a tool was cut short, and by what: `token_budget`.
Truncated = Callable[[str, str], None]
# Opens the tracing span of one call, given the tool's name and the agent's.
Span = Callable[[str, str | None], AbstractContextManager[object]]


class ExtensionCalls(Protocol):
    """Calls to what an operator has installed."""

    async def invoke(self, extension_id: str, tool: str, args: object, passport: str) -> bytes:
        """Call a tool in the name of `passport`: the encoded outcome (seed 002 section 5.4).

        `args` is a JSON value. Raises `CruxError` with the status that the HTTP API answers (seed 002 section 5.3).
        """
        ...


class Preparation(Protocol):
    """Makes documents ready to be kept, beside the event loop."""

    async def read(self, given: object) -> tuple[Document, ...]:
        """The documents that a body holds; raises `InvalidArgument`."""
        ...

    async def prepare(self, documents: Sequence[Document]) -> tuple[Prepared, ...]:
        """The documents with their hashes and terms."""
        ...


@frozen
class Services:
    """What calls work with: the actors' mailboxes and the operator's rules.

    `node_id` (32 hex digits) tells this daemon's data directory from any other. `base_url` is that of the HTTP API,
    `mcp_url` where agents reach the daemon, None where MCP is off. `outbound` is what calls
    of extensions are bound by now. Without a `router` every tool may be called; without
    `revocations`, which come with the passports, nobody is revoked; without `span` nothing is traced. With `salience`,
    facts that are recalled often go stale later. With `reversible_budget`
    a budget of `query` pays for pointers alone. `switched_off` are the parts that the operator does without.
    """

    facts: Mailbox
    recall: Mailbox
    clock: Clock
    privacy: PrivacyRules
    decay: DecayPolicy
    intents: Mailbox
    traces: Mailbox
    gaps: Mailbox
    acknowledgements: Mailbox
    preparation: Preparation
    extensions: Mailbox
    audit: Mailbox
    extension_calls: ExtensionCalls
    outbound: Callable[[], OutboundConfig]
    node_id: str
    base_url: str
    mcp_url: str | None
    catalogue: Catalogue
    truncated: Truncated
    router: Router | None = None
    revocations: Revocations | None = None
    span: Span | None = None
    audit_envelope: bool = False
    salience: bool = False
    reversible_budget: bool = False
    switched_off: frozenset[Feature] = frozenset()

    @property
    def console_url(self) -> str:
        """Where a person looks at facts."""
        return f"{self.base_url}/console#facts"


@frozen
class Call:
    """One call: who makes it, and what it works with. `agent` is None for an anonymous caller."""

    agent: str | None
    viewer: Viewer
    services: Services

    @property
    def passport_key(self) -> str:
        """The name that what is kept for each caller goes by; all anonymous ones share theirs (protocol 3.3)."""
        return passport_key(self.agent)

    @property
    def extension_passport(self) -> str | None:
        """Whose grants let this call reach extensions, None where nobody's do.

        An agent acts as itself; a caller without a name, as the subject of the daemon's capability token.
        """
        router = self.services.router
        return self.agent or (None if router is None else router.examined.token.subject.passport_fpr) or None


Run = Callable[[Any, Call], Awaitable[object]]


@frozen
class Tool:
    """One verb of the catalogue."""

    name: str
    plane: str
    tier: Tier
    effect: Effect
    affinity: str | None
    floor_rank: int | None
    crc_kind: str | None
    envelope: bool
    summary: str
    parameters: tuple[Parameter, ...]
    additional_properties: bool
    examples: tuple[Mapping[str, object], ...]
    output: tuple[str, ...]
    parse: Callable[[object], Any]
    run: Run

    @property
    def gated_as(self) -> str:
        """The name by which a capability token permits it."""
        return self.name

    @property
    def description(self) -> str:
        """The text of `tools/list`: the tier's marker first (seed 11.8)."""
        return f"[{self.tier.value}] {self.summary}"

    def listing(self, router: Router | None = None) -> dict[str, object]:
        """The tool's entry in `tools/list`, stamped where a capability token shapes the list (seed 11.8)."""
        schema = input_schema(self.parameters, self.examples, additional_properties=self.additional_properties)
        meta: dict[str, object] = {"consequence_metadata": consequence_of(self.name).as_metadata()}
        if router is not None:
            schema |= router.schema_stamp()
            meta |= router.stamp()
        if self.tier is Tier.HOSTED:
            meta["upgrade"] = {
                "platform_available": True,
                "requires": "rcx_capability_token",
                "docs": UPGRADE_DOCS + self.name,
            }
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": schema,
            "_meta": {"crux": meta},
            **({"x-crux-output-schema": self._output_schema()} if self.crc_kind else {}),
        }

    def _output_schema(self) -> dict[str, object]:
        return {"$ref": CRC_SCHEMA, "contract": "crc-v1", "kind": self.crc_kind, "when": CRC_WHEN}


@frozen
class Catalogue:
    """The tools that are served, in catalogue order."""

    tools: tuple[Tool, ...]
    by_name: Mapping[str, Tool]

    @classmethod
    def of(cls, tools: Sequence[Tool]) -> Catalogue:
        by_name = {tool.name: tool for tool in tools}
        if len(by_name) < len(tools):
            raise ValueError("two tools have one name")
        return cls(tuple(tools), by_name)


def tool(
    name: str,
    *,
    plane: str,
    result: type,
    effect: Effect = Effect.TOOL_DISPATCH,
    tier: Tier = Tier.LOCAL,
    affinity: str | None = None,
    floor_rank: int | None = None,
    crc_kind: str | None = None,
    envelope: bool = False,
    additional_properties: bool = True,
    examples: Sequence[Mapping[str, object]] = ({},),
) -> Callable[[Run], Tool]:
    """Declare a tool: the function's first parameter is its arguments class, its docstring the description.

    `result` is the class whose fields are the tool's output contract. `envelope`: whether the tool gives an audit
    envelope beside its result where those are switched on. `additional_properties=False` declares in the schema that
    there are no other arguments.
    """

    def declare(run: Run) -> Tool:
        arguments = next(iter(typing.get_type_hints(run).values()))
        parameters = parameters_of(arguments)
        return Tool(
            name=name,
            plane=plane,
            tier=tier,
            effect=effect,
            affinity=affinity,
            floor_rank=floor_rank,
            crc_kind=crc_kind,
            envelope=envelope,
            summary=" ".join((inspect.getdoc(run) or "").split()),
            parameters=parameters,
            additional_properties=additional_properties,
            examples=tuple(examples),
            output=tuple(output_paths(result)),
            parse=parser_of(arguments, parameters),
            run=run,
        )

    return declare
