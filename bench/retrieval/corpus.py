"""A generated corpus with known answers: the same in each run, any part of it on its own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from attrs import frozen

VOCABULARY: Final = 30_000
WORDS: Final = 100
# Questions of each kind.
QUESTIONS: Final = 20
# Documents that differ in one word only.
TWINS: Final = 5

# Where each kind stands in the block of a question, and how long that is; facts are in none.
BLOCK: Final = 20
OFFSETS: Final = {"lexical": 0, "rare": 1, "cjk": 2, "identifier": 3, "near-duplicate": 4, "multi-term": 9}

KINDS: Final = ("lexical", "multi-term", "rare", "cjk", "identifier", "near-duplicate", "superseded")

_CONSONANTS, _VOWELS = "bcdfghjklmnprstvz", "aeiou"
_HAN = [chr(code) for code in range(0x4E00, 0x4E00 + 3000)]


@frozen
class Document:
    """One document: its number is its id."""

    name: str
    text: str


@frozen
class Question:
    """What is asked, and the documents or fact entities of which any is the answer."""

    kind: str
    text: str
    answers: frozenset[str]


@frozen
class Corpus:
    """`size` documents of about `WORDS` words, whose frequencies fall as those of a language do (Zipf), of which some
    are made to be the answer of a question."""

    size: int

    def documents(self) -> Iterator[Document]:
        """All documents, in order; the special ones are spread over them."""
        special = dict(self._specials())
        for number in range(self.size):
            text = special.get(number) or " ".join(_plain(number))
            yield Document(f"doc-{number}", text)

    def facts(self) -> Iterator[tuple[str, str, str]]:
        """Entity, key and value of facts, each stored twice: the second value takes the place of the first."""
        for number in range(QUESTIONS):
            yield f"setting:{number}", "state", f"zz{_name(number, 7)} outdated quondam"
            yield f"setting:{number}", "state", f"zz{_name(number, 7)} current"

    def questions(self) -> list[Question]:
        """`QUESTIONS` of each kind."""
        found: list[Question] = []
        for number in range(QUESTIONS):
            place = self._place(number, "lexical")
            words = _plain(place)
            start = random.Random(number).randrange(WORDS - 8)
            found.append(Question("lexical", " ".join(words[start : start + 8]), frozenset({f"doc-{place}"})))
            for kind, asked in (
                ("multi-term", " ".join(f"yy{_name(number * 3 + part, 5)}" for part in range(3))),
                ("rare", f"xx{_name(number, 1)}"),
                ("cjk", _han(number)[3:8]),
                ("identifier", f"parse {_name(number, 2)} response"),
                ("near-duplicate", f"twin{number} report about ww{_name(number * TWINS + 2, 3)}"),
            ):
                place = self._place(number, kind) + (2 if kind == "near-duplicate" else 0)
                found.append(Question(kind, asked, frozenset({f"doc-{place}"})))
            found.append(Question("superseded", f"zz{_name(number, 7)} outdated", frozenset({f"setting:{number}"})))
        return found

    def _specials(self) -> Iterator[tuple[int, str]]:
        """The places and texts of documents that are made to be found."""
        for number in range(QUESTIONS):
            for kind, extra in (
                # Each of the three words is in other documents as well; only one has them all.
                ("multi-term", " ".join(f"yy{_name(number * 3 + part, 5)}" for part in range(3))),
                ("rare", f"xx{_name(number, 1)}"),
                ("cjk", _han(number)),
                ("identifier", f"parse_{_name(number, 2)}_response(value)"),
            ):
                place = self._place(number, kind)
                words = _plain(place)
                yield place, " ".join([*words[:40], extra, *words[40:]])
            for part in range(3):
                for other in range(3):
                    place = self._place(number, "multi-term") + 1 + part * 3 + other
                    yield place, " ".join([*_plain(place), f"yy{_name(number * 3 + part, 5)}"])
            first = self._place(number, "near-duplicate")
            shared = " ".join(_plain(first))
            for twin in range(TWINS):
                yield first + twin, f"twin{number} report about ww{_name(number * TWINS + twin, 3)}. {shared}"

    def _place(self, number: int, kind: str) -> int:
        """Where what answers a question stands: each question has a block of `BLOCK` places, spread over the corpus."""
        blocks = self.size // BLOCK
        return number * (blocks // QUESTIONS) * BLOCK + OFFSETS[kind]


def _plain(number: int) -> list[str]:
    """The words of an ordinary document."""
    return random.Random(number).choices(_WORDS, cum_weights=_WEIGHTS, k=WORDS)


def _name(number: int, salt: int) -> str:
    """A word that no ordinary document has."""
    rng = random.Random(f"{salt}/{number}")
    return "".join(rng.choice(_CONSONANTS) + rng.choice(_VOWELS) for _ in range(4)) + "q"


def _han(number: int) -> str:
    """Ten characters without a space."""
    return "".join(random.Random(f"han/{number}").choices(_HAN, k=10))


def _make_words() -> list[str]:
    rng = random.Random(7)
    made = dict.fromkeys(
        "".join(rng.choice(_CONSONANTS) + rng.choice(_VOWELS) for _ in range(rng.randint(2, 4))) for _ in range(200_000)
    )
    return list(made)[:VOCABULARY]


_WORDS = _make_words()
_WEIGHTS = list(accumulate(1 / (rank + 2.7) for rank in range(len(_WORDS))))
