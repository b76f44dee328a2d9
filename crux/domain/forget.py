"""Forgetting what is in a scope: what it reaches, and the receipt of what was erased (memory contract 7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import cbor2
from attrs import frozen
from blake3 import blake3

from crux.domain.facts import DEFAULT_TENANT, Draft, Fact
from crux.domain.instants import parse_rfc3339, rfc3339
from crux.domain.messages import Message
from crux.domain.privacy import Viewer
from crux.domain.tokens import utf8_size
from crux.errors import InvalidArgument

RECEIPT_SCHEMA: Final = "crux.forget_receipt.v1"
RECEIPT_PREFIX: Final = "__forget_receipt__::"
RECEIPT_KEY: Final = "receipt"
# One call reaches the oldest so many, as far as their values are bounded too; the answer says how many are left.
MOST_FORGOTTEN: Final = 10_000
# SQLite fails on a pattern above 50,000 bytes, and a pattern is at most three times as long as what is asked for.
MOST_SCOPE_BYTES: Final = 4096
INSTANT: Final = "an RFC 3339 instant such as 2026-11-30T18:59:22Z"


class ScopeType(StrEnum):
    """What a scope selects facts by."""

    ENTITY_PREFIX = "entity_prefix"
    KEY_GLOB = "key_glob"
    PASSPORT_ID = "passport_id"
    BEFORE_TIMESTAMP = "before_timestamp"
    TENANT_ID = "tenant_id"


@frozen
class Scope:
    """Which facts to forget: a selector and what it selects. Raises `InvalidArgument` for a value that selects none by
    nature."""

    type: ScopeType
    value: str
    before_us: int | None = None

    @classmethod
    def of(cls, type: ScopeType, value: str) -> Scope:  # noqa: A002 - the word of the contract
        """A scope as callers write it."""
        if not value.strip():
            raise InvalidArgument("'scope.value' must not be blank", data={"param": "scope.value"})
        if (size := utf8_size(value)) > MOST_SCOPE_BYTES:
            raise InvalidArgument(
                f"'scope.value' must have at most {MOST_SCOPE_BYTES} bytes, got {size}", data={"param": "scope.value"}
            )
        if type is not ScopeType.BEFORE_TIMESTAMP:
            return cls(type, value)
        try:
            return cls(type, value, parse_rfc3339(value))
        except ValueError:
            raise InvalidArgument(
                f"'scope.value' must be {INSTANT} for before_timestamp, got '{value[:40]}'",
                data={"param": "scope.value", "expected": INSTANT},
            ) from None


@frozen(kw_only=True)
class Reach:
    """Whose facts a scope reaches, and how many: facts that `viewer` sees and `agent` has not pinned, the oldest first.

    As many as the budget has tokens for, and 8 MiB of values at most; the first in any case.
    """

    scope: Scope
    viewer: Viewer
    agent: str | None
    include_pinned: bool = False
    token_budget: int | None = None
    tenant: str = DEFAULT_TENANT


@frozen
class Reached:
    """The facts that a scope reaches, without their values, and how many more match it."""

    facts: tuple[Fact, ...]
    left_out: int


@frozen
class PreviewForget(Message[Reached]):
    """What forgetting would reach."""

    reach: Reach


@frozen(kw_only=True)
class Forget(Message["Forgotten"]):
    """Erase the values of all that is reached, for good, and keep a receipt; all or nothing.

    `hash_key` is 32 random bytes that the hashes of the receipt are keyed with. It is not kept: without it, nobody can
    try values until one fits.
    """

    reach: Reach
    reason: str
    agent: str
    receipt_tenant: str
    hash_key: bytes


@frozen
class Forgotten:
    """The receipt of what was erased."""

    receipt_id: str
    reached: Reached
    body: bytes
    initiated_us: int

    @property
    def body_hash(self) -> str:
        """BLAKE3 of the body, 64 hex digits."""
        return blake3(self.body).hexdigest()


def value_hash(value: str, hash_key: bytes) -> str:
    """What stands in a receipt for an erased value: its keyed BLAKE3, 64 hex digits."""
    return blake3(value.encode(), key=hash_key).hexdigest()


def forgotten(forget: Forget, reached: Reached, value_hashes: Sequence[str], now_us: int) -> Forgotten:
    """The receipt of erasing the facts of `reached`, with the `value_hash` of each.

    Its id is made of who, whose, what, how many and when.
    """
    scope = f"{forget.reach.scope.type}:{forget.reach.scope.value}"
    at = rfc3339(now_us)
    named = "|".join((forget.agent, forget.receipt_tenant, scope, str(len(reached.facts)), at))
    receipt_id = f"r_forget_{blake3(named.encode()).hexdigest()[:16]}"
    body = {
        "schema": RECEIPT_SCHEMA,
        "receipt_id": receipt_id,
        "tenant_id": forget.receipt_tenant,
        "passport_id": forget.agent,
        "reason": forget.reason,
        "scope": {"type": forget.reach.scope.type.value, "value": forget.reach.scope.value},
        "facts_affected": [
            {
                "fact_id": fact.fact_id,
                "pre_forget_value_hash_hex": value_hash,
                "entity": fact.entity,
                "key": fact.key,
            }
            for fact, value_hash in zip(reached.facts, value_hashes, strict=True)
        ],
        "initiated_at": at,
        "recovery_window_ends_at": at,  # what is erased does not come back
    }
    return Forgotten(receipt_id, reached, cbor2.dumps(body, canonical=True), now_us)


def receipt_draft(receipt: Forgotten) -> Draft:
    """The receipt as it is kept: the body in hex."""
    return Draft(
        entity=f"{RECEIPT_PREFIX}{receipt.receipt_id}",
        key=RECEIPT_KEY,
        value=receipt.body.hex(),
        source_receipt=receipt.receipt_id,
        private=True,
    )


def ids_of(facts: Iterable[Fact]) -> list[str]:
    """The ids of facts, in order."""
    return [fact.fact_id for fact in facts]
