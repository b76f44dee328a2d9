"""The words of a keyword query."""

from crux.errors import InvalidArgument

MOST_WORDS = 256
LONGEST_WORD = 256


def query_words(query: str | None) -> tuple[str, ...]:
    """The distinct words of `query`, split at white space and lower-cased, in order.

    Raises `InvalidArgument` for more than `MOST_WORDS` (any one is enough for a match, so such a query says nothing)
    and for a word of more than `LONGEST_WORD` characters.
    """
    words = tuple(dict.fromkeys((query or "").lower().split()))
    if len(words) > MOST_WORDS:
        raise InvalidArgument(
            f"'query' has {len(words)} different words and at most {MOST_WORDS} are looked for; "
            "pass the few that matter",
            data={"param": "query", "most_words": MOST_WORDS},
        )
    if (longest := max(map(len, words), default=0)) > LONGEST_WORD:
        raise InvalidArgument(
            f"'query' has a word of {longest} characters and at most {LONGEST_WORD} are looked for; pass a part of it",
            data={"param": "query", "longest_word": LONGEST_WORD},
        )
    return words
