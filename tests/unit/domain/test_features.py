import pytest

from crux.domain.features import Feature, check_on
from crux.errors import SwitchedOff


def test_a_feature_that_is_on_passes() -> None:
    check_on(Feature.FRESHNESS, frozenset({Feature.ARTEFACTS}))


def test_a_feature_that_is_off_is_refused_with_the_name_of_its_switch() -> None:
    with pytest.raises(SwitchedOff, match="CORECRUXD_FEATURE_FRESHNESS=1") as refusal:
        check_on(Feature.FRESHNESS, frozenset(Feature))
    assert refusal.value.data == {"status": 404, "feature_flag": "CORECRUXD_FEATURE_FRESHNESS"}
