"""The settings of the memory plane: its switches, and how long what was forgotten is accounted for."""

from attrs import frozen

from crux.config import parsers
from crux.config.declaration import Group, setting
from crux.domain.features import Feature


def _switch(feature: Feature, meaning: str) -> bool:
    return setting(True, env=feature, group=Group.MEMORY, parse=parsers.flag, keep_empty=True, meaning=meaning)


@frozen(kw_only=True, slots=False)
class MemorySettings:
    """The part of `Settings` that is about the memory plane."""

    memory_panel: bool = _switch(
        Feature.MEMORY_PANEL, "Offers `memory_view`, `memory_edit`, `memory_pin` and `memory_history`."
    )
    memory_ack: bool = _switch(Feature.MEMORY_ACK, "Offers `memory_acknowledge_use`.")
    freshness: bool = _switch(
        Feature.FRESHNESS,
        "Offers `memory_freshness`, `memory_sweep_candidates`, `memory_set_horizon` and `memory_reverify`.",
    )
    consolidation: bool = _switch(Feature.CONSOLIDATION, "Offers `memory_contradictions` and `memory_consolidate`.")
    scoped_forget: bool = _switch(Feature.SCOPED_FORGET, "Offers `memory_forget`.")
    reversible_budget: bool = setting(
        False,
        env="CRUX_BUDGET_REVERSIBLE",
        group=Group.MEMORY,
        parse=parsers.flag,
        keep_empty=True,
        meaning="A `token_budget` of `query` pays for pointers at 40 tokens each, however much their texts cost.",
    )
    artefacts: bool = _switch(Feature.ARTEFACTS, "Offers `artefact_put`, `artefact_get` and `artefact_list`.")

    @property
    def switched_off(self) -> frozenset[Feature]:
        """The parts that the operator has switched off."""
        switches = {
            Feature.MEMORY_PANEL: self.memory_panel,
            Feature.MEMORY_ACK: self.memory_ack,
            Feature.FRESHNESS: self.freshness,
            Feature.CONSOLIDATION: self.consolidation,
            Feature.SCOPED_FORGET: self.scoped_forget,
            Feature.ARTEFACTS: self.artefacts,
        }
        return frozenset(feature for feature, on in switches.items() if not on)
