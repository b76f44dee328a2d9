from crux.domain.callers import passport_key


def test_callers_without_a_name_share_a_key() -> None:
    assert passport_key("bob") == "bob"
    assert passport_key(None) == "__anon__"
