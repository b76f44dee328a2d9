"""`crux ext keys`, `keygen` and `sign`: whose signatures count, and how to make one."""

from __future__ import annotations

import os
from base64 import b64encode
from pathlib import Path
from typing import Any

import click
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from crux.cli import show
from crux.cli.client import Api, pass_api
from crux.cli.export import replacing
from crux.cli.ext_manifests import json_in
from crux.cli.ext_wire import EXTENSIONS, as_json_option, at, path_of
from crux.cli.inputs import text
from crux.cli.text import safe
from crux.domain.extensions import TrustTier
from crux.domain.manifest_signing import manifest_hash, signing_payload
from crux.domain.manifests import read_manifest
from crux.domain.signing import fingerprint
from crux.errors import Conflict, CruxError, InvalidArgument

_KEYS = f"{EXTENSIONS}/keys"
_SEED_BYTES = 32

_existing = click.Path(path_type=Path, dir_okay=False, exists=True)


class Key(msgspec.Struct):
    """A trusted key as the HTTP API gives it."""

    public_key_hex: str
    trust_tier: str
    added_at_unix_ms: int
    added_by: str = ""


class Keyring(msgspec.Struct):
    keys: dict[str, Key]


class Unusable(CruxError):
    """A file that holds no Ed25519 key."""


@click.group(short_help="Say whose signatures count.")
def keys() -> None:
    """Say whose signatures count: a manifest that one of these keys has signed can be installed."""


@keys.command("list", short_help="List the trusted keys.")
@as_json_option
@pass_api
def list_(api: Api, *, as_json: bool) -> None:
    """List the trusted keys."""
    answer = api.call("GET", _KEYS)
    if as_json:
        show.document(answer)
        return
    rows = [
        (signer, key.trust_tier, key.public_key_hex, at(key.added_at_unix_ms), key.added_by)
        for signer, key in api.read(Keyring, answer).keys.items()
    ]
    if rows:
        show.table(("signer", "trust", "public key", "added", "by"), rows)
    else:
        click.echo("no key is trusted: only unsigned manifests could be installed, with the switch for them", err=True)


@keys.command(short_help="Trust a key.")
@click.argument("signer", metavar="FPR", type=text)
@click.argument("public_key_hex", metavar="HEX", type=text)
@click.option("--tier", type=click.Choice([tier.value for tier in TrustTier]), required=True, help="How far; a label.")
@click.option("--added-by", metavar="TEXT", type=text, help="A note of who added it.")
@as_json_option
@pass_api
def add(api: Api, *, signer: str, public_key_hex: str, tier: str, added_by: str | None, as_json: bool) -> None:
    """Trust the Ed25519 key HEX (64 hex digits) of the signer FPR; an earlier key of that signer is replaced."""
    wanted = {"passport_fpr": signer, "public_key_hex": public_key_hex, "trust_tier": tier, "added_by": added_by}
    answer = api.call("POST", _KEYS, body={name: value for name, value in wanted.items() if value is not None})
    if as_json:
        show.document(answer)
    else:
        click.echo(safe(f"trusting the key of {signer} as {tier}"))


@keys.command(short_help="Trust a key no longer.")
@click.argument("signer", metavar="FPR", type=text)
@as_json_option
@pass_api
def remove(api: Api, *, signer: str, as_json: bool) -> None:
    """Trust the key of FPR no longer. What it has signed stays installed."""
    api.call("DELETE", f"{_KEYS}/{path_of(signer, '')}")
    if as_json:
        show.document({"passport_fpr": signer, "removed": True})
    else:
        click.echo(safe(f"removed the key of {signer}; what it has signed stays installed"))


@click.command(short_help="Make a key to sign manifests with.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print the public half as JSON.")
def keygen(*, file: Path, as_json: bool) -> None:
    """Make an Ed25519 key in FILE, for your eyes only, and print its public half. Never replaces a file."""
    key = Ed25519PrivateKey.generate()
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Conflict(f"{file} exists already; a key is never replaced") from None
    with os.fdopen(descriptor, "w") as kept:
        kept.write(f"{key.private_bytes_raw().hex()}\n")
        kept.flush()
        os.fsync(kept.fileno())
    public = key.public_key().public_bytes_raw()
    signer = fingerprint(public)
    if as_json:
        show.document({"passport_fpr": signer, "public_key_hex": public.hex()})
        return
    click.echo(f"{signer} {public.hex()}")
    click.echo(f"trust it with: crux ext keys add {signer} {public.hex()} --tier locally_signed", err=True)


@click.command(short_help="Sign a manifest.")
@click.argument("file", type=_existing)
@click.option("--key", "key_file", type=_existing, required=True, help="The private key: of keygen, or PEM.")
@click.option("--signer", metavar="FPR", type=text, help="Name to sign under.  [default: the key's fingerprint]")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this file.  [default: FILE itself]",
)
def sign(*, file: Path, key_file: Path, signer: str | None, output: Path | None) -> None:
    """Sign the manifest in FILE: sets its `signature` and `hashes.manifest`, and leaves all else as it is.

    The signature does not cover the endpoint, the tools and the module of a manifest.
    """
    key = private_key(key_file.read_bytes(), key_file)
    public = key.public_key().public_bytes_raw()
    by = signer or fingerprint(public)
    try:
        content = json_in(file.read_bytes())
    except InvalidArgument as error:
        raise InvalidArgument(f"{file}: {error.message}") from None
    manifest = read_manifest(msgspec.json.decode(content))
    found = manifest_hash(manifest)
    members = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    hashes: dict[str, Any] = msgspec.json.decode(members.get("hashes", b"null")) or {}
    changed = {
        "hashes": {**hashes, "manifest": found},
        "signature": {
            "alg": "ed25519",
            "passport_fpr": by,
            "public_key_hex": public.hex(),
            "sig": b64encode(key.sign(signing_payload(manifest))).decode(),
        },
    }
    target = output or file
    mode = target.stat().st_mode & 0o777 if target.exists() else file.stat().st_mode & 0o777
    with replacing(target) as draft:
        Path(draft.name).chmod(mode)
        draft.write(msgspec.json.format(msgspec.json.encode({**members, **changed}), indent=2) + b"\n")
    click.echo(safe(f"signed {manifest.id} {manifest.version} as {by} in {target}, hash {found}"))


def private_key(content: bytes, file: Path) -> Ed25519PrivateKey:
    """The key in a file: 64 hex digits, 32 raw bytes, or PEM without a password; raises `Unusable` for all else."""
    if b"-----BEGIN" in content:
        try:
            found = load_pem_private_key(content, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise Unusable(f"{file} holds no key that can be read; a PEM file must have no password") from None
        if isinstance(found, Ed25519PrivateKey):
            return found
        raise Unusable(f"{file} holds another kind of key than Ed25519")
    if len(content) == _SEED_BYTES:
        return Ed25519PrivateKey.from_private_bytes(content)
    try:
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(content.decode("ascii")))
    except ValueError:
        raise Unusable(f"{file} holds no Ed25519 key: expected 64 hex digits, 32 bytes, or PEM") from None
