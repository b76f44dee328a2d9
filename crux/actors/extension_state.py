"""What the Extensions know: installs, grants and keys, each found at once by whatever is asked with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from crux.domain.extensions import ExtensionGrant, GrantedTool, InstalledExtension, Standing, TrustedKey
from crux.domain.manifests import EntryKind, ToolDeclaration

_CALLABLE = frozenset({EntryKind.EXTERNAL_TOOL, EntryKind.WASM})


class ExtensionState:
    """The records of the store as of the last commit.

    A grant is there only for as long as its extension is.
    """

    def __init__(self) -> None:
        self.keys: dict[str, TrustedKey] = {}
        self.grants = 0
        self._installed: dict[str, InstalledExtension] = {}
        # What all who are granted an extension share.
        self._granted_tools: dict[str, tuple[GrantedTool, ...]] = {}
        # By extension, then by passport.
        self._grants: dict[str, dict[str, ExtensionGrant]] = {}
        # Every name that a tool answers to: its extension and the declared name.
        self._names: Mapping[str, tuple[str, str]] = {}
        # The extensions that a passport has a grant for, and what the grants come to, once that was asked.
        self._granted: dict[str, set[str]] = {}
        self._tools: dict[str, tuple[GrantedTool, ...]] = {}

    def add(self, installed: InstalledExtension) -> None:
        self.add_all((installed,))

    def add_all(self, extensions: Iterable[InstalledExtension]) -> None:
        for installed in extensions:
            self._installed[installed.manifest.id] = installed
            self._granted_tools[installed.manifest.id] = tuple(
                GrantedTool(installed, tool) for tool in _tools_of(installed)
            )
        self._installed = dict(sorted(self._installed.items()))
        self._names = _names_of(self._installed.values())

    def remove(self, extension_id: str) -> None:
        """Forget an extension, and with it what was granted of it (Decision 26)."""
        for grant in self.grants_of(extension_id):
            self.revoke(grant)
        del self._installed[extension_id], self._granted_tools[extension_id]
        self._names = _names_of(self._installed.values())

    def grant(self, grant: ExtensionGrant) -> None:
        self._grants.setdefault(grant.extension_id, {})[grant.passport_fpr] = grant
        self._granted.setdefault(grant.passport_fpr, set()).add(grant.extension_id)
        self._tools.pop(grant.passport_fpr, None)
        self.grants += 1

    def revoke(self, grant: ExtensionGrant) -> None:
        of_extension, of_passport = self._grants[grant.extension_id], self._granted[grant.passport_fpr]
        del of_extension[grant.passport_fpr]
        of_passport.remove(grant.extension_id)
        if not of_extension:
            del self._grants[grant.extension_id]
        if not of_passport:
            del self._granted[grant.passport_fpr]
        self._tools.pop(grant.passport_fpr, None)
        self.grants -= 1

    @property
    def installed(self) -> tuple[InstalledExtension, ...]:
        """All extensions, by id."""
        return tuple(self._installed.values())

    @property
    def declared(self) -> Mapping[str, str]:
        """The extension that each declared name belongs to."""
        return {tool: extension_id for extension_id, tool in self._names.values()}

    def extension(self, extension_id: str) -> InstalledExtension | None:
        return self._installed.get(extension_id)

    def grants_of(self, extension_id: str) -> tuple[ExtensionGrant, ...]:
        """An extension's grants, by passport."""
        return tuple(grant for _, grant in sorted(self._grants.get(extension_id, {}).items()))

    def standing(self, extension_id: str, passport_fpr: str) -> Standing:
        grants = self._grants.get(extension_id, {})
        return Standing(self._installed.get(extension_id), grants.get(passport_fpr))

    def resolve(self, name: str) -> tuple[str, str] | None:
        """The extension that declares a tool, and its declared name, for either of the names that it answers to."""
        return self._names.get(name)

    def tools_for(self, passport_fpr: str) -> tuple[GrantedTool, ...]:
        """What a passport may call, by tool name: the same object for as long as its grants stay."""
        granted = self._granted.get(passport_fpr)
        if granted is None:
            return ()
        if (tools := self._tools.get(passport_fpr)) is None:
            tools = self._tools[passport_fpr] = tuple(
                sorted(
                    (
                        one
                        for extension_id in granted
                        for one in self._granted_tools[extension_id]
                        if self._grants[extension_id][passport_fpr].allows(one.tool.name)
                    ),
                    key=lambda one: one.tool.name,
                )
            )
        return tools


def _tools_of(installed: InstalledExtension) -> tuple[ToolDeclaration, ...]:
    return installed.manifest.tools if installed.manifest.entry.kind in _CALLABLE else ()


def _names_of(extensions: Iterable[InstalledExtension]) -> Mapping[str, tuple[str, str]]:
    """Declared names, and their forms without dots where nothing is declared by them."""
    names: dict[str, tuple[str, str]] = {}
    for installed in extensions:
        for tool in _tools_of(installed):
            names.setdefault(tool.name, (installed.manifest.id, tool.name))
    for found in tuple(names.values()):
        names.setdefault(found[1].replace(".", "_"), found)
    return names
