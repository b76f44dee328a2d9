"""The stdio bridge: MCP on standard input and output, carried to the MCP port (seed 11.3, protocol contract 14).

Hosts that know agents' servers only as commands start it. It keeps nothing but the id of the session, and looks into a
line only as far as it must: a line goes out and an answer comes back with the bytes they had.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import httpx
import msgspec
import trio
from attrs import define, field, frozen

from crux import __version__
from crux.errors import UPSTREAM_ERROR, CruxError, ParseError
from crux.transport.lines import CHUNK_BYTES, InputFailed, LineSplitter

MAX_LINE_BYTES = 16 * 2**20

# A tool may work for as long as it likes; a daemon that is there accepts at once.
TIMEOUT = httpx.Timeout(None, connect=10.0)
# The daemon writes a comment every 15 s: a stream that is silent for this long has no peer any more.
STREAM_TIMEOUT = httpx.Timeout(None, connect=10.0, read=60.0)
# How long the line after `initialize` waits for the push stream, so that no notice is lost between the two.
STREAM_HEAD_START_S = 2.0
RECONNECT_FIRST_S = 0.5
RECONNECT_MOST_S = 30.0

SESSION = "Mcp-Session-Id"
EVENT_STREAM = "text/event-stream"
# What a client is told when its stream was away: the daemon replays nothing.
LIST_CHANGED = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'

_NULL = msgspec.Raw(b"null")


class UpstreamFailed(CruxError):
    """The MCP port gave no answer that a JSON-RPC client could be handed."""

    code = UPSTREAM_ERROR
    status = 502


class _Head(msgspec.Struct):
    """What is looked at of a line. A null `id` counts as absent, as for the daemon."""

    method: object = None
    id: msgspec.Raw = _NULL

    @property
    def is_notification(self) -> bool:
        return bytes(self.id) == b"null"


class _Server(msgspec.Struct):
    version: str


class _Welcome(msgspec.Struct, rename="camel"):
    server_info: _Server | None = None


class _Handshake(msgspec.Struct):
    """A successful answer to `initialize`."""

    result: _Welcome


_read_head = msgspec.json.Decoder(_Head).decode
_read_handshake = msgspec.json.Decoder(_Handshake).decode


@frozen
class Bridge:
    """One client on `stdin` and `stdout`, and the MCP port at `url`.

    `note` gets diagnostics, one line each. `client` must not follow redirects, which would send a token elsewhere.
    """

    url: str
    client: httpx.AsyncClient
    stdin: trio.abc.ReceiveStream
    stdout: trio.abc.SendStream
    note: Callable[[str], None]

    async def run(self) -> None:
        """Relay lines, strictly one after the other, until `stdin` ends or nobody reads `stdout` any more.

        Raises `InputFailed` where `stdin` breaks. Nothing is left running.
        """
        failure: InputFailed | None = None
        async with trio.open_nursery() as nursery:
            relay = _Relay(self, _Output(self.stdout, nursery.cancel_scope), nursery)
            try:
                await relay.run()
            except InputFailed as error:
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure


@frozen
class _Output:
    """Standard output: whole lines, one at a time. Cancels the bridge when nobody reads it any more."""

    _stream: trio.abc.SendStream
    _bridge: trio.CancelScope
    _turn: trio.Lock = field(factory=trio.Lock, init=False)

    async def write(self, line: bytes) -> None:
        async with self._turn:
            try:
                await self._stream.send_all(line + b"\n")
            except trio.BrokenResourceError:
                self._bridge.cancel()
                await trio.lowlevel.checkpoint()  # before another line does something whose outcome nobody hears


@define
class _Relay:
    """The way of the lines. Knows the session, and has its push stream carried beside."""

    _bridge: Bridge
    _output: _Output
    _nursery: trio.Nursery
    _session: dict[str, str] = field(factory=dict, init=False)
    _streaming: trio.CancelScope = field(factory=trio.CancelScope, init=False)

    async def run(self) -> None:
        splitter = LineSplitter(MAX_LINE_BYTES)
        while chunk := await self._bridge.stdin.receive_some(CHUNK_BYTES):
            for line in splitter.feed(chunk):
                await self._relay(line)
        for line in splitter.end():
            await self._relay(line)

    async def _relay(self, line: bytes | None) -> None:
        if line is None:
            await self._output.write(_refusal(_NULL, ParseError(f"a line has at most {MAX_LINE_BYTES} bytes")))
            return
        if not line.strip():
            return
        head = _head(line)
        opens = head is not None and head.method == "initialize"
        if opens:
            self._session = {}
            self._streaming.cancel()
        try:
            response = await self._post(line)
            # A request that got nothing would have its client wait for ever.
            answer = b"" if _is_empty(response, head) else _one_line(response.content)
        except UpstreamFailed as failure:
            self._bridge.note(failure.message)
            if head is None or not head.is_notification:
                await self._output.write(_refusal(_NULL if head is None else head.id, failure))
            return
        if answer:
            await self._output.write(answer)
        if opens:
            await self._open(response, answer)

    async def _post(self, line: bytes) -> httpx.Response:
        """The successful response to one line; raises `UpstreamFailed`."""
        headers = {"Content-Type": "application/json", "Accept": "application/json", **self._session}
        try:
            response = await self._bridge.client.post(self._bridge.url, content=line, headers=headers, timeout=TIMEOUT)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise UpstreamFailed(f"nothing answers at {self._bridge.url} ({error}); start the daemon") from error
        except httpx.HTTPError as error:
            raise UpstreamFailed(
                f"{self._bridge.url} broke off ({_worded(error)}); what became of the request is not known"
            ) from error
        if not response.is_success:
            raise UpstreamFailed(f"{self._bridge.url} answered {response.status_code}{_reason(response)}")
        return response

    async def _open(self, response: httpx.Response, answer: bytes) -> None:
        """Take the session that `initialize` gave, and have its push stream opened."""
        try:
            server = _read_handshake(answer).result.server_info
        except msgspec.MsgspecError:
            return
        if server is not None and server.version != __version__:
            self._bridge.note(f"the daemon is version {server.version}, this bridge {__version__}")
        if (session := response.headers.get(SESSION)) is not None:
            self._session = {SESSION: session}
        self._streaming = trio.CancelScope()
        push = _PushStream(self._bridge, self._output, self._session)
        self._nursery.start_soon(push.run, self._streaming)
        with trio.move_on_after(STREAM_HEAD_START_S):
            await push.tried.wait()


@frozen
class _PushStream:
    """Carries what the daemon pushes into one session, over as many streams as it takes.

    `tried` is set when the first stream stands, or does not.
    """

    _bridge: Bridge
    _output: _Output
    _session: Mapping[str, str]
    tried: trio.Event = field(factory=trio.Event, init=False)

    async def run(self, scope: trio.CancelScope) -> None:
        """Keep a stream open until `scope` is cancelled or the daemon says that there is none to be had."""
        with scope:
            delay_s = RECONNECT_FIRST_S
            late = False
            while True:
                opened_at = trio.current_time()
                try:
                    if not await self._carry_one(late=late):
                        return
                    reason = "ended"
                except httpx.HTTPError as error:
                    reason = f"broke off ({_worded(error)})"
                finally:
                    self.tried.set()
                if trio.current_time() - opened_at > RECONNECT_MOST_S:
                    delay_s, late = RECONNECT_FIRST_S, False
                if not late:
                    self._bridge.note(f"the push stream {reason}; it is opened again as soon as the daemon answers")
                late = True
                await trio.sleep(delay_s)
                delay_s = min(2 * delay_s, RECONNECT_MOST_S)

    async def _carry_one(self, *, late: bool) -> bool:
        """Open one stream and carry it to its end. Returns whether another one is worth a try."""
        headers = {"Accept": EVENT_STREAM, **self._session}
        request = self._bridge.client.stream("GET", self._bridge.url, headers=headers, timeout=STREAM_TIMEOUT)
        async with request as response:
            if response.status_code >= 500:
                return True
            if response.status_code != 200 or not response.headers.get("content-type", "").startswith(EVENT_STREAM):
                await response.aread()
                self._bridge.note(
                    f"no push stream: {self._bridge.url} answered {response.status_code}{_reason(response)}; "
                    "changes of the tool list are not announced"
                )
                return False
            self.tried.set()
            if late:
                await self._output.write(LIST_CHANGED)
            await self._carry(response)
            return True

    async def _carry(self, response: httpx.Response) -> None:
        """Write each event's data as one line (WHATWG HTML 9.2.6; the daemon ends lines with a line feed)."""
        splitter = LineSplitter(MAX_LINE_BYTES)
        data: list[bytes] = []
        async for chunk in response.aiter_bytes():
            for line in splitter.feed(chunk):
                name, colon, value = (line or b"").rstrip(b"\r").partition(b":")
                if name == b"data":
                    data.append(value)
                elif not name and not colon and data:
                    await self._push(b"\n".join(data))
                    data.clear()

    async def _push(self, message: bytes) -> None:
        try:
            line = _one_line(message)
        except UpstreamFailed as failure:
            self._bridge.note(f"dropped a pushed message: {failure.message}")
        else:
            await self._output.write(line)


