"""`crux ext validate`: whether a manifest can be installed, said without a daemon."""

from __future__ import annotations

from typing import IO

import click
import msgspec

from crux.cli import show
from crux.cli.inputs import InputFile, text
from crux.cli.text import safe
from crux.domain.extensions import TrustedKey, TrustTier, check_key
from crux.domain.manifest_rules import check_extension_id, check_tool_names, schemas_fault
from crux.domain.manifest_rules import validate as check
from crux.domain.manifest_signing import manifest_hash
from crux.domain.manifests import EntryKind, Manifest, ManifestRefused, read_manifest
from crux.domain.outbound import endpoint_of
from crux.domain.outbound_config import OutboundConfig
from crux.domain.outbound_refusals import DispatchRefused
from crux.errors import InvalidArgument
from crux.tools.catalogue import CATALOGUE


class TrustedKeyOption(click.ParamType[tuple[str, TrustedKey]]):
    """`FPR=HEX`: who signs, and with which key."""

    name = "FPR=HEX"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, TrustedKey]:
        name, _, digits = text(str(value)).rpartition("=")
        key = TrustedKey(digits, TrustTier.UNKNOWN, 0)
        try:
            check_key(name, key)
        except InvalidArgument as error:
            self.fail(error.message, param, ctx)
        return name, key


@click.command(short_help="Say whether a manifest can be installed.")
@click.argument("file", type=InputFile())
@click.option("--key", "trusted", type=TrustedKeyOption(), multiple=True, help="Trust this key; may be repeated.")
@click.option("--allow-unsigned", is_flag=True, help="Let a manifest without a signature pass.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
def validate(
    *, file: IO[bytes], trusted: tuple[tuple[str, TrustedKey], ...], allow_unsigned: bool, as_json: bool
) -> None:
    """Say whether the manifest in FILE can be installed; - is standard input. No daemon is asked.

    It checks what the daemon checks, in the same order, but for the names of other extensions' tools. Exit code 1: it
    would be refused.
    """
    manifest = read_manifest(msgspec.json.decode(manifest_in(file)))
    check_extension_id(manifest.id)
    check(manifest, dict(trusted), allow_unsigned=allow_unsigned)
    check_tool_names(manifest, CATALOGUE.by_name, {})
    if (fault := schemas_fault(manifest)) is not None:
        raise ManifestRefused(fault)
    signer = manifest.signature.passport_fpr if manifest.signature else None
    found = manifest_hash(manifest)
    doubts = calls_refused(manifest)
    if as_json:
        document = {"id": manifest.id, "version": manifest.version, "signed_by": signer, "manifest_hash": found}
        show.document({"valid": True, **document, "calls_refused": doubts})
        return
    signed = f"signed by {signer}" if signer else "unsigned"
    click.echo(safe(f"valid: {manifest.id} {manifest.version}, {signed}, hash {found}"))
    for doubt in doubts:
        click.echo(safe(f"it can be installed, but calls are refused: {doubt}"), err=True)


def calls_refused(manifest: Manifest) -> list[str]:
    """Why calls will be refused before anything is sent, though the manifest is valid: the endpoint's own faults."""
    if manifest.entry.kind is not EntryKind.EXTERNAL_TOOL:
        return []
    found = []
    # The switch for plain HTTP is the daemon's: without it nothing else of such an endpoint is looked at.
    for config in (OutboundConfig(), OutboundConfig(allow_plain_http=True)):
        try:
            endpoint_of(manifest, config)
        except DispatchRefused as refusal:
            found.append(refusal.message)
    return list(dict.fromkeys(found))


def manifest_in(file: IO[bytes]) -> msgspec.Raw:
    """The JSON document in a file; raises `InvalidArgument`, which names the file, where there is none."""
    try:
        return json_in(file.read())
    except InvalidArgument as error:
        raise InvalidArgument(f"{getattr(file, 'name', 'standard input')}: {error.message}") from None


def json_in(content: bytes) -> msgspec.Raw:
    """A JSON document as it was written; raises `InvalidArgument` where it is none."""
    try:
        msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArgument(f"not valid JSON ({error})") from None
    return msgspec.Raw(content)
