import json
from typing import Any

import msgspec
import pytest
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.canonical import canonical_json
from crux.domain.facts import Fact, next_version
from crux.domain.inline_receipts import ReceiptSigner
from crux.domain.instants import rfc3339
from crux.domain.observations import (
    LEDGER_PREFIX,
    MOST_NAME_BYTES,
    MOST_PAYLOAD_BYTES,
    OBSERVATIONS_PREFIX,
    NewObservation,
    ObservationRecord,
    Tip,
    check_observation,
    ledger_of,
    observation_draft,
    observation_kept_in,
    observed_session,
    sealed,
    tip_after,
)
from crux.domain.privacy import PrivacyRules, reserved_prefix
from crux.domain.signing import signature_holds
from crux.errors import InvalidArgument, PayloadTooLarge

NOW = 1_800_000_000_000_000
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()
SIGNER = ReceiptSigner(KEY)
SESSION = observed_session("alice", "s")

owners = st.none() | st.text(min_size=1, max_size=8, alphabet="ab:%3A_")
ids = st.text(min_size=1, max_size=8, alphabet="ab:%3A_") | st.sampled_from(["ledger::a", "ledger::__anon__"])
payloads: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def made(new: NewObservation, tip: Tip | None = None, now_us: int = NOW) -> ObservationRecord:
    return sealed(new, SESSION, tip, observation_id="o-1", now_us=now_us, signer=SIGNER)


def kept(record: ObservationRecord) -> Fact:
    return next_version(observation_draft(SESSION, record), None, fact_id="f_1", now_us=NOW)


def hash_of_body(fact: Fact) -> str:
    """By the words of the contract: canonical JSON of all but the receipt."""
    body = {key: value for key, value in json.loads(fact.value).items() if key != "receipt"}
    return blake3(json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()


@given(st.tuples(owners, ids), st.tuples(owners, ids))
def test_two_sessions_have_one_name_only_if_owner_and_id_are_the_same(
    one: tuple[str | None, str], other: tuple[str | None, str]
) -> None:
    assert (observed_session(*one).entity == observed_session(*other).entity) == (one == other)


@pytest.mark.parametrize(
    ("owner", "entity", "session_id"),
    [
        ("alice", "__observations__::alice::s", "__agent_session::alice::s"),
        (None, "__observations__::::s", "s"),
    ],
)
def test_the_id_in_a_record_says_whose_session_it_is(owner: str | None, entity: str, session_id: str) -> None:
    session = observed_session(owner, "s")
    assert (session.entity, session.session_id) == (entity, session_id)


@pytest.mark.parametrize(("owner", "key"), [("alice", "alice"), (None, "__anon__")])
def test_a_caller_reads_the_ledger_of_its_own_calls_by_its_name(owner: str | None, key: str) -> None:
    ledger = observed_session(owner, f"ledger::{key}")
    assert ledger == ledger_of(key)
    assert (ledger.entity, ledger.session_id) == (f"__ledger__::{key}", f"ledger::{key}")


@pytest.mark.parametrize("owner", ["alice", None])
def test_a_caller_reaches_no_ledger_of_another(owner: str | None) -> None:
    assert observed_session(owner, "ledger::bob").entity.startswith(OBSERVATIONS_PREFIX)


@pytest.mark.parametrize("session_id", ["", "a\0", "x" * 513, "__agent_session::bob::s"])
def test_what_is_no_id_is_refused(session_id: str) -> None:
    with pytest.raises(InvalidArgument):
        observed_session(None, session_id)


@pytest.mark.parametrize("session", [SESSION, ledger_of("alice")])
def test_records_belong_to_the_daemon_and_are_private(session: Any) -> None:
    draft = observation_draft(session, made(NewObservation("tool_use", "codex-cli")))
    assert reserved_prefix(draft.entity) in {OBSERVATIONS_PREFIX, LEDGER_PREFIX}
    assert draft.private
    assert PrivacyRules().is_private(draft.entity)


def test_a_record_holds_exactly_what_the_contract_names() -> None:
    new = NewObservation("tool_use", "codex-cli", b'{"a":1}', principal="alice", client_ts="2027-01-15T08:00:00Z")
    first = made(new)
    assert json.loads(kept(first).value) == {
        "observation_id": "o-1",
        "session_id": "__agent_session::alice::s",
        "ts": rfc3339(NOW),
        "client_ts": "2027-01-15T08:00:00Z",
        "provider": "codex-cli",
        "principal": "alice",
        "kind": "tool_use",
        "payload": {"a": 1},
        "seq": 0,
        "receipt": {
            "alg": "ed25519",
            "signed_by": SIGNER.name,
            "body_hash": f"blake3:{hash_of_body(kept(first))}",
            "signature": json.loads(kept(first).value)["receipt"]["signature"],
        },
    }
    second = made(NewObservation("stop", "codex-cli"), tip_after(first))
    shown = json.loads(kept(second).value)
    assert (shown["seq"], shown["prev_hash"], shown["payload"]) == (1, hash_of_body(kept(first)), None)
    assert (shown["principal"], "client_ts" in shown) == (SIGNER.name, False)


@given(st.lists(payloads, min_size=1, max_size=5))
def test_each_record_holds_the_hash_of_the_one_before_it_and_is_signed(values: list[Any]) -> None:
    tip: Tip | None = None
    before: str | None = None
    for seq, value in enumerate(values):
        record = made(NewObservation("k", "p", canonical_json(value)), tip)
        fact = kept(record)
        again = observation_kept_in(fact)
        assert (again.seq, again.prev_hash) == (seq, before)
        assert msgspec.json.decode(again.payload) == value
        body_hash = canonical_json(msgspec.structs.replace(again, receipt=None))
        assert again.receipt is not None
        assert again.receipt.body_hash == f"blake3:{blake3(body_hash).hexdigest()}"
        assert signature_holds(PUBLIC, blake3(body_hash).digest(), bytes.fromhex(again.receipt.signature))
        tip = tip_after(again)
        assert tip == tip_after(record) == Tip(seq, blake3(body_hash).hexdigest())
        before = tip.body_hash


@given(st.integers(0, 2**64 - 2), st.integers(0, 2**64 - 2))
def test_keys_sort_as_the_places_do(one: int, other: int) -> None:
    keys = [observation_draft(SESSION, made(NewObservation("k", "p"), Tip(seq, ""))).key for seq in (one, other)]
    assert (keys[0] < keys[1]) == (one < other)


@pytest.mark.parametrize("name", ["kind", "provider", "principal", "client_ts"])
def test_a_name_in_an_observation_is_short(name: str) -> None:
    fine: dict[str, Any] = {"kind": "k", "provider": "p", name: "é" * (MOST_NAME_BYTES // 2)}
    check_observation(NewObservation(**fine))
    with pytest.raises(InvalidArgument) as refusal:
        check_observation(NewObservation(**{**fine, name: fine[name] + "x"}))
    assert refusal.value.data == {"param": name}


@pytest.mark.parametrize("most", [MOST_PAYLOAD_BYTES, 10])
def test_a_payload_has_a_largest_size(most: int) -> None:
    check_observation(NewObservation("k", "p", b"1" * most), most)
    with pytest.raises(PayloadTooLarge):
        check_observation(NewObservation("k", "p", b"1" * (most + 1)), most)
