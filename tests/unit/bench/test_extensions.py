"""The endpoint that the bench's external tools have, and the bare client that calls it."""

import h11
import pytest
import trio
from trio.testing import memory_stream_pair

from bench.bare_client import _post_bare
from bench.extensions import Endpoint
from bench.failure import BenchFailed
from bench.settings import INSTANT_NAMES, NAMES, Settings


async def test_a_stuck_call_counts_until_its_caller_leaves(nursery: trio.Nursery) -> None:
    endpoint = Endpoint()
    ours, theirs = memory_stream_pair()
    nursery.start_soon(endpoint._converse, theirs)
    await ours.send_all(b"POST /stuck HTTP/1.1\r\n\r\n")
    await endpoint.wait_for(1)
    await ours.aclose()
    await endpoint.wait_for(0)


async def test_a_call_that_was_let_go_fails_the_bench(autojump_clock: trio.testing.MockClock) -> None:
    with pytest.raises(BenchFailed, match="0 calls reached the endpoint, expected 1"):
        await Endpoint().wait_for(1)


async def test_a_slow_answer_takes_its_time_and_an_instant_one_takes_none(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    ours, theirs = memory_stream_pair()
    nursery.start_soon(Endpoint()._converse, theirs)
    took = []
    for path in (b"slow", b"instant"):
        began = trio.current_time()
        await ours.send_all(b"POST /%b HTTP/1.1\r\n\r\n" % path)
        assert (await ours.receive_some()).endswith(b'{"result":"eucalyptus"}')
        took.append(trio.current_time() - began)
    assert took == [pytest.approx(0.05), 0]
    await ours.aclose()


async def test_the_bare_client_calls_the_endpoint_again_and_again_on_one_connection(nursery: trio.Nursery) -> None:
    ours, theirs = memory_stream_pair()
    nursery.start_soon(Endpoint()._converse, theirs)
    http = h11.Connection(h11.CLIENT)
    for _ in range(3):
        await _post_bare(ours, http, 80)
        http.start_next_cycle()
    await ours.aclose()


async def test_the_bare_client_takes_no_other_answer() -> None:
    ours, theirs = memory_stream_pair()
    await theirs.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    with pytest.raises(BenchFailed, match=r"the endpoint answered b'\{\}'"):
        await _post_bare(ours, h11.Connection(h11.CLIENT), 80)


@pytest.mark.parametrize("names", INSTANT_NAMES)
def test_each_row_of_instant_calls_brings_its_own_bare_client_along(names: tuple[str, ...]) -> None:
    settings = Settings(rounds=1, seconds=1.0, only=names[2:])
    assert [settings.chosen(each) for each in INSTANT_NAMES if each != names] == [()]
    assert settings.chosen(names) == (names[0], names[2])


def test_no_two_rows_share_a_name() -> None:
    assert len(set(NAMES)) == len(NAMES)
