"""Parts that an operator may switch off: all are on until the variable of the same name says otherwise (Decision 4)."""

from collections.abc import Set as AbstractSet
from enum import StrEnum

import msgspec

from crux.errors import SwitchedOff


class Feature(StrEnum):
    """A part, by the name of its switch."""

    MEMORY_PANEL = "CORECRUXD_FEATURE_MEMORY_PANEL"
    MEMORY_ACK = "CORECRUXD_FEATURE_MEMORY_ACK"
    FRESHNESS = "CORECRUXD_FEATURE_FRESHNESS"
    CONSOLIDATION = "CORECRUXD_FEATURE_CONSOLIDATION"
    SCOPED_FORGET = "CORECRUXD_FEATURE_SCOPED_FORGET"
    ARTEFACTS = "CORECRUXD_FEATURE_ARTEFACTS"


class FeatureOff(msgspec.Struct, frozen=True):
    """What a tool with a soft answer says where it is switched off (Decision 36)."""

    feature_flag: str
    feature_enabled: bool = False


def check_on(feature: Feature, switched_off: AbstractSet[Feature]) -> None:
    """Raise `SwitchedOff` where the operator has switched `feature` off (Decision 36)."""
    if feature in switched_off:
        raise SwitchedOff(
            f"404: switched off on this daemon; its operator can set {feature}=1 and restart it",
            data={"status": SwitchedOff.status, "feature_flag": feature.value},
        )
