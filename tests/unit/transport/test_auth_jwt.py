import base64
import time
from collections.abc import Mapping

import jwt
import pytest

from crux.config import AuthMode
from crux.domain.privacy import RAW_ADMIN
from crux.errors import Forbidden, SettingError, Unauthorized
from crux.transport.auth import JwtRules, Principal
from tests.unit.transport.callers import (
    AGENTS,
    DAY_S,
    KEY,
    PLANNER_TOKEN,
    RULES,
    bearer,
    http,
    passport,
    scopes,
    signed,
)


def from_jwt(claims: Mapping[str, object], *headers: tuple[bytes, bytes], rules: JwtRules = RULES) -> Principal:
    return http(AuthMode.JWT_HS256, rules=rules).authenticate([bearer(signed(claims)), *headers])


def test_jwt_mode_does_not_start_without_a_key() -> None:
    with pytest.raises(SettingError, match="CORECRUXD_JWT_HS256_SECRET"):
        http(AuthMode.JWT_HS256, rules=None)


@pytest.mark.parametrize(
    ("length", "allow_weak", "accepted"),
    [(0, False, False), (31, False, False), (32, False, True), (0, True, False), (1, True, True), (31, True, True)],
)
def test_a_key_has_32_bytes_unless_a_weak_one_is_allowed(length: int, allow_weak: bool, accepted: bool) -> None:
    if accepted:
        assert "kkk" not in repr(JwtRules(b"k" * length, allow_weak=allow_weak))
    else:
        with pytest.raises(SettingError, match=f"has {length} bytes"):
            JwtRules(b"k" * length, allow_weak=allow_weak)


def test_the_file_of_a_key_pair_is_no_key() -> None:
    with pytest.raises(SettingError, match="key pair"):
        JwtRules(b"-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0D\n-----END PUBLIC KEY-----\n")


@pytest.mark.filterwarnings("ignore::jwt.InsecureKeyLengthWarning")
def test_a_weak_key_that_is_allowed_verifies_what_it_signed() -> None:
    rules = JwtRules(b"weak", allow_weak=True)
    assert rules.claims(signed({"sub": "alice"}, key=b"weak"))["sub"] == "alice"
    with pytest.raises(Unauthorized):
        rules.claims(signed({"sub": "alice"}, key=b"Weak"))


def test_a_request_without_a_bearer_is_unauthenticated() -> None:
    for headers in ([], [scopes("admin:write")], [(b"authorization", b"Basic abc")]):
        with pytest.raises(Unauthorized) as refused:
            http(AuthMode.JWT_HS256).authenticate(headers)
        assert refused.value.data == {"code": "UNAUTHENTICATED", "hint": refused.value.message}


