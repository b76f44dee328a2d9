"""Output contracts are read off a result's class."""

from attrs import frozen

from crux.tools.output import output_paths


@frozen
class Inner:
    id: str
    note: str | None
    never: None


@frozen
class Outer:
    rows: tuple[Inner, ...]
    one: Inner
    names: list[str]
    total: int


def test_output_paths_name_every_field_and_what_may_be_missing() -> None:
    assert output_paths(Outer) == [
        "rows[]", "rows[].id", "rows[].note?", "rows[].never?", "one", "one.id", "one.note?", "one.never?", "names[]",
        "total",
    ]  # fmt: skip
