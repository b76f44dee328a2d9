"""What anyone can check of a plan as it is served: its two hashes, made from the JSON alone."""

from __future__ import annotations

from typing import Any

import cbor2
from blake3 import blake3

# The members of a plan that are byte strings under their hex.
BYTE_STRINGS = ("plan_id", "session_id", "origin_install", "capability_graph_hash")


def graph_hash_of(plan: dict[str, Any]) -> str:
    kept = ("cap", "prefer", "shape", "min_tier", "cost_class", "impl_path")
    caps = [{name: node[name] for name in kept} for node in plan["capability_graph"]]
    return blake3(canonical({"intent": plan["intent_hint"], "caps": caps})).hexdigest()


def plan_hash_of(plan: dict[str, Any]) -> str:
    sealed = plan | {name: bytes.fromhex(plan[name]) for name in BYTE_STRINGS}
    sealed["receipt"] = plan["receipt"] | {"hash": bytes(32), "signature": None, "signer_kid": None}
    return blake3(canonical(sealed)).hexdigest()


def canonical(value: object) -> bytes:
    """Deterministic CBOR (RFC 8949 4.2.1): the keys of a map in the order of their encodings."""
    return cbor2.dumps(_sorted(value))


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value, key=cbor2.dumps)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
