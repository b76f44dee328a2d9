"""What all routes share: who may call, what a failure looks like, limits, and the ids of requests."""

import re
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
import structlog.testing
import trio
from attrs import evolve
from trio.testing import MockClock

from crux.config import AuthMode
from crux.domain.agents import AgentRegistry
from crux.errors import ActorFailed, NoAnswer, StorageFull, StorageUnavailable
from crux.transport.asgi import Message, Scope
from crux.transport.auth import HttpAuthenticator
from crux.transport.front import Front, Limits, Load
from crux.transport.gates import GuardPolicy
from crux.transport.rest import Api, create_app, render_problem
from crux.transport.rest.app import ROUTES
from crux.transport.rest.route import AllOf, Route
from tests.conftest import Stack
from tests.contract.rest.conftest import MAX_BODY_BYTES, TIMEOUT_S, client_of

Http = httpx.AsyncClient
Who = Callable[..., dict[str, str]]

FACT = '{"entity": "a", "key": "k", "value": "v"}'
PROBLEM = "application/problem+json"
FRESH_ID = re.compile("[0-9a-f]{32}")

guarded = [route for route in ROUTES if route.scopes]
public = [route for route in ROUTES if not route.scopes]
any_of = [route for route in guarded if not isinstance(route.scopes, AllOf)]


def named(routes: list[Route]) -> list[str]:
    return [f"{route.method} {route.path}" for route in routes]


async def call(http: Http, route: Route, headers: dict[str, str]) -> httpx.Response:
    return await http.request(route.method, re.sub("<.+?>", "x", route.path), headers=headers, content="{}")


@pytest.mark.parametrize("route", any_of, ids=named(any_of))
async def test_a_guarded_route_takes_each_of_its_scopes_and_no_other(http: Http, who: Who, route: Route) -> None:
    assert route.scopes is not None
    for scope in ("query:read", "facts:write", "sessions:write", "admin:read", "admin:write"):
        answer = await call(http, route, who("alice", scope))
        assert (answer.status_code == 403) == (scope not in route.scopes)
        if scope not in route.scopes:
            assert answer.json()["code"] == "MISSING_SCOPE"
            assert answer.json()["missingAnyScope"] == list(route.scopes)


@pytest.mark.parametrize("route", guarded, ids=named(guarded))
async def test_a_guarded_route_wants_to_know_who_calls(http: Http, route: Route) -> None:
    answer = await call(http, route, {})
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert (answer.json()["title"], answer.json()["code"]) == ("Unauthorized", "UNAUTHENTICATED")


@pytest.mark.parametrize("route", public, ids=named(public))
async def test_a_public_route_asks_for_no_scope(http: Http, route: Route) -> None:
    assert (await call(http, route, {})).status_code in (200, 404)  # no such plan


async def test_without_authentication_a_caller_without_passport_sees_all(api: Api, who: Who) -> None:
    off = evolve(api, authenticator=HttpAuthenticator(AuthMode.OFF, AgentRegistry(), frozenset()))
    async with client_of(off) as client:
        await client.put("/v1/facts", content='{"entity": "decisions::x", "key": "k", "value": "v"}')
        assert len((await client.get("/v1/facts")).json()["facts"]) == 1
        assert (await client.get("/v1/facts", headers=who("alice"))).json()["facts"] == []


@pytest.mark.parametrize(
    ("method", "path", "status", "title"),
    [
        ("GET", "/v1/nothing", 404, "Not Found"),
        ("GET", "/v1/facts/", 404, "Not Found"),
        ("GET", "/v1//facts", 404, "Not Found"),
        ("GET", "/v1/facts/entity/", 404, "Not Found"),
        ("GET", "/v1/sessions//state", 404, "Not Found"),
        ("GET", "/static/x", 404, "Not Found"),
        ("POST", "/v1/facts", 405, "Method Not Allowed"),
        ("OPTIONS", "/v1/facts", 405, "Method Not Allowed"),
    ],
)
async def test_what_is_not_served_is_a_problem(
    http: Http, who: Who, method: str, path: str, status: int, title: str
) -> None:
    answer = await http.request(method, f"http://127.0.0.1{path}", headers=who())
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM)
    assert (answer.json()["status"], answer.json()["title"]) == (status, title)


async def test_a_wrong_method_is_told_the_right_ones(http: Http, who: Who) -> None:
    answer = await http.post("/v1/facts", headers=who())
    allowed = answer.headers["allow"].split(", ")
    assert allowed == ["GET", "HEAD", "PUT"]
    assert answer.json()["allow"] == allowed


