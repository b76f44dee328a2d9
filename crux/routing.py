"""The capability router that the settings ask for (Decision 7)."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crux.config import Settings
from crux.domain.rcx_mint import local_capabilities, mint_free_token
from crux.domain.rcx_token import Token, read_token
from crux.domain.rcx_validation import basic_issues, examine
from crux.domain.router import Router
from crux.domain.signing import fingerprint
from crux.errors import SettingError
from crux.logs import get_logger
from crux.tools.registry import Catalogue, Tier

OFF = "off"
LOCAL = "local"
# No token is near it: one that lists each capability of the catalogue takes 16 KiB.
MOST_TOKEN_BYTES = 1024 * 1024

log = get_logger("crux.routing")


def router_of(
    settings: Settings, catalogue: Catalogue, key: Ed25519PrivateKey, *, node_id: str, now_s: int
) -> Router | None:
    """The router, or None where every tool may be called. `key` is the daemon's own.

    Raises `SettingError` for a file that holds no token, and for one that was signed by somebody whose key is not
    known. A token that does not hold (expired, say) refuses calls, and is warned of here.
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
    router = Router(examine(token, issuer))
    for issue in basic_issues(token, now_s=now_s):
        log.warning("the capability token does not hold", code=issue.code, why=issue.message)
    if not router.examined.signature_holds:
        log.warning("the capability token does not hold", code="bad_signature", why="its signature is not the issuer's")
    return router


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
