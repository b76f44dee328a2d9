"""The HTTP API of the running daemon, as commands call it."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import click
import httpx
import msgspec
from attrs import field, frozen

from crux.cli.inputs import text, usable_token
from crux.config import Settings, load
from crux.errors import CruxError, InvalidArgument
from crux.storage.directory import holder_of, is_held

DEFAULT_SCOPES = "admin:read admin:write query:read facts:write sessions:read sessions:write"

# The daemon gives up on a request itself, after 30 s unless told otherwise; its answer says more than our own deadline.
TIMEOUT = httpx.Timeout(60.0, connect=5.0)

_TOKEN_VARIABLES = ["CORECRUX_LOOPBACK_TOKEN", "CRUX_AGENT_TOKEN"]

_FIELD_VALUE = re.compile(r"[ -~]*")

_T = TypeVar("_T")
_P = ParamSpec("_P")
_Command = TypeVar("_Command", bound=Callable[..., Any])


class Unreachable(CruxError):
    """Nothing answers at the daemon's address, or not in time."""


class Refused(CruxError):
    """Whatever is at the daemon's address gave another answer than was asked for: `http_status` and `content`."""

    def __init__(self, message: str, http_status: int = 200, content: bytes = b"") -> None:
        super().__init__(message)
        self.http_status = http_status
        self.content = content


@frozen
class Credentials:
    """What a command says about its caller. Without a token it declares `scopes`, as `dev_scopes` takes them."""

    token: str | None = field(default=None, repr=False)
    scopes: str | None = None
    passport: str | None = None

    def headers(self) -> dict[str, str]:
        """The request headers that say so. Raises `InvalidArgument` for what no header can hold, and never shows a
        token."""
        token = usable_token(self.token, "the token")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if self.scopes is not None or not token:
            headers["X-Corecrux-Scopes"] = self.scopes or DEFAULT_SCOPES
        if self.passport is not None:
            headers["X-Corecrux-Passport-Id"] = self.passport
        if not all(_FIELD_VALUE.fullmatch(value) for value in headers.values()):
            raise InvalidArgument("the scopes and the passport may hold printable ASCII characters only")
        return headers


@frozen
class Api:
    """One daemon. Bodies go out and come back as JSON documents in bytes."""

    url: str
    _client: httpx.Client

    def call(
        self, method: str, path: str, *, params: Mapping[str, str | int] | None = None, body: object = None
    ) -> bytes:
        """The body of a successful answer.

        Raises `Unreachable`, and `Refused` with the title and detail of the daemon's problem body (RFC 9457).
        """
        content = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            response = self._client.request(method, path, params=params, content=content, headers=headers)
        except httpx.TimeoutException as error:
            raise Unreachable(f"the daemon at {self.url} did not answer in time ({type(error).__name__})") from error
        except httpx.TransportError as error:
            raise Unreachable(f"no daemon answers at {self.url} ({error}); start one with: crux serve") from error
        if not response.is_success:
            raise Refused(_wording(response), response.status_code, response.content)
        return response.content

    def read(self, expected: type[_T], content: bytes) -> _T:
        """An answer's body as `expected`; raises `Refused` where it is something else."""
        try:
            return msgspec.json.decode(content, type=expected)
        except msgspec.MsgspecError as error:
            raise Refused(f"the answer of {self.url} is not that of a Crux daemon: {error}") from error


@contextmanager
def connect(url: str, credentials: Credentials, timeout: httpx.Timeout = TIMEOUT) -> Iterator[Api]:
    """Calls to the daemon at `url`, past any proxy. Raises `CruxError` for an address or header that cannot be used."""
    try:
        client = httpx.Client(base_url=url, headers=credentials.headers(), timeout=timeout, trust_env=False)
    except httpx.InvalidURL as error:
        raise CruxError(f"{url!r} is no address of a daemon: {error}") from None
    with client:
        yield Api(url, client)


def address_of(settings: Settings) -> str:
    """Where the HTTP API can be called under `settings`; an address that stands for all becomes the loopback one.

    Port 0 is the daemon's choice: then it is asked of the data directory, which the daemon holds.
    """
    if not settings.http_port:
        held_at = holder_of(settings.data_dir).get("http") if is_held(settings.data_dir) else None
        if not isinstance(held_at, str):
            raise CruxError(
                f"CORECRUXD_HTTP_PORT is 0 and no daemon runs on {settings.data_dir}: start one, or pass --url"
            )
        return f"http://{held_at}"
    return f"http://{authority(settings.http_host, settings.http_port)}"


def authority(host: str, port: int) -> str:
    """`host` and `port` as a URL has them, for a client on this machine."""
    try:
        address = ip_address(host)
    except ValueError:
        return f"{host}:{port}"
    loopback = {4: "127.0.0.1", 6: "::1"}[address.version]
    reachable = loopback if address.is_unspecified else host
    return f"[{reachable}]:{port}" if address.version == 6 else f"{reachable}:{port}"


def credential_options(command: _Command) -> _Command:
    """The options `token`, `scopes` and `passport` of `Credentials`."""
    options = (
        click.option(
            "--token",
            envvar=_TOKEN_VARIABLES,
            show_envvar=True,
            help="Agent token or JWT. Better in the environment, where other users do not see it.",
        ),
        click.option(
            "--scopes", help=f"Scopes to declare to a daemon in dev_scopes mode. Without a token: {DEFAULT_SCOPES}."
        ),
        click.option("--passport", metavar="ID", type=text, help="Act as this passport."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@frozen
class Target:
    """Which daemon a command means: the one at `url`, or where these settings would put it."""

    url: str | None
    credentials: Credentials

    @contextmanager
    def connect(self) -> Iterator[Api]:
        """Calls to that daemon, for as long as the context lasts."""
        url = self.url or address_of(load(os.environ, home=Path.home()).settings)
        with connect(url, self.credentials) as api:
            yield api


def url_option(command: _Command) -> _Command:
    """The option `url` of `Target`."""
    where = "Address of the HTTP API.  [default: where the settings put it]"
    return click.option("--url", type=text, callback=_url, help=where)(command)


def pass_api(command: Callable[Concatenate[Api, _P], _T]) -> Callable[_P, _T]:
    """Run a command with a connection to the `Target` of its group. Its help and its usage errors need no daemon."""

    @wraps(command)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with click.get_current_context().ensure_object(Target).connect() as api:
            return command(api, *args, **kwargs)

    return run


def _url(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not value.startswith(("http://", "https://")):
        raise click.BadParameter("expected an address such as http://127.0.0.1:14800")
    return value


class _Problem(msgspec.Struct):
    title: str
    detail: str | None = None


def _wording(response: httpx.Response) -> str:
    try:
        problem = msgspec.json.decode(response.content, type=_Problem)
    except msgspec.MsgspecError:
        return f"{response.url} answered {response.status_code} {response.reason_phrase}, and not as a Crux daemon does"
    return f"{problem.title}: {problem.detail}" if problem.detail else problem.title
