"""What the resource server publishes, which tokens it takes, and what they open."""

import json
from pathlib import Path

import msgspec
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.oauth import (
    LONGEST_CACHED_S,
    READ_TOOLS,
    AccessRules,
    OAuthIdentity,
    ReadOnlyCaller,
    TokenState,
    challenge,
    check_readable,
    introspection_endpoint,
    lifetime_s,
    may_be_token,
    metadata,
    read_introspection,
)

RESOURCE = "https://crux.example/mcp"
GOOD = TokenState(active=True, scope="mcp:read")
NOW_US = 1_800_000_000_000_000
NOW_S = NOW_US // 1_000_000


def test_the_metadata_names_the_resource_its_server_and_how_a_token_is_sent() -> None:
    assert json.dumps(metadata(RESOURCE, "https://as.example")) == (
        '{"resource": "https://crux.example/mcp", "authorization_servers": ["https://as.example"], '
        '"scopes_supported": ["mcp:read"], "bearer_methods_supported": ["header"]}'
    )


@pytest.mark.parametrize(
    ("resource", "base"),
    [
        (RESOURCE, "https://crux.example"),
        ("https://crux.example", "https://crux.example"),
        ("http://127.0.0.1:14801/mcp?a=b", "http://127.0.0.1:14801"),
        ("https://crux.example?a=/b", "https://crux.example"),
        ("https://[::1]:1/", "https://[::1]:1"),
        ("crux.example/mcp/", "crux.example/mcp"),
        ("crux.example", "crux.example"),
        ("https:///mcp/", "https:///mcp"),
    ],
)
def test_the_challenge_points_to_the_metadata_at_the_root_of_the_host(resource: str, base: str) -> None:
    assert challenge(resource) == f'Bearer resource_metadata="{base}/.well-known/oauth-protected-resource"'


def test_tokens_are_asked_about_at_the_authorization_server_or_where_the_operator_says() -> None:
    assert introspection_endpoint("https://as.example/", None) == "https://as.example/v1/auth/introspect"
    assert introspection_endpoint("https://as.example", "https://other.example/i") == "https://other.example/i"


@pytest.mark.parametrize(
    ("text", "may_be"),
    [
        ("abc.DEF-1_2~3+4/5==", True),
        ("a" * 8192, True),
        ("a" * 8193, False),
        ("", False),
        ("=", False),
        ("a b", False),
        ("a\n", False),
        ("é", False),
    ],
)
def test_only_what_looks_like_a_token_may_be_one(text: str, may_be: bool) -> None:
    assert may_be_token(text) == may_be


# --- what a server says


def test_an_active_token_is_read_with_all_that_is_said_of_it() -> None:
    body = b'{"active":true,"scope":"a mcp:read","sub":"s","client_id":"c","aud":["x","y"],"exp":7,"iss":{"more":[1]}}'
    assert read_introspection(body) == TokenState(True, "a mcp:read", "s", "c", ("x", "y"), 7)
    assert read_introspection(b'{"active":true}') == TokenState(active=True)


def test_a_member_that_is_null_counts_as_left_out() -> None:
    body = b'{"active":true,"scope":null,"sub":null,"client_id":null,"aud":null,"exp":null}'
    assert read_introspection(body) == TokenState(active=True)


@pytest.mark.parametrize(
    "body", [b'{"active":false}', b"{}", b'{"active":true,"active":false}', b'{"active":false,"scope":"mcp:read"}']
)
def test_a_token_may_be_known_not_to_be_active(body: bytes) -> None:
    state = read_introspection(body)
    assert state is not None
    assert not state.active


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"true",
        b"<html>active</html>",
        b'{"active":true',
        b'{"active":"yes"}',
        b'{"active":"true"}',
        b'{"active":1}',
        b'{"active":null}',
        b'{"active":true,"scope":["mcp:read"]}',
        b'{"active":true,"sub":7}',
        b'{"active":true,"client_id":{}}',
        b'{"active":true,"aud":7}',
        b'{"active":true,"aud":["x",7]}',
        b'{"active":true,"exp":"7"}',
        b'{"active":true,"exp":7.5}',
        b'{"active":true,"exp":true}',
        b'{"active":true,"exp":1e400}',
        b'{"active":true,"exp":' + b"9" * 5000 + b"}",
        b'{"active":true,"sub":"\\ud800"}',
        b'{"active":true,"sub":"\xff"}',
        b'{"active":true,"more":' + b"[" * 60_000 + b"]" * 60_000 + b"}",
    ],
    ids=lambda body: repr(body[:40]),
)
def test_any_other_body_is_no_answer(body: bytes) -> None:
    assert read_introspection(body) is None


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_no_answer_can_do_more_than_not_be_believed(body: bytes) -> None:
    state = read_introspection(body)
    assert state is None or not state.active or b"true" in body


