"""What calling a tool may do to the world, read off its name and, for a planned action, off its text.

The rules are plain substring tests (catalogue section 10), and wrong where words overlap: `memory_forget` contains
"get", `output_attest` contains "test". Readers of the metadata know them in this form, so the quirks stay.
"""

from collections.abc import Collection, Iterator

from attrs import frozen

SCHEMA = "crux.tool_consequence_metadata.v1"


@frozen
class _Rule:
    """`verdict` holds for a text with one of `words` in it, and wherever one of `implied_by` was found before."""

    verdict: str
    words: tuple[str, ...]
    implied_by: frozenset[str] = frozenset()

    def holds(self, text: str, found: Collection[str]) -> bool:
        return not self.implied_by.isdisjoint(found) or any(word in text for word in self.words)


_DOMAINS = (
    _Rule("email_calendar", ("calendar", "meeting", "invite", "attendee", "email", "mail", "recipient", "schedule")),
    _Rule(
        "crm_customer",
        ("crm", "customer", "account", "opportunity", "deal", "invoice", "refund", "payment", "billing"),
    ),
    _Rule(
        "code",
        ("github", "git", "commit", "branch", "pull_request", "pull request", "deploy", "test", "route", "api"),
    ),
    _Rule("file", ("file", "path", "document", "drive", "sharepoint", "s3", "bucket", "folder")),
    _Rule("sync", ("sync", "mirror", "promote", "tenant")),
    _Rule("memory", ("fact", "session", "memory", "constraint", "receipt")),
    _Rule("extension", ("extension", "manifest", "tool invoke", "wasm")),
)

_MATERIALITY = (
    _Rule(
        "creates_external_obligation",
        ("send", "publish", "invite", "external", "customer-facing"),
        frozenset({"email_calendar"}),
    ),
    _Rule("local_private_memory", ("private", "session", "passport"), frozenset({"memory"})),
    _Rule("touches_customer_data", ("customer", "crm", "account", "opportunity"), frozenset({"crm_customer"})),
    _Rule("touches_money", ("money", "invoice", "refund", "payment", "billing", "charge", "credit")),
    _Rule("touches_pii", ("email", "user", "attendee", "recipient", "customer", "pii", "personal")),
    _Rule("touches_production", ("production", "prod", "deploy", "release", "live")),
)

_BLAST_RADIUS = (
    _Rule("cross_tenant", ("cross_tenant", "all tenants", "global")),
    _Rule("external", (), frozenset({"creates_external_obligation", "email_calendar", "crm_customer"})),
    _Rule("tenant", ("tenant", "team", "workspace", "project", "sync", "promote")),
)

_READING = ("read", "get", "list", "query", "scan", "status", "preview")

_REVERSIBILITY = (
    _Rule("irreversible", ("delete", "destroy", "drop", "purge", "wipe", "charge", "refund", "send")),
    _Rule(
        "reversible_with_compensation",
        ("create", "update", "move", "rename", "deploy", "publish", "promote"),
        frozenset(rule.verdict for rule in _MATERIALITY),
    ),
    _Rule("reversible", _READING),
)

_IDEMPOTENCY = (
    _Rule("safe", _READING),
    _Rule("must_not_retry", ("send", "charge", "refund", "delete", "deploy", "publish")),
    _Rule("requires_key", (), frozenset({"reversible_with_compensation", "irreversible"})),
)

_COMPENSATION = (
    _Rule("delete_or_archive", ("create", "add")),
    _Rule("restore_previous_state", ("update", "move", "rename")),
    _Rule("rollback", ("deploy", "publish", "promote")),
)

_PRO_DOMAINS = frozenset({"code", "file", "email_calendar", "crm_customer"})


@frozen
class Consequence:
    """What a call touches, whether it can be undone or repeated, and how far its effect reaches.

    `materiality` is sorted. `compensating_tool` is a label for the undoing act, not a tool that can be called.
    """

    domain: str
    reversibility: str
    materiality: tuple[str, ...]
    idempotency_class: str
    blast_radius: str
    compensating_tool: str | None
    pro_enricher_available: bool

    def as_metadata(self) -> dict[str, object]:
        """The object published as `consequence_metadata`, ready for JSON."""
        compensation = {} if self.compensating_tool is None else {"compensating_tool": self.compensating_tool}
        return {
            "schema": SCHEMA,
            "domain": self.domain,
            "reversibility": self.reversibility,
            "materiality": self.materiality,
            "idempotency_class": self.idempotency_class,
            "blast_radius": self.blast_radius,
            **compensation,
            "pro_enricher_available": self.pro_enricher_available,
        }


def consequence_of(tool: str, text: str | None = None) -> Consequence:
    """The consequence of calling `tool`.

    `text` is what is known of one planned call: the tool's name and description in lower case, then the keys and scalar
    values of its parameters as they are, joined by spaces. Without it the name alone decides, as in `tools/list`.
    """
    if text is None:
        text = tool.lower()
    domain = _first(_DOMAINS, text) or "general"
    materiality = tuple(_all(_MATERIALITY, text, (domain,)))
    reversibility = _first(_REVERSIBILITY, text, materiality) or "unknown"
    compensation = _first(_COMPENSATION, text)
    return Consequence(
        domain=domain,
        reversibility=reversibility,
        materiality=materiality,
        idempotency_class=_first(_IDEMPOTENCY, text, (reversibility,)) or "unknown",
        blast_radius=_first(_BLAST_RADIUS, text, (domain, *materiality)) or "self_only",
        compensating_tool=f"{tool}.{compensation}" if compensation else None,
        pro_enricher_available=domain in _PRO_DOMAINS,
    )


def _all(rules: tuple[_Rule, ...], text: str, found: Collection[str] = ()) -> Iterator[str]:
    return (rule.verdict for rule in rules if rule.holds(text, found))


def _first(rules: tuple[_Rule, ...], text: str, found: Collection[str] = ()) -> str | None:
    return next(_all(rules, text, found), None)
