"""What is kept of a finished call in memory, for a while: which tool, to what effect, how it went (protocol 11.1).

A trace holds text that callers send: names, an entity, a key, arguments. Each piece is cut, so that a trace has at
most `MOST_SIGNATURE_BYTES` and four times `MOST_NAME_BYTES` of it, 1.5 KiB, however large the call was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import islice
from typing import Final

import msgspec
from attrs import define, field

from crux.domain.bounds import cut
from crux.domain.canonical import canonical_json, short_hash
from crux.domain.privacy import NEVER_NAMED
from crux.domain.tokens import utf8_size

MOST_ENTRIES = 5000
MOST_NAME_BYTES = 256
MOST_SIGNATURE_BYTES = 512

# What calls that turn the pages of one listing differ by.
_PAGING: Final = frozenset(
    {"offset", "cursor", "page", "page_token", "after", "before", "start", "from", "next", "continuation", "skip"}
)
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


class Effect(StrEnum):
    """What a call is predicted to do, for traces and the ledger (protocol contract, section 6)."""

    FACT_WRITE = "fact_write"
    FORGET = "forget"
    RECEIPT_EMIT = "receipt_emit"
    FACT_READ = "fact_read"
    TOOL_DISPATCH = "tool_dispatch"


class Outcome(StrEnum):
    """How a call went."""

    OK = "ok"
    ERROR = "error"


class PredictedEffect(msgspec.Struct, frozen=True, gc=False):
    """One effect, and what on; `entity` and `key` are empty where the call names none."""

    kind: Effect
    entity: str
    key: str
    ts_us: int


class TraceEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call as it is shown. `ts_us` is when it finished, in microseconds since the Unix epoch."""

    tool: str
    turn_id: str | None = None
    ts_us: int
    predicted_effects: tuple[PredictedEffect, ...]
    outcome: Outcome
    signature: str | None = None
    response_tokens: int | None = None


class Said(msgspec.Struct, frozen=True, gc=False):
    """What the arguments of a call say of it; `entity` and `key` are empty where they name none."""

    turn_id: str | None
    entity: str
    key: str
    signature: str


class Trace(msgspec.Struct, frozen=True, gc=False):
    """One call as it is kept. Every call makes one and few are ever looked at, so short arguments are kept as they came
    (JSON), and read when somebody looks."""

    tool: str
    ts_us: int
    kind: Effect
    outcome: Outcome
    response_tokens: int | None
    arguments: bytes | Said

    @property
    def said(self) -> Said:
        return said_by(self.tool, _decode(self.arguments)) if isinstance(self.arguments, bytes) else self.arguments

    def entry(self) -> TraceEntry:
        """The call as it is shown, with the one effect that it was predicted to have (protocol contract 6)."""
        said = self.said
        return TraceEntry(
            tool=self.tool,
            turn_id=said.turn_id,
            ts_us=self.ts_us,
            predicted_effects=(PredictedEffect(self.kind, said.entity, said.key, self.ts_us),),
            outcome=self.outcome,
            signature=said.signature,
            response_tokens=self.response_tokens,
        )


def trace_of(
    tool: str,
    effect: Effect,
    arguments: object,
    text: bytes,
    *,
    ok: bool,
    ts_us: int,
    response_tokens: int | None = None,
) -> Trace:
    """The trace of a call of `tool`, a name as the caller gave it, which finished at `ts_us`. `text` is `arguments` as
    JSON."""
    tool = cut(tool, MOST_NAME_BYTES)
    kept = text if len(text) <= MOST_SIGNATURE_BYTES else said_by(tool, arguments)
    return Trace(tool, ts_us, effect, Outcome.OK if ok else Outcome.ERROR, response_tokens, kept)


def said_by(tool: str, arguments: object) -> Said:
    """What `arguments` say of a call of `tool`; each text is cut."""
    return Said(
        text_argument(arguments, "turn_id"),
        text_argument(arguments, "entity") or "",
        text_argument(arguments, "key") or "",
        signature_of(tool, arguments),
    )


def text_argument(arguments: object, name: str) -> str | None:
    """The start, `MOST_NAME_BYTES` long, of the argument `name` where it is a text."""
    value = arguments.get(name) if type(arguments) is dict else None
    return cut(value, MOST_NAME_BYTES) if type(value) is str else None


def signature_of(tool: str, arguments: object) -> str:
    """`tool(key=value,…)` in one form for one call, whatever page it asks for (protocol contract 11.2).

    Longer than `MOST_SIGNATURE_BYTES` it is cut and ends in `…#` and a hash of the arguments, so that different calls
    have different signatures all the same.
    """
    tool = cut(tool, MOST_NAME_BYTES)
    members = arguments if isinstance(arguments, dict) else {}
    kept = {key: value for key, value in members.items() if key not in _PAGING}
    pieces, size = [f"{tool}("], 0
    for piece in _rendered_members(kept):
        pieces.append(piece)
        size += len(piece)
        if size > MOST_SIGNATURE_BYTES:
            break
    text = "".join([*pieces, ")"])
    if utf8_size(text) <= MOST_SIGNATURE_BYTES:
        return text
    ending = f"…#{short_hash(canonical_json(kept))}"
    return cut(text, MOST_SIGNATURE_BYTES - utf8_size(ending)) + ending


def _rendered(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield "{"
        yield from _rendered_members(value)
        yield "}"
    elif isinstance(value, list):
        yield "["
        for number, item in enumerate(value):
            if number:
                yield ","
            yield from _rendered(item)
        yield "]"
    elif isinstance(value, str):
        yield _encode(value[:MOST_SIGNATURE_BYTES]).decode()  # a longer text is cut in any case
    else:
        yield _encode(value).decode()


def _rendered_members(members: Mapping[str, object]) -> Iterator[str]:
    for number, key in enumerate(sorted(members)):
        yield f",{key}=" if number else f"{key}="
        yield from _rendered(members[key])


@define
class Ring:
    """The newest traces of one caller: at most `MOST_ENTRIES`, none older than `ttl_us`; the oldest go first.

    They are in the order in which they came. A clock that was set back makes none of them go early.
    """

    ttl_us: int
    _traces: deque[Trace] = field(init=False, factory=lambda: deque(maxlen=MOST_ENTRIES))

    def push(self, trace: Trace) -> None:
        """Add one that has just finished."""
        self._traces.append(trace)
        self._drop_old(trace.ts_us)

    def newest(self, most: int, *, now_us: int) -> tuple[Trace, ...]:
        """Up to `most` of them, newest first."""
        self._drop_old(now_us)
        return tuple(islice(reversed(self._traces), most))

    def _drop_old(self, now_us: int) -> None:
        while self._traces and now_us - self._traces[0].ts_us > self.ttl_us:
            self._traces.popleft()


def without_reserved(entry: TraceEntry) -> TraceEntry:
    """`entry` as its caller may see it: effects on the daemon's own entities and on private names are left out."""
    shown = tuple(effect for effect in entry.predicted_effects if not effect.entity.startswith(NEVER_NAMED))
    return msgspec.structs.replace(entry, predicted_effects=shown)
