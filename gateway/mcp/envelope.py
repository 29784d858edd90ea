"""Read the envelope of a 2026-07-28 request: its ``_meta``, and the headers that repeat the body (SEP-2243).

The body decides. A header that disagrees with it is refused: what intermediaries checked must be what runs.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Final

from multidict import MultiMapping

from gateway import jsonrpc
from gateway.errors import HeaderMismatch, InvalidEnvelope, InvalidParams
from gateway.invocation.input_requests import MAX_STATE
from gateway.jsonrpc import member_at
from gateway.mcp.messages import METHOD, NAME, PROTOCOL_VERSION, McpRequest
from gateway.model import CallExtras, HeaderParameter, Tool
from gateway.telemetry.record import RECORD
from gateway.telemetry.trace_context import trace_of_meta

VERSION: Final = "2026-07-28"
META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_CLIENT: Final = "io.modelcontextprotocol/clientInfo"
META_SERVER: Final = "io.modelcontextprotocol/serverInfo"
META_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"

_ABSENT: Final[list[str]] = []
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
_BASE64 = re.compile(r"=\?base64\?(.*)\?=")
# Digits are bounded: int() of a long text is slow, and fails beyond 4,300 digits.
_NUMBER = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?")


def check_envelope(mcp_request: McpRequest, method: str, params: Mapping[str, Any]) -> str:
    """Return the protocol version of a request, whose headers and body say the same. Note its client for the log,
    and its trace.

    Raise :class:`HeaderMismatch` for a header that is given twice or differs from the body, :class:`InvalidEnvelope`
    for an incomplete ``_meta``.
    """
    given = mcp_request.headers.getall
    versions, methods, names = given(PROTOCOL_VERSION, _ABSENT), given(METHOD, _ABSENT), given(NAME, _ABSENT)
    if len(versions) > 1 or len(methods) > 1 or len(names) > 1:
        twice = PROTOCOL_VERSION if len(versions) > 1 else METHOD if len(methods) > 1 else NAME
        raise HeaderMismatch(f"{twice} is given twice")
    meta = params.get("_meta")
    if type(meta) is not dict:
        raise InvalidEnvelope('Required "_meta" is missing')
    version = meta.get(META_VERSION)
    if type(version) is not str:
        raise InvalidEnvelope(f'"_meta" lacks "{META_VERSION}"')
    if type(meta.get(META_CAPABILITIES)) is not dict:
        raise InvalidEnvelope(f'"_meta" lacks "{META_CAPABILITIES}"')
    client = meta.get(META_CLIENT)
    if type(client) is dict:
        RECORD.get().client = client.get("name")
    if "traceparent" in meta or "baggage" in meta:
        record = RECORD.get()
        record.ambient, record.trace = record.trace, trace_of_meta(meta, record.trace)
    if mcp_request.repeats_body:
        if versions != [version]:
            raise _mismatch(PROTOCOL_VERSION, versions)
        if methods != [method]:
            raise _mismatch(METHOD, methods)
        name = params.get("name")
        if method == "tools/call" and type(name) is str:  # only this method has Mcp-Name
            _check_name(names, name)
    return version


def _check_name(given: list[str], name: str) -> None:
    """Compare the header Mcp-Name, if it is ``given``, with a tool's name. Raise :class:`HeaderMismatch`."""
    if given == [name] and name.isascii() and name.isprintable() and not name.startswith("=?"):
        return
    # The header may be encoded, or have characters that make it another text, or none.
    if not given or not _HEADER_VALUE.fullmatch(given[0]) or decode_header(NAME, given[0]) != name:
        raise _mismatch(NAME, given)


def _mismatch(name: str, given: list[str], said: str = "body") -> HeaderMismatch:
    """Return the error for a header that does not say what the body says."""
    if not given:
        return HeaderMismatch(f"{name} is missing")
    if not _HEADER_VALUE.fullmatch(given[0]):
        return HeaderMismatch(f"{name} has characters that a header must not have")
    return HeaderMismatch(f"{name} does not agree with the {said}")


