"""The settings of OAuth and the agent card: what is taken, and what stops the start."""

from pathlib import Path

import pytest

from crux.config import Settings, load
from crux.errors import SettingError


def loaded(**environ: str) -> Settings:
    return load(environ, home=Path("/nowhere")).settings


def refusal(**environ: str) -> str:
    with pytest.raises(SettingError) as refused:
        loaded(**environ)
    assert "\n" not in refused.value.message
    return refused.value.message


@pytest.mark.parametrize(
    "url", ["https://crux.example/mcp", "http://127.0.0.1:14801/mcp", "https://[::1]:1/mcp", "crux.example/mcp/"]
)
def test_a_resource_is_any_url_as_clients_know_it(url: str) -> None:
    assert loaded(CRUX_MCP_RESOURCE_URL=f" {url} ").mcp_resource_url == url


@pytest.mark.parametrize(
    "url", ["https://x/#part", 'https://x/"', "https://x/ y", "https://x\\y", "https://é.example", "https://u:p@x/mcp"]
)
def test_a_resource_that_could_not_be_published_stops_the_start(url: str) -> None:
    assert "CRUX_MCP_RESOURCE_URL is" in refusal(CRUX_MCP_RESOURCE_URL=url)


@pytest.mark.parametrize("name", ["CRUX_MCP_AUTH_SERVER", "CRUX_MCP_INTROSPECT_URL"])
def test_a_server_is_an_http_url(name: str) -> None:
    for url in ("https://as.example", "http://127.0.0.1:9000/introspect?a=b", "https://[::1]:1/"):
        settings = loaded(**{name: url})
        assert url in (settings.mcp_auth_server, settings.mcp_introspect_url)
    for url in (
        "as.example",
        "ftp://as.example",
        "https://",
        "https://u:p@as.example",
        "https://as.example:0",
        "https://as.example:99999",
        "https://[::1",
        "https://as.example/#a",
        "https://as.example/a b",
    ):
        assert f"{name} is" in refusal(**{name: url})


def test_a_tenant_is_named_as_an_agent_is() -> None:
    assert loaded().mcp_oauth_tenant == "work"
    assert loaded(CRUX_MCP_OAUTH_TENANT=" acme-2 ").mcp_oauth_tenant == "acme-2"
    for name in ("a b", "a:b", "a" * 65):
        assert "CRUX_MCP_OAUTH_TENANT is" in refusal(CRUX_MCP_OAUTH_TENANT=name)


def test_a_credential_is_any_text_and_a_secret_one_never_shows() -> None:
    settings = loaded(CRUX_MCP_INTROSPECT_CLIENT_ID="crux", CRUX_MCP_INTROSPECT_CLIENT_SECRET=" s3cret é")
    assert settings.mcp_introspect_client_secret == " s3cret é"
    assert "s3cret" not in repr(settings)
    message = refusal(CRUX_MCP_INTROSPECT_CLIENT_SECRET="s3cret\udcff")
    assert "CRUX_MCP_INTROSPECT_CLIENT_SECRET is set to a value that cannot be used" in message
    assert "s3cret" not in message


@pytest.mark.parametrize("name", ["CRUX_MCP_REQUIRE_AUTH", "CRUX_MCP_REQUIRE_RESOURCE_AUD"])
def test_what_is_required_is_a_switch_that_never_guesses(name: str) -> None:
    settings = loaded(**{name: "TRUE"})
    assert [settings.mcp_require_auth, settings.mcp_require_resource_aud].count(True) == 1
    assert f"{name} is 'ture'" in refusal(**{name: "ture"})


@pytest.mark.parametrize(("text", "on"), [("1", True), ("TRUE", True), (" true ", True), ("0", False), ("yes", False)])
def test_the_agent_card_is_on_for_two_words_and_off_for_all_others(text: str, on: bool) -> None:
    assert loaded().agent_card
    assert loaded(CRUX_AGENT_CARD=text).agent_card == on


@pytest.mark.parametrize("missing", ["RESOURCE_URL", "INTROSPECT_CLIENT_ID", "INTROSPECT_CLIENT_SECRET"])
@pytest.mark.parametrize("blank", [None, "", " "])
def test_oauth_tokens_are_taken_where_resource_client_and_secret_are_set(missing: str, blank: str | None) -> None:
    whole = {
        "CRUX_MCP_RESOURCE_URL": "https://crux.example/mcp",
        "CRUX_MCP_INTROSPECT_CLIENT_ID": "crux",
        "CRUX_MCP_INTROSPECT_CLIENT_SECRET": "s",
    }
    assert loaded(**whole).oauth_enabled
    rest = {name: value for name, value in whole.items() if name != f"CRUX_MCP_{missing}"}
    assert not loaded(**rest, **({} if blank is None else {f"CRUX_MCP_{missing}": blank})).oauth_enabled
