import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from crux.cli.client import DEFAULT_SCOPES, Credentials, Refused, Unreachable, address_of, authority, connect
from crux.config import Settings
from crux.errors import CruxError
from tests.unit.cli.conftest import Cli
from tests.unit.cli.stub import Stub

TOKEN = "a" * 32


@pytest.mark.parametrize(
    ("credentials", "headers"),
    [
        (Credentials(), {"X-Corecrux-Scopes": DEFAULT_SCOPES}),
        (Credentials(token=" \n"), {"X-Corecrux-Scopes": DEFAULT_SCOPES}),
        (Credentials(scopes="query:read"), {"X-Corecrux-Scopes": "query:read"}),
        (Credentials(token=f" {TOKEN}\n"), {"Authorization": f"Bearer {TOKEN}"}),
        (
            Credentials(token=TOKEN, scopes="query:read", passport="p"),
            {
                "Authorization": f"Bearer {TOKEN}",
                "X-Corecrux-Scopes": "query:read",
                "X-Corecrux-Passport-Id": "p",
            },
        ),
    ],
)
def test_scopes_are_declared_where_there_is_no_token_or_they_are_asked_for(
    credentials: Credentials, headers: dict[str, str]
) -> None:
    assert credentials.headers() == headers


def test_a_token_is_not_in_the_repr_of_credentials() -> None:
    assert TOKEN not in repr(Credentials(token=TOKEN))


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", "127.0.0.1:1"),
        ("0.0.0.0", "127.0.0.1:1"),
        ("::", "[::1]:1"),
        ("::1", "[::1]:1"),
        ("10.0.0.7", "10.0.0.7:1"),
        ("localhost", "localhost:1"),
    ],
)
def test_an_address_that_stands_for_all_is_called_on_loopback(host: str, expected: str) -> None:
    assert authority(host, 1) == expected
    assert address_of(Settings(http_host=host, http_port=1)) == f"http://{expected}"


def test_a_port_that_the_daemon_chooses_cannot_be_guessed(tmp_path: Path) -> None:
    with pytest.raises(CruxError, match="--url"):
        address_of(Settings(http_port=0, data_dir=tmp_path))


def test_a_body_goes_out_as_json_and_the_answer_comes_back_as_it_is(stub: Stub) -> None:
    stub.answer("PUT /x", b'{"a": 1}')
    with connect(stub.url, Credentials()) as api:
        assert api.call("PUT", "/x", params={"n": 1}, body={"b": 2}) == b'{"a": 1}'
    (asked,) = stub.asked
    assert asked.json() == {"b": 2}
    assert asked.query == {"n": "1"}
    assert asked.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (403, {"title": "Forbidden", "detail": "no scope", "status": 403}, "Forbidden: no scope"),
        (500, {"title": "Internal Server Error"}, "Internal Server Error"),
        (502, b"<html>", "{url}/x answered 502 Bad Gateway, and not as a Crux daemon does"),
        (302, b"", "{url}/x answered 302 Found, and not as a Crux daemon does"),
        (503, ["title"], "{url}/x answered 503 Service Unavailable, and not as a Crux daemon does"),
    ],
)
def test_a_refusal_is_worded_by_title_and_detail(status: int, body: object, message: str, stub: Stub) -> None:
    stub.answer("GET /x", body, status=status)
    with connect(stub.url, Credentials()) as api, pytest.raises(Refused) as refusal:
        api.call("GET", "/x")
    assert refusal.value.message == message.format(url=stub.url)
    assert refusal.value.http_status == status


def test_an_answer_of_another_shape_is_not_taken_for_the_daemons(stub: Stub) -> None:
    with connect(stub.url, Credentials()) as api, pytest.raises(Refused, match="not that of a Crux daemon"):
        api.read(dict[str, int], b'{"a": "b"}')


def test_nobody_at_the_address_is_said_with_how_to_start_a_daemon() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with connect(url, Credentials()) as api, pytest.raises(Unreachable) as failure:
            api.call("GET", "/x")
    assert url in failure.value.message
    assert failure.value.message.endswith("start one with: crux serve")


def test_a_daemon_that_does_not_answer_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with connect(url, Credentials(), httpx.Timeout(0.05)) as api, pytest.raises(Unreachable, match="in time"):
            api.call("GET", "/x")


UNUSABLE = ["secret\nX-Y: z", "secret\r\nX-Y: z", "secret\0", "sécret", "secret two", "secret\udcff"]


@pytest.mark.parametrize("token", UNUSABLE)
def test_a_token_that_no_header_can_hold_is_refused_unsent_and_unshown(token: str, cli: Cli, stub: Stub) -> None:
    result = cli("facts", "--url", stub.url, "--token", token, "get")
    assert (result.exit_code, result.stdout, stub.asked) == (1, "", [])
    assert result.stderr == "crux: the token may hold printable ASCII characters only, and no blanks\n"


@pytest.mark.parametrize(
    ("url", "credentials"),
    [
        ("http://127.0.0.1:port", Credentials()),
        ("http://127.0.0.1", Credentials(passport="ä")),
        ("http://127.0.0.1", Credentials(scopes="a\nb")),
    ],
)
def test_an_address_or_a_header_that_cannot_be_used_is_refused(url: str, credentials: Credentials) -> None:
    with pytest.raises(CruxError), connect(url, credentials):
        pass


def test_proxies_of_the_environment_are_not_used(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    stub.answer("GET /x", {})
    with connect(stub.url, Credentials()) as api:
        assert api.call("GET", "/x") == b"{}"


@pytest.mark.parametrize(
    ("environ", "options", "token"),
    [
        ({"CORECRUX_LOOPBACK_TOKEN": "l", "CRUX_AGENT_TOKEN": "a"}, [], "l"),
        ({"CRUX_AGENT_TOKEN": "a"}, [], "a"),
        ({"CORECRUX_LOOPBACK_TOKEN": "", "CRUX_AGENT_TOKEN": "a"}, [], "a"),
        ({"CRUX_AGENT_TOKEN": "a"}, ["--token", "o"], "o"),
    ],
)
def test_the_token_comes_from_the_option_or_the_environment(
    environ: dict[str, str], options: list[str], token: str, cli: Cli, stub: Stub
) -> None:
    stub.answer("GET /v1/facts", {"facts": [], "total_tokens": 0})
    assert cli("facts", "--url", stub.url, *options, "get", **environ).exit_code == 0
    assert stub.asked[0].headers["authorization"] == f"Bearer {token}"
    assert "x-corecrux-scopes" not in stub.asked[0].headers


def test_the_address_comes_from_the_settings(cli: Cli, stub: Stub) -> None:
    stub.answer("GET /v1/facts", {"facts": [], "total_tokens": 0})
    port = str(urlsplit(stub.url).port)
    assert cli("facts", "get", CORECRUXD_HTTP_HOST="0.0.0.0", CORECRUXD_HTTP_PORT=port).exit_code == 0
    assert len(stub.asked) == 1


def test_with_an_address_the_settings_do_not_matter(cli: Cli, stub: Stub) -> None:
    stub.answer("GET /v1/facts", {"facts": [], "total_tokens": 0})
    assert cli("facts", "--url", stub.url, "get", CORECRUXD_HTTP_PORT="many").exit_code == 0


def test_help_and_wrong_usage_need_neither_settings_nor_a_daemon(cli: Cli) -> None:
    assert cli("facts", "get", "--help", CORECRUXD_HTTP_PORT="many").exit_code == 0
    assert cli("facts", "--url", "127.0.0.1:1", "get").exit_code == 2
