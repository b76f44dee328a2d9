"""Clients that lose, share or steal a session's stream: the newest of its owner works at once, and no call is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import frozen

from crux.actors.sessions import LIST_CHANGED
from crux.config import ServerKind
from crux.tools.catalogue import CATALOGUE
from crux.tools.facts import NoArguments
from crux.tools.identity import AgentIdentity
from crux.tools.registry import Call, Catalogue, Tool, tool
from crux.tools.schema import arg
from tests.serving import AGENTS, BOB, EVE, Serving, call_of, encoded, serving, text_of
from tests.wires import Client, get, post

ASK_FOR_STREAM = ("Accept: text/event-stream", "Mcp-Session-Id: s")
PATIENCE_S = 20


@frozen
class Mark:
    mark: str = arg("What tells a call from another one")


def tool_that_waits(begun: trio.Event, go_on: trio.Event) -> Tool:
    """A tool whose calls end when a test says so."""

    @tool("wait", plane="test", result=AgentIdentity)
    async def wait(args: NoArguments, call: Call) -> AgentIdentity:
        """Wait."""
        begun.set()
        await go_on.wait()
        return AgentIdentity("waited", None)

    return wait


def call(name: str, *fields: str, **arguments: object) -> bytes:
    """The bytes of a call on the session."""
    return post(encoded(call_of(name, **arguments)), "Mcp-Session-Id: s", *fields, path="/mcp")


async def stream(daemon: Serving, *fields: str) -> Client:
    """A peer with an open stream of the session."""
    peer = await daemon.dial()
    await peer.send(get("/mcp", *ASK_FOR_STREAM, *fields))
    assert b" 200 " in await peer.until(b"\r\n\r\n")
    return peer


async def announce(daemon: Serving, *fields: str) -> dict[str, Any]:
    """Declare an intent on the session, which puts news on its stream; the answer to that."""
    peer = await daemon.dial()
    async with peer.stream:
        answer = await peer.ask(call("cuecrux_session", *fields, intent="audit_review"))
    found: dict[str, Any] = json.loads(answer.body)
    return found


async def test_a_new_stream_takes_over_at_once_and_the_call_in_flight_is_answered(
    tmp_path: Path, server: ServerKind
) -> None:
    begun, go_on = trio.Event(), trio.Event()
    catalogue = Catalogue.of([*CATALOGUE.tools, tool_that_waits(begun, go_on)])
    with trio.fail_after(PATIENCE_S):
        async with serving(tmp_path, catalogue=catalogue, mcp_server=server) as daemon:
            old, caller = await stream(daemon), await daemon.dial()
            await caller.send(call("wait"))
            await begun.wait()
            new = await stream(daemon)
            assert await old.until(b"0\r\n\r\n") == b"0\r\n\r\n", "the older one ends properly, and says nothing before"
            assert "result" in await announce(daemon)
            await new.until(LIST_CHANGED)
            go_on.set()
            answer = await caller.answer()
            assert text_of(json.loads(answer.body))["agent_name"] == "waited"
            assert answer.headers["mcp-session-id"] == "s"
            for peer in (old, new, caller):
                await peer.stream.aclose()


async def test_the_end_of_a_stream_ends_no_call_of_its_session(tmp_path: Path, server: ServerKind) -> None:
    begun, go_on = trio.Event(), trio.Event()
    catalogue = Catalogue.of([*CATALOGUE.tools, tool_that_waits(begun, go_on)])
    with trio.fail_after(PATIENCE_S):
        async with serving(tmp_path, catalogue=catalogue, mcp_server=server) as daemon:
            gone, caller = await stream(daemon), await daemon.dial()
            await caller.send(call("wait"))
            await begun.wait()
            gone.reset()
            new = await stream(daemon)
            go_on.set()
            assert b"waited" in (await caller.answer()).body
            await announce(daemon)
            await new.until(LIST_CHANGED)
            for peer in (new, caller):
                await peer.stream.aclose()


@pytest.mark.parametrize("limits", [{}, {"sse_max_sessions": 1, "sse_max_sessions_per_owner": 1}])
async def test_a_stream_that_was_reset_is_open_again_at_once(
    tmp_path: Path, server: ServerKind, limits: dict[str, Any]
) -> None:
    with trio.fail_after(PATIENCE_S):
        async with serving(tmp_path, mcp_server=server, **limits) as daemon:
            for _ in range(20):
                peer = await stream(daemon)
                await announce(daemon)
                await peer.until(LIST_CHANGED)
                peer.reset()


async def test_a_stream_outlives_a_burst_of_news_and_hears_of_it(tmp_path: Path, server: ServerKind) -> None:
    with trio.fail_after(PATIENCE_S):
        async with serving(tmp_path, mcp_server=server) as daemon:
            reader = await stream(daemon)
            async with trio.open_nursery() as nursery:
                for _ in range(200):
                    nursery.start_soon(announce, daemon)
            await reader.until(LIST_CHANGED)
            assert await daemon.streams() == 1
            await reader.stream.aclose()


async def test_whoever_tries_another_owner_s_session_harms_neither_its_stream_nor_its_calls(
    tmp_path: Path, server: ServerKind
) -> None:
    bob, eve = f"Authorization: Bearer {BOB}", f"Authorization: Bearer {EVE}"
    with trio.fail_after(PATIENCE_S):
        async with serving(tmp_path, mcp_server=server, agent_tokens=AGENTS) as daemon:
            victim, thief = await stream(daemon, bob), await daemon.dial()
            for _ in range(100):
                refused = await thief.ask(get("/mcp", *ASK_FOR_STREAM, eve))
                assert (refused.status, json.loads(refused.body)["error"]) == (403, "sse_session_owner_mismatch")
            await announce(daemon, bob)
            assert (await victim.until(LIST_CHANGED)).count(b"data:") == 1
            for peer in (victim, thief):
                await peer.stream.aclose()


async def test_two_calls_at_once_with_one_id_on_one_session_get_their_own_answers(
    tmp_path: Path, server: ServerKind
) -> None:
    """Of each pair, both begin before either ends."""
    rounds = {ServerKind.WIRE: 1000, ServerKind.HYPERCORN: 100}[server]
    waiting: list[trio.Event] = []

    @tool("meet", plane="test", result=AgentIdentity)
    async def meet(args: Mark, call: Call) -> AgentIdentity:
        """Answer with the mark once another call has come."""
        if waiting:
            waiting.pop().set()
        else:
            waiting.append(other_came := trio.Event())
            await other_came.wait()
        return AgentIdentity(args.mark, None)

    async def ask(peer: Client, mark: str) -> None:
        answer = await peer.ask(call("meet", mark=mark))
        assert text_of(json.loads(answer.body))["agent_name"] == mark

    with trio.fail_after(PATIENCE_S):
        async with serving(tmp_path, catalogue=Catalogue.of([meet]), mcp_server=server) as daemon:
            peers = [await daemon.dial() for _ in range(2)]
            for number in range(rounds):
                async with trio.open_nursery() as nursery:
                    for place, peer in enumerate(peers):
                        nursery.start_soon(ask, peer, f"{number}.{place}")
            for peer in peers:
                await peer.stream.aclose()
