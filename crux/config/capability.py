"""The settings of the capability router (protocol contract 9)."""

from attrs import frozen

from crux.config import parsers
from crux.config.declaration import Group, setting


@frozen(kw_only=True, slots=False)
class CapabilitySettings:
    """The part of `Settings` that is about RCX tokens."""

    rcx_router: str = setting(
        "off",
        env="CORECRUXD_RCX_ROUTER",
        group=Group.AUTH,
        parse=parsers.text,
        meaning="What decides which tools may be called: `off` (all of them), `local` (a free token that the daemon "
        "makes for itself at each start), or the path of a token file (CBOR, or base64url of it).",
        expands=True,
    )
    rcx_issuer_key: str | None = setting(
        None,
        env="CORECRUXD_RCX_ISSUER_KEY",
        group=Group.AUTH,
        parse=parsers.public_key,
        meaning="Public Ed25519 key, as 64 hex digits, of whoever signed the token file; unset: this daemon's own key.",
    )
