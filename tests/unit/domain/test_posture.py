import pytest

from crux.domain.posture import check_bind_posture, is_loopback
from crux.errors import StartRefused

LOOPBACK = "127.0.0.1"
OPEN = "0.0.0.0"


def effective(mode: str | None, http: str, mcp: str | None, *, guarded: bool = False, insecure: bool = False) -> str:
    return check_bind_posture(
        auth_mode=mode, http_host=http, mcp_host=mcp, mcp_guarded=guarded, allow_insecure_bind=insecure
    )


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost", "127.0.0.1", "127.255.255.254", "::1", "[::1]", "0:0:0:0:0:0:0:1"]
)
def test_a_host_that_only_this_machine_reaches_is_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        *("", "[", "[]", "0.0.0.0", "::", "[::]", "126.255.255.255", "128.0.0.1", "127.1", "127.0.0.1.example.com"),
        *("localhost.example.com", "example.com", "192.168.1.5", "fe80::1", "127.0.0.1:80", "⑫7.0.0.1"),
    ],
)
def test_every_other_host_is_not(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("mcp", [LOOPBACK, "::1", None])
@pytest.mark.parametrize("mode", [None, "off", "dev_scopes", "jwt_hs256"])
def test_on_loopback_any_mode_starts_and_an_unset_one_means_dev_scopes(mode: str | None, mcp: str | None) -> None:
    assert effective(mode, "localhost", mcp) == (mode or "dev_scopes")


@pytest.mark.parametrize(
    ("http", "mcp", "named"),
    [
        (OPEN, LOOPBACK, "CORECRUXD_HTTP_HOST=0.0.0.0"),
        (OPEN, None, "CORECRUXD_HTTP_HOST=0.0.0.0"),
        (LOOPBACK, OPEN, "CORECRUXD_MCP_HOST=0.0.0.0"),
    ],
)
@pytest.mark.parametrize("insecure", [False, True])
def test_off_loopback_the_mode_has_to_be_set(http: str, mcp: str | None, named: str, insecure: bool) -> None:
    with pytest.raises(StartRefused, match=f"CORECRUXD_AUTH_MODE has to be set because {named}") as refused:
        effective(None, http, mcp, guarded=True, insecure=insecure)
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("mode", ["off", "dev_scopes"])
def test_an_open_http_api_does_not_start_with_a_mode_that_believes_everybody(mode: str) -> None:
    with pytest.raises(StartRefused, match="set CORECRUXD_AUTH_MODE=jwt_hs256 or CORECRUXD_HTTP_HOST=127") as refused:
        effective(mode, "192.168.1.5", LOOPBACK, guarded=True)
    assert "CORECRUXD_ALLOW_INSECURE_DEV_AUTH_BIND=1" in refused.value.message
    assert "\n" not in refused.value.message
    assert effective(mode, "192.168.1.5", LOOPBACK, insecure=True) == mode


def test_an_open_http_api_starts_with_jwt() -> None:
    assert effective("jwt_hs256", OPEN, LOOPBACK) == "jwt_hs256"


@pytest.mark.parametrize("mode", ["off", "dev_scopes", "jwt_hs256"])
def test_open_mcp_needs_to_be_guarded_or_the_override(mode: str) -> None:
    with pytest.raises(
        StartRefused, match=r"set CRUX_AGENT_TOKEN or CRUX_AGENT_TOKENS .*, or CORECRUXD_MCP_HOST=127"
    ) as no:
        effective(mode, LOOPBACK, "::")
    assert "\n" not in no.value.message
    assert effective(mode, LOOPBACK, "::", guarded=True) == mode
    assert effective(mode, LOOPBACK, "::", insecure=True) == mode
