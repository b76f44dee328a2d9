"""Parked bytes against SQLite itself: owners, limits, times."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crux.domain import artefacts as artefacts_module
from crux.domain.artefacts import (
    MOST_BYTES,
    SECOND_US,
    Artefact,
    ListArtefacts,
    PutArtefact,
    ReadArtefact,
    SweepArtefacts,
    artefact_id,
    decoded,
)
from crux.domain.decay import DecayPolicy
from crux.errors import InvalidArgument
from crux.storage.engine import SqliteEngine
from tests.unit.storage.test_memory import NOW, do, look


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[SqliteEngine]:
    opened = await SqliteEngine.open(tmp_path, DecayPolicy())
    yield opened
    opened.close()


def parked(content: bytes, owner: str = "bob", **more: object) -> PutArtefact:
    given = {"mime_type": "text/plain", "tool_origin": None, "ttl_s": 60, **more}
    return PutArtefact(owner, content, **given)  # type: ignore[arg-type]


def listed(engine: SqliteEngine, owner: str = "bob", scope: str | None = None, now_us: int = NOW) -> list[str]:
    return [artefact.mime_type for artefact in look(engine, ListArtefacts(owner, scope, 9, now_us))]


async def test_bytes_are_their_owner_s_alone_also_where_two_park_the_same(engine: SqliteEngine) -> None:
    bobs = await do(engine, parked(b"x", mime_type="a/b"))
    eves = await do(engine, parked(b"x", "eve", mime_type="c/d"))
    assert bobs.artefact_id == eves.artefact_id == artefact_id(b"x")
    for owner, mime_type in (("bob", "a/b"), ("eve", "c/d")):
        found = look(engine, ReadArtefact(owner, bobs.artefact_id, NOW))
        assert found is not None
        assert (found.content, found.artefact.mime_type) == (b"x", mime_type)
        assert listed(engine, owner) == [mime_type]
    assert look(engine, ReadArtefact("mallory", bobs.artefact_id, NOW)) is None


async def test_the_same_bytes_again_renew_what_is_known_of_them(engine: SqliteEngine) -> None:
    await do(engine, parked(b"x", mime_type="a/b"))
    renewed = await do(engine, parked(b"x", mime_type="c/d", tool_origin="t", ttl_s=None), NOW + 5)
    assert renewed == Artefact(artefact_id(b"x"), "c/d", "t", 1, NOW + 5, None)
    assert listed(engine) == ["c/d"]


async def test_what_has_expired_is_gone_at_once_and_swept_later(engine: SqliteEngine) -> None:
    kept = await do(engine, parked(b"kept", ttl_s=None))
    gone = await do(engine, parked(b"gone", ttl_s=10))
    at = NOW + 10 * SECOND_US
    assert look(engine, ReadArtefact("bob", gone.artefact_id, at - 1)) is not None
    assert look(engine, ReadArtefact("bob", gone.artefact_id, at)) is None
    assert len(listed(engine, now_us=at)) == 1
    assert await do(engine, SweepArtefacts(9), at - 1) == 0
    assert await do(engine, SweepArtefacts(9), at) == 1
    assert await do(engine, SweepArtefacts(9), at) == 0
    assert look(engine, ReadArtefact("bob", kept.artefact_id, at * 2)) is not None


async def test_a_list_filters_before_it_cuts_and_leaves_reserved_types_out(engine: SqliteEngine) -> None:
    for number, mime in enumerate(("text/csv", "__ops::x", "image/png", "text/html")):
        await do(engine, parked(bytes([number]), mime_type=mime, tool_origin="report"), NOW + number)
    assert listed(engine) == ["text/html", "image/png", "text/csv"]
    assert listed(engine, scope="text") == ["text/html", "text/csv"]
    assert listed(engine, scope="report") == ["text/html", "image/png", "text/csv"]
    assert listed(engine, scope="rep") == []
    assert [a.mime_type for a in look(engine, ListArtefacts("bob", "csv", 1, NOW))] == ["text/csv"]
    assert look(engine, ReadArtefact("bob", artefact_id(b"\1"), NOW)) is not None, "its owner reads it"


@pytest.mark.parametrize(("count", "most_bytes"), [(2, 100), (100, 5)])
async def test_an_owner_has_so_much_room(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch, count: int, most_bytes: int
) -> None:
    monkeypatch.setattr(artefacts_module, "MOST_OWNED", count)
    monkeypatch.setattr(artefacts_module, "MOST_OWNED_BYTES", most_bytes)
    await do(engine, parked(b"ab"))
    await do(engine, parked(b"abc"))
    with pytest.raises(InvalidArgument, match="you have 2 artefacts of 5 bytes"):
        await do(engine, parked(b"d"))
    await do(engine, parked(b"abc", mime_type="x/y"))
    await do(engine, parked(b"d", "eve"))
    await do(engine, parked(b"d"), NOW + 60 * SECOND_US)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1 to"),
        ("e3", "standard base64"),
        ("e30=\n", "standard base64"),
        ("é", "standard base64"),
        ("_-8=", "standard"),
    ],
)
def test_other_text_than_base64_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        decoded(text)


def test_bytes_are_taken_up_to_the_limit() -> None:
    assert len(decoded("AAAA" * (MOST_BYTES // 3) + "AAA=")) == MOST_BYTES
    with pytest.raises(InvalidArgument, match=f"got {MOST_BYTES + 1}"):
        decoded("AAAA" * ((MOST_BYTES + 1) // 3))
