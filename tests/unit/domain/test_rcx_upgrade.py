import pytest

from crux.domain.rcx_upgrade import upgrade_hint


@pytest.mark.parametrize(
    "name", ["dense_rerank", "dense_managed", "extract_entities", "extract_relations", "extract_facts"]
)
def test_a_capability_of_the_pro_tier_comes_with_an_upgrade_hint(name: str) -> None:
    hint = upgrade_hint(f"crux-mcp.{name}")
    assert hint is not None
    assert list(hint) == ["kind", "capability", "tier", "unlocks", "metering", "still_free", "deploy"]
    assert (hint["kind"], hint["capability"], hint["tier"]) == ("upgrade_available", f"crux-mcp.{name}", "pro")
    assert all(isinstance(text, str) and text for text in hint.values())


@pytest.mark.parametrize("capability", ["crux-mcp.sync_pull", "dense_rerank", ""])
def test_any_other_capability_has_none(capability: str) -> None:
    assert upgrade_hint(capability) is None