def _segment(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


UNSIGNED = _segment('{"alg": "none"}') + "." + _segment('{"exp": 4102444800, "sub": "alice"}') + "."

REFUSED = {
    "foreign key": (signed({}, key=b"x" * 32), "signature"),
    "expired": (signed({}, lifetime_s=-40), "expired"),
    "not yet valid": (signed({"nbf": int(time.time()) + DAY_S}, lifetime_s=2 * DAY_S), "not valid yet"),
    "null exp": (signed({"exp": None}), "lacks exp"),
    "no exp": (jwt.encode({"sub": "alice"}, KEY, algorithm="HS256"), "lacks exp"),
    "exp that is no number": (signed({"exp": "soon"}), "well-formed"),
    "sub that is no text": (signed({"sub": 7}), "well-formed"),
    "another HMAC": (signed({}, key=b"k" * 64, algorithm="HS512"), "well-formed"),
    "no signature": (UNSIGNED, "well-formed"),
    "deep header": (f"{_segment('[' * 5000)}.{_segment('{}')}.{_segment('x')}", "well-formed"),
    "one letter more": (f"{signed({'sub': 'alice'})}x", "the bearer token was refused"),
    "no JSON": ("a.b.c", "well-formed"),
    "empty": ("", "well-formed"),
    "agent token of another daemon": (PLANNER_TOKEN, "neither an agent's token"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bearer_that_does_not_hold_is_refused_with_the_reason_and_not_shown(case: str) -> None:
    presented, fault = REFUSED[case]
    with pytest.raises(Unauthorized, match=fault) as refused:
        http(AuthMode.JWT_HS256).authenticate([bearer(presented)])
    assert refused.value.data == {"code": "UNAUTHENTICATED", "hint": refused.value.message}
    assert not presented or presented not in refused.value.message


@pytest.mark.parametrize(("claim", "from_now_s"), [("exp", -15), ("nbf", 15), ("iat", 3600)])
def test_clocks_may_differ_by_half_a_minute_and_the_time_of_issue_is_not_checked(claim: str, from_now_s: int) -> None:
    assert from_jwt({"sub": "alice", claim: int(time.time()) + from_now_s}).name == "alice"


@pytest.mark.parametrize(("claim", "from_now_s"), [("exp", -45), ("nbf", 45)])
def test_clocks_may_not_differ_by_more(claim: str, from_now_s: int) -> None:
    with pytest.raises(Unauthorized):
        from_jwt({"sub": "alice", claim: int(time.time()) + from_now_s})


@pytest.mark.parametrize("claims", [{"aud": "somebody"}, {"aud": ["x"]}, {"iss": "x"}, {"iat": "once"}])
def test_an_issuer_and_an_audience_that_nobody_configured_are_not_checked(claims: dict[str, object]) -> None:
    assert from_jwt({"sub": "alice", **claims}).name == "alice"


@pytest.mark.parametrize(
    ("claims", "fault"),
    [
        ({"iss": "https://id.example", "aud": "crux"}, None),
        ({"iss": "https://id.example", "aud": ["other", "crux"]}, None),
        ({"iss": "https://id", "aud": "crux"}, "iss is not"),
        ({"iss": "https://id.example", "aud": "cru"}, "aud is not"),
        ({"iss": "https://id.example", "aud": ["other"]}, "aud is not"),
        ({"aud": "crux"}, "lacks"),
        ({"iss": "https://id.example"}, "lacks"),
    ],
)
def test_a_configured_issuer_and_audience_are_required(claims: dict[str, object], fault: str | None) -> None:
    rules = JwtRules(KEY, issuer="https://id.example", audience="crux")
    if fault is None:
        assert from_jwt({"sub": "alice", **claims}, rules=rules).name == "alice"
    else:
        with pytest.raises(Unauthorized, match=fault):
            from_jwt(claims, rules=rules)


@pytest.mark.parametrize(
    ("claims", "found"),
    [
        ({}, set()),
        ({"scope": "query:read  facts:write"}, {"query:read", "facts:write"}),
        ({"scp": "query:read facts:write"}, {"query:read", "facts:write"}),
        ({"scp": ["query:read"], "scopes": ["facts:write"]}, {"query:read", "facts:write"}),
        ({"scope": "a", "scp": "b", "scopes": ["c"], "permissions": ["d"]}, {"a", "b", "c", "d"}),
        ({"scope": 7, "scp": {"admin:write": True}, "scopes": [None, ["admin:write"], "c"]}, {"c"}),
        ({"scope": "query:read,admin:write"}, {"query:read,admin:write"}),
        ({"Scope": "admin:write"}, set()),
    ],
)
def test_the_scopes_of_a_jwt_are_the_union_of_its_scope_claims(claims: dict[str, object], found: set[str]) -> None:
    assert from_jwt(claims).scopes == frozenset(found)


PASSPORT_CLAIMS = ["passport_id", "passportId", "passport", "passport_fpr", "passportFpr", "pid", "sub", "subject"]


@pytest.mark.parametrize("position", range(len(PASSPORT_CLAIMS)))
def test_the_passport_is_the_first_passport_claim_that_is_a_text_else_the_subject(position: int) -> None:
    claims: dict[str, object] = {name: name for name in PASSPORT_CLAIMS[position:]}
    claims |= dict.fromkeys(PASSPORT_CLAIMS[:position], "")
    assert from_jwt(claims).passport == PASSPORT_CLAIMS[position]


def test_a_claim_that_is_no_printable_text_names_no_passport() -> None:
    assert from_jwt({"passport_id": 7, "passport": ["alice"], "pid": None, "subject": "a\ud800"}).passport is None


@pytest.mark.parametrize(
    ("claims", "name"), [({"sub": "a", "pid": "b"}, "a"), ({"subject": "c"}, "c"), ({"pid": "b"}, None)]
)
def test_the_name_of_a_jwt_caller_is_its_subject(claims: dict[str, object], name: str | None) -> None:
    assert from_jwt(claims).name == name


@pytest.mark.parametrize(
    ("claims", "header", "outcome"),
    [
        ({"pid": "alice"}, None, "alice"),
        ({"pid": "alice"}, "alice", "alice"),
        ({"pid": "alice"}, "bob", Forbidden),
        ({"pid": "alice", "scope": "admin:read facts:write"}, "bob", Forbidden),
        ({"pid": "alice", "scope": "passport:impersonate"}, "bob", "bob"),
        ({"pid": "alice", "scope": "admin:write"}, "bob", "bob"),
        ({"scope": "query:read"}, "bob", Forbidden),
        ({"scope": "admin:write"}, "bob", "bob"),
        ({"scope": "admin:write"}, None, None),
    ],
)
def test_a_jwt_caller_acts_as_its_own_passport_unless_it_may_impersonate(
    claims: dict[str, object], header: str | None, outcome: object
) -> None:
    headers = [] if header is None else [passport(header)]
    if outcome is Forbidden:
        with pytest.raises(Forbidden, match="passport:impersonate or admin:write") as refused:
            from_jwt(claims, *headers)
        code = "PASSPORT_HEADER_MISMATCH" if "pid" in claims else "PASSPORT_HEADER_UNBOUND"
        assert refused.value.data == {"code": code}
    else:
        assert from_jwt(claims, *headers).passport == outcome


def test_a_jwt_administrator_without_a_passport_is_raw_administrator_though_agents_have_tokens() -> None:
    caller = http(AuthMode.JWT_HS256, AGENTS).authenticate([bearer(signed({"scope": "admin:read"}))])
    assert caller.viewer_for_read is RAW_ADMIN
