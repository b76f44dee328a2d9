"""Files as documents: what is text, what it is called, and what of HTML a reader would see."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import frozen

from crux.domain.documents import MOST_DOCUMENT_BYTES
from crux.domain.raw_json import NUL
from crux.domain.tokens import utf8_size

HTML = frozenset({".html", ".htm", ".xhtml"})
MARKDOWN = frozenset({".md", ".markdown"})
# A file that has a NUL so near its start is no text.
_LOOKED_AT = 8192
_HEADING = re.compile(r"^#\s+(.+?)\s*#*$", re.MULTILINE)
_UNREAD = ("script", "style", "noscript", "template")
_LONGEST_TITLE = 200


@frozen
class Text:
    """A file that can be ingested: its absolute path is the document's id."""

    path: Path
    title: str
    text: str

    @property
    def document_id(self) -> str:
        return str(self.path)

    @property
    def size_bytes(self) -> int:
        return utf8_size(self.text)


@frozen
class Skipped:
    """A file that cannot be ingested, and why in a few words."""

    path: Path
    reason: str


def files_under(paths: Iterable[Path]) -> Iterator[Path]:
    """The files that `paths` name and those below them, each once and in order.

    What is found below a directory and hidden, as version control's own files are, is left out; links to directories
    are not followed.
    """
    seen: set[Path] = set()
    for path in paths:
        for file in _below(path.absolute()):
            if file not in seen:
                seen.add(file)
                yield file


def is_hidden(file: Path, roots: Iterable[Path]) -> bool:
    """Whether a file below one of `roots` is hidden, or something between them is."""
    return any(
        part.startswith(".")
        for root in roots
        if file.is_relative_to(root.absolute())
        for part in file.relative_to(root.absolute()).parts
    )


def read(file: Path) -> Text | Skipped:
    """A file as text. HTML becomes what a reader would see of it, in Markdown."""
    try:
        size = file.stat().st_size
        content = file.read_bytes() if size <= MOST_DOCUMENT_BYTES else b""
    except OSError as error:
        return Skipped(file, error.strerror or "cannot be read")
    if size > MOST_DOCUMENT_BYTES:
        return Skipped(file, f"too large: {size} bytes, at most {MOST_DOCUMENT_BYTES}")
    if b"\0" in content[:_LOOKED_AT]:
        return Skipped(file, "binary")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return Skipped(file, "not UTF-8")
    if "\0" in text:
        return Skipped(file, NUL)
    title, text = _seen_of(file, text)
    return Text(file, title[:_LONGEST_TITLE], text) if text.strip() else Skipped(file, "empty")


def _below(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for entry in sorted(path.iterdir()):
        if entry.name.startswith(".") or (entry.is_dir() and entry.is_symlink()):
            continue
        yield from _below(entry)


def _seen_of(file: Path, text: str) -> tuple[str, str]:
    """The title and the text of a file's content."""
    suffix = file.suffix.lower()
    if suffix in HTML:
        return _read_html(file.name, text)
    heading = _HEADING.search(text) if suffix in MARKDOWN else None
    return (heading[1] if heading else file.name), text


def _read_html(name: str, text: str) -> tuple[str, str]:
    from bs4 import BeautifulSoup  # noqa: PLC0415 - only HTML needs these, and they take long to import
    from markdownify import MarkdownConverter  # noqa: PLC0415

    page = BeautifulSoup(text, "html.parser")
    title = page.title.get_text(strip=True) if page.title else ""
    for element in page([*_UNREAD, "title"]):
        element.decompose()
    seen: str = MarkdownConverter(heading_style="ATX", escape_underscores=False, escape_asterisks=False).convert_soup(
        page
    )
    return title or name, seen.strip()
