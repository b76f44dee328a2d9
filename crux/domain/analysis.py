"""From text to the terms that the retrieval index holds, the same way for what is stored and for what is asked.

Letters are folded (case, accents, compatibility forms) and English endings taken off. An identifier, a path or a
version is findable whole and by its parts. Scripts that do not part words by spaces are cut into characters, and so
is what is asked of them, in pairs: any part of such a text is found (Decision 34). Emoji are terms of their own.

What stands in an index was made by one `ANALYSIS`; an index of another one has to be made again.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import Stemmer
from attrs import frozen

# To be raised with every change of what terms come out.
ANALYSIS: Final = f"1/{Stemmer.version()}"

LONGEST_TERM = 64
# Chunks of text whose terms are remembered: few make up most of what is written. Whoever analyses in bulk remembers
# more.
MEMO_CHUNKS = 8_192
BULK_CHUNKS = 131_072
_LONGEST_REMEMBERED = 40

# Kana, Han, Hangul, Thai and Lao, Myanmar, Khmer.
_UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0ee0\u1000-\u109f\u1780-\u17d3\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
_EMOJI = "\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f3fa\U0001f400-\U0001faff"
# Vowel signs and the like, which Python does not count as parts of a word.
_MARKS = "".join(chr(code) for code in range(0x0483, 0x1E00) if unicodedata.category(chr(code)) in ("Mn", "Mc"))
_LETTERS = rf"(?:(?![{_UNSPACED}])[\w{_MARKS}])"
_PIECES = re.compile(
    rf"(?P<run>[{_UNSPACED}]+)"
    rf"|(?P<emoji>[\U0001f1e6-\U0001f1ff]{{2}}|[{_EMOJI}])"
    rf"|{_LETTERS}+(?:['’.:/\\@~+#&-]+{_LETTERS}+)*(?:\+\+|#)?"
)
_APOSTROPHES = str.maketrans("’", "'")
_PARTS = re.compile(rf"[^\W_{_MARKS}](?:[^\W_]|[{_MARKS}']|)*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_VERSION = re.compile(r"v?(\d+(?:\.\d+)+)", re.IGNORECASE | re.ASCII)

# Marks of Latin, Greek, Cyrillic, Hebrew and Arabic, which nobody types when searching.
_ACCENTS = re.compile(r"[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670]+")
_UNDECOMPOSED = str.maketrans(
    {"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ı": "i", "æ": "ae", "œ": "oe"}
)


@frozen
class Word:
    """One word that was asked for: `terms` are what the index may hold of it, each a term or a few in a row.

    The word is there where its first term is, or where all the others are.
    """

    text: str
    terms: tuple[str, ...]


class Analyser:
    """Turns text into terms. One is used by one thread; it remembers that many chunks of text that it has seen."""

    def __init__(self, chunks: int = MEMO_CHUNKS) -> None:
        self._stem = Stemmer.Stemmer("english", maxCacheSize=0).stemWord
        self._memo = _Memo(self, chunks)

    def terms(self, text: str) -> str:
        """The terms of a text that is to be found, in order, with a space between them."""
        return " ".join(filter(None, map(self._memo.__getitem__, folded(text).split())))

    def words(self, text: str) -> list[Word]:
        """The words of a text that is to be looked for, in order, as often as they come."""
        return [word for piece in _PIECES.finditer(folded(text)) for word in self._asked(piece)]

    def chunk_terms(self, chunk: str) -> str:
        """The terms of a piece of folded text without white space."""
        return " ".join(
            term
            for piece in _PIECES.finditer(chunk)
            for term in (piece[0] if piece["run"] else self._terms_of(piece[0]))
        )

    def _asked(self, piece: re.Match[str]) -> Iterator[Word]:
        run = piece["run"]
        if run is None:
            if terms := self._terms_of(piece[0]):
                yield Word(piece[0], terms)
        elif len(run) == 1:
            yield Word(run, (run,))
        else:
            for first, second in pairwise(run):
                yield Word(first + second, (f"{first} {second}",))

    def _terms_of(self, piece: str) -> tuple[str, ...]:
        """The terms of a word, identifier or emoji: it as a whole, then its parts where it has several."""
        if not piece[0].isalnum() and piece[0] != "_":
            return (piece[:LONGEST_TERM],)
        parts = [part for words in _PARTS.findall(piece.translate(_APOSTROPHES)) for part in _CAMEL.split(words)]
        if len(parts) == 1 and parts[0] == piece:
            return self._stems(parts)
        whole = piece.translate(_APOSTROPHES).casefold().strip("_")
        stems = self._stems(parts)
        if "".join(parts) == piece.translate(_APOSTROPHES):  # an identifier of letters alone has its endings as well
            whole = self._stem(whole) if len(whole) <= LONGEST_TERM else whole
        version = _VERSION.fullmatch(piece)
        wholes = [whole, *(_prefixes(version[1]) if version else ())]
        return tuple(dict.fromkeys(term for term in (*wholes, *stems) if 1 < len(term) <= LONGEST_TERM))

    def _stems(self, parts: list[str]) -> tuple[str, ...]:
        return tuple(
            self._stem(part[:LONGEST_TERM].casefold()) for part in parts if len(part) > 1 or not part.isascii()
        )


class _Memo(dict[str, str]):
    """The terms of chunks, made when first asked for; it starts afresh when it is full."""

    def __init__(self, analyser: Analyser, most: int) -> None:
        self._analyser = analyser
        self._most = most

    def __missing__(self, chunk: str) -> str:
        terms = self._analyser.chunk_terms(chunk)
        if len(chunk) <= _LONGEST_REMEMBERED:
            if len(self) >= self._most:
                self.clear()
            self[chunk] = terms
        return terms


def folded(text: str) -> str:
    """`text` without accents and compatibility forms; its case is kept, since that parts identifiers."""
    if text.isascii():
        return text
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFC", bare).translate(_UNDECOMPOSED)


def _prefixes(version: str) -> Iterator[str]:
    """1.2.3 and 1.2 of 1.2.3."""
    numbers = version.split(".")
    for count in range(len(numbers), 1, -1):
        yield ".".join(numbers[:count])
