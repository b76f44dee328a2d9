"""Which addresses the daemon calls for an extension (design Decision 23).

A name can be pointed anywhere by whoever holds it, so what it resolves to is judged. An address that stands in the
endpoint itself was read by the operator who installed the extension.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import IntEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

from crux.domain.endpoints import Endpoint
from crux.domain.outbound_refusals import EndpointNotAllowed

PRIVATE_HOSTS: Final = "CORECRUXD_EXTENSIONS_ALLOW_PRIVATE_HOSTS"
EVERY_HOST: Final = "*"
_LOCALHOST: Final = "localhost"

Address = IPv4Address | IPv6Address


class Reach(IntEnum):
    """Who an address leads to; the greater, the less it is called."""

    PUBLIC = 0
    PRIVATE = 1
    NEVER = 2


# No setting allows these: they hand out the machine's credentials to whoever asks, or lead to no one host.
_NEVER: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # "this host"; Linux connects it to loopback
            "169.254.0.0/16",  # link-local, with the metadata services of most clouds
            "100.100.100.200/32",  # metadata, Alibaba
            "168.63.129.16/32",  # metadata, Azure
            "192.0.0.192/32",  # metadata, Oracle
            "224.0.0.0/4",  # multicast
            "255.255.255.255/32",  # broadcast
        ),
    )
)
_NEVER_V6: Final = tuple(
    map(
        IPv6Network,
        (
            "::/128",  # unspecified
            "fe80::/10",  # link-local
            "fd00:ec2::/32",  # metadata, credentials and time, AWS
            "fd00:c1::a9fe:a9fe/128",  # metadata, Oracle
            "fd20:ce::254/128",  # metadata, Google
            "fd00:42::42/128",  # metadata, Scaleway
            "ff00::/8",  # multicast
        ),
    )
)
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
# The only way to an IPv4 address from a network without any, so that it counts as that address.
_NAT64: Final = IPv6Network("64:ff9b::/96")
# NAT64 of a network's own, RFC 8215.
_LOCAL_NAT64: Final = IPv6Network("64:ff9b:1::/48")
_COMPATIBLE: Final = IPv6Network("::/96")


def reach(address: Address) -> Reach:
    """Who `address` leads to. One that carries an IPv4 address is judged by that as well."""
    if isinstance(address, IPv4Address):
        if any(address in network for network in _NEVER):
            return Reach.NEVER
        return Reach.PUBLIC if address.is_global else Reach.PRIVATE
    if address.ipv4_mapped is not None:
        return reach(address.ipv4_mapped)
    if address in _NAT64:
        return reach(_low_32(address))
    if any(address in network for network in _NEVER_V6):
        return Reach.NEVER
    carried = _carried(address)
    # What goes through a tunnel (6to4, Teredo) is none that everybody reaches, whatever a version of Python says of it.
    own = Reach.PUBLIC if address in _GLOBAL_UNICAST and address.is_global and not carried else Reach.PRIVATE
    return max((own, *map(reach, carried)))


def check_addresses(endpoint: Endpoint, addresses: Sequence[str], private_hosts: Collection[str]) -> None:
    """Raise `EndpointNotAllowed` where one of the addresses that the endpoint's host has is none to call.

    Loopback and private ones are for hosts that are an address, `localhost`, or among `private_hosts` (in lower case,
    `*` is every host). No setting allows what no endpoint should be: link-local and metadata services.
    """
    worst = max((reach(ip_address(address.partition("%")[0])) for address in addresses), default=Reach.PUBLIC)
    if worst is Reach.NEVER:
        raise EndpointNotAllowed(
            f"endpoint '{endpoint.authority}' leads to a link-local, metadata, multicast or unspecified address, "
            "which is never called"
        )
    if worst is Reach.PRIVATE and not _private_is_wanted(endpoint, private_hosts):
        raise EndpointNotAllowed(
            f"endpoint '{endpoint.authority}' resolves to a loopback, private or reserved address: "
            f"to allow that, list '{endpoint.host}' in {PRIVATE_HOSTS}"
        )


def _private_is_wanted(endpoint: Endpoint, private_hosts: Collection[str]) -> bool:
    if endpoint.address is not None or endpoint.host == _LOCALHOST:
        return True
    return EVERY_HOST in private_hosts or endpoint.host in private_hosts


def _carried(address: IPv6Address) -> list[IPv4Address]:
    """The IPv4 addresses that traffic to `address` may end at."""
    carried = []
    if address.sixtofour is not None:
        carried.append(address.sixtofour)
    if address.teredo is not None:
        carried.append(address.teredo[1])
    if address in _LOCAL_NAT64 or (address in _COMPATIBLE and not address.is_loopback):
        carried.append(_low_32(address))
    return carried


def _low_32(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFFFFFF)
