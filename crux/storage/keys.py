"""Secrets and names that the daemon makes for itself once and keeps in the data directory (Decision 20)."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crux.errors import StartRefused

ROOT_KEY = "passport.key"
INSTALL_ID = ".install-uuid"

KEY_BYTES = 32
ID_BYTES = 16


def root_key(directory: Path) -> Ed25519PrivateKey:
    """The daemon's own Ed25519 key, made on first use (identity contract 3). Raises `StartRefused` for a damaged
    file."""
    return Ed25519PrivateKey.from_private_bytes(keep_bytes(directory / ROOT_KEY, KEY_BYTES))


def install_id(directory: Path) -> str:
    """The daemon's name for itself, 32 hex digits, made on first use. Raises `StartRefused` for a damaged file."""
    return keep_bytes(directory / INSTALL_ID, ID_BYTES).hex()


def keep_bytes(path: Path, size: int) -> bytes:
    """The `size` random bytes that `path` holds as hex digits, made where there is no such file.

    Only one process may ask at a time: the data directory is held. Raises `StartRefused` for a file that holds anything
    else, since making another would quietly orphan what was made with the first.
    """
    if (held := held_bytes(path, size)) is not None:
        return held
    made = secrets.token_bytes(size)
    _write(path, made)
    return made


def held_bytes(path: Path, size: int) -> bytes | None:
    """The bytes that `path` holds, None where there is no such file; raises as `keep_bytes` does."""
    try:
        text = path.read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise StartRefused(f"{path} cannot be read ({error}); restore it from a backup") from error
    try:
        found = bytes.fromhex(text.strip())
    except ValueError:
        found = b""
    if len(found) != size:
        raise StartRefused(
            f"{path} does not hold {2 * size} hex digits: restore it from a backup, or remove it to start over "
            "with a fresh one"
        )
    return found


def _write(path: Path, made: bytes) -> None:
    """Write and sync a file that is there whole or not at all."""
    unfinished = path.with_name(f"{path.name}.new")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, made.hex().encode() + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        unfinished.replace(path)
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)
    except OSError as error:
        raise StartRefused(f"{path} cannot be written ({error.strerror}); make room, or mend its directory") from error
