"""The methods that the conformance suites call and that answer in one go.

Names, parameters and answers are the suites': each scenario's description, in the packages that
``tests/install.sh`` installs, says what a server has to have.
"""

from __future__ import annotations

import asyncio
import base64
import io
import wave
from typing import Any, Final

from tests.conformance.method import Failure, JsonObject, Methods, Params

SLOW_SECONDS: Final = 0.4
"""What ``test_tool_with_progress`` takes: many of the gateway's heartbeats, of which a busy machine loses some."""

PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

PERSON: Final[JsonObject] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

REGION: Final[JsonObject] = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "required": ["region"],
}

METHODS: Final = Methods()


@METHODS.add("test_simple_text")
async def simple_text(_: Params) -> str:
    """Answers with a sentence."""
    return "This is a simple text response for testing."


@METHODS.add("test_image_content")
async def image_content(_: Params) -> list[JsonObject]:
    """Answers with an image."""
    return [_image()]


@METHODS.add("test_audio_content")
async def audio_content(_: Params) -> list[JsonObject]:
    """Answers with a sound."""
    return [{"type": "audio", "data": _silence(), "mimeType": "audio/wav"}]


@METHODS.add("test_embedded_resource")
async def embedded_resource(_: Params) -> list[JsonObject]:
    """Answers with a resource."""
    return [_resource("test://embedded-resource", "This is an embedded resource content.")]


@METHODS.add("test_multiple_content_types")
async def multiple_content_types(_: Params) -> JsonObject:
    """Answers with a text, an image and a resource."""
    text = {"type": "text", "text": "Multiple content types test:"}
    return {"content": [text, _image(), _resource("test://mixed-content-resource", "A resource among others.")]}


@METHODS.add("test_error_handling")
async def error_handling(_: Params) -> Any:
    """Fails."""
    raise Failure(1000, "This tool intentionally returns an error for testing")


@METHODS.add("test_tool_with_progress")
async def tool_with_progress(_: Params) -> str:
    """Takes a moment."""
    await asyncio.sleep(SLOW_SECONDS)
    return "Done."


@METHODS.add("json_schema_2020_12_tool", PERSON)
async def json_schema_2020_12_tool(params: Params) -> str:
    """Takes arguments whose schema uses much of JSON Schema 2020-12."""
    return f"Received {', '.join(sorted(params)) or 'nothing'}."


@METHODS.add("test_x_mcp_header", REGION)
async def x_mcp_header(params: Params) -> JsonObject:
    """Answers with the region that it is given."""
    return {"region": params.get("region")}


@METHODS.add("test_missing_capability")
async def missing_capability(_: Params) -> str:
    """Is for clients that can sample; the gateway keeps others away."""
    return "This client can sample."


@METHODS.add("test_streaming_elicitation")
async def streaming_elicitation(_: Params) -> str:
    """Answers at once, though it might have asked."""
    return "Nothing to ask."


@METHODS.add("test_logging_tool")
async def logging_tool(_: Params) -> str:
    """Answers without logging to the client."""
    return "Nothing to log."


def _image() -> JsonObject:
    return {"type": "image", "data": PNG, "mimeType": "image/png"}


def _resource(uri: str, text: str) -> JsonObject:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": text}}


def _silence() -> str:
    """A WAV file of a few samples, base64."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(8000)
        sound.writeframes(bytes([128] * 8))
    return base64.b64encode(file.getvalue()).decode()