def _head(line: bytes) -> _Head | None:
    """What the line says of itself, or None where it is no JSON object."""
    try:
        return _read_head(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _is_empty(response: httpx.Response, head: _Head | None) -> bool:
    return not response.content.strip() and (head is None or head.is_notification)


def _one_line(message: bytes) -> bytes:
    """`message` without line ends around and in it, else unchanged; raises `UpstreamFailed` where it is no JSON."""
    message = message.strip()
    try:
        compact = msgspec.json.format(message, indent=-1)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UpstreamFailed(f"the answer is not JSON: {error}") from None
    return compact if b"\n" in message or b"\r" in message else message


def _reason(response: httpx.Response) -> str:
    """What a refusal says beside its status, as the daemon words it before JSON-RPC."""
    try:
        said = msgspec.json.decode(response.content, type=dict[str, object])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return f" {response.reason_phrase}"
    return "".join(f"{mark} {said[name]}" for mark, name in (("", "error"), (":", "hint")) if name in said)


def _worded(error: httpx.HTTPError) -> str:
    return str(error) or type(error).__name__


def _refusal(request_id: msgspec.Raw, error: CruxError) -> bytes:
    return msgspec.json.encode(
        {"jsonrpc": "2.0", "id": request_id, "error": {"code": error.code, "message": error.message}}
    )
