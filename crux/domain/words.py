"""The words of a keyword query."""

from crux.errors import InvalidArgument

MOST_WORDS = 256


def query_words(query: str | None) -> tuple[str, ...]:
    """The distinct words of `query`, split at white space and lower-cased, in order.

    Raises `InvalidArgument` for more than `MOST_WORDS`: any one of them is enough for a match, so such a query says
    nothing.
    """
    words = tuple(dict.fromkeys((query or "").lower().split()))
    if len(words) > MOST_WORDS:
        raise InvalidArgument(
            f"'query' has {len(words)} different words and at most {MOST_WORDS} are looked for; "
            "pass the few that matter",
            data={"param": "query", "most_words": MOST_WORDS},
        )
    return words
