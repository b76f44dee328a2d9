"""Which capability router the settings ask for, and which they do not get."""

from base64 import urlsafe_b64encode
from pathlib import Path

import pytest
from attrs import evolve

from crux.config import Settings
from crux.domain.rcx_mint import mint_free_token, sign_token
from crux.domain.rcx_token import encode_token
from crux.domain.router import Router
from crux.errors import SettingError
from crux.routing import MOST_TOKEN_BYTES, router_of, token_doubts
from crux.storage.keys import root_key
from crux.tools.catalogue import CATALOGUE
from tests.rcx_tokens import EXPIRES_AT, ISSUED_AT, KEY, PUBLIC, minted

NODE = "ab" * 16


def routed(directory: Path, choice: str | Path, key: bytes | None = None, *, now_s: int = ISSUED_AT) -> Router | None:
    settings = Settings(data_dir=directory, rcx_router=str(choice), rcx_issuer_key=key.hex() if key else None)
    return router_of(settings, CATALOGUE, root_key(directory), node_id=NODE, now_s=now_s)


def token_file(directory: Path, data: bytes) -> Path:
    path = directory / "token"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("choice", ["off", "OFF"])
def test_off_is_no_router(tmp_path: Path, choice: str) -> None:
    assert routed(tmp_path, choice) is None


@pytest.mark.parametrize("choice", ["local", "Local"])
def test_local_permits_every_local_tool_for_a_year(tmp_path: Path, choice: str) -> None:
    router = routed(tmp_path, choice)
    assert router is not None
    assert router.permitted(CATALOGUE.tools, now_s=ISSUED_AT) == CATALOGUE.tools
    assert router.permitted(CATALOGUE.tools, now_s=EXPIRES_AT - 1) == CATALOGUE.tools
    assert router.permitted(CATALOGUE.tools, now_s=EXPIRES_AT) == ()
    assert router.examined.token.subject.daemon_instance_id == NODE
    assert router.decide("sync_pull", now_s=ISSUED_AT).reason_code == "denied:capability_not_permitted"


@pytest.mark.parametrize("encode", [bytes, urlsafe_b64encode])
def test_a_token_file_is_cbor_or_base64url_of_it(tmp_path: Path, encode: type[bytes]) -> None:
    path = token_file(tmp_path, encode(encode_token(minted())))
    router = routed(tmp_path, path, PUBLIC)
    assert router is not None
    assert router.decide("learn", now_s=ISSUED_AT).authorised


def test_a_token_that_the_daemon_issued_needs_no_issuer_key(tmp_path: Path) -> None:
    own = mint_free_token(root_key(tmp_path), instance_id=NODE, capabilities=["crux-mcp.learn"], issued_at=ISSUED_AT)
    router = routed(tmp_path, token_file(tmp_path, encode_token(own)))
    assert router is not None
    assert router.decide("learn", now_s=ISSUED_AT).authorised


def test_a_token_of_an_unknown_issuer_stops_the_start(tmp_path: Path) -> None:
    path = token_file(tmp_path, encode_token(minted()))
    with pytest.raises(SettingError, match="set CORECRUXD_RCX_ISSUER_KEY"):
        routed(tmp_path, path)


@pytest.mark.parametrize("data", [b"", b"token", b"\xa0", b"\xa1", b"A" * (MOST_TOKEN_BYTES + 1)])
def test_a_file_without_a_token_stops_the_start(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(SettingError, match="token"):
        routed(tmp_path, token_file(tmp_path, data), PUBLIC)


def test_a_file_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="neither off, local, nor a file"):
        routed(tmp_path, tmp_path / "nothing", PUBLIC)


def test_a_token_that_does_not_hold_is_warned_of_and_refuses(tmp_path: Path) -> None:
    forged = sign_token(minted(), KEY)
    forged = evolve(forged, signature=evolve(forged.signature, sig=bytes(64)))
    path = token_file(tmp_path, encode_token(forged))
    router = routed(tmp_path, path, PUBLIC)
    assert router is not None
    assert not router.decide("learn", now_s=ISSUED_AT).authorised
    (doubt,) = token_doubts(router, now_s=EXPIRES_AT)
    assert doubt.startswith("the capability token permits nothing")
    assert "token_expired" in doubt
    assert "bad_signature" in doubt


def test_a_token_that_holds_is_not_doubted(tmp_path: Path) -> None:
    router = routed(tmp_path, token_file(tmp_path, encode_token(minted())), PUBLIC)
    assert list(token_doubts(router, now_s=ISSUED_AT)) == list(token_doubts(None, now_s=ISSUED_AT)) == []


def test_a_contextual_token_permits_nothing(tmp_path: Path) -> None:
    token = sign_token(minted(delegation_policy={"a": 1}), KEY)
    router = routed(tmp_path, token_file(tmp_path, encode_token(token)), PUBLIC)
    (doubt,) = token_doubts(router, now_s=ISSUED_AT)
    assert "contextual_token" in doubt
