"""What the daemon looks at before it opens anything: the interpreter, who may call, the addresses.

A check may raise `StartRefused`: that is what the daemon would say.
"""

import platform
import sqlite3
import sys
import time
from contextlib import closing
from datetime import UTC, datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crux.cli.checks.finding import Finding, fail, ok, warn
from crux.cli.checks.site import Site
from crux.config import doubts
from crux.domain.agents import AgentRegistry
from crux.domain.posture import is_loopback
from crux.routing import router_of, token_doubts
from crux.storage.keys import KEY_BYTES, ROOT_KEY, held_bytes
from crux.tools.catalogue import CATALOGUE
from crux.transport.auth import auth_mode_of, authenticator_of
from crux.transport.gates import GuardPolicy
from crux.transport.mcp_auth import check_token_to_require

_TESTED_PLATFORMS = ("linux", "darwin")


def python() -> Finding:
    """The interpreter and the machine."""
    text = f"{platform.python_implementation()} {platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.platform not in _TESTED_PLATFORMS:
        return warn(text, f"Crux is tested on {' and '.join(_TESTED_PLATFORMS)} only")
    return ok(text)


def sqlite() -> Finding:
    """The SQLite that Python brings, and its full-text search."""
    text = f"SQLite {sqlite3.sqlite_version}"
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE found USING fts5 (text, tokenize = 'trigram')")
        except sqlite3.OperationalError as error:
            return fail(f"{text}: {error}", "use a Python whose SQLite is 3.34 or newer and built with FTS5")
    return ok(text)


def auth(site: Site) -> Finding:
    """Whether the daemon can tell who calls, as far as its addresses require."""
    settings = site.settings
    agents = AgentRegistry.parse(settings.agent_token, settings.agent_tokens)
    mode = auth_mode_of(settings, agents)
    authenticator_of(settings, agents)
    check_token_to_require(settings, agents)
    if said := "; ".join(doubts(settings, agents)):
        return warn(f"auth mode {mode.value}; {said}", "set what is named, or leave it if it is meant")
    if agents:
        known = f"agents with a token: {', '.join(sorted(agents.names))}"
    else:
        known = "MCP asks for a token" if settings.mcp_require_auth else "MCP serves anonymous callers"
    return ok(f"auth mode {mode.value}; {known}{', and takes OAuth tokens' if settings.oauth_enabled else ''}")


def capability(site: Site) -> Finding:
    """Whether the capability token, where one is asked for, permits anything."""
    settings, now_s = site.settings, int(time.time())
    held = held_bytes(settings.data_dir / ROOT_KEY, KEY_BYTES)
    key = Ed25519PrivateKey.generate() if held is None else Ed25519PrivateKey.from_private_bytes(held)
    router = router_of(settings, CATALOGUE, key, node_id="", now_s=now_s)
    if router is None:
        return ok("none is asked for: every tool may be called")
    if doubt := next(token_doubts(router, now_s=now_s), None):
        return fail(doubt, "put a token that holds in its place, or set CORECRUXD_RCX_ROUTER=off")
    until = datetime.fromtimestamp(router.examined.token.expires_at, UTC)
    permitted = len(router.permitted(CATALOGUE.tools, now_s=now_s))
    return ok(f"it permits {permitted} of {len(CATALOGUE.tools)} tools until {until:%Y-%m-%d %H:%M} UTC")


def addresses(site: Site) -> Finding:
    """Who can reach the daemon, and whether it answers to the names that they call it by."""
    settings = site.settings
    GuardPolicy(settings.allowed_hosts, settings.allowed_origins)
    hosts = [settings.http_host, *([settings.mcp_host] if settings.mcp_enabled else [])]
    exposed = sorted({host for host in hosts if not is_loopback(host)})
    if not exposed:
        return ok("loopback only")
    text = f"reachable from other machines on {', '.join(exposed)}"
    if settings.allow_insecure_bind:
        return warn(f"{text}, without the guard against strangers", "unset CORECRUXD_ALLOW_INSECURE_DEV_AUTH_BIND")
    if not settings.allowed_hosts:
        return warn(
            f"{text}, but the daemon answers to loopback names only",
            "add the names it is called by to CRUX_ALLOWED_HOSTS",
        )
    return ok(text)
