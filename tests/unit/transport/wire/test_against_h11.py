import base64
import json

import pytest

from crux.transport.wire.reader import RequestReader
from fuzz.requests import Requests
from fuzz.wire_vs_h11 import CORPUS, Disagreement, check, corpus, main, read, read_by_h11, run

KEPT = [json.loads(line) for line in (CORPUS / "requests.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("kept", KEPT, ids=[kept["name"] for kept in KEPT])
def test_every_kept_input_is_read_as_it_was_and_never_as_h11_would_not(kept: dict[str, object]) -> None:
    data = base64.b64decode(str(kept["base64"]))
    reading = check(data)
    assert (len(reading.requests), reading.status) == (kept["requests"], kept["status"])
    assert read(*(data[at : at + 1] for at in range(len(data)))) == reading


def test_random_requests_are_never_read_as_h11_would_not() -> None:
    tally = run(10_000, seed=3, kept=corpus())
    assert tally.inputs == 10_000
    assert tally.accepted > 4_000
    assert set(tally.refusals) == {400, 417, 431, 501, 505}


def test_a_seed_always_gives_the_same_requests() -> None:
    one, two = Requests(7, corpus()), Requests(7, corpus())
    assert [one.next() for _ in range(100)] == [two.next() for _ in range(100)]


def test_a_disagreement_is_noticed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("fuzz.wire_vs_h11.read_by_h11", lambda data, count: read_by_h11(data, count - 1))
    with pytest.raises(Disagreement, match="R0VUIC8gSFRUUC8xLjENCkhvc3Q6IGENCg0K"):
        check(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert main(["--inputs", "100"]) == 1
    assert "h11: " in capsys.readouterr().out


def test_the_command_says_what_it_has_seen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--inputs", "200", "--seed", "5"]) == 0
    assert capsys.readouterr().out.startswith("200 inputs, ")


def test_a_reading_that_depends_on_the_cut_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestReader, "feed", lambda self, data: setattr(self, "_buffer", data))
    with pytest.raises(Disagreement, match="cut at 3"):
        check(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", cut=3)
