import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.cli.text import safe


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\nin two lines", "plain\ttext\nin two lines"),
        ("Überraschung 😀 日本", "Überraschung 😀 日本"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\x9b31m", r"\x9b31m"),
        ("a\rb", r"a\rb"),
        ("a\u2028b", r"a\u2028b"),
        ("\u202egpj.exe", r"\u202egpj.exe"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert safe(text) == shown


@given(st.text())
def test_no_text_keeps_a_control_character(text: str) -> None:
    assert all(character.isprintable() or ord(character) > 0x9F or character in "\t\n" for character in safe(text))
    assert safe(safe(text)) == safe(text)
