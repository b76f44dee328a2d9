"""What a daemon's capability token does to its tools: which are listed, which may be called, and what each is stamped
with (seed 11.8, protocol contract 9)."""

from collections.abc import Sequence

from attrs import frozen

from crux.domain.capability import Decision, call_of, decide
from crux.domain.rcx_validation import ExaminedToken, Issue, basic_issues
from crux.domain.surface import ShownTool

FILTERED_BY = "rcx-capability-token"


@frozen
class Router:
    """Judges tools by one token, which all callers of the daemon share."""

    examined: ExaminedToken

    def decide(self, tool: str, *, now_s: int) -> Decision:
        """Whether a call of `tool` may happen at `now_s`, in Unix seconds."""
        return decide(self.examined, call_of(tool), now_s=now_s)

    def permitted(self, tools: Sequence[ShownTool], *, now_s: int) -> tuple[ShownTool, ...]:
        """Those of `tools` that may be called at `now_s`, in their order."""
        return tuple(tool for tool in tools if self.decide(tool.name, now_s=now_s).authorised)

    def phase(self, *, now_s: int) -> tuple[bool, bool]:
        """Whether the token's time has begun, and whether it is over: between two changes of it no decision changes."""
        token = self.examined.token
        return token.issued_at <= now_s, token.expires_at <= now_s

    def issues(self, *, now_s: int) -> tuple[Issue, ...]:
        """Why the token permits nothing at `now_s`; empty where it holds."""
        token = self.examined.token
        forged = () if self.examined.signature_holds else (Issue("bad_signature", "its signature is not the issuer's"),)
        contextual = (Issue("contextual_token", "it depends on a delegation"),) if token.contextual else ()
        return (*basic_issues(token, now_s=now_s), *forged, *contextual)

    def stamp(self) -> dict[str, object]:
        """Which token shaped a listing, ready for JSON."""
        token = self.examined.token
        return {
            "filtered_by": FILTERED_BY,
            "token_ref": self.token_ref(),
            "receipt_class": token.receipt_class,
            "tier": token.tier,
        }

    def token_ref(self) -> dict[str, str]:
        return {"token_id": self.examined.token.token_id, "token_hash": self.examined.token_hash}

    def schema_stamp(self) -> dict[str, object]:
        """The same, as keys of a tool's input schema."""
        token = self.examined.token
        return {
            "x-crux-token-ref": self.token_ref(),
            "x-crux-receipt-class": token.receipt_class,
            "x-crux-tier": token.tier,
        }
