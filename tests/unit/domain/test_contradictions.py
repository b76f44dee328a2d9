"""Which values say yes, which say no, and which facts contradict each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.contradictions import NEGATIVE, POSITIVE, Claim, contradictions, polarity


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("yes", True),
        (" Enabled. ", True),
        ("**OFF**", False),
        ("no", False),
        ("_no", None),
        ("not yes", None),
        ("yes and no", None),
        ("", None),
        ("...", None),
        ("ja", None),
    ],
)
def test_a_value_as_a_whole_says_yes_no_or_neither(value: str, expected: bool | None) -> None:
    assert polarity(value) is expected


def test_no_word_says_both() -> None:
    assert not POSITIVE & NEGATIVE
    assert (len(POSITIVE), len(NEGATIVE)) == (14, 13)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("kl"), st.sampled_from(["yes", "no", "x"])), max_size=12)
)
def test_each_name_with_both_sides_is_a_contradiction_and_no_other(given_claims: list[tuple[str, str, str]]) -> None:
    claims = sorted(
        (Claim(entity, key, f"f{n}", value) for n, (entity, key, value) in enumerate(given_claims)),
        key=lambda claim: (claim.entity, claim.key),
    )
    found = list(contradictions(claims))
    values: dict[tuple[str, str], set[str]] = {}
    for claim in claims:
        values.setdefault((claim.entity, claim.key), set()).add(claim.value)
    assert [(group.entity, group.key) for group in found] == sorted(n for n, v in values.items() if {"yes", "no"} <= v)
    for group in found:
        assert list(group.values) == sorted(group.values), "no before yes"
        assert len(group.fact_ids) == len(group.values)
