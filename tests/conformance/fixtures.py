"""The tools that the suite's scenarios call, by the names and with the content that they ask for.

A scenario of a feature that Crux does not have calls its tool too, so that what fails is the feature alone.
"""

from __future__ import annotations

import base64
import io
import struct
import wave
import zlib
from collections.abc import Mapping
from typing import TypeAlias

from crux.tools.catalogue import CATALOGUE
from crux.tools.facts import NoArguments
from crux.tools.registry import Call, Catalogue, Tool, tool
from crux.tools.results import RawResult

Item: TypeAlias = Mapping[str, object]


def _text(text: str) -> Item:
    return {"type": "text", "text": text}


def _resource(uri: str, mime_type: str, text: str) -> Item:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}}


def _data(kind: str, mime_type: str, data: bytes) -> Item:
    return {"type": kind, "data": base64.b64encode(data).decode(), "mimeType": mime_type}


def _png() -> bytes:
    """One red pixel."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\0\xff\0\0")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


def _wav() -> bytes:
    """A hundredth of a second of silence."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, 8000, 80, "NONE", ""))
        sound.writeframes(bytes(160))
    return file.getvalue()


IMAGE = _data("image", "image/png", _png())
DONE = _text("done, without a word to the client on the way")

RESULTS: Mapping[str, RawResult] = {
    "test_simple_text": RawResult((_text("This is a simple text response for testing."),)),
    "test_image_content": RawResult((IMAGE,)),
    "test_audio_content": RawResult((_data("audio", "audio/wav", _wav()),)),
    "test_embedded_resource": RawResult(
        (_resource("test://embedded-resource", "text/plain", "This is an embedded resource content."),)
    ),
    "test_multiple_content_types": RawResult(
        (
            _text("Multiple content types test:"),
            IMAGE,
            _resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
        )
    ),
    "test_error_handling": RawResult((_text("This tool intentionally returns an error for testing"),), is_error=True),
    "test_tool_with_logging": RawResult((DONE,)),
    "test_tool_with_progress": RawResult((DONE,)),
    "test_sampling": RawResult((DONE,)),
    "test_elicitation": RawResult((DONE,)),
    "test_elicitation_sep1034_defaults": RawResult((DONE,)),
    "test_elicitation_sep1330_enums": RawResult((DONE,)),
}


def _fixture(name: str, result: RawResult) -> Tool:
    async def run(args: NoArguments, call: Call) -> RawResult:
        """Return what the conformance suite expects of a tool of this name."""
        return result

    return tool(name, plane="test", result=RawResult)(run)


FIXTURES = Catalogue.of([*CATALOGUE.tools, *(_fixture(name, result) for name, result in RESULTS.items())])
"""What the product serves, and the fixtures after it."""
