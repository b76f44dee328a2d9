"""Secrets that are made once and kept."""

from pathlib import Path

import pytest

from crux.errors import StartRefused
from crux.storage.keys import install_id, keep_bytes, root_key


def test_what_was_made_once_is_found_again(tmp_path: Path) -> None:
    made = keep_bytes(tmp_path / "secret", 32)
    assert len(made) == 32
    assert keep_bytes(tmp_path / "secret", 32) == made
    assert keep_bytes(tmp_path / "other", 32) != made


def test_a_secret_is_hex_and_a_line_break_for_its_owner_alone(tmp_path: Path) -> None:
    made = keep_bytes(tmp_path / "secret", 16)
    assert (tmp_path / "secret").read_text() == made.hex() + "\n"
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


@pytest.mark.parametrize("text", ["AB" * 16, "ab" * 16, "  " + "ab" * 16 + "\r\n"])
def test_hex_is_read_in_either_case_with_blanks_around_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "secret").write_text(text)
    assert keep_bytes(tmp_path / "secret", 16) == b"\xab" * 16


@pytest.mark.parametrize("data", [b"", b"\n", b"ab" * 15, b"ab" * 17, b"zz" * 16, b"\xff" * 32])
def test_a_damaged_secret_stops_the_start_and_is_left_as_it_is(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "secret"
    path.write_bytes(data)
    with pytest.raises(StartRefused, match="secret") as caught:
        keep_bytes(path, 16)
    assert "backup" in caught.value.message
    assert path.read_bytes() == data


def test_a_secret_that_cannot_be_written_stops_the_start_and_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("crux.storage.keys.os.write", full)
    with pytest.raises(StartRefused, match="No space left on device"):
        keep_bytes(tmp_path / "secret", 16)
    assert not (tmp_path / "secret").exists()
    monkeypatch.undo()
    assert len(keep_bytes(tmp_path / "secret", 16)) == 16


def test_a_write_that_did_not_finish_is_begun_again(tmp_path: Path) -> None:
    (tmp_path / "secret.new").write_text("ab")
    made = keep_bytes(tmp_path / "secret", 16)
    assert keep_bytes(tmp_path / "secret", 16) == made
    assert not (tmp_path / "secret.new").exists()


def test_a_secret_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    with pytest.raises(StartRefused, match="cannot be read"):
        keep_bytes(tmp_path / "secret", 16)


def test_the_daemon_keeps_its_key_and_its_name(tmp_path: Path) -> None:
    assert root_key(tmp_path).private_bytes_raw() == root_key(tmp_path).private_bytes_raw()
    assert install_id(tmp_path) == install_id(tmp_path)
    assert len(bytes.fromhex(install_id(tmp_path))) == 16
    assert sorted(path.name for path in tmp_path.iterdir()) == [".install-uuid", "passport.key"]