def decode_header(name: str, value: str) -> str:
    """Return a header value, decoded if it is ``=?base64?…?=``. Raise :class:`HeaderMismatch` where it is malformed."""
    match = _BASE64.fullmatch(value)
    if match is None:
        return value
    try:
        raw = base64.b64decode(match[1], validate=True)
        if base64.b64encode(raw).decode() == match[1]:  # b64decode accepts excess padding and stray bits
            return raw.decode()
    except (binascii.Error, UnicodeDecodeError):
        pass
    raise HeaderMismatch(f"{name} is not valid base64 of UTF-8")


def check_header_parameters(headers: MultiMapping[str], tool: Tool, arguments: Mapping[str, Any]) -> None:
    """Compare ``Mcp-Param-*`` headers with the arguments that they repeat. Raise :class:`HeaderMismatch`."""
    for parameter in tool.headers:
        given = headers.getall(parameter.header, [])
        value = member_at(arguments, parameter.path)
        if isinstance(value, dict | list):
            value = None  # a header cannot hold it; the schema refuses it later, with a better message
        if len(given) > 1:
            raise HeaderMismatch(f"{parameter.header} is given twice")
        if value is None:
            if given:
                raise HeaderMismatch(f"{parameter.header} is given, but its argument is missing")
            continue
        is_readable = given and _HEADER_VALUE.fullmatch(given[0])
        if not is_readable or not _matches(parameter, decode_header(parameter.header, given[0]), value):
            raise _mismatch(parameter.header, given, "arguments")


def call_request(tool: Tool, name: str, arguments: Mapping[str, Any], client: str) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body with which a client of 2026-07-28 calls a tool."""
    meta = {
        META_VERSION: VERSION,
        META_CLIENT: {"name": client, "version": "1"},
        META_CAPABILITIES: {"elicitation": {}},
    }
    params = {"name": name, "arguments": arguments, "_meta": meta}
    headers = {PROTOCOL_VERSION: VERSION, METHOD: "tools/call", NAME: _header_value(name)}
    for parameter in tool.headers:
        value = member_at(arguments, parameter.path)
        if value is not None and not isinstance(value, dict | list):
            headers[parameter.header] = _header_value(
                value if isinstance(value, str) else jsonrpc.encode(value).decode()
            )
    return headers, jsonrpc.request_bytes(1, "tools/call", params)


def _header_value(text: str) -> str:
    """Return a text as a header can have it: :func:`decode_header` reads it again."""
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def _matches(parameter: HeaderParameter, text: str, value: Any) -> bool:
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, int | float):
        if not _NUMBER.fullmatch(text):
            return False
        return bool((int(text) if text.lstrip("-").isdigit() else float(text)) == value)
    return bool(text == value)


def parse_call_params(params: Mapping[str, Any]) -> tuple[str, dict[str, Any], str | int | None]:
    """Return name, arguments and progressToken of ``tools/call`` params; the token is None where it is missing or
    neither a string nor an integer. Raise :class:`InvalidParams`."""
    name = params.get("name")
    if type(name) is not str or not name:
        raise InvalidParams('"name" must be the name of a tool')
    arguments = params.get("arguments")
    if arguments is None:
        arguments = {}
    elif type(arguments) is not dict:
        raise InvalidParams('"arguments" must be an object')
    meta = params.get("_meta")
    token = meta.get("progressToken") if type(meta) is dict else None
    if token is not None and type(token) not in (str, int):
        token = None
    return name, arguments, token


def parse_extras(params: Mapping[str, Any]) -> CallExtras:
    """Return what a ``tools/call`` has beside name and arguments. Raise :class:`InvalidParams`."""
    responses = params.get("inputResponses", {})
    if type(responses) is not dict or (responses and not all(type(one) is dict for one in responses.values())):
        raise InvalidParams('"inputResponses" must be an object of objects')
    state = params.get("requestState")
    if state is not None and not (isinstance(state, str) and len(state) <= MAX_STATE):
        raise InvalidParams('"requestState" must be a string that the gateway sent')
    return CallExtras(responses, state, params["_meta"][META_CAPABILITIES])
