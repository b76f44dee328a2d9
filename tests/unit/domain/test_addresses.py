"""Which addresses are called for an extension, and which for nobody."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.addresses import Reach, check_addresses, reach
from crux.domain.endpoints import read_endpoint
from crux.domain.outbound_refusals import EndpointNotAllowed

PUBLIC = ["93.184.216.34", "1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
PRIVATE = [
    "127.0.0.1",
    "127.255.255.254",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "100.127.255.255",
    "192.0.2.1",
    "198.18.0.1",
    "240.0.0.1",
    "::1",
    "fc00::1",
    "fdff::1",
    "fec0::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "64:ff9b:1::101:101",
    "2002:101:101::1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "::7f00:1",
]
NEVER = [
    "169.254.169.254",
    "169.254.0.1",
    "169.254.170.2",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "0.0.0.0",
    "0.1.2.3",
    "224.0.0.1",
    "239.255.255.255",
    "255.255.255.255",
    "::",
    "fe80::1",
    "febf::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "ff02::1",
    "::ffff:169.254.169.254",
    "::ffff:0.0.0.0",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "2002:6464:64c8::",
    "::a9fe:a9fe",
    "fd00:ec2::23",
    "fd00:c1::a9fe:a9fe",
]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        *((address, Reach.PUBLIC) for address in PUBLIC),
        *((address, Reach.PRIVATE) for address in PRIVATE),
        *((address, Reach.NEVER) for address in NEVER),
        ("172.15.255.255", Reach.PUBLIC),
        ("172.32.0.0", Reach.PUBLIC),
        ("100.63.255.255", Reach.PUBLIC),
        ("100.128.0.0", Reach.PUBLIC),
        ("169.253.255.255", Reach.PUBLIC),
        ("169.255.0.0", Reach.PUBLIC),
        ("100.100.100.199", Reach.PRIVATE),
        ("100.100.100.201", Reach.PRIVATE),
    ],
)
def test_an_address_is_public_private_or_never_called(address: str, expected: Reach) -> None:
    assert reach(ip_address(address)) is expected


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_judged_the_same_in_whatever_ipv6_address_carries_it(address: IPv4Address) -> None:
    judged = reach(address)
    number = int(address)
    assert reach(ip_address(f"::ffff:{address}")) is judged
    assert reach(ip_address(f"64:ff9b::{number >> 16:x}:{number & 0xFFFF:x}")) is judged
    assert reach(ip_address(f"2002:{number >> 16:x}:{number & 0xFFFF:x}::1")) >= judged


@pytest.mark.parametrize("address", PRIVATE)
def test_a_name_that_leads_inside_is_refused_until_the_operator_lists_it(address: str) -> None:
    endpoint = read_endpoint("https://Tools.example:8443/x")
    with pytest.raises(EndpointNotAllowed) as refused:
        check_addresses(endpoint, ["1.1.1.1", address], {"other.example"})
    assert (refused.value.status, refused.value.reason) == (502, "endpoint_not_allowed")
    assert "list 'tools.example' in CORECRUXD_EXTENSIONS_ALLOW_PRIVATE_HOSTS" in refused.value.message
    assert address not in refused.value.message, "the network inside is not the caller's to know"
    for listed in ({"tools.example"}, {"*"}):
        check_addresses(endpoint, ["1.1.1.1", address], listed)


@pytest.mark.parametrize("address", NEVER)
@pytest.mark.parametrize("url", ["https://tools.example/", "https://localhost/", None])
def test_no_setting_allows_what_is_never_called(address: str, url: str | None) -> None:
    literal = f"https://[{address}]/" if ":" in address else f"https://{address}/"
    with pytest.raises(EndpointNotAllowed, match="never called"):
        check_addresses(read_endpoint(url or literal), ["1.1.1.1", address], {"*", "tools.example"})


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_in_the_endpoint_itself_is_the_operators_own_choice(address: str) -> None:
    url = f"https://[{address}]/" if ":" in address else f"https://{address}/"
    check_addresses(read_endpoint(url), [address], frozenset())


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST"])
def test_localhost_leads_to_this_machine(host: str) -> None:
    check_addresses(read_endpoint(f"http://{host}:9/"), ["::1", "127.0.0.1"], frozenset())


@pytest.mark.parametrize("host", ["localhost.", "a.localhost", "localhost.example", "2130706433", "127.1"])
def test_what_only_looks_like_this_machine_is_a_name(host: str) -> None:
    with pytest.raises(EndpointNotAllowed):
        check_addresses(read_endpoint(f"http://{host}:9/"), ["127.0.0.1"], frozenset())


def test_the_zone_of_an_address_says_nothing_of_where_it_leads() -> None:
    with pytest.raises(EndpointNotAllowed):
        check_addresses(read_endpoint("https://a.example"), ["fe80::1%eth0"], {"*"})


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_called(address: str) -> None:
    check_addresses(read_endpoint("https://a.example"), [address], frozenset())
