"""Who may see a fact, and which entity names belong to the daemon itself.

A private fact of an agent is stored under `__agent::<owner>::<logical entity>` and shown to its owner as the logical
entity (memory contract 1.5). An owner's name is escaped in that prefix, so that no two owners can ever share a stored
name (Decision 25).
"""

from attrs import field, frozen

AGENT_PREFIX = "__agent::"
BOOTSTRAP_PREFIX = "__bootstrap__::"

# Names that the daemon keeps its own records under. No fact tool and no facts route writes, edits, deletes or forgets
# them (Decision 22); each has tools and routes of its own. `__bootstrap__::` is not among them: seed 11.12 keeps it
# writable.
DAEMON_PREFIXES: tuple[str, ...] = (
    "__action_enrichment_receipt__::",
    "__agent_session::",
    "__answer_replay_capsule__::",
    "__audit__::",
    "__ax_session::",
    "__candidate_fact__::",
    "__consolidation__::",
    "__consolidation_review__::",
    "__constraints__::",
    "__coord__::",
    "__decisions__::",
    "__dossier__::",
    "__edge__::",
    "__edge_to__::",
    "__engram__::",
    "__entity__::",
    "__extension__::",
    "__extension_grant__::",
    "__forget_receipt__::",
    "__gpu1_receipt__::",
    "__incident__::",
    "__ledger__::",
    "__legal_hold__::",
    "__legal_hold_receipt__::",
    "__memory_pin::",
    "__mint_request__::",
    "__observations__::",
    "__ops::",
    "__ops__::",
    "__orchestrator_receipt__::",
    "__passport__::",
    "__plane__::",
    "__plane_layer__::",
    "__project__::",
    "__project_layer__::",
    "__project_repo_link__::",
    "__rcx_publish__::",
    "__repo_codegraph_ids__::",
    "__repo_extdeps__::",
    "__repo_registry__::",
    "__repo_scan__::",
    "__result_envelope__::",
    "__result_envelope_incident__::",
    "__reverify_receipts__::",
    "__session_binding__::",
    "__session_plan__::",
    "__session_state__::",
    "__storybook__::",
    "__sync__::",
    "__sync_tombstone__::",
    "__sync_wipe_receipt__::",
    "__tenant__::",
    "__tenant_metadata__::",
    "__tenant_mirror__::",
    "__trusted_key__::",
    "__work__::",
    "__work_comment__::",
    "__work_gate__::",
    "__work_transition__::",
    "__workbench__::",
    "__workspace__::",
    "__workspace_scan__::",
)

# Names that anyone may write and that are private from birth all the same.
BORN_PRIVATE_PREFIXES: tuple[str, ...] = (
    "__ax__::",
    "__infra__::",
    "console:page:",
    "console:tileboard:",
    "console:tiledesign:",
    "console:workspace:",
    "decisions::",
    "github::",
)

# What no trace and no envelope names, not even to its owner (memory contract 1.6, governance contract 0).
NEVER_NAMED = (AGENT_PREFIX, "__ops::", BOOTSTRAP_PREFIX, "__session_binding__::", "__reverify_receipts__::")

_NEVER_SHARED = (AGENT_PREFIX, BOOTSTRAP_PREFIX, *DAEMON_PREFIXES)


@frozen
class PrivacyRules:
    """Which entities are private from birth: the built-in list, more of the operator's, and the operator's exemptions.

    An exemption never reaches names that belong to agents or to the daemon.
    """

    always_private: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    _private: tuple[str, ...] = field(init=False)

    @_private.default
    def _every_private_prefix(self) -> tuple[str, ...]:
        return (*_NEVER_SHARED, *BORN_PRIVATE_PREFIXES, *self.always_private)

    def is_private(self, entity: str, *, requested: bool = False) -> bool:
        """Whether a write to `entity` (as stored) is private; a writer's own `requested` is never undone."""
        if requested or entity.startswith(_NEVER_SHARED):
            return True
        if self.shared and entity.startswith(self.shared):
            return False
        return entity.startswith(self._private)


@frozen
class Viewer:
    """Whose eyes a read is made with.

    `owners` are the names whose private facts are visible; the first is the one that new private facts belong to.
    `sees_all` is the raw administrator of the HTTP API, who sees every fact under its stored name.
    """

    owners: tuple[str, ...] = ()
    sees_all: bool = False

    @property
    def owner(self) -> str | None:
        return self.owners[0] if self.owners else None


# Who owns what no agent does and is private all the same; no agent or passport has an empty name.
DAEMON = ""

ANONYMOUS = Viewer()
RAW_ADMIN = Viewer(sees_all=True)


def private_entity(owner: str, logical: str) -> str:
    """The stored name of `logical` when it is private to `owner`."""
    return owned(AGENT_PREFIX, owner, logical)


def owned(prefix: str, owner: str, name: str) -> str:
    """The stored name of what the daemon keeps for `owner` under one of its own prefixes; no two owners share one."""
    return f"{prefix}{_escape(owner)}::{name}"


def split_entity(stored: str) -> tuple[str | None, str]:
    """The owner (None for a name that no agent owns) and the logical name of a stored entity."""
    if not stored.startswith(AGENT_PREFIX):
        return None, stored
    owner, separator, logical = stored[len(AGENT_PREFIX) :].partition("::")
    return (_unescape(owner), logical) if separator else (None, stored)


def reserved_prefix(entity: str) -> str | None:
    """The daemon-owned or agent prefix that `entity` starts with, or None where anyone may write."""
    for prefix in (AGENT_PREFIX, *DAEMON_PREFIXES):
        if entity.startswith(prefix):
            return prefix
    return None


def _escape(owner: str) -> str:
    return owner.replace("%", "%25").replace(":", "%3A")


def _unescape(owner: str) -> str:
    return owner.replace("%3A", ":").replace("%25", "%")
