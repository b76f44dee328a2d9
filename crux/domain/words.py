"""The words of a keyword query."""

from crux.errors import InvalidArgument

MOST_WORDS = 256
LONGEST_WORD = 256
LONGEST_QUERY = 8192


def query_words(query: str | None) -> tuple[str, ...]:
    """The distinct words of `query`, split at white space and lower-cased, in order.

    Raises `InvalidArgument` for more than `MOST_WORDS` (any one is enough for a match, so such a query says nothing),
    for a word of more than `LONGEST_WORD` characters, and for a query of more than `LONGEST_QUERY`.
    """
    if query is not None and len(query) > LONGEST_QUERY:
        raise InvalidArgument(
            f"'query' has {len(query)} characters and at most {LONGEST_QUERY} are read; pass the words that matter",
            data={"param": "query", "longest_query": LONGEST_QUERY},
        )
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
