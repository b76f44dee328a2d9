"""The kinds of entities that are registered: what the payload of each has to look like (memory contract 11; identity
contract 14)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from crux.errors import InvalidArgument

_NAME: Final = {"type": "string", "minLength": 1}
_OBJECT: Final = {"type": "object"}
_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}


@frozen
class Kind:
    """A registered kind. Its allowed edges tell which ones make sense; none is refused for them."""

    kind: str
    description: str
    json_schema: Mapping[str, Any]
    allowed_outgoing_edges: tuple[str, ...] = ()
    allowed_incoming_edges: tuple[str, ...] = ()


KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "capability": Kind(
            "capability",
            "Something that a system can do, with how far it has come and what it rests on",
            {
                "type": "object",
                "required": ["id", "name", "system", "maturity"],
                "properties": {
                    **dict.fromkeys(("id", "name", "system"), _NAME),
                    "maturity": {
                        "type": "string",
                        "enum": ["planned", "documented", "building", "built", "shipped", "deferred"],
                    },
                    **dict.fromkeys(("subsystem", "description", "feature_flag", "repo_id"), _TEXT),
                    **dict.fromkeys(("files", "depends_on", "depended_by", "dod", "external_deps"), _TEXTS),
                    "promise_alignment": {"type": "array"},
                    **dict.fromkeys(("tests", "audit"), _OBJECT),
                },
            },
            ("depends_on",),
            ("depends_on",),
        ),
        "repo": Kind(
            "repo",
            "A repository of source code",
            {
                "type": "object",
                "required": ["id", "slug", "name"],
                "properties": dict.fromkeys(("id", "slug", "name"), _NAME),
            },
        ),
    }
)


def check_payload(kind: str, payload: object) -> None:
    """Raise `InvalidArgument` where the payload is not what its kind asks for; a kind that is not registered asks for
    nothing."""
    if kind not in KINDS:
        return
    fault = min(_validator(kind).iter_errors(payload), key=lambda error: len(error.absolute_path), default=None)
    if fault is not None:
        place = ".".join(("payload", *map(str, fault.absolute_path)))
        raise InvalidArgument(
            f"'{place}' is not what kind '{kind}' asks for: {fault.message[:200]}; kind_get shows its schema",
            data={"param": place, "kind": kind},
        )


@cache
def _validator(kind: str) -> Any:
    # It takes longer to import than the rest of the domain.
    from jsonschema import Draft202012Validator  # noqa: PLC0415

    return Draft202012Validator(dict(KINDS[kind].json_schema))
