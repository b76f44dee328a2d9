"""The HTTP API in process, and the headers of those who call it."""

from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from crux.actors.mailbox import Mailbox
from crux.config import AuthMode
from crux.domain.agents import AgentRegistry
from crux.tools.registry import Services
from crux.transport.auth import HttpAuthenticator
from crux.transport.front import Load
from crux.transport.metrics import Metrics
from crux.transport.rest import Api, correlated, create_app
from tests.conftest import Stack

EVERY_SCOPE = "admin:read admin:write query:read facts:write sessions:write"
MAX_BODY_BYTES = 100_000
TIMEOUT_S = 30

Headers = dict[str, str]


def api_on(services: Services, mailboxes: tuple[Mailbox, ...]) -> Api:
    return Api(
        services=services,
        authenticator=HttpAuthenticator(AuthMode.DEV_SCOPES, AgentRegistry(), frozenset()),
        mailboxes=mailboxes,
        metrics=Metrics(mailboxes, {"http": Load(), "mcp": Load()}, lambda: {"database": 4096, "wal": 0}),
        max_body_bytes=MAX_BODY_BYTES,
        request_timeout_s=TIMEOUT_S,
        mcp_enabled=True,
    )


def client_of(api: Api) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(correlated(create_app(api))), base_url="http://127.0.0.1:14800"
    )


@pytest.fixture
def api(stack: Stack) -> Api:
    return api_on(stack.services, stack.mailboxes)


@pytest.fixture
async def http(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(api) as client:
        yield client


@pytest.fixture
async def deaf_http(deaf_services: Services) -> AsyncIterator[httpx.AsyncClient]:
    """An API whose actors never answer."""
    async with client_of(api_on(deaf_services, ())) as client:
        yield client


@pytest.fixture
def who() -> Callable[..., Headers]:
    """The headers of a caller: `who()` is the raw administrator, `who("alice")` a passport's agent."""

    def headers(passport: str | None = None, scopes: str = EVERY_SCOPE) -> Headers:
        named = {} if passport is None else {"X-Corecrux-Passport-Id": passport}
        return {"X-Corecrux-Scopes": scopes, **named}

    return headers
