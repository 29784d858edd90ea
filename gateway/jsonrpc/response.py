"""Read the response of a service to one call, and pass large results on without values of Python between.

To decode a mebibyte of JSON, and to encode it again, holds the event loop for some milliseconds. Most results are only
shown to the caller, so that sound JSON is all that is needed. These bytes fail the same checks as decoded ones would.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gateway import jsonrpc
from gateway.jsonrpc import MAX_SHOWN_DEPTH, NULL, Id, Raw, check_depth, decode_json, encode, members_of
from gateway.jsonrpc.bounds import SMALL, may_have_huge_numbers, may_nest_deeper, value_cost

_RESPONSE_MEMBERS: Final = {"jsonrpc", "result", "error"}
_ERROR_MEMBERS: Final = {"id", "code", "message", "data"}
_ESCAPED_ID: Final = re.compile(rb'"(?:i|\\u0069)(?:d|\\u0064)"')


@dataclass(frozen=True, slots=True)
class ResponseError:
    """The ``error`` member of a backend's response, unchanged: nothing is cleaned or cut yet."""

    code: int | None
    message: str
    data: Any = None


def parse_response(raw: bytes, id: Id, *, bare: bool = False, alone: bool = False) -> tuple[Any, ResponseError | None]:
    """Return ``(result, fault)`` of a backend's response to the call ``id``.

    Deviations that are harmless for a single call over HTTP are accepted: an ``id`` that is absent or a number
    instead of its string, or null in an error (JSON-RPC 2.0 §5), and in a result, too, of a response that came
    ``alone``; no ``jsonrpc`` member, and then both outcomes as JSON-RPC 1.0 has them; an empty ``error`` beside a
    result; an error without a code. With ``bare``, JSON that is not a response is the result itself, or the error.
    Raise :class:`ValueError` with the violation for anything else.
    """
    value = decode_json(raw)
    # The usual response begins with its id. Of two the engine keeps the last, which is at the end then.
    own = encode(id) + b","
    begins = raw.startswith((b'{"jsonrpc":"2.0","id":' + own, b'{"jsonrpc": "2.0", "id": ' + own))
    if (not begins or raw.find(b'"id"', -64) > 0) and type(value) is dict and _two_ids(raw, members_of(raw)):
        raise ValueError("two members of one name")
    result, fault = parse_decoded_response(value, id, bare=bare, alone=alone)
    if len(raw) > SMALL or raw.count(b"{") + raw.count(b"[") >= MAX_SHOWN_DEPTH:  # few need the look
        check_depth(raw, result, MAX_SHOWN_DEPTH)
    return result, fault


def _two_ids(raw: bytes, members: dict[str, Any]) -> bool:
    """Return whether an object has its member ``id`` twice, of which two readers may pick different ones. ``members``
    are those that the engine kept of it, as they are written."""
    count = _ids_in(raw)
    for member in reversed(members.values()):  # the last is the result, mostly
        if count < 2:
            break
        count -= _ids_in(bytes(member))
    return count > 1 and "id" in members


def _ids_in(raw: bytes) -> int:
    return len(_ESCAPED_ID.findall(raw)) if b"\\u006" in raw else raw.count(b'"id"')


def parse_decoded_response(
    value: Any, id: Id, *, bare: bool = False, alone: bool = False
) -> tuple[Any, ResponseError | None]:
    """Read as :func:`parse_response` does, decoded JSON of any depth. Raise :class:`ValueError`."""
    if type(value) is dict and value.get("id") == id and "result" in value and value.get("error") is None:
        return value["result"], None  # the usual response
    if bare and not (type(value) is dict and value.keys() & _RESPONSE_MEMBERS):
        is_error = type(value) is dict and value.keys() <= _ERROR_MEMBERS and type(value.get("code")) is int
        return (None, _fault_of(value)) if is_error and "message" in value else (value, None)
    if type(value) is not dict:
        raise ValueError("a batch" if isinstance(value, list) else "not a JSON-RPC object")
    answered = value.get("id")
    if answered is not None and str(answered) != str(id):
        raise ValueError("the id of another call")
    error = value.get("error")
    # JSON-RPC 1.0 §1.2: the error is null where there was none. An exception may have an empty text.
    silent = "jsonrpc" not in value and value.get("result") is None and error in ("", {}, [])
    if error or silent or (error is not None and "result" not in value):
        if value.get("result") is not None and value.get("jsonrpc") == "2.0":
            raise ValueError("both a result and an error")
        return None, _fault_of(error)
    if "result" not in value:
        raise ValueError("neither a result nor an error")
    if answered is None and "id" in value and not alone:
        raise ValueError("a result with null for its id")
    return value["result"], None


def _fault_of(error: Any) -> ResponseError:
    if isinstance(error, list) and error:  # Tryton: the exception, then a traceback or arguments
        return ResponseError(
            None, error[0] if isinstance(error[0], str) else "", error[1] if len(error) == 2 else error[1:]
        )
    if not isinstance(error, dict):
        return ResponseError(None, error if isinstance(error, str) else "")
    code, message = error.get("code"), error.get("message", error.get("error"))  # the latter is OVSDB's
    return ResponseError(
        code if type(code) is int else None,
        message if isinstance(message, str) else "",
        error.get("data", error.get("details")),
    )


_CONTAINERS: Final = (b"{", b"[")
_ESCAPES: Final = (b"\\u", b"\\/")
"""Escapes that models should not have to read: to decode and encode again leaves fewer."""
_KEPT: Final = 100
"""Lists, objects and floats that Python keeps for reuse, at most, of each kind (decision 30)."""
_SPACES: Final = (b'": ', b", ")


