"""The pure parts of opening many streams."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.crowd import session_of, shares
from bench.failure import BenchFailed


@given(st.integers(0, 20_000), st.integers(1, 64))
def test_shares_add_up_and_differ_by_one_at_most(count: int, among: int) -> None:
    cut = shares(count, among)
    assert (sum(cut), len(cut)) == (count, among)
    assert max(cut) - min(cut) <= 1


@pytest.mark.parametrize(
    ("head", "session"),
    [
        (b"HTTP/1.1 200 OK\r\nMcp-Session-Id: a-1\r\nx: y\r\n\r\n", "a-1"),
        (b"HTTP/1.1 200 OK\r\nmcp-session-id:b\r\n\r\n", "b"),
        (b"HTTP/1.1 200 OK\r\nx-mcp-session-id: c\r\n\r\n", None),
        (b"HTTP/1.1 200 OK\r\n\r\n", None),
    ],
)
def test_a_streams_session_is_the_one_its_head_names(head: bytes, session: str | None) -> None:
    assert session_of(head) == session


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 429 Too Many Requests\r\n\r\n", b"HTTP/1.1 2"])
def test_a_stream_that_is_refused_fails_the_bench(head: bytes) -> None:
    with pytest.raises(BenchFailed, match="refused"):
        session_of(head)
