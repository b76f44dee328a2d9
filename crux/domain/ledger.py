"""The ledger: what is written down of each call and of each list of tools that was offered (protocol contract 11.3)."""

from collections.abc import Sequence
from typing import Final

import msgspec

from crux.domain.bounds import cut
from crux.domain.canonical import canonical_json, short_hash
from crux.domain.observations import NewObservation
from crux.domain.surface import SurfaceMode
from crux.domain.tokens import of_size
from crux.domain.traces import MOST_NAME_BYTES, Outcome, PredictedEffect, TraceEntry, text_argument
from crux.domain.usage import declared_budget

INVOCATION: Final = "agent.tool_invocation.v1"
OFFER: Final = "agent.tools_offered.v1"
PROVIDER: Final = "crux-mcp"
# Arguments above this are in the ledger by their hash alone: entries wait in memory until they are written.
MOST_RAW_ARGS_BYTES = 16 * 1024


class Invocation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call. `latency_ms` has three decimals; what is not known is absent."""

    tool: str
    passport: str
    args_hash: str
    result_bytes: int
    est_tokens_in: int
    est_tokens_out: int
    latency_ms: float
    outcome: Outcome
    predicted_effects: tuple[PredictedEffect, ...]
    turn_id: str | None = None
    session_id: str | None = None
    token_budget_in: int | None = None
    request_id: str | int | float | None = None
    args_raw: msgspec.Raw | None = None


class Offer(msgspec.Struct, frozen=True):
    """One list of tools as it was sent."""

    passport: str
    tools: tuple[str, ...]
    count: int
    surface_mode: SurfaceMode
    set_hash: str


def invocation(
    entry: TraceEntry,
    arguments: object,
    text: bytes,
    *,
    label: str,
    passport: str,
    result_bytes: int,
    elapsed_s: float,
    request_id: str | int | float | None = None,
    raw_args: bool = False,
) -> Invocation:
    """What the ledger says of a call whose trace shows `entry`.

    `label` is the tool's name, or `unknown`; `result_bytes` the size of the result, or of the error's message.
    `raw_args` asks for the arguments themselves, which are left out all the same above `MOST_RAW_ARGS_BYTES`.
    """
    return Invocation(
        tool=label,
        passport=passport,
        args_hash=short_hash(text),
        result_bytes=result_bytes,
        est_tokens_in=of_size(len(text)),
        est_tokens_out=of_size(result_bytes),
        latency_ms=round(elapsed_s * 1000, 3),
        outcome=entry.outcome,
        predicted_effects=entry.predicted_effects,
        turn_id=entry.turn_id,
        session_id=text_argument(arguments, "session_id"),
        token_budget_in=declared_budget(arguments),
        request_id=cut(request_id, MOST_NAME_BYTES) if isinstance(request_id, str) else request_id,
        args_raw=msgspec.Raw(text) if raw_args and len(text) <= MOST_RAW_ARGS_BYTES else None,
    )


def offer(passport: str, tools: Sequence[str], mode: SurfaceMode) -> Offer:
    """What the ledger says of a list of tools, in the order in which they were sent."""
    return Offer(passport, tuple(tools), len(tools), mode, short_hash("\n".join(tools).encode()))


def observation_of(event: Invocation | Offer) -> NewObservation:
    """The observation, by the daemon itself, that keeps an event of the ledger."""
    kind = INVOCATION if isinstance(event, Invocation) else OFFER
    return NewObservation(kind=kind, provider=PROVIDER, payload=canonical_json(event))
