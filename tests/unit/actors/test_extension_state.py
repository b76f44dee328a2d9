"""What the Extensions know, against a model that looks at every record for every answer."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from crux.actors.extension_state import ExtensionState
from crux.domain.extensions import ExtensionGrant, GrantedTool, InstalledExtension, Standing, TrustTier
from tests.manifests import manifest_json, manifest_of, recipe_json

PASSPORTS = ("alice", "bob", "eve")
TOOLS = {"b": ("ext.b.two", "ext.b.one"), "a": ("ext.a",), "c": ("ext.c.x-y", "ext.aa", "ext.z")}
NAMES = [*(tool for tools in TOOLS.values() for tool in tools), "ext_b_two", "ext_c_x-y", "ext_a", "ext.c.x_y", "nope"]
EXTENSIONS = {
    **{
        id_: InstalledExtension(manifest_of(manifest_json(id_, tools)), "", TrustTier.UNKNOWN, 1)
        for id_, tools in TOOLS.items()
    },
    "recipe": InstalledExtension(manifest_of(recipe_json("recipe")), "", TrustTier.UNKNOWN, 1),
}

ids = st.sampled_from(sorted(EXTENSIONS))
allowed = st.lists(st.sampled_from(NAMES), max_size=3).map(tuple)


class Model(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.state = ExtensionState()
        self.installed: set[str] = set()
        self.grants: dict[tuple[str, str], ExtensionGrant] = {}

    @rule(extension_id=ids)
    def install(self, extension_id: str) -> None:
        if extension_id not in self.installed:
            self.installed.add(extension_id)
            self.state.add(EXTENSIONS[extension_id])

    @precondition(lambda self: self.installed)
    @rule(data=st.data())
    def uninstall(self, data: st.DataObject) -> None:
        extension_id = data.draw(st.sampled_from(sorted(self.installed)))
        self.installed.remove(extension_id)
        self.grants = {pair: grant for pair, grant in self.grants.items() if pair[0] != extension_id}
        self.state.remove(extension_id)

    @precondition(lambda self: self.installed)
    @rule(data=st.data(), passport=st.sampled_from(PASSPORTS), tools=allowed)
    def grant(self, data: st.DataObject, passport: str, tools: tuple[str, ...]) -> None:
        extension_id = data.draw(st.sampled_from(sorted(self.installed)))
        if (extension_id, passport) not in self.grants:
            grant = ExtensionGrant(
                extension_id=extension_id, passport_fpr=passport, allowed_tool_names=tools, granted_at_unix_ms=1
            )
            self.grants[extension_id, passport] = grant
            self.state.grant(grant)

    @precondition(lambda self: self.grants)
    @rule(data=st.data())
    def revoke(self, data: st.DataObject) -> None:
        self.state.revoke(self.grants.pop(data.draw(st.sampled_from(sorted(self.grants)))))

    @rule(passport=st.sampled_from(PASSPORTS))
    def tools_are_the_same_object_while_nothing_changes(self, passport: str) -> None:
        assert self.state.tools_for(passport) is self.state.tools_for(passport)

    @invariant()
    def every_answer_is_the_models(self) -> None:
        state = self.state
        assert state.installed == tuple(EXTENSIONS[id_] for id_ in sorted(self.installed))
        assert state.grants == len(self.grants)
        declared = {tool: id_ for id_ in self.installed for tool in TOOLS.get(id_, ())}
        assert state.declared == declared
        for name in NAMES:
            found = [(id_, tool) for tool, id_ in declared.items() if name in {tool, tool.replace(".", "_")}]
            assert state.resolve(name) == (found[0] if found else None)
        for id_, extension in EXTENSIONS.items():
            granted = sorted((grant for pair, grant in self.grants.items() if pair[0] == id_), key=_passport)
            assert state.grants_of(id_) == tuple(granted)
            for passport in PASSPORTS:
                installed = extension if id_ in self.installed else None
                assert state.standing(id_, passport) == Standing(installed, self.grants.get((id_, passport)))
        for passport in PASSPORTS:
            tools = [
                GrantedTool(EXTENSIONS[id_], tool)
                for (id_, whose), grant in self.grants.items()
                if whose == passport
                for tool in EXTENSIONS[id_].manifest.tools
                if grant.allows(tool.name)
            ]
            assert state.tools_for(passport) == tuple(sorted(tools, key=lambda one: one.tool.name))


def _passport(grant: ExtensionGrant) -> str:
    return grant.passport_fpr


TestExtensionState = Model.TestCase
