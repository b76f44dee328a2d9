import os
from itertools import pairwise
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from crux.transport.lines import DescriptorInput, DescriptorOutput, InputFailed, LineSplitter

LIMIT = 8


def split(chunks: list[bytes]) -> list[bytes | None]:
    splitter = LineSplitter(LIMIT)
    return [line for chunk in chunks for line in splitter.feed(chunk)] + list(splitter.end())


@given(st.lists(st.sampled_from([b"a", b"b\r", b"\n", b"longer", b"far too long"])), st.data())
def test_lines_are_the_same_however_the_bytes_come(parts: list[bytes], data: st.DataObject) -> None:
    text = b"".join(parts)
    cuts = data.draw(st.lists(st.integers(0, len(text))).map(sorted))
    chunks = [text[first:last] for first, last in pairwise([0, *cuts, len(text)])]
    expected = text.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert split(chunks) == [line if len(line) <= LIMIT else None for line in expected]


def test_a_line_that_is_too_long_is_not_kept() -> None:
    splitter = LineSplitter(LIMIT)
    for _ in range(100):
        assert list(splitter.feed(b"x" * LIMIT)) == []
        assert len(splitter._kept) <= LIMIT


@pytest.mark.parametrize("blocking", [True, False])
async def test_pipes_are_read_and_written_whole_blocking_or_not(blocking: bool) -> None:
    reads, writes = os.pipe()
    os.set_blocking(reads, blocking)
    os.set_blocking(writes, blocking)
    text = os.urandom(2**20)
    heard = b""

    async def send() -> None:
        await DescriptorOutput(writes).send_all(text)
        os.close(writes)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        while chunk := await DescriptorInput(reads).receive_some():
            heard += chunk
    os.close(reads)
    assert heard == text


async def test_a_regular_file_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    with (tmp_path / "file").open("rb") as file:
        stdin = DescriptorInput(file.fileno())
        assert [await stdin.receive_some(4), await stdin.receive_some(4), await stdin.receive_some(4)] == [
            b"cont",
            b"ent",
            b"",
        ]


async def test_what_cannot_be_read_or_written_is_said_so(tmp_path: Path) -> None:
    with tmp_path.joinpath("file").open("wb") as file, pytest.raises(InputFailed, match="Bad file descriptor"):
        await DescriptorInput(file.fileno()).receive_some()
    reads, writes = os.pipe()
    os.close(reads)
    with pytest.raises(trio.BrokenResourceError, match="Broken pipe"):
        await DescriptorOutput(writes).send_all(b"text")
    os.close(writes)
