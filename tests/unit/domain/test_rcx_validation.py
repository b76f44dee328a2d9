from typing import Any

import pytest
from attrs import evolve

from crux.domain.rcx_token import HOSTED_BACKEND, Capability, Token, hash_token
from crux.domain.rcx_validation import basic_issues, examine
from tests.rcx_tokens import ENTERPRISE, EXPIRES_AT, ISSUED_AT, PUBLIC, TEAM, backend, minted

CUSTOMER = backend("customer:acme")


def codes(token: Token, now_s: int = ISSUED_AT) -> list[str]:
    return [issue.code for issue in basic_issues(token, now_s=now_s)]


def with_signature(**changes: Any) -> Token:
    token = minted()
    return evolve(token, signature=evolve(token.signature, **changes))


def enterprise(**changes: Any) -> Token:
    backends = changes.pop("backends", (CUSTOMER,))
    return minted(tier="enterprise", enterprise_scope=evolve(ENTERPRISE, **changes), backends=backends)


def test_a_sound_token_has_no_issue() -> None:
    assert codes(minted()) == []
    assert codes(minted(tier="team", team_scope=TEAM)) == []
    assert codes(enterprise()) == []
    assert codes(enterprise(backends=(CUSTOMER, backend(HOSTED_BACKEND)))) == []
    assert codes(enterprise(airgap=True)) == []


@pytest.mark.parametrize(
    ("token", "code"),
    [
        (minted(spec_version="rcx-ct/0.9"), "invalid_spec_version"),
        (minted(token_id=" \t"), "missing_token_id"),
        (minted(refresh_hint_at=EXPIRES_AT), "invalid_refresh_hint"),
        (with_signature(alg="none"), "unsupported_signature_alg"),
        (with_signature(kid="p_other"), "signature_kid_mismatch"),
        (minted(backends=()), "missing_backend"),
        (minted(tier="team"), "missing_team_scope"),
        (minted(tier="enterprise"), "missing_enterprise_scope"),
        (minted(team_scope=evolve(TEAM, team_id="")), "missing_team_id"),
        (minted(team_scope=evolve(TEAM, pooled_credit_agent_id="")), "missing_pooled_credit_agent_id"),
        (minted(team_scope=evolve(TEAM, principal_passport_fprs=())), "missing_principal_scope"),
        (enterprise(customer_id=""), "missing_enterprise_customer_id"),
        (enterprise(backend_id="acme", backends=(backend("acme"),)), "invalid_enterprise_backend"),
        (
            enterprise(trust_root_kid=" ", backends=(backend("customer:acme", kid=" "),)),
            "missing_enterprise_trust_root",
        ),
        (enterprise(trust_root_kid="p_other"), "trust_root_mismatch"),
        (enterprise(backends=(backend("customer:other"),)), "enterprise_backend_missing"),
        (enterprise(airgap=True, backends=(CUSTOMER, backend(HOSTED_BACKEND))), "backend_not_permitted"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_fault_is_named_alone_and_makes_the_token_unsound(token: Token, code: str) -> None:
    assert codes(token) == [code]
    assert not examine(token, PUBLIC).is_sound(now_s=ISSUED_AT)


@pytest.mark.parametrize(
    ("now_s", "code", "sound"),
    [
        (ISSUED_AT - 1, ["token_not_yet_valid"], False),
        (ISSUED_AT, [], True),
        (EXPIRES_AT - 1, [], True),
        (EXPIRES_AT, ["token_expired"], True),
    ],
)
def test_a_token_is_valid_from_its_issue_until_just_before_its_end(now_s: int, code: list[str], sound: bool) -> None:
    assert codes(minted(), now_s) == code
    assert examine(minted(), PUBLIC).is_sound(now_s=now_s) is sound


def test_all_faults_are_told_at_once() -> None:
    token = minted(
        spec_version="",
        token_id="",
        backends=(),
        tier="team",
        enterprise_scope=evolve(ENTERPRISE, customer_id="", backend_id="", trust_root_kid=""),
    )
    assert codes(token, ISSUED_AT - 1) == [
        "invalid_spec_version",
        "missing_token_id",
        "missing_backend",
        "missing_team_scope",
        "missing_enterprise_customer_id",
        "invalid_enterprise_backend",
        "missing_enterprise_trust_root",
        "enterprise_backend_missing",
        "token_not_yet_valid",
    ]
    assert all(issue.message for issue in basic_issues(token, now_s=EXPIRES_AT))


def test_a_token_is_examined_once_for_what_stays_true_of_it() -> None:
    token = minted()
    examined = examine(token, PUBLIC)
    assert examined.token is token
    assert examined.token_hash == hash_token(token).hex()
    assert examined.signature_holds
    assert examined.lasting_issues == ()


@pytest.mark.parametrize("key", [None, bytes(32)])
def test_without_the_issuers_key_no_signature_holds(key: bytes | None) -> None:
    examined = examine(minted(), key)
    assert not examined.signature_holds
    assert not examined.is_sound(now_s=ISSUED_AT)


def test_a_forged_signature_is_seen_though_the_hash_is_the_same() -> None:
    forged = with_signature(sig=bytes(64))
    assert hash_token(forged) == hash_token(minted())
    assert not examine(forged, PUBLIC).signature_holds


def test_a_contextual_token_is_never_sound() -> None:
    token = minted(delegation_policy={"depth": 1})
    assert examine(token, PUBLIC).signature_holds
    assert not examine(token, PUBLIC).is_sound(now_s=ISSUED_AT)


def test_a_capability_is_permitted_on_its_backend_only_and_the_first_entry_counts() -> None:
    first, second = (Capability(capability="a", data_egress_classes=(egress,)) for egress in ("none", "text"))
    examined = examine(minted(backends=(backend("x", first), backend("x", second), backend("y"))), PUBLIC)
    assert examined.permitted("x", "a") is first
    assert examined.permitted("y", "a") is None
    assert examined.permitted("x", "b") is None
