"""What is kept of a finished call in memory, for a while: which tool, to what effect, how it went (protocol 11.1).

An entry holds text that callers send: names, an entity, a key, arguments. Each piece is cut, so that an entry has at
most `MOST_SIGNATURE_BYTES` and four times `MOST_NAME_BYTES` of it, 1.5 KiB, however large the call was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Final

import msgspec
from attrs import define, field

from crux.domain.bounds import cut
from crux.domain.canonical import canonical_json, short_hash
from crux.domain.tokens import of_json, utf8_size

MOST_ENTRIES = 5000
MOST_NAME_BYTES = 256
MOST_SIGNATURE_BYTES = 512

# What calls that turn the pages of one listing differ by.
_PAGING: Final = frozenset(
    {"offset", "cursor", "page", "page_token", "after", "before", "start", "from", "next", "continuation", "skip"}
)
# Traces have a list of their own of what is not shown (protocol contract 7).
_NOT_SHOWN: Final = ("__agent::", "__ops::", "__bootstrap__::", "__session_binding__::", "__reverify_receipts__::")

_encode: Final = msgspec.json.Encoder().encode


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


class TraceEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One call as it is kept and shown. `ts_us` is when it finished, in microseconds since the Unix epoch."""

    tool: str
    turn_id: str | None = None
    ts_us: int
    predicted_effects: tuple[PredictedEffect, ...]
    outcome: Outcome
    signature: str | None = None
    response_tokens: int | None = None


class Traces(msgspec.Struct, frozen=True):
    """Entries, newest first, and how many they are."""

    traces: tuple[TraceEntry, ...]
    count: int


def trace_entry(
    tool: str, effect: Effect, arguments: object, *, ok: bool, ts_us: int, response_tokens: int | None = None
) -> TraceEntry:
    """The entry of a call of `tool`, a name as the caller gave it, which finished at `ts_us`."""
    return TraceEntry(
        tool=cut(tool, MOST_NAME_BYTES),
        turn_id=text_argument(arguments, "turn_id"),
        ts_us=ts_us,
        predicted_effects=(predicted_effect(effect, arguments, ts_us=ts_us),),
        outcome=Outcome.OK if ok else Outcome.ERROR,
        signature=signature_of(tool, arguments),
        response_tokens=response_tokens,
    )


def predicted_effect(effect: Effect, arguments: object, *, ts_us: int) -> PredictedEffect:
    """What a call with these arguments is predicted to do: exactly one thing (protocol contract 6)."""
    return PredictedEffect(
        kind=effect,
        entity=text_argument(arguments, "entity") or "",
        key=text_argument(arguments, "key") or "",
        ts_us=ts_us,
    )


def text_argument(arguments: object, name: str) -> str | None:
    """The start, `MOST_NAME_BYTES` long, of the argument `name` where it is a text."""
    value = arguments.get(name) if isinstance(arguments, dict) else None
    return cut(value, MOST_NAME_BYTES) if isinstance(value, str) else None


def signature_of(tool: str, arguments: object) -> str:
    """`tool(key=value,…)` in one form for one call, whatever page it asks for (protocol contract 11.2).

    Longer than `MOST_SIGNATURE_BYTES` it is cut and ends in `…#` and a hash of the arguments, so that different calls
    have different signatures all the same.
    """
    tool = cut(tool, MOST_NAME_BYTES)
    kept = {key: value for key, value in _members(arguments).items() if key not in _PAGING}
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


def _members(arguments: object) -> Mapping[str, object]:
    return arguments if isinstance(arguments, dict) else {}


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
    """The newest entries of one caller: at most `MOST_ENTRIES`, none older than `ttl_us`; the oldest go first.

    Entries are in the order in which they came. A clock that was set back makes none of them go early.
    """

    ttl_us: int
    _entries: deque[TraceEntry] = field(init=False, factory=lambda: deque(maxlen=MOST_ENTRIES))

    def push(self, entry: TraceEntry, *, now_us: int) -> None:
        self._entries.append(entry)
        self._drop_old(now_us)

    def newest(self, most: int, *, now_us: int) -> tuple[TraceEntry, ...]:
        """Up to `most` entries, newest first."""
        self._drop_old(now_us)
        return tuple(islice(reversed(self._entries), most))

    def _drop_old(self, now_us: int) -> None:
        while self._entries and now_us - self._entries[0].ts_us > self.ttl_us:
            self._entries.popleft()


def without_reserved(entry: TraceEntry) -> TraceEntry:
    """`entry` as it is shown: effects on the daemon's own entities and on private names are left out."""
    shown = tuple(effect for effect in entry.predicted_effects if not effect.entity.startswith(_NOT_SHOWN))
    return (
        entry if len(shown) == len(entry.predicted_effects) else msgspec.structs.replace(entry, predicted_effects=shown)
    )


def within_budget(entries: Sequence[TraceEntry], token_budget: int) -> Traces:
    """The first of `entries` and as many of those after it as `token_budget` holds together with it."""
    kept, spent = 0, 0
    for entry in entries:
        spent += of_json(entry)
        if kept and spent > token_budget:
            break
        kept += 1
    return Traces(tuple(entries[:kept]), kept)
