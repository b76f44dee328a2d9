import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from crux.cli.checks import Finding, Verdict, start
from crux.cli.doctor import attempt
from crux.config import AuthMode
from crux.domain.rcx_token import encode_token
from crux.tools.catalogue import CATALOGUE
from tests.rcx_tokens import PUBLIC, minted
from tests.unit.cli.sites import site

TOKEN = "a" * 32
OAUTH = {
    "mcp_resource_url": "https://crux.example/mcp",
    "mcp_introspect_client_id": "crux",
    "mcp_introspect_client_secret": "s",
    "mcp_auth_server": "https://login.example",
}
OK, WARN, FAIL = Verdict.OK, Verdict.WARN, Verdict.FAIL


def test_this_python_and_its_sqlite_will_do() -> None:
    assert start.python().verdict is OK
    assert start.sqlite().verdict is OK


def test_an_untried_platform_is_worth_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "plan9")
    assert start.python().verdict is WARN


def test_a_sqlite_without_full_text_search_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bare(sqlite3.Connection):
        def execute(self, *_: object) -> sqlite3.Cursor:
            raise sqlite3.OperationalError("no such module: fts5")

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path: connect(path, factory=Bare))
    found = start.sqlite()
    assert (found.verdict, "no such module: fts5" in found.text) == (FAIL, True)


@pytest.mark.parametrize(
    ("settings", "verdict", "text"),
    [
        ({}, OK, "auth mode dev_scopes; MCP serves anonymous callers"),
        ({"agent_token": TOKEN}, OK, "agents with a token: default"),
        ({"agent_tokens": f"b:{TOKEN},a:{'b' * 32}"}, OK, "agents with a token: a, b"),
        ({"agent_tokens": ""}, FAIL, "CRUX_AGENT_TOKENS is set but empty"),
        ({"agent_token": "short"}, FAIL, "CRUX_AGENT_TOKEN is not usable"),
        ({"auth_mode": AuthMode.OFF}, OK, "auth mode off"),
        ({"auth_mode": AuthMode.OFF, "agent_token": TOKEN}, WARN, "the private facts of every agent"),
        ({"auth_mode": AuthMode.OFF, "agent_tokens": f"a:{TOKEN}"}, WARN, "the private facts of every agent"),
        ({"auth_mode": AuthMode.JWT_HS256}, FAIL, "CORECRUXD_JWT_HS256_SECRET"),
        ({"auth_mode": AuthMode.JWT_HS256, "jwt_hs256_secret": b"k" * 32}, OK, "auth mode jwt_hs256"),
        ({"auth_mode": AuthMode.JWT_HS256, "jwt_hs256_secret": b"k"}, FAIL, "CORECRUXD_JWT_HS256_SECRET has 1 bytes"),
        (
            {"auth_mode": AuthMode.JWT_HS256, "jwt_hs256_secret": b"k", "allow_weak_hs256_secret": True},
            WARN,
            "a short JWT key is accepted",
        ),
        ({"http_host": "10.0.0.1"}, FAIL, "CORECRUXD_AUTH_MODE has to be set"),
        ({"http_host": "10.0.0.1", "auth_mode": AuthMode.OFF}, FAIL, "believes whoever connects"),
        ({"mcp_host": "10.0.0.1", "auth_mode": AuthMode.OFF}, FAIL, "there are no agent tokens"),
        ({"mcp_host": "10.0.0.1", "mcp_enabled": False}, OK, "auth mode dev_scopes"),
        ({"mcp_require_auth": True}, FAIL, "CRUX_MCP_REQUIRE_AUTH=1 without any token"),
        ({"mcp_introspect_client_id": "crux"}, WARN, "OAuth tokens are not taken"),
        (OAUTH, OK, "MCP serves anonymous callers, and takes OAuth tokens"),
        ({**OAUTH, "mcp_require_auth": True}, OK, "MCP asks for a token, and takes OAuth tokens"),
        ({**OAUTH, "mcp_host": "10.0.0.1", "auth_mode": AuthMode.OFF}, FAIL, "there are no agent tokens"),
        (
            {**OAUTH, "mcp_require_auth": True, "mcp_host": "10.0.0.1", "auth_mode": AuthMode.OFF},
            OK,
            "auth mode off; MCP asks for a token",
        ),
    ],
)
def test_the_auth_mode_has_to_work_and_to_protect_as_at_a_start(
    settings: dict[str, Any], verdict: Verdict, text: str
) -> None:
    found = attempt(start.auth, site(**settings))
    assert (found.verdict, text in found.text) == (verdict, True)
    assert TOKEN not in found.text


@pytest.mark.parametrize(
    ("settings", "verdict", "text"),
    [
        ({}, OK, "loopback only"),
        ({"http_host": "::1", "mcp_host": "localhost"}, OK, "loopback only"),
        ({"mcp_host": "10.0.0.1", "mcp_enabled": False}, OK, "loopback only"),
        ({"allowed_hosts": ("a/b",)}, FAIL, "CRUX_ALLOWED_HOSTS"),
        (
            {"http_host": "10.0.0.1", "auth_mode": AuthMode.JWT_HS256},
            WARN,
            "reachable from other machines on 10.0.0.1, but the daemon answers to loopback names only",
        ),
        (
            {"http_host": "10.0.0.1", "auth_mode": AuthMode.JWT_HS256, "allowed_hosts": ("crux.example",)},
            OK,
            "reachable from other machines on 10.0.0.1",
        ),
        (
            {"http_host": "10.0.0.1", "auth_mode": AuthMode.OFF, "allow_insecure_bind": True},
            WARN,
            "without the guard against strangers",
        ),
    ],
)
def test_whoever_is_let_in_from_elsewhere_has_to_be_answered(
    settings: dict[str, Any], verdict: Verdict, text: str
) -> None:
    found = attempt(start.addresses, site(**settings))
    assert (found.verdict, text in found.text) == (verdict, True)


def test_a_check_that_the_system_does_not_let_look_fails() -> None:
    def look() -> Finding:
        raise PermissionError(13, "Permission denied", "/secret")

    assert attempt(look) == Finding(FAIL, "Permission denied: /secret")


def test_without_a_router_every_tool_may_be_called() -> None:
    assert start.capability(site()).text == "none is asked for: every tool may be called"


@pytest.mark.parametrize(
    ("changes", "key", "verdict", "text"),
    [
        ({}, PUBLIC.hex(), OK, "permits 0 of"),
        ({"expires_at": 1_700_000_002, "refresh_hint_at": 1_700_000_001}, PUBLIC.hex(), FAIL, "token_expired"),
        ({}, "00" * 32, FAIL, "bad_signature"),
        ({}, None, FAIL, "set CORECRUXD_RCX_ISSUER_KEY"),
    ],
)
def test_a_token_file_is_looked_at_as_at_a_start(
    tmp_path: Path, changes: dict[str, Any], key: str | None, verdict: Verdict, text: str
) -> None:
    times = {"issued_at": 1_700_000_000, "expires_at": 4_000_000_000, "refresh_hint_at": 3_999_999_999}
    path = tmp_path / "token"
    path.write_bytes(encode_token(minted(**{**times, **changes})))
    found = attempt(start.capability, site(tmp_path, rcx_router=str(path), rcx_issuer_key=key))
    assert (found.verdict, text in found.text + found.mend) == (verdict, True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["token"], "it makes no key"


def test_the_local_token_permits_what_is_local() -> None:
    assert (
        f"permits {len(CATALOGUE.tools)} of {len(CATALOGUE.tools)} tools until"
        in start.capability(site(rcx_router="local")).text
    )
