import json
from pathlib import Path

import pytest

from crux.cli.export import PAGE_FACTS, replacing
from crux.errors import CruxError, InvalidArgument
from tests.unit.cli.conftest import Cli
from tests.unit.cli.stub import Stub, fact


def page(*facts: dict[str, object], cursor: object = None, more: bool | None = None) -> dict[str, object]:
    has_more = cursor is not None if more is None else more
    return {"facts": facts, "next_cursor": cursor, "has_more": has_more, "exported_at": "2026-11-30T18:59:22Z"}


FACTS = [fact(fact_id=f"f_{number}", value=f"line {number}\n") for number in range(3)]


def test_an_export_follows_the_cursor_to_the_end(cli: Cli, stub: Stub) -> None:
    stub.answer("GET /v1/facts/export", page(FACTS[0], cursor="7"), page(cursor="8"), page(*FACTS[1:]))
    result = cli("facts", "--url", stub.url, "export")
    assert [json.loads(line) for line in result.stdout.splitlines()] == FACTS
    assert (result.exit_code, result.stderr) == (0, "exported 3 facts\n")
    limit = {"limit": str(PAGE_FACTS)}
    assert [asked.query for asked in stub.asked] == [limit, {**limit, "cursor": "7"}, {**limit, "cursor": "8"}]


def test_a_file_gets_one_fact_a_line_and_is_its_owners_alone(cli: Cli, stub: Stub, tmp_path: Path) -> None:
    stub.answer("GET /v1/facts/export", json.dumps(page(*FACTS), indent=2).encode())
    file = tmp_path / "facts.jsonl"
    result = cli("facts", "--url", stub.url, "export", "-o", str(file))
    assert (result.stdout, result.stderr) == ("", f"exported 3 facts to {file}\n")
    assert [json.loads(line) for line in file.read_text().splitlines()] == FACTS
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "second", [(500, {"title": "Internal Server Error"}), (200, page(cursor="7")), (200, page(more=True)), (200, {})]
)
def test_a_broken_export_leaves_the_file_as_it_was(
    second: tuple[int, object], cli: Cli, stub: Stub, tmp_path: Path
) -> None:
    stub.answer("GET /v1/facts/export", page(*FACTS, cursor="7"))
    stub.answer("GET /v1/facts/export", second[1], status=second[0])
    file = tmp_path / "facts.jsonl"
    file.write_text("earlier")
    result = cli("facts", "--url", stub.url, "export", "-o", str(file))
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert file.read_text() == "earlier"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["facts.jsonl", "home"]


def test_since_is_sent_as_given_and_has_to_be_an_instant(cli: Cli, stub: Stub) -> None:
    stub.answer("GET /v1/facts/export", page())
    assert cli("facts", "--url", stub.url, "export", "--since", "2026-11-30T18:59:22+01:00").exit_code == 0
    assert stub.asked[0].query["since"] == "2026-11-30T18:59:22+01:00"
    assert cli("facts", "--url", stub.url, "export", "--since", "yesterday").exit_code == 2
    assert len(stub.asked) == 1


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    link.symlink_to(file)
    with replacing(link) as draft:
        draft.write(b"content")
    assert link.is_symlink()
    assert file.read_bytes() == b"content"


@pytest.mark.parametrize("special", ["/dev/null", "."])
def test_what_is_no_file_is_not_replaced_by_one(special: str) -> None:
    with pytest.raises(InvalidArgument), replacing(Path(special)):
        pass


def test_a_file_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(CruxError, match="cannot be written: No such file"), replacing(tmp_path / "missing/file"):
        pass
