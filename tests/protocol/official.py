"""Messages of the gateway against the wire models of the official SDK (PyPI mcp-types).

The models leave some of the rules to readers, so those that matter are added: ids are strings or integers and go back
as they came, ``resultType`` is of one era alone, and of the reserved error codes only the specification's own are used.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from typing import Any, Final, get_args

from mcp_types import MissingRequiredClientCapabilityErrorData, UnsupportedProtocolVersionErrorData
from mcp_types.jsonrpc import JSONRPCError, JSONRPCResponse
from mcp_types.methods import (
    SERVER_RESULTS,
    is_input_required,
    parse_server_notification,
    parse_server_request,
    validate_server_result,
)

MODERN: Final = "2026-07-28"
LEGACY: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
VERSION: Final = "io.modelcontextprotocol/protocolVersion"

_RESERVED: Final = range(-32768, -31999)
_CODES: Final = {-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022}
_DATA: Final = {-32021: MissingRequiredClientCapabilityErrorData, -32022: UnsupportedProtocolVersionErrorData}

# A call's result is one of two models, told apart by resultType; the looser of them fits everything.
_CALL: Final = ("tools/call", MODERN)
_COMPLETE: Final = next(model for model in get_args(SERVER_RESULTS[_CALL]) if "content" in model.model_fields)
_STRICT: Final = {**SERVER_RESULTS, _CALL: _COMPLETE}


class Asked:
    """What was sent, as far as it can be read: the methods by id, and the revision it is of.

    A body that is sent piece by piece cannot be read here; then an answer may have any id.
    """

    def __init__(self, body: object, headers: Mapping[str, str]) -> None:
        self._methods: dict[tuple[type, Any], Any] = {}
        self._unread = not isinstance(body, bytes | None)
        named = headers.get("MCP-Protocol-Version")
        self.revision = "2025-03-26" if named is None else named if named in LEGACY else MODERN
        for message in _messages(body, headers):
            params = message.get("params")
            meta = params.get("_meta") if isinstance(params, dict) else None
            if isinstance(meta, dict) and VERSION in meta:
                self.revision = MODERN
            if "id" in message:
                self._methods[_key(message["id"])] = message.get("method")

    def method(self, id: Any) -> Any:
        """What the request with this id asked for; None where that could not be read."""
        assert self._unread or _key(id) in self._methods, f"nobody asked with the id {id!r}"
        return self._methods.get(_key(id))


def _key(id: Any) -> tuple[type, Any]:
    return type(id), json.dumps(id) if isinstance(id, dict | list) else id


def _messages(body: object, headers: Mapping[str, str]) -> list[dict[str, Any]]:
    try:
        raw = body if isinstance(body, bytes) else b""
        value = json.loads(gzip.decompress(raw) if headers.get("Content-Encoding") == "gzip" else raw)
    except (ValueError, RecursionError, OSError, EOFError, zlib.error):
        return []
    return [message for message in (value if isinstance(value, list) else [value]) if isinstance(message, dict)]


def check_json(asked: Asked, body: bytes) -> None:
    """A whole JSON answer: one response, or those to a batch."""
    value = json.loads(body)
    assert value != [], "a batch of nothing"
    for message in value if isinstance(value, list) else [value]:
        check_response(asked, message)


def check_response(asked: Asked, message: Any) -> None:
    if "error" in message:
        _check_error(asked, message)
        return
    assert type(message["id"]) in (str, int), message
    JSONRPCResponse.model_validate(message)
    result = message["result"]
    method = asked.method(message["id"])
    if method is not None:
        asks = method == "tools/call" and is_input_required(result)
        validate_server_result(method, asked.revision, result, surface=SERVER_RESULTS if asks else _STRICT)
    assert ("resultType" in result) == (asked.revision == MODERN), message


def check_request(asked: Asked, message: Any) -> None:
    """Check a notification, or a request of the gateway: only the older era has those, and only for elicitation."""
    assert message["jsonrpc"] == "2.0", message
    if "id" in message:
        assert (message["method"], type(message["id"])) == ("elicitation/create", str), message
        parse_server_request(message["method"], asked.revision, message.get("params"))
    else:
        parse_server_notification(message["method"], asked.revision, message.get("params"))


def _check_error(asked: Asked, message: Any) -> None:
    JSONRPCError.model_validate({"id": None, **message})
    assert message.keys() <= {"jsonrpc", "id", "error"}, message
    if "id" in message:
        assert type(message["id"]) in (str, int), message
        asked.method(message["id"])
    error = message["error"]
    assert error.keys() <= {"code", "message", "data"}, message
    assert error["code"] not in _RESERVED or error["code"] in _CODES, message
    if error["code"] in _DATA:
        _DATA[error["code"]].model_validate(error["data"])
