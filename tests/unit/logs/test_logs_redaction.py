import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.logs import redact_text
from crux.logs.redaction import redact_value

RANDOM = "q7Zc1Vt0Xy5Lm2Kp9Rw4Bn8Dh3Fj6Gs1a"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
PEM = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        # pem
        (f"read {PEM} twice", "read [redacted:pem] twice"),
        ("-----BEGIN PRIVATE KEY-----\\nMHcCAQ", "[redacted:pem]"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n-----END PGP PRIVATE KEY BLOCK-----.", "[redacted:pem]."),
        # pair
        ("password=hunter2 user=bob", "password=[redacted:pair] user=bob"),
        ("Password: hunter2, user: bob", "Password: [redacted:pair], user: bob"),
        ("?access_token=abc HTTP/1.1", "?access_token=[redacted:pair] HTTP/1.1"),
        ('{"api_key": "a \\" b", "n": 1}', '{"api_key": "[redacted:pair]", "n": 1}'),
        ('{"api-key":"a","n":1}', '{"api-key":"[redacted:pair]","n":1}'),
        (r'"{\"token\": \"a b\", \"n\": 1}"', r'"{\"token\": \"[redacted:pair]\", \"n\": 1}"'),
        ("{'client_secret': b'abc'}", "{'client_secret': b'[redacted:pair]'}"),
        ("signing_key := abc", "signing_key := [redacted:pair]"),
        ("token == abc", "token == [redacted:pair]"),
        ("token = 'never closed", "token = '[redacted:pair]"),
        ("Authorization: Bearer abc", "Authorization: [redacted:pair]"),
        ("authorization=Basic dXNlcjpw", "authorization=[redacted:pair]"),
        ("CRUX_AGENT_TOKENS=a:t1,b:t2 crux", "CRUX_AGENT_TOKENS=[redacted:pair] crux"),
        (f"token={JWT}", "token=[redacted:pair]"),
        # bearer
        (f"Bearer {'ab' * 16}", "Bearer [redacted:bearer]"),
        ("got bearer 0123456789abcdef==.", "got bearer [redacted:bearer]."),
        (f"[(b'authorization', b'Bearer {'ab' * 16}')]", "[(b'authorization', b'Bearer [redacted:bearer]')]"),
        # jwt
        (f"claims of {JWT}, expired", "claims of [redacted:jwt], expired"),
        ("eyJhbGciOiJub25lIn0.eyJzdWIi.", "[redacted:jwt]"),
        # userinfo
        ("https://bob:hunter2@example.org/x", "https://bob:[redacted:userinfo]@example.org/x"),
        ("redis://:hunter2@db:6379", "redis://:[redacted:userinfo]@db:6379"),
        # key
        ("sk-proj-0123456789abcdef", "[redacted:key]"),
        (f"ghp_{'a1' * 10} and gho_{'b2' * 10}", "[redacted:key] and [redacted:key]"),
        (f"github_pat_{'a_1' * 9}", "[redacted:key]"),
        ("xoxb-1234567890-abc", "[redacted:key]"),
        ("AKIAIOSFODNN7EXAMPLE", "[redacted:key]"),
        # token
        (f"agent sent {RANDOM}.", "agent sent [redacted:token]."),
        (f"claude:{RANDOM},codex:{RANDOM}", "claude:[redacted:token],codex:[redacted:token]"),
    ],
)
def test_a_secret_is_replaced_by_a_marker_with_its_rule(text: str, clean: str) -> None:
    assert redact_text(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "f_0123456789abcdef0123456789abcdef",
        "0e1f7c3a-9b1d-4c6e-8a50-3f2d1c0b9a87",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "/home/Alice/.local/share/crux/crux.db",
        f"/var/cache/{RANDOM}/x",
        "C:\\Users\\Alice\\crux",
        "https://example.org:8443/v1/facts?entity=a&key=b#c",
        "http://[::1]:14801/mcp",
        "git@example.org:crux/crux.git",
        "ssh://example.org:22/a@b",
        "crux.actors.facts.FactStoreSupervisorRestart2026Window12",
        "Claude-Code-session-2026-01-12-project-x",
        "__agent::claude::Project-Alpha",
        "store_fact(entity='project-alpha', key='status')",
        "token_budget: 4000, max_tokens=5, tokens=12, input_tokens: 9, est_token_count=3",
        "tokenizer=unicode61 and tokenised: yes",
        "token: null, password=None, secret: unset",
        'token="" and password=',
        "the agent token of claude matched",
        "a bearer token is expected, such as Bearer <token>",
        'Bearer realm="crux", resource_metadata="https://example.org/.well-known/x"',
        "eyJ is how a JWT begins",
        "author: bob",
        "-----BEGIN CERTIFICATE-----",
        "task-sk-learn",
        "Grüße, 你好, 🙂",
        "[redacted:pair] token=[redacted:jwt] Authorization: Bearer [redacted:bearer]",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact_text(text) == text


NAMES = ["token", "tokens", "max_", "secret", "Authorization", "bearer ", "Basic ", "none", "a", "B2", "é"]
MARKS = ["=", ": ", ":", '"', "'", '\\"', "\\", ",", ";", "]", "[", " ", "\n", "://", "@", "~", "-", ".", "/"]
SECRETS = [JWT, RANDOM, PEM, "-----BEGIN PRIVATE KEY-----", "-----END ", "ghp_" + "a" * 20, "u:p@"]
MARKERS = ["[redacted:", "[redacted:pair]"]
FRAGMENTS = st.sampled_from(NAMES + MARKS + SECRETS + MARKERS)


@given(st.lists(FRAGMENTS, max_size=14).map("".join))
def test_redacting_twice_is_redacting_once(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once


@given(st.text())
def test_any_text_can_be_redacted(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once


@given(
    st.text("abcdefXYZ0123456789.-_~", min_size=32, max_size=256), st.sampled_from(["Bearer ", "token=", '"token": "'])
)
def test_an_agent_token_with_a_label_never_survives(token: str, label: str) -> None:
    assert token not in redact_text(f"got {label}{token}")


HOSTILE_PAIRS = [
    "token",
    "token-",
    "token=",
    'token:"',
    "token='a\" ",
    'token=\\"',
    "secret ",
    "tokens",
    ": ",
    '"',
    "\\",
]
HOSTILE_BLOCKS = ["-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----END ", "://", "://a:", "://a:b", "://a:b@"]
HOSTILE_RUNS = ["eyJ", "eyJaaaaaaaa.", "bearer ", "a_", "aA1", "aA1~", "sk-", "gh", " "]


@pytest.mark.parametrize("unit", HOSTILE_PAIRS + HOSTILE_BLOCKS + HOSTILE_RUNS)
def test_hostile_repetition_costs_linear_time(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    start = time.process_time()
    redact_text(text)
    assert time.process_time() - start < 3, "quadratic time would be minutes"


def test_nested_values_are_redacted_and_counted_by_rule() -> None:
    hits: Counter[str] = Counter()
    value = {"rows": [{"note": "password=x", "http.agent token": ["a", "b"]}, 7], f"of {JWT}": None, "ok": True}
    assert redact_value(value, hits) == {
        "rows": [{"note": "password=[redacted:pair]", "http.agent token": "[redacted:field]"}, 7],
        "of [redacted:jwt]": None,
        "ok": True,
    }
    assert hits == {"pair": 1, "field": 1, "jwt": 1}


def test_a_secret_field_that_only_says_whether_it_is_set_is_kept() -> None:
    value = {"agent_token": None, "has_secret": True, "token_budget": 4000, "password": "[redacted:field]"}
    assert redact_value(value, Counter()) == value