def parse_large_response(
    raw: bytes,
    id: str | int,
    *,
    bare: bool = False,
    alone: bool = False,
    take: Callable[[int], None] = lambda _: None,
) -> tuple[Any, ResponseError | None]:
    """Read as :func:`parse_response` does, but return a result that is an object or an array as
    :data:`~gateway.jsonrpc.Raw`. Which of two members of one name counts, is left to its reader where that takes no
    decoding. ``take`` is called before it is decoded, with the bytes that its values take."""
    if (result := _result_as_written(raw, id)) is not None:
        return result, None
    take(value_cost(raw))
    spare = [[{"": number / 2}] for number in range(_KEPT)]
    value, fault = parse_response(raw, id, bare=bare, alone=alone)
    if type(value) in (dict, list):
        result = Raw(jsonrpc.encode(value))
        spare.clear()  # or Python would keep parts of the value instead, and with each a MiB of its memory
        return result, None
    return value, fault


def _result_as_written(raw: bytes, id: str | int) -> Raw | None:
    """Return the result of a response, without line breaks, or None for a response that has to be decoded to be judged:
    bytes that are not UTF-8 or not sound JSON, and what may have too large numbers or too many levels."""
    if b"\\" in raw and any(escape in raw for escape in _ESCAPES):
        return None
    if may_have_huge_numbers(raw) or may_nest_deeper(raw, MAX_SHOWN_DEPTH):
        return None
    try:
        raw.decode()
        members = jsonrpc.members_of(raw)
        if _two_ids(raw, members) or ("id" in members and jsonrpc.decode(members["id"]) != id):
            return None
    except ValueError:
        return None
    result = members.get("result", NULL)
    if members.get("error", NULL) != NULL or bytes(memoryview(result)[:1]) not in _CONTAINERS:
        return None
    # A line break would end the line of an event. Spaces are only more to read: who writes them does so from the start.
    is_spaced = any(space in raw[:SMALL] for space in _SPACES)
    return Raw(jsonrpc.compact(result)) if is_spaced or b"\n" in raw or b"\r" in raw else result


_BRACKETS: Final = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}

# On connections that carry messages both ways, the service may send some of its own.
_METHOD_NOT_FOUND: Final = -32601


class Head(msgspec.Struct):
    """Hold what tells whose a message is. ``method`` is None in a response, ``id`` in a notification."""

    id: str | int | float | None = None
    error: Raw = NULL
    method: str | None = None
    params: Raw = Raw(b"[]")
    jsonrpc: Raw = Raw(b"")


_decode_head = msgspec.json.Decoder(Head).decode


def parse_head(raw: bytes) -> Head:
    """Return the head of a message. Raises :class:`ValueError` for what is no JSON-RPC message."""
    try:
        return _decode_head(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


_BEHIND: Final = b" \t\r\n\0"
_MOST_SCANNED: Final = 64 * 1024
_MOST_TOKENS: Final = 4000
"""Bytes, and strings and brackets, of broken JSON in which an id is looked for: at most 4 ms."""
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["{}\[\]]', re.DOTALL)
"""A whole string or a bracket, or the quote of a string that is not complete."""
_VALUE: Final = re.compile(rb'[ \t\r\n]*+:[ \t\r\n]*+(?:"([^"\\]++)"|([^][{}",: \t\r\n]++))?+')
"""What stands behind a name: its value, if that is short and plain. An id may lack its quotes."""


def id_in_broken(raw: bytes) -> str | None:
    """Return the id, as text, of a message that :func:`parse_head` cannot read. None unless it is one object, whose
    strings and brackets are whole, with one member ``id`` of its own; and where it is too long to be looked through."""
    if len(raw) > _MOST_SCANNED or (opening := raw.find(b"{")) < 0 or raw[:opening].lstrip().startswith((b"[", b'"')):
        return None
    raw = raw[opening:].rstrip(_BEHIND)  # text before it, as a warning is, and NUL bytes behind it can be mended
    found: list[bytes] = []
    depth = 0
    for count, token in enumerate(_TOKEN.finditer(raw)):
        text = token[0]
        if text == b'"' or count == _MOST_TOKENS:
            return None
        if text in _BRACKETS:
            depth += _BRACKETS[text]
        elif depth == 1 and (value := _VALUE.match(raw, token.end())) is not None:
            if b"\\" in text:  # which may be another spelling of "id"
                return None
            if text == b'"id"':
                found.append(value[1] or value[2] or b"")
        if depth == 0 and token.end() < len(raw):
            return None
    if depth or len(found) != 1 or found[0] in (b"", b"null"):
        return None
    return found[0].decode("utf-8", "replace")


def answer_to_service(head: Head) -> bytes:
    """Return the response to a request of the service: ``echo`` gets its params back, as OVSDB uses it (RFC 7047
    §4.1.11), and all others an error. It is of the version of the request."""
    answer: dict[str, Any] = {"jsonrpc": "2.0"} if head.jsonrpc else {}
    answer["id"] = head.id
    if head.method == "echo":
        answer |= {"result": head.params} | ({} if head.jsonrpc else {"error": None})
    else:
        error = {"code": _METHOD_NOT_FOUND, "message": "Method not found"}
        answer |= {"error": error} if head.jsonrpc else {"result": None, "error": error}
    return encode(answer)
