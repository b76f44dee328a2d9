import base64
from typing import Any

import cbor2
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.rcx_token import (
    Backend,
    Capability,
    CreditCost,
    Credits,
    Fallbacks,
    Refill,
    Token,
    encode_token,
    hash_token,
    read_token,
)
from crux.errors import SettingError
from tests.rcx_tokens import ENTERPRISE, KNOWN, TEAM

CBOR = encode_token(KNOWN)
TEXTS = st.text(max_size=30)
NUMBERS = st.integers(0, 2**63 - 1)
EGRESS = st.sampled_from(["none", "vectors", "receipt_hashes", "text"])

capabilities = st.builds(
    Capability,
    capability=TEXTS,
    data_egress_classes=st.lists(EGRESS, max_size=2).map(tuple),
    required_attestations=st.lists(TEXTS, max_size=2).map(tuple),
    credit_cost=st.none() | st.builds(CreditCost, unit=st.just("call"), cost=NUMBERS),
)
tokens = st.builds(
    evolve,
    st.just(KNOWN),
    token_id=TEXTS,
    issued_at=NUMBERS,
    team_scope=st.none() | st.just(TEAM),
    enterprise_scope=st.none() | st.just(ENTERPRISE),
    backends=st.lists(
        st.builds(
            Backend,
            backend_id=TEXTS,
            trust_root_kid=TEXTS,
            endpoint_url=st.none() | TEXTS,
            permitted_capabilities=st.lists(capabilities, max_size=2).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
    credits=st.builds(
        Credits,
        balance=st.none() | st.integers(-(2**63) + 1, 2**63 - 1),
        refill=st.just(Refill(period="daily", amount=5)),
        overdraft=st.just("warn"),
        overdraft_limit=st.none() | NUMBERS,
    ),
    fallback=st.builds(
        Fallbacks,
        on_backend_unreachable=st.just("queue"),
        on_credits_exhausted=st.just("degrade_to_local"),
        on_expiry=st.just("refuse"),
        queue_ttl_seconds=st.none() | NUMBERS,
    ),
    delegation_policy=st.none() | st.just({"depth": 1}),
)


def fields(**changes: Any) -> dict[str, Any]:
    return {**cbor2.loads(CBOR), **changes}


def test_the_published_token_has_its_published_hash_and_size() -> None:
    assert hash_token(KNOWN).hex() == "fec9ac825cd4f1f2ccbb3c4cf95495d61416e867818413153e86cc4539b3cee9"
    assert len(CBOR) == 957


def test_the_hash_covers_all_but_the_signatures_bytes() -> None:
    assert hash_token(evolve(KNOWN, signature=evolve(KNOWN.signature, sig=bytes(64)))) == hash_token(KNOWN)
    assert hash_token(evolve(KNOWN, signature=evolve(KNOWN.signature, kid="p_other"))) != hash_token(KNOWN)
    assert hash_token(evolve(KNOWN, token_id="other")) != hash_token(KNOWN)


def test_an_absent_scalar_is_null_and_an_absent_scope_is_not_there() -> None:
    written = fields()
    assert written["revocation"] == {"crl_url": None, "push_channel": None}
    assert written["backends"][0]["permitted_capabilities"][0]["credit_cost"] is None
    assert written.keys().isdisjoint({"team_scope", "enterprise_scope", "delegation_policy", "delegation_envelope"})


@given(st.dictionaries(st.text(max_size=300), NUMBERS, max_size=8))
def test_map_keys_are_sorted_by_their_encoding(anything: dict[str, int]) -> None:
    # RFC 8949 4.2.1; delegation fields hold maps of any keys
    written = cbor2.loads(encode_token(evolve(KNOWN, delegation_policy=anything)))
    for keys in (list(written), list(written["delegation_policy"]), list(written["credits"])):
        assert keys == sorted(keys, key=cbor2.dumps)


@given(tokens)
def test_a_token_that_is_written_is_read_back(token: Token) -> None:
    cbor = encode_token(token)
    assert read_token(cbor) == token
    assert read_token(base64.urlsafe_b64encode(cbor)) == token


def test_base64url_may_lack_padding_and_have_line_breaks() -> None:
    text = base64.urlsafe_b64encode(CBOR).rstrip(b"=")
    assert read_token(b"\n".join([text[:76], text[76:]]) + b"\r\n") == KNOWN


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "no capability token"),
        (b"not a token!", "neither CBOR nor base64url"),
        (b"AAAAA", "neither CBOR nor base64url"),
        (b"AAAA", "Expected `object`"),
        (CBOR[:-1], "premature end"),
        (CBOR + b"\0", "not canonical"),
        (b"\xbf" + CBOR[1:] + b"\xff", "indefinite"),
        (cbor2.dumps(dict(reversed(fields().items()))), "not canonical"),
        (cbor2.dumps(fields(surprise=1), canonical=True), "unknown members"),
        (cbor2.dumps(fields(delegation_policy=None), canonical=True), "not canonical"),
        (cbor2.dumps(fields(team_scope=None), canonical=True), "not canonical"),
        (cbor2.dumps(fields(revocation={"crl_url": None}), canonical=True), "not canonical"),
        (cbor2.dumps(fields(issued_at=-1), canonical=True), r"\$\.issued_at"),
        (cbor2.dumps(fields(issued_at=2**63), canonical=True), r"\$\.issued_at"),
        (cbor2.dumps(fields(issued_at=1.0), canonical=True), r"\$\.issued_at"),
        (cbor2.dumps(fields(tier="gold"), canonical=True), r"\$\.tier"),
        (cbor2.dumps(fields(signature={"alg": "ed25519", "kid": "k", "sig": b"1" * 63}), canonical=True), "length"),
        (
            cbor2.dumps(fields(signature={"alg": "ed25519", "kid": "k", "sig": "A" * 86 + "=="}), canonical=True),
            "canonical",
        ),
        (b"\xa1\x61a" + b"\x81" * 40 + b"\0", "depth"),
        # shared references, with which a value holds itself
        (
            cbor2.dumps(fields(delegation_policy=0), canonical=True).replace(
                b"policy\0", b"policy\xd8\x1c\x81\xd8\x1d\0"
            ),
            "recursion",
        ),
    ],
)
def test_what_is_no_canonical_token_is_refused_with_the_reason(data: bytes, problem: str) -> None:
    with pytest.raises(SettingError, match=problem):
        read_token(data)


@given(
    st.binary(max_size=80)
    | st.builds(
        lambda at, byte: CBOR[:at] + byte + CBOR[at + 1 :], st.integers(0, 956), st.binary(min_size=1, max_size=1)
    )
)
def test_odd_bytes_are_refused_or_are_the_canonical_form_of_what_was_read(data: bytes) -> None:
    try:
        token = read_token(data)
    except SettingError:
        return
    assert encode_token(token) == data


@pytest.mark.parametrize(
    "change",
    [{"spec_version": "rcx-ct/1.1"}, {"delegation_policy": {"depth": 1}}, {"delegation_envelope": [1, 2]}],
)
def test_a_token_of_version_1_1_or_with_a_delegation_is_contextual(change: dict[str, Any]) -> None:
    token = evolve(KNOWN, **change)
    assert read_token(encode_token(token)).contextual
    assert not KNOWN.contextual
