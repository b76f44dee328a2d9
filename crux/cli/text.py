"""Text from elsewhere, made fit for a terminal."""

import re

# Control characters but tab and newline, the line separators, and the marks that turn the direction of text.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def safe(text: str) -> str:
    """`text` with what a terminal would obey instead of showing written as escapes."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    """`safe` text for a place that is one line: what would begin another one is written as an escape too."""
    return safe(text).replace("\n", "\\n").replace("\t", "\\t")
