"""The capability router that the settings ask for (Decision 7)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crux.config import Settings
from crux.domain.rcx_mint import local_capabilities, mint_free_token
from crux.domain.rcx_token import Token, read_token
from crux.domain.rcx_validation import examine
from crux.domain.router import Router
from crux.domain.signing import fingerprint
from crux.errors import SettingError
from crux.tools.registry import Catalogue, Tier

OFF = "off"
LOCAL = "local"
# No token is near it: one that lists each capability of the catalogue takes 16 KiB.
MOST_TOKEN_BYTES = 1024 * 1024


def router_of(
    settings: Settings, catalogue: Catalogue, key: Ed25519PrivateKey, *, node_id: str, now_s: int
) -> Router | None:
    """The router, or None where every tool may be called. `key` is the daemon's own.

    Raises `SettingError` for a file that holds no token, and for one that was signed by somebody whose key is not
    known. A token that does not hold (expired, say) refuses calls: `token_doubts` tells of it.
    """
    choice = settings.rcx_router
    if choice.lower() == OFF:
        return None
    own = key.public_key().public_bytes_raw()
    if choice.lower() == LOCAL:
        local = (tool.name for tool in catalogue.tools if tool.tier is Tier.LOCAL)
        minted = mint_free_token(key, instance_id=node_id, capabilities=local_capabilities(local), issued_at=now_s)
        return Router(examine(minted, own))
    token = _read(Path(choice))
    issuer = own if settings.rcx_issuer_key is None else bytes.fromhex(settings.rcx_issuer_key)
    if settings.rcx_issuer_key is None and token.issuer.passport_kid != fingerprint(own):
        raise SettingError(
            f"the token in {choice} was issued by {token.issuer.passport_kid}, not by this daemon: "
            "set CORECRUXD_RCX_ISSUER_KEY to that issuer's public key"
        )
    return Router(examine(token, issuer))


def token_doubts(router: Router | None, *, now_s: int) -> Iterator[str]:
    """What the operator may not know of the token; one that is expired, say, is no reason not to start."""
    if router is None:
        return
    if why := "; ".join(f"{issue.code}, {issue.message}" for issue in router.issues(now_s=now_s)):
        yield f"the capability token permits nothing, so every call will be refused: {why}"


def _read(path: Path) -> Token:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_TOKEN_BYTES + 1)
    except OSError as error:
        raise SettingError(
            f"CORECRUXD_RCX_ROUTER={path} is neither off, local, nor a file that can be read ({error.strerror})"
        ) from error
    if len(data) > MOST_TOKEN_BYTES:
        raise SettingError(f"CORECRUXD_RCX_ROUTER={path} holds more than {MOST_TOKEN_BYTES} bytes: that is no token")
    return read_token(data)
