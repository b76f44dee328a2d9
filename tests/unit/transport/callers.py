"""Callers with the credentials they present, and the registries that know some of them."""

from __future__ import annotations

import time
from collections.abc import Mapping

import jwt

from crux.config import AuthMode
from crux.domain.agents import AgentRegistry
from crux.transport.auth import HttpAuthenticator, JwtRules

OPERATOR_TOKEN = "o" * 32
PLANNER_TOKEN = "p" * 32
WRITER_TOKEN = "w" * 32
KEY = b"k" * 32
DAY_S = 86_400

NOBODY = AgentRegistry.parse(None, None)
OPERATOR = AgentRegistry.parse(OPERATOR_TOKEN, None)
AGENTS = AgentRegistry.parse(None, f"planner:{PLANNER_TOKEN},writer:{WRITER_TOKEN}")

AGENT_SCOPES = frozenset({"admin:read", "admin:write", "facts:write", "query:read"})
RULES = JwtRules(KEY)

Headers = list[tuple[bytes, bytes]]


def bearer(token: str) -> tuple[bytes, bytes]:
    return (b"authorization", b"Bearer " + token.encode())


def passport(name: str) -> tuple[bytes, bytes]:
    return (b"x-corecrux-passport-id", name.encode())


def scopes(text: str) -> tuple[bytes, bytes]:
    return (b"x-corecrux-scopes", text.encode())


def http(mode: AuthMode, registry: AgentRegistry = NOBODY, rules: JwtRules | None = RULES) -> HttpAuthenticator:
    return HttpAuthenticator(mode, registry, AGENT_SCOPES, rules)


def signed(claims: Mapping[str, object], *, key: bytes = KEY, algorithm: str = "HS256", lifetime_s: int = DAY_S) -> str:
    return jwt.encode({"exp": int(time.time()) + lifetime_s, **claims}, key, algorithm=algorithm)
