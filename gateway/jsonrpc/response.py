"""Read the response of a service to one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from gateway.jsonrpc import MAX_SHOWN_DEPTH, Id, check_depth, decode_json, encode, members_of
from gateway.jsonrpc.bounds import two_ids

_RESPONSE_MEMBERS: Final = {"jsonrpc", "result", "error"}
_ERROR_MEMBERS: Final = {"id", "code", "message", "data"}


@dataclass(frozen=True, slots=True)
class ResponseError:
    """The ``error`` member of a backend's response, unchanged: nothing is cleaned or cut yet."""

    code: int | None
    message: str
    data: Any = None


def parse_response(raw: bytes, id: Id, *, bare: bool = False) -> tuple[Any, ResponseError | None]:
    """Return ``(result, fault)`` of a backend's response to the call ``id``.

    Deviations that are harmless for a single call over HTTP are accepted: an ``id`` that is absent or a number
    instead of its string, or null in an error (JSON-RPC 2.0 §5); no ``jsonrpc`` member, and then both outcomes as
    JSON-RPC 1.0 has them; an empty ``error`` beside a result; an error without a code. With ``bare``, JSON that is not
    a response is the result itself, or the error itself.
    Raise :class:`ValueError` with the violation for anything else.
    """
    value = decode_json(raw)
    # The usual response begins with its id. Of two the engine keeps the last, which is at the end then.
    own = encode(id) + b","
    begins = raw.startswith((b'{"jsonrpc":"2.0","id":' + own, b'{"jsonrpc": "2.0", "id": ' + own))
    if (not begins or raw.find(b'"id"', -64) > 0) and type(value) is dict and two_ids(raw, members_of(raw)):
        raise ValueError("two members of one name")
    result, fault = parse_decoded_response(value, id, bare=bare)
    check_depth(raw, result, MAX_SHOWN_DEPTH)
    return result, fault


def parse_decoded_response(value: Any, id: Id, *, bare: bool = False) -> tuple[Any, ResponseError | None]:
    """Do as :func:`parse_response` for decoded JSON of any depth. Raise :class:`ValueError`."""
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
    if answered is None and "id" in value:
        raise ValueError("a result with null for its id")
    return value["result"], None


def _fault_of(error: Any) -> ResponseError:
    if isinstance(error, list) and error:  # Tryton: the exception, then a traceback or arguments
        return ResponseError(
            None, error[0] if isinstance(error[0], str) else "", error[1] if len(error) == 2 else error[1:]
        )
    if not isinstance(error, dict):
        return ResponseError(None, error if isinstance(error, str) else "")
    code, message = error.get("code"), error.get("message")
    return ResponseError(
        code if type(code) is int else None, message if isinstance(message, str) else "", error.get("data")
    )
