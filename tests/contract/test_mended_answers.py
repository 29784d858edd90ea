"""One byte that is not JSON costs one byte, over each wire, of a call and of the listing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from gateway.backend.transport import UNKNOWN
from tests.contract.transports import SOCKETS, HttpStand, Json, Stand
from tests.e2e.test_diagnosis import diagnosed
from tests.each import each
from tests.front import SURFACES, Front, front

MEMBER: Final = "jsonrpc-mcp-gateway/mended"
_WIRES: Final[dict[str, Callable[[], Stand]]] = {
    "http": HttpStand, "websocket": SOCKETS["websocket"], "tcp": SOCKETS["tcp"],
}  # fmt: skip


@dataclass(frozen=True)
class Bad:
    """What a service writes in place of a value, and around the message; its word, and what the value becomes."""

    written: bytes
    word: str
    value: Any
    before: bytes = b""
    after: bytes = b""


KINDS: Final = {
    "Latin-1": Bad(b'"caf\xe9.iso"', "utf-8", "caf\ufffd.iso"),
    "surrogate": Bad(b'"caf\\udce9 \\ud83d\\ude00"', "surrogate", "caf\ufffd \U0001f600"),
    "NaN": Bad(b"NaN", "number", None),
    "Infinity": Bad(b"-Infinity", "number", None),
    "huge": Bad(b"1e999", "number", None),
    "a name in each row": Bad(b'[{"caf\xe9": 1}, {"caf\xe9": 2}]', "utf-8", [{"caf\ufffd": 1}, {"caf\ufffd": 2}]),
    "line break": Bad(b'"a\nb\\\\"', "control", "a\nb\\"),
    "mark": Bad(b"1", "bom", 1, before=b"\xef\xbb\xbf"),
    "NUL": Bad(b"1", "nul", 1, after=b"\0"),
    "warning": Bad(b"1", "text", 1, before=b"<br />\n<b>Deprecated</b>: x in /a.php on line 3<br />\n"),
}


def _answers(stand: Stand, bad: Bad, *, to: str) -> None:
    """Have a service answer one method so, and all others well."""

    async def answer(message: Json) -> bytes:
        method, id = message["method"], json.dumps(message.get("id")).encode()
        stand.messages.append(message)
        if method not in ("rpc.discover", "odd"):
            return b'{"jsonrpc":"2.0","id":%b,"error":{"code":-32601,"message":"Method not found"}}' % id
        value = bad.written if method == to else b"1"
        result = b'{"value":%b}' % value
        if method == "rpc.discover":
            result = (
                b'{"openrpc":"1.2.6","info":{"title":"Odd","version":"1"},"methods":[{"name":"odd","params":['
                b'{"name":"a","schema":{"default":%b}}]}]}' % value
            )
        body = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id, result)
        return bad.before + body + bad.after if method == to else body

    stand.answer_to = answer  # type: ignore[method-assign]  # what this service says


@asynccontextmanager
async def _front(wire: str, bad: Bad, to: str, *knobs: str) -> AsyncIterator[Front]:
    async with _served(wire, bad, to) as (url, framing), front(url, framing, *knobs) as it:
        yield it


@asynccontextmanager
async def _served(wire: str, bad: Bad, to: str) -> AsyncIterator[tuple[str, str]]:
    """Yield the address of a service, and a knob."""
    stand = _WIRES[wire]()
    _answers(stand, bad, to=to)
    await stand.open()
    try:
        yield stand.url, "backend.framing=none" if wire == "tcp" else "backend.version=2.0"
    finally:
        await stand.close()


def _is_skipped(wire: str, bad: Bad) -> bool:
    """Return whether a socket does not see what is bad: it skips what stands between messages."""
    return wire == "tcp" and bool(bad.before or bad.after)


@pytest.mark.parametrize("wire", _WIRES)
@each("bad", KINDS)
async def test_an_answer_to_a_call_is_mended_and_says_so(wire: str, bad: Bad) -> None:
    around = _is_skipped(wire, bad)
    async with _front(wire, bad, "odd") as gateway:
        for surface in SURFACES:
            with capture_logs() as lines:
                called = await gateway.call(surface, "odd", {})
            assert called.value == {"value": bad.value}
            meta = (called.body if surface == "rest" else called.result).get("_meta", {})
            assert meta.get(MEMBER) == (None if around else [bad.word])
            (line,) = [line for line in lines if line["event"] == "request"]
            assert line.get("mended") == (None if around else bad.word)


@pytest.mark.parametrize("wire", _WIRES)
@each("bad", KINDS)
async def test_a_listing_is_mended_and_the_log_and_check_say_so(wire: str, bad: Bad) -> None:
    with capture_logs() as lines:
        async with _front(wire, bad, "rpc.discover", "backend.listing.dialect=openrpc") as gateway:
            assert set(await gateway.tools()) == {"odd"}
            assert gateway.gateway is not None
            (service,) = gateway.gateway.services.values()
            catalog = service.discovery.current()
            assert catalog is not None
    told = [line["reason"] for line in lines if line["event"] == "answer about the listing mended"]
    assert len(told) == (0 if _is_skipped(wire, bad) else 1)
    assert all(" (byte " in reason for reason in told)
    mended = [remark for remark in catalog.notes if "no sound JSON" in remark]
    assert mended == [f"the listing is no sound JSON and was mended: {reason}" for reason in told]


@pytest.mark.parametrize("wire", _WIRES)
@each("bad", KINDS)
async def test_a_call_that_is_not_mended_is_refused_with_its_place(wire: str, bad: Bad) -> None:
    async with _front(wire, bad, "odd", "backend.lenient=false") as gateway:
        called = await gateway.call("modern", "odd", {})
        assert called.failed is not _is_skipped(wire, bad)
        assert not called.failed or (" (byte " in called.message and UNKNOWN in called.message)


@pytest.mark.parametrize("wire", _WIRES)
@each("bad", KINDS)
async def test_a_broken_listing_is_named_in_the_log_by_status_and_by_check(wire: str, bad: Bad) -> None:
    """That the service has no list would be untrue, and to describe its methods in a file the wrong remedy."""
    if _is_skipped(wire, bad):
        return
    with capture_logs() as lines:
        async with _front(wire, bad, "rpc.discover", "backend.lenient=false") as gateway:
            assert gateway.gateway is not None
            (problem,) = gateway.gateway.status()["services"][0]["problems"]
    (failed,) = [line for line in lines if line["event"] == "listing failed"]
    async with _served(wire, bad, "rpc.discover") as served:
        found = await diagnosed(*served, "backend.lenient=false")
    known = {"mark": "It sends a byte order mark", "warning": "PHP writes a warning"} if wire == "http" else {}
    (kind,) = [name for name, one in KINDS.items() if one is bad]
    for cause in (failed["cause"], problem["diagnosis"]["cause"], found.cause):
        assert cause.startswith(known.get(kind, "It answers with broken JSON: rpc.discover: "))
        assert kind in known or " (byte " in cause
    assert "in a file" not in failed["next"] + problem["diagnosis"]["next"] + found.next


@each("bad", KINDS)
async def test_plain_json_rpc_and_an_operator_who_wants_it_refuse_what_was_mended_with_its_place(bad: Bad) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "odd", "params": {}}
    async with _front("http", bad, "odd") as gateway:
        for url in (f"{gateway.base}/jsonrpc", f"{gateway.mcp}/tools/odd"):
            error = (await gateway.post(url, body)).body["error"]
            assert " (byte " in error["message"]
            assert error["message"].endswith(UNKNOWN)
    async with _front("http", bad, "odd", "backend.lenient=false") as gateway:
        called = await gateway.call("modern", "odd", {})
        assert " (byte " in called.message
        assert UNKNOWN in called.message


@each(
    "bad",
    {
        "a brace before": Bad(b"1", "", None, before=b"<b>{}</b>"),
        "two messages": Bad(b"1", "", None, before=b"Note: ", after=b'{"id":"c3","result":2}'),
        "another id": Bad(b'1}, "id": "c99", "x": {', "", None, before=b"Note: "),
        "cut": Bad(b'"caf\xe9', "", None),
        "a tab that was escaped": Bad(b'"C:\\\ttemp"', "", None),
        "two names that become one": Bad(b'{"caf\xe9": 1, "caf\xe8": 2}', "", None),
    },
)
async def test_what_may_mean_more_than_one_thing_is_refused(bad: Bad) -> None:
    async with _front("http", bad, "odd") as gateway:
        message = (await gateway.call("modern", "odd", {})).message
        assert message.startswith("The backend did not answer with JSON (")
        assert UNKNOWN in message
