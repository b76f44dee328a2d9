"""`crux ext validate`, `keygen` and `sign`, which ask no daemon."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from crux.domain.signing import fingerprint
from tests.unit.cli.conftest import Cli

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "quote.json"
SEED = bytes(range(32))
KEY = Ed25519PrivateKey.from_private_bytes(SEED)
PUBLIC = KEY.public_key().public_bytes_raw()
SIGNER = fingerprint(PUBLIC)
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def manifest(file: Path, **changes: Any) -> Path:
    document = {**json.loads(EXAMPLE.read_text()), **changes}
    file.write_text(json.dumps({name: value for name, value in document.items() if value is not None}))
    return file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return manifest(tmp_path / "m.json")


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "key"
    file.write_text(f"{SEED.hex()}\n")
    return file


def test_the_example_is_valid_once_it_need_not_be_signed(cli: Cli) -> None:
    refused = cli("ext", "validate", str(EXAMPLE))
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("crux: field 'signature' is required")
    passed = cli("ext", "validate", str(EXAMPLE), "--allow-unsigned")
    assert passed.exit_code == 0
    assert passed.stdout.startswith("valid: ext.example.quote 0.1.0, unsigned, hash blake3:")
    assert passed.stderr == (
        "it can be installed, but calls are refused: "
        "plain http endpoint blocked (set CORECRUXD_EXTENSIONS_ALLOW_PLAIN_HTTP=true for dev)\n"
    )


def test_validate_reads_standard_input_and_answers_json(cli: Cli) -> None:
    result = cli("ext", "validate", "-", "--allow-unsigned", "--json", stdin=EXAMPLE.read_text())
    found = json.loads(result.stdout)
    assert found.pop("manifest_hash").startswith("blake3:")
    assert len(found.pop("calls_refused")) == 1
    assert found == {"valid": True, "id": "ext.example.quote", "version": "0.1.0", "signed_by": None}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schema": "x"}, "invalid schema"),
        ({"version": " "}, "field 'version' is required"),
        ({"id": "Upper"}, "an extension's id must be"),
        ({"id": "keys"}, "'keys' cannot be an extension's id"),
        ({"external_tool_endpoint": None}, "field 'external_tool_endpoint' is required"),
        ({"external_tool_endpoint": "ftp://x"}, "external_tool_endpoint must be an http(s) URL, got 'ftp://x'"),
        ({"tools": []}, "field 'tools' is required"),
        ({"tools": [{"name": "quote", "description": "d", "input_schema": {}}]}, "starts with 'ext.'"),
        ({"tools": [{"name": "ext.q", "description": "d", "input_schema": {"type": 1}}]}, "no valid JSON Schema"),
        ({"summary": None}, "summary"),
        ({"entry": 5}, "entry"),
    ],
)
def test_what_would_be_refused_is_said_and_fails(
    changes: dict[str, object], said: str, cli: Cli, tmp_path: Path
) -> None:
    result = cli("ext", "validate", str(manifest(tmp_path / "m.json", **changes)), "--allow-unsigned")
    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr


@pytest.mark.parametrize(
    ("url", "hosts", "said"),
    [
        ("https://tools.example/x", [], []),
        ("https://tools.example/x", ["tools.example:443"], []),
        ("https://tools.example/x", ["tools.example:8443"], ["network.allowed_hosts"]),
        ("http://tools.example/x", ["*.example"], ["plain http endpoint blocked", "network.allowed_hosts"]),
        ("https://", [], [""]),
    ],
)
def test_an_endpoint_that_no_call_reaches_is_pointed_out(
    url: str, hosts: list[str], said: list[str], cli: Cli, tmp_path: Path
) -> None:
    file = manifest(tmp_path / "m.json", external_tool_endpoint=url, network={"allowed_hosts": hosts})
    result = cli("ext", "validate", str(file), "--allow-unsigned")
    assert result.exit_code == 0
    lines = result.stderr.splitlines()
    assert len(lines) == len(said)
    for line, part in zip(lines, said, strict=True):
        assert line.startswith("it can be installed, but calls are refused: ")
        assert part in line


def test_other_kinds_have_no_endpoint_to_doubt(cli: Cli, tmp_path: Path) -> None:
    recipe = {"entry": {"kind": "http_recipe", "path": "x"}, "external_tool_endpoint": None, "tools": None}
    result = cli("ext", "validate", str(manifest(tmp_path / "m.json", **recipe)), "--allow-unsigned")
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize("given", ["p_a", "p_a=", "p_a=abcd", f"={'ab' * 32}", f"p_a={'xy' * 32}", f"p a={'ab' * 32}"])
def test_a_key_is_a_fingerprint_and_64_hex_digits(given: str, cli: Cli, file: Path) -> None:
    assert cli("ext", "validate", str(file), "--key", given).exit_code == 2


@pytest.mark.parametrize("content", [f"{SEED.hex()}\n".encode(), SEED.hex().encode(), SEED, PEM])
def test_a_signed_manifest_is_valid_for_whoever_trusts_the_key(
    content: bytes, cli: Cli, file: Path, tmp_path: Path
) -> None:
    before = json.loads(file.read_text())
    key_file = tmp_path / "key"
    key_file.write_bytes(content)
    signed = cli("ext", "sign", str(file), "--key", str(key_file))
    assert (signed.exit_code, signed.stderr) == (0, "")
    after = json.loads(file.read_text())
    assert signed.stdout.startswith(
        f"signed ext.example.quote 0.1.0 as {SIGNER} in {file}, hash {after['hashes']['manifest']}"
    )
    assert {name: value for name, value in after.items() if name not in ("signature", "hashes")} == before
    assert list(after)[: len(before)] == list(before)
    passed = cli("ext", "validate", str(file), "--key", f"{SIGNER}={PUBLIC.hex()}")
    assert passed.exit_code == 0, passed.stderr
    assert f"signed by {SIGNER}" in passed.stdout
    for trusted in ([], ["--key", f"{SIGNER}={'ab' * 32}"]):
        assert cli("ext", "validate", str(file), *trusted, "--allow-unsigned").exit_code == 1


def test_a_manifest_that_changed_after_signing_is_refused_until_it_is_signed_again(
    cli: Cli, file: Path, key_file: Path
) -> None:
    trusted = ["--key", f"p_me={PUBLIC.hex()}"]
    assert cli("ext", "sign", str(file), "--key", str(key_file), "--signer", "p_me").exit_code == 0
    file.write_text(file.read_text().replace("0.1.0", "0.1.1"))
    assert "hash mismatch" in cli("ext", "validate", str(file), *trusted).stderr
    assert cli("ext", "sign", str(file), "--key", str(key_file), "--signer", "p_me").exit_code == 0
    assert "0.1.1, signed by p_me" in cli("ext", "validate", str(file), *trusted).stdout


def test_sign_keeps_the_bundle_hash_and_the_mode_and_writes_elsewhere_when_asked(
    cli: Cli, tmp_path: Path, key_file: Path
) -> None:
    file = manifest(tmp_path / "m.json", hashes={"bundle": "b", "manifest": "old"})
    file.chmod(0o644)
    before = file.read_bytes()
    output = tmp_path / "signed.json"
    assert cli("ext", "sign", str(file), "--key", str(key_file), "-o", str(output)).exit_code == 0
    assert file.read_bytes() == before
    assert json.loads(output.read_text())["hashes"]["bundle"] == "b"
    assert stat.S_IMODE(output.stat().st_mode) == 0o644


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"ab" * 31,
        b"xy" * 32,
        SEED + b"x",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")),
        generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        KEY.public_key().public_bytes_raw().hex().encode() + b"00",
    ],
)
def test_a_file_without_a_key_signs_nothing(content: bytes, cli: Cli, file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    key_file = tmp_path / "key"
    key_file.write_bytes(content)
    result = cli("ext", "sign", str(file), "--key", str(key_file))
    assert result.exit_code == 1
    assert str(key_file) in result.stderr
    assert file.read_bytes() == before


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": "crux.integration.v1"}'])
def test_what_is_no_manifest_is_not_signed(content: str, cli: Cli, tmp_path: Path, key_file: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text(content)
    assert cli("ext", "sign", str(file), "--key", str(key_file)).exit_code == 1
    assert file.read_text() == content


def test_keygen_makes_a_private_file_and_never_replaces_one(cli: Cli, file: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    result = cli("ext", "keygen", str(made))
    assert result.exit_code == 0
    signer, public = result.stdout.split()
    assert signer == fingerprint(bytes.fromhex(public))
    assert f"crux ext keys add {signer} {public} --tier locally_signed" in result.stderr
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert cli("ext", "sign", str(file), "--key", str(made)).exit_code == 0
    assert cli("ext", "validate", str(file), "--key", f"{signer}={public}").exit_code == 0
    kept = made.read_bytes()
    again = cli("ext", "keygen", str(made))
    assert (again.exit_code, again.stderr) == (1, f"crux: {made} exists already; a key is never replaced\n")
    assert made.read_bytes() == kept
    assert list(json.loads(cli("ext", "keygen", str(tmp_path / "b"), "--json").stdout)) == [
        "passport_fpr",
        "public_key_hex",
    ]
