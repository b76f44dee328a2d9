"""What the Extensions are asked."""

from __future__ import annotations

from attrs import frozen

from crux.domain.extensions import ExtensionGrant, GrantedTool, InstalledExtension, Standing, TrustedKey, TrustTier
from crux.domain.manifests import Manifest
from crux.domain.messages import Message


@frozen
class Install(Message[InstalledExtension]):
    """Install one version of an extension; inert until something is granted.

    Refused in this order (extensions contract 4): an id that no extension may have, one that is installed already
    (`Conflict`), a manifest that the rules refuse (`InvalidArgument`), a tool's name that is taken, and what the caller
    found wrong with the schemas, which takes too long to be looked for here.
    """

    manifest: Manifest
    by: str | None
    allow_unsigned: bool = False
    schemas_fault: str | None = None


@frozen
class Uninstall(Message[InstalledExtension]):
    """Remove an extension and all its grants; the reply is what was removed. Raises `NotFound`."""

    extension_id: str
    by: str | None


@frozen
class ListExtensions(Message[tuple[InstalledExtension, ...]]):
    """All that is installed, by id."""


@frozen
class ShowExtension(Message[InstalledExtension]):
    """One extension. Raises `NotFound`."""

    extension_id: str


@frozen
class ListKeys(Message[tuple[tuple[str, TrustedKey], ...]]):
    """The keyring, by fingerprint."""


@frozen
class TrustKey(Message[TrustedKey]):
    """Put a key into the keyring, in place of one with the same fingerprint. Raises `InvalidArgument`.

    Extensions that are installed keep the tier that they were installed with.
    """

    passport_fpr: str
    public_key_hex: str
    trust_tier: TrustTier
    added_by: str
    by: str | None


@frozen
class DistrustKey(Message[TrustedKey]):
    """Take a key out of the keyring; the reply is what was removed. Raises `NotFound`."""

    passport_fpr: str
    by: str | None


@frozen(kw_only=True)
class IssueGrant(Message[ExtensionGrant]):
    """Grant a passport the use of an extension.

    Refused in this order (extensions contract 7): an extension that is not installed (`NotFound`), terms that cannot
    be granted (`InvalidArgument`), a pair that has a grant already (`Conflict`).
    """

    extension_id: str
    passport_fpr: str
    allowed_tool_names: tuple[str, ...] = ()
    allowed_prefixes_read: tuple[str, ...] = ()
    allowed_prefixes_write: tuple[str, ...] = ()
    rate_limit_per_min: int | None = None
    by: str | None = None


@frozen
class RevokeGrant(Message[ExtensionGrant]):
    """End a grant; the reply is what was ended. Raises `NotFound`."""

    extension_id: str
    passport_fpr: str
    by: str | None


@frozen
class GrantsOf(Message[tuple[ExtensionGrant, ...]]):
    """The grants of one extension, by passport; none where it is not installed."""

    extension_id: str


@frozen
class Lookup(Message[Standing]):
    """What there is of an extension for one passport."""

    extension_id: str
    passport_fpr: str


@frozen
class ToolsFor(Message[tuple[GrantedTool, ...]]):
    """What a passport may call, by tool name. The same tuple comes back for as long as its grants stay."""

    passport_fpr: str


@frozen
class Resolve(Message[tuple[str, str] | None]):
    """The extension that declares a tool, and the declared name, for that name or its form without dots."""

    tool_name: str
