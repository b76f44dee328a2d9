"""Text and questions become the same terms, in every script."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.analysis import LONGEST_TERM, Analyser, folded


@pytest.fixture(scope="module")
def analyser() -> Analyser:
    return Analyser()


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Running the Server's tests, don't panic", "run the server test don't panic"),
        ("don’t", "don't"),
        ("parse_http_response", "parse_http_response pars http respons"),
        ("parseHTTPResponse", "parsehttprespons pars http respons"),
        ("src/crux/main.py", "src/crux/main.py src crux main py"),
        ("v1.2.3", "v1.2.3 1.2.3 1.2 v1"),
        ("foo@bar.com", "foo@bar.com foo bar com"),
        ("__init__", "init"),
        ("utf8 iPhones", "utf8 iphon phone"),
        ("C++ and C#", "c++ and c#"),
        ("a I 2", ""),
        ("café naïve ÅNGSTRÖM straße Øl łódź", "cafe naiv angstrom strass ol lodz"),
        ("ﬁne ＡＢＣ İstanbul", "fine abc istanbul"),
        ("東京タワー", "東 京 タ ワ ー"),
        ("ｶﾞｲﾄﾞ", "ガ イ ド"),
        ("Python入門3章", "python 入 門 章"),
        ("서울에서", "서 울 에 서"),
        ("ไทย", "ไ ท ย"),
        ("हिन्दी में", "हिन्दी में"),
        ("🚀 launch🎉", "🚀 launch 🎉"),
        ("🇩🇪👍🏽❤️", "🇩🇪 👍 ❤"),
        ('" ( ) * AND', "and"),
        ("", ""),
        (" \n\t", ""),
    ],
)
def test_text_becomes_these_terms(analyser: Analyser, text: str, terms: str) -> None:
    assert analyser.terms(text) == terms


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("Café café", [("Cafe", ("cafe",)), ("cafe", ("cafe",))]),
        ("parseHTTP", [("parseHTTP", ("parsehttp", "pars", "http"))]),
        ("東", [("東", ("東",))]),
        ("東京塔", [("東京", ("東 京",)), ("京塔", ("京 塔",))]),
        ("🚀🎉", [("🚀", ("🚀",)), ("🎉", ("🎉",))]),
        ('"a* OR (b', [("OR", ("or",))]),
        ("--", []),
    ],
)
def test_a_question_has_these_words(analyser: Analyser, query: str, words: list[tuple[str, tuple[str, ...]]]) -> None:
    assert [(word.text, word.terms) for word in analyser.words(query)] == words


def test_a_term_is_cut_at_its_greatest_length(analyser: Analyser) -> None:
    assert analyser.terms("x" * LONGEST_TERM) == "x" * LONGEST_TERM
    assert analyser.terms("x" * (LONGEST_TERM + 1)) == "x" * LONGEST_TERM
    whole = "ab/" * 30 + "ab"
    assert analyser.terms(whole) == "ab", "a whole that is too long is left to its parts"


@given(st.text(max_size=60))
def test_whatever_is_asked_in_the_words_of_a_text_is_among_its_terms(text: str) -> None:
    analyser = Analyser()
    stored = f" {analyser.terms(text)} "
    for word in analyser.words(text):
        assert any(f" {term} " in stored or (" " in term and f" {term}" in stored) for term in word.terms), word


@given(st.text(max_size=60))
def test_terms_hold_no_white_space_but_the_spaces_between_them(text: str) -> None:
    for term in Analyser().terms(text).split(" "):
        assert term == "" or not any(character.isspace() for character in term)


@given(st.text(alphabet=st.characters(codec="ascii"), max_size=60))
def test_case_never_tells_texts_of_plain_words_apart(text: str) -> None:
    plain = "".join(character if character.isalpha() else " " for character in text)
    analyser = Analyser()
    assert analyser.terms(plain.lower()) == analyser.terms(plain.upper())


@given(st.text(max_size=40))
def test_folding_twice_is_folding_once(text: str) -> None:
    assert folded(folded(text)) == folded(text)


def test_what_is_remembered_has_an_end() -> None:
    analyser = Analyser(3)
    for number in range(10):
        assert analyser.terms(f"word{number}") == f"word{number}"
        assert len(analyser._memo) <= 3


def test_a_long_text_without_spaces_is_read_in_a_time_that_grows_with_its_length(analyser: Analyser) -> None:
    terms = analyser.terms("x.y_" * 50_000 + "東" * 50_000)
    assert terms.endswith("東 東")
    assert terms.count("東") == 50_000
