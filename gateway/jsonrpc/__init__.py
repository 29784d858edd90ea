"""Parse and serialize JSON and JSON-RPC 2.0 messages. The rules:

* JSON is RFC 8259 in UTF-8 and nothing more: no NaN, no byte order mark, no lone surrogate. Integers are exact at
  any size the engine reads (4,300 digits).
* What *clients* send is read strictly: duplicate member names are refused, since two readers may pick different
  ones; nesting is limited to :data:`MAX_DEPTH` on every interpreter, containers to :data:`MAX_CONTAINERS`.
* ``id`` is a string or an integer (MCP narrows JSON-RPC §4), at most 256 bytes, and is returned unchanged. Plain
  JSON-RPC also has null and fractional ids (:func:`decode_any_ids`).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypeVar
from urllib.parse import unquote

import msgspec

from gateway.errors import GatewayError, InvalidRequest, ParseError, ServiceError
from gateway.jsonrpc.bounds import SMALL, count_members, has_slow_numbers, nesting_fault, nests_deeper, read_float

Raw: TypeAlias = msgspec.Raw
"""JSON that is serialized already, as a part of a value for :func:`encode`, which writes plain bytes as base64."""
_Kind = TypeVar("_Kind")

Id: TypeAlias = str | int | Raw
"""Raw is null or a fractional number as received: a decoded float would lose digits."""

MAX_DEPTH: Final = 64
MAX_CONTAINERS: Final = 50_000
"""Most objects and arrays in a client's JSON: each costs some hundred bytes of memory but only two of text."""
MAX_ID_BYTES: Final = 256
MAX_SHOWN_DEPTH: Final = 256  # every client's parser can read so many levels
_MAX_READ_DEPTH: Final = 512
"""Levels, more than any sensible document has. Every supported interpreter can read so many."""

NULL: Final = Raw(b"null")  # the id of an error whose request's own cannot be read (JSON-RPC 2.0 §5)

_decode = msgspec.json.Decoder().decode
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_elements = msgspec.json.Decoder(list[Raw]).decode
_decode_slow_numbers = msgspec.json.Decoder(float_hook=read_float).decode
_encode = msgspec.json.Encoder().encode
_SPACED_COLON = re.compile(rb'"\s+:')
_ESCAPED = re.compile(rb"\\u00(?:22|3[Aa])")  # a quote, or a colon
# An unclosed string matches to the end: otherwise each quote in it would be tried as a start, in quadratic time.
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)


class Request(msgspec.Struct):
    """A call that expects an answer."""

    id: Id
    method: str
    params: dict[str, Any] | list[Any] | None


class Notification(msgspec.Struct):
    """A message without ``id``, which gets no answer."""

    id: ClassVar[None] = None
    method: str
    params: dict[str, Any] | list[Any] | None


@dataclass(frozen=True, slots=True)
class ClientResponse:
    """A response from a client. Only its ``id`` is checked."""

    method: ClassVar[str] = ""
    params: ClassVar[None] = None
    id: Id | None
    result: Any = None
    error: Any = None


Message: TypeAlias = Request | Notification | ClientResponse


class BadMessage(InvalidRequest):
    """Raised for JSON that is not a JSON-RPC message; has its ``id`` where one could be read."""

    def __init__(self, message: str, id: Id | None = None) -> None:
        super().__init__(message)
        self.id = id


