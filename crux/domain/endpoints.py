"""Where the calls of an extension go: the URL of its endpoint, and the hosts that its manifest allows.

Source: seed 002 section 5.3, extensions contract 8.1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final
from urllib.parse import quote

from attrs import frozen

from crux.domain.outbound_refusals import EndpointNotAllowed, InvalidEndpoint

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_MOST_PORT: Final = 65535
# An endpoint is shown as far as this.
_SHOWN: Final = 200

# The parts of RFC 3986 appendix B. A backslash is a slash to some readers and none to others, so that it is none here;
# neither are control characters, which some leave out.
_URL = re.compile(r"(https?)://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?", re.DOTALL)
_UNCLEAR = re.compile(r"[\x00-\x1f\x7f\\]")
# A name and a password in front of the host are left out: an endpoint is not told who calls (contract 8.1).
_AUTHORITY = re.compile(r"(?:.*@)?(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]*))?")
# What a path or a query may hold unescaped, and escapes themselves.
_SAFE: Final = "/?:@!$&'()*+,;=%-._~[]|^`"

_NEVER = re.compile(r"://|[/?#*]")
_ENTRY = re.compile(r"(?:\[([^\[\]]*)\]|([^\[\]:]+))(?::\+?([0-9]+))?")


@frozen
class Endpoint:
    """A URL that can be called. `host` is in lower case, an IPv6 address without brackets; `target` is the path and the
    query; `authority` is the host as messages show it, with the port where that is not the scheme's own."""

    scheme: str
    host: str
    port: int
    target: str
    authority: str

    @property
    def address(self) -> IPv4Address | IPv6Address | None:
        """The address, where the host is one and not a name."""
        return _address(self.host)


@frozen
class AllowedHost:
    """One entry of `network.allowed_hosts`; no port is any port."""

    host: str
    port: int | None

    def covers(self, endpoint: Endpoint) -> bool:
        return self.host == endpoint.host and self.port in (None, endpoint.port)


def read_endpoint(url: str) -> Endpoint:
    """The endpoint that `url` names; raises `InvalidEndpoint` where it is no http(s) URL with a host."""
    parts = None if _UNCLEAR.search(url) else _URL.fullmatch(url)
    if parts is None:
        raise _invalid(url, "expected an http(s) URL without control characters and backslashes")
    scheme, authority, path, query = parts.groups(default="")
    named = _AUTHORITY.fullmatch(authority)
    if named is None:
        raise _invalid(url, "expected a host: an ASCII name, an IPv4 address, or an IPv6 address in brackets")
    v6, name, digits = named.groups(default="")
    host = _canonical_v6(v6) if v6 else name.lower()
    if host is None:
        raise _invalid(url, "expected an IPv6 address in the brackets")
    port = _port(digits) if digits else _DEFAULT_PORTS[scheme]
    if port is None:
        raise _invalid(url, f"expected a port of at most {_MOST_PORT}")
    shown = f"[{host}]" if v6 else host
    return Endpoint(
        scheme=scheme,
        host=host,
        port=port,
        target=quote((path or "/") + query, safe=_SAFE, errors="replace"),
        authority=shown if port == _DEFAULT_PORTS[scheme] else f"{shown}:{port}",
    )


def read_allowed_host(entry: str) -> AllowedHost | None:
    """What an entry allows; None, which is nothing, where it is malformed."""
    entry = entry.strip()
    if _NEVER.search(entry):
        return None
    parts = _ENTRY.fullmatch(entry)
    if parts is None:
        return None
    v6, name, digits = parts.groups()
    host = name.lower() if v6 is None else _canonical_v6(v6)
    port = None if digits is None else _port(digits)
    if host is None or (digits is not None and port is None):
        return None
    return AllowedHost(host, port)


def check_allowed(endpoint: Endpoint, allowed_hosts: Sequence[str], extension_id: str) -> None:
    """Raise `EndpointNotAllowed` where hosts are listed and none of them is the endpoint's."""
    if not allowed_hosts:
        return
    entries = map(read_allowed_host, allowed_hosts)
    if not any(entry is not None and entry.covers(endpoint) for entry in entries):
        raise EndpointNotAllowed(
            f"endpoint '{endpoint.authority}' is not allowed by extension '{extension_id}' network.allowed_hosts"
        )


def _invalid(url: str, expected: str) -> InvalidEndpoint:
    # Whatever stands in front of the host may be a password.
    shown = re.sub(r"//[^/?#]*@", "//", url)[:_SHOWN]
    return InvalidEndpoint(f"invalid endpoint {shown!r}: {expected}")


def _canonical_v6(text: str) -> str | None:
    # Zones mean something on one machine only.
    try:
        return None if "%" in text else str(IPv6Address(text))
    except AddressValueError:
        return None


def _port(digits: str) -> int | None:
    # More digits than any port has are not worth a number.
    port = int(digits) if len(digits.lstrip("0")) <= 5 else _MOST_PORT + 1
    return port if port <= _MOST_PORT else None


def _address(host: str) -> IPv4Address | IPv6Address | None:
    for kind in (IPv4Address, IPv6Address):
        try:
            return kind(host)
        except AddressValueError:
            continue
    return None
