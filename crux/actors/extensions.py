"""The Extensions: what is installed, who may use it, and which keys a manifest may be signed with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from functools import partial
from typing import TypeVar

from attrs import frozen

from crux.actors.actor import Actor, handles
from crux.actors.audit import record
from crux.actors.clock import Clock, now_ms
from crux.actors.extension_messages import (
    DistrustKey,
    GrantsOf,
    Install,
    IssueGrant,
    ListExtensions,
    ListKeys,
    Lookup,
    Resolve,
    RevokeGrant,
    ShowExtension,
    ToolsFor,
    TrustKey,
    Uninstall,
)
from crux.actors.extension_state import ExtensionState
from crux.actors.extension_trail import ChangeTrail
from crux.actors.mailbox import Mailbox
from crux.actors.sessions import AnnounceToolsOf
from crux.domain.audit import AuditEvent
from crux.domain.commands import CheckReadiness, Head, Put, Records, Transact
from crux.domain.extensions import (
    EXTENSION_PREFIX,
    KEY_PREFIX,
    ExtensionGrant,
    GrantedTool,
    InstalledExtension,
    Standing,
    TrustedKey,
    check_key,
    extension_draft,
    extension_entity,
    extension_kept_in,
    key_draft,
    key_entity,
    key_kept_in,
    removal_draft,
    shown,
)
from crux.domain.facts import Draft, Fact
from crux.domain.grants import GRANT_PREFIX, check_grant, grant_draft, grant_entity, grant_kept_in, granted_extension
from crux.domain.manifest_rules import check_extension_id, check_tool_names, validate
from crux.domain.manifest_signing import manifest_hash
from crux.domain.manifests import ManifestRefused
from crux.domain.streams import owner_key
from crux.errors import ActorFailed, Conflict, InvalidArgument, NoAnswer, NotFound
from crux.logs import get_logger

log = get_logger("crux.extensions")

MOST_EXTENSIONS = 500
MOST_GRANTS = 5000
MOST_GRANTS_EACH = 500
MOST_KEYS = 1000
# After a write of which no answer came, the store is asked before anything else, and callers wait for that.
RELOAD_DEADLINE_S = 10.0

R = TypeVar("R")


@frozen
class _Change:
    """What is written, what the trail is told of it, and the grants that came or went with it."""

    drafts: tuple[Draft, ...]
    events: tuple[AuditEvent, ...]
    grants: tuple[ExtensionGrant, ...] = ()


class Extensions(Actor):
    """Decides every change to installs, grants and keys, and answers what they come to from memory.

    Owns all three as of the last commit; each is a fact, which is written before it is believed. After a write of which
    no answer came, the next message finds the state read anew, and what was made after all is told then. Asks the
    FactStore, Recall and the AuditSink, and tells the SessionRegistry. Source: extensions contract 1 and 4 to 7.
    """

    def __init__(
        self,
        facts: Mailbox,
        recall: Mailbox,
        audit: Mailbox,
        sessions: Mailbox,
        clock: Clock,
        *,
        builtins: Collection[str],
    ) -> None:
        self._facts = facts
        self._recall = recall
        self._audit = audit
        self._trail = ChangeTrail(clock)
        self._sessions = sessions
        self._clock = clock
        self._builtins = builtins
        self._known = ExtensionState()
        self._in_doubt = True
        # Changes of which nobody knows yet whether the store has them.
        self._unsettled: list[_Change] = []
        # Grants in the store that are none, by extension: what they say cannot be read, or nothing is installed.
        self._leftovers: defaultdict[str, set[str]] = defaultdict(set)

    async def start(self) -> None:
        await self._state()

    @handles(Install)
    async def install(self, m: Install) -> InstalledExtension:
        state, manifest = await self._state(), m.manifest
        check_extension_id(manifest.id)
        if state.extension(manifest.id) is not None:
            raise Conflict(f"extension '{manifest.id}' is already installed")
        _check_room(len(state.installed), MOST_EXTENSIONS, "extensions are installed: uninstall one first")
        tier = validate(manifest, state.keys, allow_unsigned=m.allow_unsigned)
        check_tool_names(manifest, self._builtins, state.declared)
        if m.schemas_fault is not None:
            raise ManifestRefused(m.schemas_fault)
        installed = InstalledExtension(manifest, manifest_hash(manifest), tier, now_ms(self._clock), m.by)
        drafts = extension_draft(installed, m.by), *self._without_leftovers(manifest.id, m.by)
        await self._make(_Change(drafts, self._trail.installed(installed, m.by)), partial(state.add, installed))
        return installed

    @handles(Uninstall)
    async def uninstall(self, m: Uninstall) -> InstalledExtension:
        state = await self._state()
        installed = _installed(state, m.extension_id)
        grants = state.grants_of(m.extension_id)
        entities = [extension_entity(m.extension_id)]
        entities += [grant_entity(grant.extension_id, grant.passport_fpr) for grant in grants]
        removals = [removal_draft(entity, m.by) for entity in entities]
        drafts = *removals, *self._without_leftovers(m.extension_id, m.by)
        change = _Change(drafts, self._trail.uninstalled(installed, grants, m.by), grants)
        await self._make(change, partial(state.remove, m.extension_id))
        return installed

    @handles(ListExtensions)
    async def list_extensions(self, m: ListExtensions) -> tuple[InstalledExtension, ...]:
        return (await self._state()).installed

    @handles(ShowExtension)
    async def show_extension(self, m: ShowExtension) -> InstalledExtension:
        return _installed(await self._state(), m.extension_id)

    @handles(ListKeys)
    async def list_keys(self, m: ListKeys) -> tuple[tuple[str, TrustedKey], ...]:
        return tuple(sorted((await self._state()).keys.items(), key=lambda pair: pair[0]))

    @handles(TrustKey)
    async def trust_key(self, m: TrustKey) -> TrustedKey:
        keys = (await self._state()).keys
        key = TrustedKey(m.public_key_hex, m.trust_tier, now_ms(self._clock), m.added_by)
        check_key(m.passport_fpr, key)
        if m.passport_fpr not in keys:
            _check_room(len(keys), MOST_KEYS, "keys are in the keyring: remove one first")
        change = _Change((key_draft(m.passport_fpr, key, m.by),), self._trail.trusted(m.passport_fpr, key, m.by))
        await self._make(change, partial(keys.update, {m.passport_fpr: key}))
        return key

    @handles(DistrustKey)
    async def distrust_key(self, m: DistrustKey) -> TrustedKey:
        keys = (await self._state()).keys
        if (key := keys.get(m.passport_fpr)) is None:
            raise NotFound(f"key {shown(m.passport_fpr)} is not in the keyring")
        removal = removal_draft(key_entity(m.passport_fpr), m.by)
        change = _Change((removal,), self._trail.distrusted(m.passport_fpr, key, m.by))
        await self._make(change, partial(keys.pop, m.passport_fpr))
        return key

    @handles(IssueGrant)
    async def issue_grant(self, m: IssueGrant) -> ExtensionGrant:
        state = await self._state()
        _installed(state, m.extension_id)
        grant = ExtensionGrant(
            extension_id=m.extension_id,
            passport_fpr=m.passport_fpr,
            allowed_tool_names=m.allowed_tool_names,
            allowed_prefixes_read=m.allowed_prefixes_read,
            allowed_prefixes_write=m.allowed_prefixes_write,
            rate_limit_per_min=m.rate_limit_per_min,
            granted_at_unix_ms=now_ms(self._clock),
            granted_by_passport=m.by,
        )
        check_grant(grant)
        if state.standing(m.extension_id, m.passport_fpr).grant is not None:
            raise Conflict(
                f"passport '{m.passport_fpr}' has a grant for extension '{m.extension_id}' already: revoke it first"
            )
        of_extension = len(state.grants_of(m.extension_id))
        _check_room(of_extension, MOST_GRANTS_EACH, "grants of this extension exist: revoke one first")
        _check_room(state.grants, MOST_GRANTS, "grants exist: revoke one first")
        change = _Change((grant_draft(grant, m.by),), self._trail.granted(grant, m.by), (grant,))
        await self._make(change, partial(state.grant, grant))
        return grant

    @handles(RevokeGrant)
    async def revoke_grant(self, m: RevokeGrant) -> ExtensionGrant:
        state = await self._state()
        grant = state.standing(m.extension_id, m.passport_fpr).grant
        if grant is None:
            raise NotFound(f"passport {shown(m.passport_fpr)} has no grant for extension {shown(m.extension_id)}")
        removal = removal_draft(grant_entity(m.extension_id, m.passport_fpr), m.by)
        change = _Change((removal,), self._trail.revoked(grant, m.by), (grant,))
        await self._make(change, partial(state.revoke, grant))
        return grant

    @handles(GrantsOf)
    async def grants_of(self, m: GrantsOf) -> tuple[ExtensionGrant, ...]:
        return (await self._state()).grants_of(m.extension_id)

    @handles(Lookup)
    async def lookup(self, m: Lookup) -> Standing:
        return (await self._state()).standing(m.extension_id, m.passport_fpr)

    @handles(ToolsFor)
    async def tools_for(self, m: ToolsFor) -> tuple[GrantedTool, ...]:
        return (await self._state()).tools_for(m.passport_fpr)

    @handles(Resolve)
    async def resolve(self, m: Resolve) -> tuple[str, str] | None:
        return (await self._state()).resolve(m.tool_name)

    async def _state(self) -> ExtensionState:
        """What the store holds: as it is known, or read anew where that is in doubt."""
        if self._in_doubt:
            # Answered after all writes that were sent before, so that none of them lands behind what is read now.
            await self._facts.ask(CheckReadiness(), deadline_s=RELOAD_DEADLINE_S)
            state = ExtensionState()
            state.add_all(await self._read(EXTENSION_PREFIX, extension_kept_in))
            state.keys.update(await self._read(KEY_PREFIX, key_kept_in))
            self._leftovers = defaultdict(set)
            for grant in await self._read(GRANT_PREFIX, grant_kept_in):
                if state.extension(grant.extension_id) is not None:
                    state.grant(grant)
                else:
                    log.warning("a grant of no installed extension is ignored", extension_id=grant.extension_id)
                    self._leave_over(grant_entity(grant.extension_id, grant.passport_fpr))
            self._known, self._in_doubt = state, False
        while self._unsettled:
            change = self._unsettled[0]
            if await self._was_made(change):
                await self._tell(change)
            self._unsettled.pop(0)
        return self._known

    def _leave_over(self, entity: str) -> None:
        """Note a grant in the store that is none: it must not come to life when its extension is installed again."""
        self._leftovers[granted_extension(entity)].add(entity)

    def _without_leftovers(self, extension_id: str, by: str | None) -> list[Draft]:
        return [removal_draft(entity, by) for entity in sorted(self._leftovers.get(extension_id, ()))]

    async def _read(self, prefix: str, read: Callable[[Fact], R]) -> list[R]:
        """Every record under a prefix. What cannot be read is logged, and is as if it were not there."""
        found = []
        for fact in await self._recall.ask(Records(prefix), deadline_s=RELOAD_DEADLINE_S):
            try:
                found.append(read(fact))
            except InvalidArgument as error:
                log.warning("a record of extensions is skipped", entity=fact.entity, reason=error.message)
                if prefix == GRANT_PREFIX:
                    self._leave_over(fact.entity)
        return found

    async def _make(self, change: _Change, believe: Callable[[], object]) -> None:
        """Write a change, all of it or nothing, and only then believe and tell it; raises what the store raises."""
        try:
            await self._facts.ask(Transact(tuple(map(Put, change.drafts))))
        except (NoAnswer, ActorFailed):
            self._in_doubt = True
            self._unsettled.append(change)
            raise
        believe()
        await self._tell(change)

    async def _was_made(self, change: _Change) -> bool:
        first = change.drafts[0]
        head = await self._recall.ask(Head(first.entity, first.key), deadline_s=RELOAD_DEADLINE_S)
        return head is not None and head.value == first.value

    async def _tell(self, change: _Change) -> None:
        """Have the agents whose tools changed hear of it, those that listen, and the trail."""
        owners = frozenset(owner_key(grant.passport_fpr, None) for grant in change.grants)
        # A busy registry is no reason to wait.
        if owners and not self._sessions.tell(AnnounceToolsOf(owners)):
            log.warning("agents were not told that their tools changed", agents=len(owners))
        await record(self._audit, *change.events)


def _installed(state: ExtensionState, extension_id: str) -> InstalledExtension:
    if (installed := state.extension(extension_id)) is None:
        raise NotFound(f"extension {shown(extension_id)} not installed")
    return installed


def _check_room(count: int, most: int, what: str) -> None:
    if count >= most:
        raise Conflict(f"{most} {what}", data={"limit": most})
