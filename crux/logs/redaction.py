"""What a secret looks like, in text and in named fields, and how it is taken out.

Every pattern is linear in the length of the text: a run of characters is entered at its start only, and quantifiers
that could compete for the same characters are possessive or bounded. No pattern matches a marker, so marked text stays.
"""

import re
from collections import Counter

_FLAGS = re.VERBOSE | re.ASCII | re.DOTALL

# A name whose value is secret. Counts of tokens and the words "tokenizer" and "tokenised" are none.
_COUNT_NAME = r"""(?:(?:max|est|input|output|total|prompt|completion|cache_read|cache_creation)_)?tokens
    (?:_used|_in|_out)?
    |\w{0,32}?token_(?:budget|count|estimate|limit|spend)\w{0,16}"""
_SECRET_NAME = rf"""(?<![\w-])(?!(?:{_COUNT_NAME})(?![\w-]))
    (?=[\w-]{{0,64}}?(?:secret|token(?!i[sz])|passw(?:or)?d|passphrase|(?:api|private|signing)[_-]?key
        |authorization|credential|cookie|jwt|bearer))
    [\w-]{{1,80}}+"""

_PEM = r"""-----BEGIN\ [A-Z0-9\ ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----
    .*?(?:-----END\ [A-Z0-9\ ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----|\Z)"""

# name=value, name: value, "name": "value", also with escaped quotes; the value is a quoted text or a run of characters.
_PAIR = rf"""(?i:(?P<kept>{_SECRET_NAME}\\?["']?\s{{0,8}}+(?>=>|[:=]=?)\s{{0,8}}+
    (?:b(?=["'])|(?!b["']))(?P<quote>\\?["'])?+)
    (?!(?:(?:bearer|basic)\s+)?\[redacted:)
    (?!(?:none|null|true|false|unset)(?![^\s,;)\]}}"'\\]))
    (?(quote)(?:(?!(?P=quote))(?:\\.|.))+
    |(?:(?:bearer|basic)\s+)?(?:[^\s,;)\]}}"'\\]|\\(?!["'])|,(?=\w))+))"""

_BEARER = r"""(?P<kept>\b(?i:bearer|basic)\s+)(?:[\w.~+/-]{32,}+|(?=[a-zA-Z_.~+/-]*+[0-9])[\w.~+/-]{16,}+)=*+"""
_JWT = r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{4,}+\.[\w-]*+"
_USERINFO = r"(?P<kept>://[^\s/?#@:\[]{0,64}:)(?!\[redacted:)[^\s/?#@]{1,256}+(?=@)"
_KEY = r"""(?<![\w-])(?:sk-[\w-]{16,}+|gh[pousr]_[A-Za-z0-9]{20,}+|github_pat_\w{20,}+|xox[abprs]-[\w-]{10,}+
    |AKIA[0-9A-Z]{16}(?!\w))"""

# Random text of 32 characters and more. Capitals, small letters and digits mixed tell it from ids, digests and words;
# after a slash or a dot it is part of a path, an address or a dotted name.
_RANDOM = r"""(?<![\w~/.-])(?=(?:[a-z0-9_~-]*+[A-Z]){3})(?=(?:[A-Z0-9_~-]*+[a-z]){3})(?=(?:[A-Za-z_~-]*+[0-9]){2})
    [\w~-]{32,}+(?!/)"""


def _rule(name: str, pattern: str) -> tuple[str, re.Pattern[str], str]:
    kept = r"\g<kept>" if "?P<kept>" in pattern else ""
    return name, re.compile(pattern, _FLAGS), f"{kept}[redacted:{name}]"


_RULES = (
    _rule("pem", _PEM),
    _rule("pair", _PAIR),
    _rule("bearer", _BEARER),
    _rule("jwt", _JWT),
    _rule("userinfo", _USERINFO),
    _rule("key", _KEY),
    _rule("token", _RANDOM),
)
_SECRET_FIELD = re.compile(_SECRET_NAME, _FLAGS | re.IGNORECASE)


def redact_text(text: str, hits: Counter[str] | None = None) -> str:
    """`text` with every secret replaced by `[redacted:<rule>]`; a second pass changes nothing.

    `hits` counts the redactions by rule. Redact before you shorten: half a token may not be recognised.
    """
    counts: Counter[str] = Counter() if hits is None else hits
    found = True
    while found:  # a replacement can lay open what stood beside it; each round leaves less to find
        found = False
        for name, pattern, marker in _RULES:
            text, count = pattern.subn(marker, text)
            if count:
                found = True
                counts[name] += count
    return text


def redact_value(value: object, hits: Counter[str]) -> object:
    """Plain JSON data with the secrets taken out of its texts and of the fields that have a secret's name."""
    if isinstance(value, str):
        return redact_text(value, hits)
    if isinstance(value, list):
        return [redact_value(entry, hits) for entry in value]
    if isinstance(value, dict):
        return {redact_text(name, hits): _redact_field(name, entry, hits) for name, entry in value.items()}
    return value


def _redact_field(name: str, value: object, hits: Counter[str]) -> object:
    if value is None or isinstance(value, bool) or not _SECRET_FIELD.search(name):
        return redact_value(value, hits)
    if value == "[redacted:field]":
        return value
    hits["field"] += 1
    return "[redacted:field]"
