"""Standard input and output as trio streams, and streams as lines."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator

import trio
from attrs import define, field, frozen

from crux.errors import CruxError

CHUNK_BYTES = 64 * 2**10


class InputFailed(CruxError):
    """Standard input cannot be read."""


@define
class LineSplitter:
    """Cuts a stream of bytes into lines. One longer than `limit` is thrown away as it comes, and gives None."""

    limit: int
    _kept: bytearray = field(factory=bytearray, init=False)
    _too_long: bool = field(default=False, init=False)

    def feed(self, chunk: bytes | bytearray) -> Iterator[bytes | None]:
        """The lines that `chunk` completes, without their line feeds."""
        first, *rest = chunk.split(b"\n")
        self._keep(first)
        for part in rest:
            yield self._take()
            self._keep(part)

    def end(self) -> Iterator[bytes | None]:
        """The last line, where no line feed ends it."""
        if self._kept or self._too_long:
            yield self._take()

    def _keep(self, part: bytes | bytearray) -> None:
        if self._too_long or len(self._kept) + len(part) > self.limit:
            self._too_long = True
            self._kept.clear()
        else:
            self._kept += part

    def _take(self) -> bytes | None:
        line = None if self._too_long else bytes(self._kept)
        self._kept.clear()
        self._too_long = False
        return line


@frozen
class DescriptorInput(trio.abc.ReceiveStream):
    """A file descriptor that another process opened, read in a thread.

    trio's own stream would set it non-blocking, which the other holders of a terminal or pipe would feel, and cannot
    wait for a regular file. A read that is cancelled goes on in its thread until the process ends.
    """

    descriptor: int

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """The next bytes, none at the end. Raises `InputFailed`."""
        try:
            return await trio.to_thread.run_sync(
                _read, self.descriptor, max_bytes or CHUNK_BYTES, abandon_on_cancel=True
            )
        except OSError as error:
            raise InputFailed(f"standard input cannot be read: {error.strerror}") from error

    async def aclose(self) -> None:
        """Nothing: the descriptor is the process's."""
        await trio.lowlevel.checkpoint()


@frozen
class DescriptorOutput(trio.abc.SendStream):
    """The same for writing. A write is never cut short by a cancellation: no half line is left behind."""

    descriptor: int

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Write all of `data`. Raises `trio.BrokenResourceError` where nobody can read it any more."""
        try:
            await trio.to_thread.run_sync(_write_all, self.descriptor, memoryview(data))
        except OSError as error:
            raise trio.BrokenResourceError(f"standard output cannot be written: {error.strerror}") from error

    async def wait_send_all_might_not_block(self) -> None:
        """Nothing: a write that has to wait does so in its thread."""
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """Nothing: the descriptor is the process's."""
        await trio.lowlevel.checkpoint()


def _read(descriptor: int, max_bytes: int) -> bytes:
    while True:
        try:
            return os.read(descriptor, max_bytes)
        except BlockingIOError:  # another holder made it non-blocking
            select.select([descriptor], [], [])


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