@pytest.mark.parametrize(
    ("error", "status", "slug", "title", "retry_after"),
    [
        (StorageFull("the disk is full"), 507, "insufficient-storage", "Insufficient Storage", None),
        (StorageUnavailable("the disk is gone"), 503, "service-unavailable", "Service Unavailable", "5"),
        (NoAnswer("too slow"), 504, "gateway-timeout", "Gateway Timeout", None),
        (
            ActorFailed("internal error", data={"incident": "x", "status": 7}),
            500,
            "internal",
            "Internal Server Error",
            None,
        ),
    ],
)
async def test_a_failure_of_the_store_is_a_problem_of_its_kind(
    http: Http,
    who: Who,
    stack: Stack,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    status: int,
    slug: str,
    title: str,
    retry_after: str | None,
) -> None:
    async def fail(*_: object) -> list[Exception]:
        return [error]

    monkeypatch.setattr(stack.engine, "commit", fail)
    answer = await http.put("/v1/facts", headers=who(), content=FACT)
    assert (answer.status_code, answer.headers.get("retry-after")) == (status, retry_after)
    assert answer.json() == {
        "type": f"https://errors.cuecrux.com/{slug}",
        "title": title,
        "status": status,
        "detail": str(error),
        **({"incident": "x"} if status == 500 else {}),
    }


async def test_what_nobody_foresaw_is_in_the_log_under_the_number_that_the_caller_gets(api: Api, who: Who) -> None:
    class Broken:
        def now_us(self) -> int:
            raise RuntimeError("the clock stopped")

    async with client_of(evolve(api, services=evolve(api.services, clock=Broken()))) as client:
        with structlog.testing.capture_logs() as logs:
            answer = await client.get("/v1/facts", headers={**who(), "X-Request-Id": "r-1"})
    assert (answer.status_code, answer.headers["x-request-id"]) == (500, "r-1")
    assert "clock" not in answer.text
    (line,) = logs
    assert (line["incident"], line["request_id"], line["path"]) == (answer.json()["incident"], "r-1", "/v1/facts")
    assert isinstance(line["exc_info"], RuntimeError)


@pytest.mark.parametrize("path", ["/v1/facts", "/v1/facts/f_1", "/v1/sessions/s/state"])
async def test_a_read_that_no_actor_comes_to_is_refused_before_the_request_is_given_up(
    deaf_http: Http, who: Who, autojump_clock: MockClock, path: str
) -> None:
    answer = await deaf_http.get(path, headers=who())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert autojump_clock.current_time() < TIMEOUT_S


async def test_a_body_that_does_not_come_is_given_up(deaf_http: Http, who: Who, autojump_clock: MockClock) -> None:
    async def stalled() -> AsyncIterator[bytes]:
        yield b"{"
        await trio.sleep_forever()

    answer = await deaf_http.put("/v1/facts", headers=who(), content=stalled())
    assert (answer.status_code, answer.json()["title"]) == (408, "Request Timeout")
    assert autojump_clock.current_time() == TIMEOUT_S


@pytest.mark.parametrize("size", [MAX_BODY_BYTES, MAX_BODY_BYTES + 1])
async def test_a_body_may_be_as_large_as_the_limit(http: Http, who: Who, size: int) -> None:
    body = b'"' + b"x" * (size - 2) + b'"'

    async def in_parts() -> AsyncIterator[bytes]:
        for start in range(0, size, 30_000):
            yield body[start : start + 30_000]

    for content in (body, in_parts()):
        answer = await http.put("/v1/sessions/s/state", headers=who(), content=content)
        assert answer.status_code == (200 if size == MAX_BODY_BYTES else 413)
    if size > MAX_BODY_BYTES:
        assert answer.json()["type"] == "https://errors.cuecrux.com/payload-too-large"
        assert answer.json()["title"] == "Payload Too Large"


async def test_a_body_without_a_limit_may_be_larger(api: Api, who: Who) -> None:
    async with client_of(evolve(api, max_body_bytes=0)) as client:
        answer = await client.put("/v1/sessions/s/state", headers=who(), json="x" * MAX_BODY_BYTES * 2)
    assert answer.status_code == 200