def encode(value: Any, order: Literal["deterministic"] | None = None) -> bytes:
    """Return compact JSON. Raise :class:`ValueError` for what JSON cannot express (a lone surrogate, another type)."""
    try:
        return _encode(value) if order is None else msgspec.json.encode(value, order=order)
    except (TypeError, UnicodeEncodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def encode_canonical(value: Any) -> bytes:
    """Return JSON with sorted members: equal values have equal bytes, for digests. Raise :class:`ValueError` for what
    JSON cannot express, or what nests deeper than :data:`MAX_SHOWN_DEPTH`."""
    raw = encode(value, "deterministic")
    check_depth(raw, value, MAX_SHOWN_DEPTH)
    return raw


def pretty(value: Any) -> str:
    """Return indented JSON for people."""
    return msgspec.json.format(encode(value), indent=2).decode()


def decode(raw: bytes | memoryview | Raw) -> Any:
    """Return the value of JSON from a backend or a file. Raise :class:`ValueError` with what is wrong."""
    value = decode_json(raw)
    check_depth(bytes(raw), value, _MAX_READ_DEPTH)
    return value


def read_as(kind: type[_Kind], value: Any) -> _Kind:
    """Return decoded JSON as a type of ours. Raise :class:`ValueError` with what is wrong."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"not a {kind.__name__}: {error}") from None


def decode_json(raw: bytes | memoryview | Raw, decode: Callable[[bytes | memoryview | Raw], Any] = _decode) -> Any:
    """Return the value of JSON of any depth that the engine reads. Raise :class:`ValueError` with what is wrong."""
    if decode is _decode and len(raw) > SMALL and has_slow_numbers(raw):
        decode = _decode_slow_numbers
    try:
        return decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def check_depth(raw: bytes, value: Any, limit: int) -> None:
    """Raise :class:`ValueError` where a value nests deeper than ``limit`` levels; ``raw`` is its text."""
    if (len(raw) > SMALL or raw.count(b"{") + raw.count(b"[") >= limit) and nests_deeper(raw, value, limit):
        raise ValueError("nested too deeply")


def members_of(raw: bytes | memoryview) -> dict[str, Raw]:
    """Return the members of a JSON object, each as it is written. Raise :class:`ValueError` for JSON that is malformed,
    but neither for bytes that are not UTF-8 nor for numbers that are too large to be read."""
    members: dict[str, Raw] = decode_json(raw, _members)
    return members


def compact(raw: bytes | Raw) -> bytes:
    """Return sound JSON without white space between its parts."""
    return msgspec.json.format(bytes(raw), indent=-1)


def elements_of(raw: bytes | memoryview) -> list[Raw]:
    """Return the elements of a JSON array, each as it is written. Raise :class:`ValueError`."""
    elements: list[Raw] = decode_json(raw, _elements)
    return elements


def without_texts(raw: bytes) -> bytes:
    """Return JSON without its texts and names: it has one colon for each member, one opening bracket for each
    container."""
    return _STRINGS.sub(b"", raw)


def decode_strictly(raw: bytes) -> Any:
    """Return the value of JSON from a client. Raise :class:`ParseError` for what is not JSON, :class:`BadMessage` for
    duplicate members, nesting beyond :data:`MAX_DEPTH` or more than :data:`MAX_CONTAINERS` objects and arrays."""
    skeleton: bytes | None = None
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH:
        skeleton = without_texts(raw)
        if fault := nesting_fault(skeleton, MAX_DEPTH, MAX_CONTAINERS):
            raise BadMessage(fault)
    is_small = len(raw) <= SMALL
    try:
        value = _decode(raw) if is_small else decode_json(raw)
    except (ValueError, msgspec.MsgspecError) as error:
        raise ParseError(f"Parse error: {_fault_of(raw, str(error))}") from None
    # Of duplicate members the engine keeps the last. To serialize a small value again is cheaper than to walk it.
    again = _encode(value) if is_small else b""
    if again == raw:
        return value
    if _SPACED_COLON.search(raw) is None:  # quotes before colons tell; escaped quotes would spoil the count
        quotes = raw.count(b'":')
        if again and _ESCAPED.search(raw) is None and quotes == again.count(b'":'):
            return value
        if quotes == count_members(value):
            return value
    skeleton = skeleton or without_texts(raw)
    if skeleton.count(b":") != count_members(value):
        raise BadMessage("Duplicate member names")
    return value


def _fault_of(raw: bytes, fault: str) -> str:
    """Return what is wrong with JSON by the engine, which takes half of a surrogate pair near the end for a cut."""
    if "truncated" in fault:
        try:
            decode_json(raw + b" " * len(rb"\udc00"))
        except ValueError as error:
            return str(error) if "surrogate" in str(error) else fault
    return fault


def decode_any_ids(raw: bytes) -> Any:
    """Return the value of JSON from a client of plain JSON-RPC. A null or fractional ``id`` (JSON-RPC 2.0 §4) becomes
    :data:`Raw`, which :func:`parse_message` accepts. Raise as :func:`decode_strictly` does."""
    value = decode_strictly(raw)
    messages = value if type(value) is list else [value]
    # A message without id is a notification; null is an id.
    unusual_ids = [
        index
        for index, message in enumerate(messages)
        if type(message) is dict and type(message.get("id", 0)) in (float, NoneType)
    ]
    if unusual_ids:
        texts = elements_of(raw) if type(value) is list else [raw]
        for index in unusual_ids:
            messages[index]["id"] = members_of(memoryview(texts[index]))["id"]
    return value


def parse_message(value: Any) -> Message:
    """Return the message that a decoded JSON value represents. Raise :class:`BadMessage`."""
    if type(value) is not dict:
        what = "a batch" if isinstance(value, list) else "not an object"
        raise BadMessage(f"Invalid request: {what}, one JSON-RPC message is expected")
    id = value.get("id")
    is_short_number = type(id) is int and id.bit_length() < MAX_ID_BYTES
    if not is_short_number and "id" in value:
        _check_id(id)
    if value.get("jsonrpc") != "2.0":
        raise BadMessage('Invalid request: "jsonrpc" must be "2.0"', id)
    method = value.get("method")
    if type(method) is not str or not method:
        if method is None and ("result" in value or "error" in value):
            return ClientResponse(id, value.get("result"), value.get("error"))
        raise BadMessage('Invalid request: "method" must be a non-empty string', id)
    params = value.get("params")
    if type(params) is not dict and type(params) is not list and "params" in value:
        raise BadMessage('Invalid request: "params" must be an object or an array', id)
    return Notification(method, params) if id is None else Request(id, method, params)


def _check_id(id: Any) -> None:
    kind = type(id)
    if kind is int or kind is str:
        size = len(str(id).encode())
    elif kind is Raw:
        size = len(bytes(id))
    else:
        wanted = "an integer" if kind is float or kind is NoneType else "a number"  # both are valid, but not in MCP
        raise BadMessage(f'Invalid request: "id" must be a string or {wanted}')
    if size > MAX_ID_BYTES:
        raise BadMessage(f'Invalid request: "id" is longer than {MAX_ID_BYTES} bytes')


def response_bytes(id: Id, result: Any) -> bytes:
    """Serialize a response. Parts of ``result`` may be :data:`Raw`. Raise as :func:`encode` does."""
    return encode({"jsonrpc": "2.0", "id": id, "result": result})


def joined_response(id: Id, *result: bytes) -> bytes:
    """Serialize a response whose result is serialized already; its parts are joined once."""
    return b"".join((b'{"jsonrpc":"2.0","id":', encode(id), b',"result":', *result, b"}"))


def error_bytes(id: Id | None, error: GatewayError | ServiceError) -> bytes:
    """Serialize an error response; ``id`` is omitted where it is unknown, since MCP's schema has no null id."""
    body: dict[str, Any] = {"jsonrpc": "2.0"}
    if id is not None:
        body["id"] = id
    body["error"] = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["error"]["data"] = error.data
    return encode(body)


def request_bytes(
    id: Id | None, method: str, params: dict[str, Any] | list[Any] | None, version: str = "2.0", /, **members: Any
) -> bytes:
    """Serialize a call, or a notification where ``id`` is None, with further ``members``. ``params`` of None are left
    out. JSON-RPC 1.0 (§1.1, §1.3 of its specification) always has all three, with a null ``id`` in a notification."""
    if version == "1.0":
        return encode({"id": id, "method": method, "params": [] if params is None else params, **members})
    body: dict[str, Any] = {"jsonrpc": "2.0"}
    if id is not None:
        body["id"] = id
    body["method"] = method
    if params is not None:
        body["params"] = params
    return encode(body | members if members else body)


# JSON pointers (RFC 6901)
INDEX: Final = re.compile("0|[1-9][0-9]{0,8}")
"""An index of a list (§4). Nine digits are enough for any list that fits into memory."""


def escape_pointer(part: str) -> str:
    """Return one part of a pointer with ``~`` and ``/`` escaped (§3)."""
    return part.replace("~", "~0").replace("/", "~1")


def pointer_of(parts: Iterable[object]) -> str:
    """Return the pointer made of names and indexes, empty where there are none."""
    return "".join(f"/{escape_pointer(str(part))}" for part in parts)


def parts_of(pointer: str) -> list[str]:
    """Return the names and indexes of a pointer."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def member_at(value: Any, path: Iterable[str]) -> Any:
    """Return the member of an object, or of objects within it, at a path of names, None where there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def resolve(document: Any, reference: str) -> Any:
    """Return the target of a reference like ``#/a/b`` within a document (§6), None where there is none."""
    pointer = unquote(reference[1:])
    if reference[:1] != "#" or pointer[:1] not in ("", "/"):
        return None
    target = document
    for part in parts_of(pointer):
        if isinstance(target, Mapping):
            target = target.get(part)
        elif isinstance(target, list) and INDEX.fullmatch(part) and int(part) < len(target):
            target = target[int(part)]
        else:
            return None
    return target
