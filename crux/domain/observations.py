"""Observations: what was seen of a session, in a chain in which each record holds the hash of the one before it
(governance contract 2).

A record is a fact of the daemon's own: one entity for a session, one key for a place in its chain. A session's name in
the store holds whose it is, escaped, so that no two sessions share a chain (Decision 25). Ledgers are the daemon's to
write and have names apart.
"""

from typing import Final

import msgspec
from attrs import frozen
from blake3 import blake3

from crux.domain.callers import passport_key
from crux.domain.canonical import canonical_json
from crux.domain.facts import Draft, Fact
from crux.domain.inline_receipts import InlineReceipt, ReceiptSigner
from crux.domain.instants import rfc3339
from crux.domain.privacy import AGENT_PREFIX, private_entity
from crux.domain.sessions import AGENT_SESSION_PREFIX, check_session_id
from crux.domain.tokens import utf8_size
from crux.errors import InvalidArgument, PayloadTooLarge

OBSERVATIONS_PREFIX = "__observations__::"
LEDGER_PREFIX = "__ledger__::"
LEDGER_SESSION_PREFIX = "ledger::"
MOST_PAYLOAD_BYTES = 1024 * 1024
MOST_NAME_BYTES = 256

# Keys sort as the places that they name do, up to the largest 64-bit number.
_PLACE_DIGITS = 20


@frozen
class ObservedSession:
    """Where a session's records are kept, and the id that they carry."""

    entity: str
    session_id: str


@frozen
class NewObservation:
    """What somebody saw: `payload` is canonical JSON, `provider` the program that tells, `client_ts` the time by it.

    `principal` is the passport of who writes it, None for the daemon itself.
    """

    kind: str
    provider: str
    payload: bytes = b"null"
    principal: str | None = None
    client_ts: str | None = None


class ObservationRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record as it is kept and shown. `seq` counts from 0; `prev_hash` is absent there and else 64 hex digits."""

    observation_id: str
    session_id: str
    ts: str
    client_ts: str | None = None
    provider: str
    principal: str
    kind: str
    payload: msgspec.Raw
    seq: int
    prev_hash: str | None = None
    receipt: InlineReceipt | None = None


@frozen
class Tip:
    """The last record of a chain: its place, and the hash of its body as 64 hex digits."""

    seq: int
    body_hash: str


_decode: Final = msgspec.json.Decoder(ObservationRecord).decode


def ledger_of(key: str) -> ObservedSession:
    """The session in which the daemon records the calls of the caller with this passport key (protocol 11.3)."""
    return ObservedSession(LEDGER_PREFIX + key, LEDGER_SESSION_PREFIX + key)


def observed_session(owner: str | None, session_id: str) -> ObservedSession:
    """The session that a caller calls `session_id`, for reading: its own, or the ledger of its own calls (Decision 47).

    `owner` is None for callers without a name, who share one scope. Raises `InvalidArgument` for what is no id.
    """
    check_session_id(session_id)
    ledger = ledger_of(passport_key(owner))
    if session_id == ledger.session_id:
        return ledger
    scoped = private_entity(owner or "", session_id).removeprefix(AGENT_PREFIX)
    return ObservedSession(OBSERVATIONS_PREFIX + scoped, session_id if owner is None else AGENT_SESSION_PREFIX + scoped)


def check_observation(new: NewObservation, most_payload_bytes: int = MOST_PAYLOAD_BYTES) -> None:
    """Raise `InvalidArgument` for a name that is too long, `PayloadTooLarge` for a payload that is."""
    for name in ("kind", "provider", "principal", "client_ts"):
        size = utf8_size(getattr(new, name) or "")
        if size > MOST_NAME_BYTES:
            raise InvalidArgument(
                f"'{name}' must have at most {MOST_NAME_BYTES} bytes of UTF-8, got {size}", data={"param": name}
            )
    if len(new.payload) > most_payload_bytes:
        raise PayloadTooLarge(
            f"an observation's payload must have at most {most_payload_bytes} bytes as compact JSON, "
            f"got {len(new.payload)}: split it, or keep the bulk elsewhere",
            data={"param": "payload"},
        )


def sealed(
    new: NewObservation,
    session: ObservedSession,
    tip: Tip | None,
    *,
    observation_id: str,
    now_us: int,
    signer: ReceiptSigner,
) -> ObservationRecord:
    """The record that comes after `tip` (None: the first), signed."""
    record = ObservationRecord(
        observation_id=observation_id,
        session_id=session.session_id,
        ts=rfc3339(now_us),
        client_ts=new.client_ts,
        provider=new.provider,
        principal=signer.name if new.principal is None else new.principal,
        kind=new.kind,
        payload=msgspec.Raw(new.payload),
        seq=0 if tip is None else tip.seq + 1,
        prev_hash=None if tip is None else tip.body_hash,
    )
    return msgspec.structs.replace(record, receipt=signer.receipt(canonical_json(record)))


def tip_after(record: ObservationRecord) -> Tip:
    """The tip of a chain that `record` is the last of; the hash is computed anew, over all but the receipt."""
    body = canonical_json(msgspec.structs.replace(record, receipt=None))
    return Tip(record.seq, blake3(body).hexdigest())


def observation_draft(session: ObservedSession, record: ObservationRecord) -> Draft:
    """The fact that keeps `record`."""
    return Draft(
        entity=session.entity,
        key=f"{record.seq:0{_PLACE_DIGITS}}",
        value=canonical_json(record).decode(),
        private=True,
        actor=record.principal,
    )


def observation_kept_in(fact: Fact) -> ObservationRecord:
    """The record that `fact` keeps."""
    return _decode(fact.value)