async def test_of_a_body_above_the_limit_some_is_read_before_it_is_refused(api: Api) -> None:
    parts = 0
    sent: list[Message] = []
    scope: Scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "PUT",
        "scheme": "http",
        "path": "/v1/sessions/s/state",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"x-corecrux-scopes", b"sessions:write")],
    }

    async def receive() -> Message:
        nonlocal parts
        await trio.lowlevel.checkpoint()
        parts += 1
        return {"type": "http.request", "body": b"x" * (MAX_BODY_BYTES // 2), "more_body": parts < 8}

    async def send(message: Message) -> None:
        sent.append(message)

    with trio.fail_after(5):
        await create_app(api)(scope, receive, send)
    assert (sent[0]["status"], parts >= 8) == (413, True)


@pytest.mark.parametrize(
    ("given", "echoed"),
    [
        ([b"r-1"], b"r-1"),
        ([b"A.b_c:d-9"], b"A.b_c:d-9"),
        ([b"x" * 128], b"x" * 128),
        ([], None),
        ([b""], None),
        ([b"x" * 129], None),
        ([b"two words"], None),
        ([b"caf\xe9"], None),
        ([b"r-1", b"r-2"], None),
    ],
)
async def test_a_response_carries_the_requests_id_or_a_fresh_one(
    http: Http, given: list[bytes], echoed: bytes | None
) -> None:
    headers = [(b"x-request-id", value) for value in given]
    for path in ("/healthz", "/v1/nothing", "/v1/facts"):
        (found,) = [
            value for name, value in (await http.get(path, headers=headers)).headers.raw if name == b"x-request-id"
        ]
        assert found == echoed if echoed else FRESH_ID.fullmatch(found.decode())


TRACE, SPAN = b"4bf92f3577b34da6a3ce929d0e0e4736", b"00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("given", "is_echoed"),
    [
        ([b"00-%b-%b-01" % (TRACE, SPAN)], True),
        ([b"cc-%b-%b-01" % (TRACE, SPAN)], True),
        ([b"cc-%b-%b-01-what-comes-later" % (TRACE, SPAN)], True),
        ([b"00-%b-%b-01-more" % (TRACE, SPAN)], False),
        ([b"ff-%b-%b-01" % (TRACE, SPAN)], False),
        ([b"00-%b-%b-01" % (b"0" * 32, SPAN)], False),
        ([b"00-%b-%b-01" % (TRACE, b"0" * 16)], False),
        ([b"00-%b-%b-01" % (TRACE.upper(), SPAN)], False),
        ([b"00-%b-%b-01" % (TRACE, SPAN)] * 2, False),
        ([b"nonsense"], False),
        ([], False),
    ],
)
async def test_a_well_formed_trace_is_echoed(http: Http, given: list[bytes], is_echoed: bool) -> None:
    answer = await http.get("/healthz", headers=[(b"traceparent", value) for value in given])
    assert answer.headers.get("traceparent") == (given[0].decode() if is_echoed else None)


async def test_a_websocket_is_turned_away(api: Api) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await create_app(api)({"type": "websocket", "path": "/v1/facts", "headers": []}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_a_server_may_announce_that_it_starts_and_stops(api: Api) -> None:
    events = iter(["lifespan.startup", "lifespan.shutdown"])
    sent: list[str] = []

    async def receive() -> Message:
        return {"type": next(events)}

    async def send(message: Message) -> None:
        sent.append(message["type"])

    await create_app(api)({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


@pytest.mark.parametrize(
    ("headers", "status", "slug", "title"),
    [
        ({"Host": "evil.example"}, 421, "host-not-allowed", "Misdirected Request"),
        ({"Origin": "http://evil.example"}, 403, "origin-not-allowed", "Forbidden"),
        ({"X-Corecrux-Passport-Id": "a b"}, 400, "invalid-passport-header", "Bad Request"),
        ({"Content-Length": str(MAX_BODY_BYTES + 1)}, 413, "payload-too-large", "Payload Too Large"),
    ],
)
async def test_the_front_refuses_in_the_same_words(
    api: Api, headers: dict[str, str], status: int, slug: str, title: str
) -> None:
    front = Front(create_app(api), GuardPolicy(), Limits(MAX_BODY_BYTES, 8), Load(), render_problem)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(front), base_url="http://127.0.0.1") as client:
        answer = await client.get("/healthz", headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM)
    problem = answer.json()
    assert problem["detail"]
    assert (problem["type"], problem["title"], problem["status"]) == (
        f"https://errors.cuecrux.com/{slug}",
        title,
        status,
    )


async def test_the_front_sheds_what_is_too_much_at_once(api: Api) -> None:
    load = Load(inflight=8)
    front = Front(create_app(api), GuardPolicy(), Limits(MAX_BODY_BYTES, 8), load, render_problem)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(front), base_url="http://127.0.0.1") as client:
        answer = await client.get("/healthz")
    assert (answer.status_code, answer.headers["retry-after"], answer.json()["title"], load.shed) == (
        503,
        "1",
        "Service Unavailable",
        1,
    )
