"""Whether the daemon may listen where it is told to (seed 11.1, HTTP API contract section 1, Decision 5)."""

from ipaddress import ip_address

from crux.errors import StartRefused

_DEFAULT_MODE = "dev_scopes"
_TRUSTING_MODES = frozenset({"off", _DEFAULT_MODE})

_HTTP = "CORECRUXD_HTTP_HOST"
_MCP = "CORECRUXD_MCP_HOST"
_MODE = "CORECRUXD_AUTH_MODE"
_OVERRIDE = "(CORECRUXD_ALLOW_INSECURE_DEV_AUTH_BIND=1 starts it all the same)"


def is_loopback(host: str) -> bool:
    """Whether `host` (a name, or an address with or without brackets) can only be reached from this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host[1:-1] if host.startswith("[") and host.endswith("]") else host).is_loopback
    except ValueError:
        return False


def check_bind_posture(
    *, auth_mode: str | None, http_host: str, mcp_host: str | None, mcp_guarded: bool, allow_insecure_bind: bool
) -> str:
    """The auth mode of the HTTP API in effect: `auth_mode`, or `dev_scopes` where it is None and all is on loopback.

    `auth_mode` is `off`, `dev_scopes` or `jwt_hs256`; `mcp_host` is None where MCP is not served; `mcp_guarded` says
    whether nobody comes in there without a token. Raises `StartRefused` when strangers could reach a listener that
    would trust them.
    """
    http_open = not is_loopback(http_host)
    mcp_open = mcp_host is not None and not is_loopback(mcp_host)
    if auth_mode is None and (http_open or mcp_open):
        setting = f"{_HTTP}={http_host}" if http_open else f"{_MCP}={mcp_host}"
        raise StartRefused(
            f"{_MODE} has to be set because {setting} is no loopback address: "
            f"set {_MODE}=jwt_hs256, or listen on 127.0.0.1"
        )
    mode = auth_mode or _DEFAULT_MODE
    if http_open and mode in _TRUSTING_MODES and not allow_insecure_bind:
        raise StartRefused(
            f"{_HTTP}={http_host} is no loopback address and {_MODE}={mode} believes whoever connects: "
            f"set {_MODE}=jwt_hs256 or {_HTTP}=127.0.0.1 {_OVERRIDE}"
        )
    if mcp_open and not mcp_guarded and not allow_insecure_bind:
        raise StartRefused(
            f"{_MCP}={mcp_host} is no loopback address and there are no agent tokens: "
            "set CRUX_AGENT_TOKEN or CRUX_AGENT_TOKENS (or CRUX_MCP_REQUIRE_AUTH=1 where OAuth is configured), "
            f"or {_MCP}=127.0.0.1 {_OVERRIDE}"
        )
    return mode
