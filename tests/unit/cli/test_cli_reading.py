"""Files as documents: what is text, what it is called, what of HTML is seen."""

from pathlib import Path

import pytest

from crux.cli.reading import Skipped, Text, files_under, is_hidden, read
from crux.domain.documents import MOST_DOCUMENT_BYTES


def write(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content", "title", "text"),
    [
        ("a.txt", "one\ntwo", "a.txt", "one\ntwo"),
        ("a.py", "# Not a title\nx = 1", "a.py", "# Not a title\nx = 1"),
        ("a.md", "intro\n\n# The *title* #\n\ntext", "The *title*", "intro\n\n# The *title* #\n\ntext"),
        ("a.MD", "no heading", "a.MD", "no heading"),
        ("bom.txt", b"\xef\xbb\xbfone", "bom.txt", "one"),
        (
            "a.html",
            "<title>A &amp; b</title><style>p{}</style><h1>Head</h1><p>One <b>bold</b> a_b</p><script>x()</script>",
            "A & b",
            "# Head\n\nOne **bold** a_b",
        ),
        ("a.htm", "<p>x</p><template>t</template><noscript>n</noscript>", "a.htm", "x"),
        ("broken.html", "<p>x<div></p><b>", "broken.html", "x"),
    ],
)
def test_a_file_is_read_as_what_it_is(tmp_path: Path, name: str, content: bytes | str, title: str, text: str) -> None:
    file = write(tmp_path / name, content)
    assert read(file) == Text(file, title, text)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"PNG\0\1", "binary"),
        (b"x" * 9000 + b"\0", "NUL"),
        (b"caf\xe9", "not UTF-8"),
        (b" \n", "empty"),
        (b"", "empty"),
        (b"x" * (MOST_DOCUMENT_BYTES + 1), "too large"),
    ],
)
def test_what_is_no_text_is_skipped_with_the_reason(tmp_path: Path, content: bytes, reason: str) -> None:
    found = read(write(tmp_path / "f", content))
    assert isinstance(found, Skipped)
    assert reason in found.reason


def test_a_file_of_the_greatest_size_is_read(tmp_path: Path) -> None:
    assert isinstance(read(write(tmp_path / "f", b"x" * MOST_DOCUMENT_BYTES)), Text)


def test_a_file_that_is_gone_is_skipped(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == Skipped(tmp_path / "none", "No such file or directory")


def test_files_are_found_once_and_in_order_and_hidden_ones_only_where_named(tmp_path: Path) -> None:
    for name in ("b.txt", "a/2.txt", "a/1.txt", ".git/config", "a/.hidden", ".env"):
        write(tmp_path / name, "x")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = [str(file.relative_to(tmp_path)) for file in files_under([tmp_path, tmp_path / "b.txt", tmp_path / ".env"])]
    assert found == ["a/1.txt", "a/2.txt", "b.txt", ".env"]


def test_a_relative_path_is_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.txt", "x")
    monkeypatch.chdir(tmp_path)
    assert list(files_under([Path("a.txt"), Path()])) == [tmp_path / "a.txt"]


@pytest.mark.parametrize(("name", "hidden"), [("a/b.txt", False), ("a/.b", True), (".a/b", True)])
def test_what_is_hidden_below_a_root_is_told(tmp_path: Path, name: str, hidden: bool) -> None:
    assert is_hidden(tmp_path / name, [tmp_path]) == hidden
