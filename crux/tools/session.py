"""The session handshake: a sealed plan for the caller, and the intent that narrows its tool list."""

from __future__ import annotations

import secrets
from typing import Protocol, TypeVar

import msgspec
from attrs import frozen

from crux.actors.intents import DeclareIntent
from crux.actors.mailbox import Mailbox
from crux.domain.commands import Put, Transact
from crux.domain.messages import Message
from crux.domain.session_capabilities import Wishes
from crux.domain.session_plan import ID_BYTES, Request, SessionPlan, mint, plan_drafts, plan_json
from crux.domain.surface import intent_in
from crux.tools.registry import Call, tool
from crux.tools.schema import arg

R = TypeVar("R")


@frozen
class Hints:
    prefer_bulk: bool = arg("Prefer the bulk channel where a capability has one", default=True, declare_default=False)
    max_capabilities: int | None = arg(
        "Most capabilities in the plan; counts with one of the five known intents only",
        default=None,
        at_least=0,
        declare_least=True,
    )
    want_parent_chain: bool = arg(
        "Put the receipts that the session descends from into its own", default=False, declare_default=False
    )
    hide_exclusions: bool = arg(
        "Leave out which capabilities you do not get, and why", default=False, declare_default=False
    )


@frozen
class SessionArguments:
    intent: str | None = arg(
        "What you are about to do: audit_review, compliance_export, document_ingest, session_review, knowledge_query, "
        "or your own words; blank withdraws it",
        default=None,
    )
    hints: Hints = arg("Wishes for the plan", default=Hints(), declare_default=False, additional_properties=False)


class Ask(Protocol):
    """How an edge asks an actor: within what is left of its call's time."""

    async def __call__(self, mailbox: Mailbox, message: Message[R], /) -> R: ...


@tool(
    "cuecrux_session",
    plane="discovery",
    result=SessionPlan,
    affinity="session",
    floor_rank=1,
    additional_properties=False,
    examples=[{"intent": "session_review"}],
)
async def cuecrux_session(args: SessionArguments, call: Call) -> msgspec.Raw:
    """Open a session, once and before other tools: say what you are about to do, and get a sealed plan of the
    capabilities, channels and budget you have, each with its route, lowest tier and cost class. Where the tool list is
    dynamic, the intent also brings the tools that suit it into the list, for an hour."""
    return msgspec.Raw(plan_json(await open_session(call, args.intent, args.hints)))


async def open_session(call: Call, intent: str | None, hints: Hints, ask: Ask = Mailbox.ask) -> SessionPlan:
    """Mint a plan for the caller, keep it and whose it is, then declare the intent: None leaves an earlier one alone.

    In this order, so that a plan which could not be kept (raises what the store raises) changes nothing else.
    """
    services = call.services
    request = Request(
        call.agent,
        Wishes(None if intent is None else intent_in(intent), hints.prefer_bulk, hints.max_capabilities),
        hints.want_parent_chain,
        hints.hide_exclusions,
    )
    plan = mint(
        request,
        plan_id=secrets.token_bytes(ID_BYTES),
        session_id=secrets.token_bytes(ID_BYTES),
        install_id=services.node_id,
        mcp_url=services.mcp_url,
        now_us=services.clock.now_us(),
    )
    puts = tuple(Put(draft, expected_version=0) for draft in plan_drafts(plan, call.agent))
    await ask(services.facts, Transact(puts))
    if intent is not None:
        await ask(services.intents, DeclareIntent(call.passport_key, intent))
    return plan
