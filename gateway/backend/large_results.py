"""Pass large results on as they are written, without values of Python between.

To decode a mebibyte of JSON, and to encode it again, holds the event loop for some milliseconds. Most results are only
shown to the caller, so that sound JSON is all that is needed. These bytes fail the same checks as decoded ones would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gateway import jsonrpc
from gateway.jsonrpc import MAX_SHOWN_DEPTH, NULL, Raw
from gateway.jsonrpc.bounds import SMALL, may_have_huge_numbers, may_nest_deeper, two_ids, value_cost
from gateway.jsonrpc.response import ResponseError, parse_response

_CONTAINERS: Final = (b"{", b"[")
_ESCAPES: Final = (b"\\u", b"\\/")
"""Escapes that models should not have to read: to decode and encode again leaves fewer."""
_KEPT: Final = 100
"""Lists, objects and floats that Python keeps for reuse, at most, of each kind (decision 30)."""
_SPACES: Final = (b'": ', b", ")


def parse_large_response(
    raw: bytes, id: str | int, *, bare: bool = False, take: Callable[[int], None] = lambda _: None
) -> tuple[Any, ResponseError | None]:
    """Do as :func:`gateway.parse_response`, but return a result that is an object or an array as
    :data:`~gateway.jsonrpc.Raw`. Which of two members of one name counts, is left to its reader where that takes no
    decoding. ``take`` is called before it is decoded, with the bytes that its values take."""
    if (result := _result_as_written(raw, id)) is not None:
        return result, None
    take(value_cost(raw))
    spare = [[{"": number / 2}] for number in range(_KEPT)]
    value, fault = parse_response(raw, id, bare=bare)
    if type(value) in (dict, list):
        result = Raw(jsonrpc.encode(value))
        spare.clear()  # or Python would keep parts of the value instead, and with each a MiB of its memory
        return result, None
    return value, fault


def _result_as_written(raw: bytes, id: str | int) -> Raw | None:
    """Return the result of a response, without line breaks, or None for a response that has to be decoded to be judged.

    Malformed JSON, lone surrogates included, is found here. Where bytes are not UTF-8, or where there may be too large
    numbers or too many levels, only the values tell.
    """
    if b"\\" in raw and any(escape in raw for escape in _ESCAPES):
        return None
    if may_have_huge_numbers(raw) or may_nest_deeper(raw, MAX_SHOWN_DEPTH):
        return None
    try:
        raw.decode()
        members = jsonrpc.members_of(raw)
        if two_ids(raw, members) or ("id" in members and jsonrpc.decode(members["id"]) != id):
            return None
    except ValueError:
        return None
    result = members.get("result", NULL)
    if members.get("error", NULL) != NULL or bytes(memoryview(result)[:1]) not in _CONTAINERS:
        return None
    # A line break would end the line of an event. Spaces are only more to read: who writes them does so from the start.
    is_spaced = any(space in raw[:SMALL] for space in _SPACES)
    return Raw(jsonrpc.compact(result)) if is_spaced or b"\n" in raw or b"\r" in raw else result