# --- what opens the resource


@pytest.mark.parametrize(
    ("scope", "opens"),
    [
        ("mcp:read", True),
        ("openid  mcp:read", True),
        (None, False),
        ("", False),
        ("mcp:readwrite", False),
        ("mcp:write", False),
        ("MCP:READ", False),
        ("mcp", False),
    ],
)
def test_a_token_needs_the_scope_itself(scope: str | None, opens: bool) -> None:
    found = AccessRules(RESOURCE, "work").identity_of(TokenState(active=True, scope=scope))
    assert (found is not None) == opens


@pytest.mark.parametrize(
    ("audience", "opens"),
    [
        (None, True),
        ("", True),
        ((), True),
        (("",), True),
        (RESOURCE, True),
        (("https://else.example", RESOURCE), True),
        (RESOURCE + "/", False),
        (("https://else.example",), False),
        ("https://else.example", False),
    ],
)
def test_where_the_audience_is_checked_a_token_for_other_resources_only_does_not_open_this_one(
    audience: str | tuple[str, ...] | None, opens: bool
) -> None:
    state = TokenState(active=True, scope="mcp:read", aud=audience)
    assert (AccessRules(RESOURCE, "work", require_audience=True).identity_of(state) is not None) == opens
    assert AccessRules(RESOURCE, "work").identity_of(state) is not None


@pytest.mark.parametrize(("subject", "hashed"), [("u1", "u1"), (None, "anon"), ("", "anon")])
def test_callers_of_a_tenant_share_its_name_and_differ_by_subject(subject: str | None, hashed: str) -> None:
    found = AccessRules(RESOURCE, "acme").identity_of(TokenState(active=True, scope="mcp:read", sub=subject))
    assert found == OAuthIdentity("acme", blake3(f"oauth-mcp:acme:{hashed}".encode()).digest())


@pytest.mark.parametrize(
    ("expires", "lifetime"),
    [
        (None, LONGEST_CACHED_S),
        (NOW_S + 61, LONGEST_CACHED_S),
        (NOW_S + 60, 60),
        (NOW_S + 59, 59),
        (NOW_S + 1, 1),
        (NOW_S, 0),
        (NOW_S - 5, -5),
        (10**30, LONGEST_CACHED_S),
    ],
)
def test_an_answer_counts_for_a_minute_and_never_longer_than_the_token(expires: int | None, lifetime: float) -> None:
    assert lifetime_s(msgspec.structs.replace(GOOD, exp=expires), NOW_US) == lifetime


# --- what a reader may do


@pytest.mark.parametrize("method", ["initialize", "tools/list", "notifications/initialized"])
def test_a_reader_may_use_the_methods_that_only_tell(method: str) -> None:
    check_readable(method, None)


@pytest.mark.parametrize("name", sorted(READ_TOOLS))
def test_a_reader_may_call_the_tools_that_only_read(name: str) -> None:
    check_readable("tools/call", {"name": name, "arguments": {}})


@pytest.mark.parametrize(
    ("method", "params", "named"),
    [
        ("tools/call", {"name": "store_fact"}, "store_fact"),
        ("tools/call", {"name": "cuecrux_session"}, "cuecrux_session"),
        ("tools/call", {"name": "ext.other.tool"}, "ext.other.tool"),
        ("tools/call", {"name": " query"}, " query"),
        ("tools/call", {"name": ""}, ""),
        ("tools/call", {"name": ["query"]}, "tools/call"),
        ("tools/call", {}, "tools/call"),
        ("tools/call", ["query"], "tools/call"),
        ("tools/call", None, "tools/call"),
        ("query", {"name": "query"}, "query"),
        ("nonsense", {"name": "query"}, "nonsense"),
        ("ping", None, "ping"),
        ("resources/list", None, "resources/list"),
        ("resources/read", None, "resources/read"),
        ("resources/templates/list", None, "resources/templates/list"),
        ("x" * 201, None, "x" * 200),
    ],
)
def test_a_reader_may_do_nothing_else_and_is_told_what_it_was(method: str, params: object, named: str) -> None:
    with pytest.raises(ReadOnlyCaller) as refused:
        check_readable(method, params)
    assert refused.value.message == f"'{named}' is not available to read-only OAuth callers (mcp:read scope)"
    assert (refused.value.code, refused.value.data) == (-32601, None)


def test_every_tool_that_a_reader_may_call_is_in_the_catalogue() -> None:
    catalogue = (Path(__file__).parents[2] / "data" / "catalogue.json").read_text()
    assert all(f'"{name}"' in catalogue for name in READ_TOOLS)
