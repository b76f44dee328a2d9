"""What waits to be sent on one push stream: a few frames, and the one task that sends them."""

from __future__ import annotations

import trio

# A reader this far behind a stream that says next to nothing is stuck: it loses its stream, not the daemon its memory.
MOST_BYTES = 2048


class Outbox:
    """Frames go in without waiting and come out in one task; a full one ends.

    Made for ten thousand at a time: it holds no channel, event or timer of its own.
    """

    __slots__ = ("_frames", "_reader", "ended")

    def __init__(self) -> None:
        self.ended = False
        self._frames = b""
        self._reader: trio.lowlevel.Task | None = None

    def put(self, frame: bytes) -> bool:
        """Add a frame; False when the stream has ended, also because of this frame."""
        if self.ended:
            return False
        if len(self._frames) + len(frame) > MOST_BYTES:
            self.end()
            return False
        self._frames += frame
        self._wake()
        return True

    def put_once(self, frame: bytes) -> bool:
        """Add a frame unless it is waiting already; False when the stream has ended."""
        return not self.ended if self.holds(frame) else self.put(frame)

    def holds(self, frame: bytes) -> bool:
        """Whether a frame is waiting that was put in and not taken."""
        return frame in self._frames

    def end(self) -> None:
        """No more is to come: the reader gets what is there, and then nothing."""
        self.ended = True
        self._wake()

    async def take(self) -> bytes:
        """All that waits, as soon as there is something; empty when the stream has ended. For one task at a time."""
        if not self._frames and not self.ended:
            self._reader = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._leave)
        else:
            await trio.lowlevel.checkpoint()
        frames, self._frames = self._frames, b""
        return frames

    def _leave(self, _: object) -> trio.lowlevel.Abort:
        self._reader = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _wake(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            trio.lowlevel.reschedule(reader)
