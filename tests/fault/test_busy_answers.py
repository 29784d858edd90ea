"""A service that says it is busy (429, 503) and when to come again: what callers of each surface are told. A 429 ran
nothing. A 503 says nothing of the kind: a proxy answers so for a call that ran and did not end in time."""

from __future__ import annotations

import time
from email.utils import formatdate
from typing import Final

import pytest

from gateway.backend.transport import UNKNOWN
from tests.authorization.stand import CALLS, REST, Bearer, Stand, stand
from tests.fault.behaviours import Body, Honest, error, result
from tests.fault.ledger import outcome_of
from tests.protocol.talk import Answer, request

TWO_AND_THREE: Final = {"a": 2, "b": 3}
BODIES: Final = {
    "empty": Body(content_type=None),
    "HTML": Body(b"<html>Slow down</html>", content_type="text/html"),
    "a JSON-RPC error": error(-32000, "Slow down"),
    "a JSON-RPC error about params": error(-32602, "Invalid params"),
    "JSON": Body(b'{"detail": "Slow down"}'),
}
RAN_NOTHING: Final = "The backend is busy and did not run the call (HTTP {}); it is safe to repeat after "
EVERY_SURFACE: Final = (*CALLS, "2025-03-26", "a batch")


def busy(status: int, retry_after: str | None, body: Body) -> Body:
    """The same body with another status and time."""
    headers = () if retry_after is None else (("Retry-After", retry_after),)
    return Body(body.payload, status, body.content_type, headers)


async def called(client: Bearer, surface: str) -> tuple[str, int | None, int]:
    """A call's failure in words, the seconds to wait that a program can read, and the HTTP status."""
    if surface == "a batch":
        answer = await client.post("/jsonrpc", [request("add", TWO_AND_THREE)])
        return answer.json[0]["error"]["message"], None, answer.status
    answer = await client.call(surface, "add", TWO_AND_THREE)
    return outcome_of(surface, answer)[1], wait_in(answer), answer.status


def wait_in(answer: Answer) -> int | None:
    if "result" in answer.json:
        wait: int | None = answer.json["result"].get("_meta", {}).get("retryAfter")
        return wait
    return int(answer.headers["Retry-After"]) if "Retry-After" in answer.headers else None


def http_date(seconds: float) -> str:
    """The time in so many seconds as HTTP writes it."""
    return formatdate(time.time() + seconds, usegmt=True)


def times() -> list[tuple[str, int, int]]:
    """What Retry-After may say, and what callers are told of it at least and at most."""
    far = "Fri, 31 Dec 2038 23:59:59 GMT"
    late = [(text, 300, 300) for text in ("300", "301", "86400", far)]
    return [("7", 7, 7), *late, (http_date(200.0), 100, 200)]


NO_TIMES: Final = (None, "soon", "-1")


@pytest.mark.parametrize("surface", EVERY_SURFACE)
async def test_who_comes_too_often_is_told_that_nothing_ran_and_when_to_come_again(surface: str) -> None:
    async with stand() as it:
        for name, body in BODIES.items():
            for retry_after, least, most in (*times(), *((none, 1, 1) for none in NO_TIMES)):
                it.backend.on("add", busy(429, retry_after, body))
                await check_told(it.of("ann"), surface, (RAN_NOTHING.format(429), " s"), least, most, name)


@pytest.mark.parametrize("surface", EVERY_SURFACE)
async def test_a_503_says_when_to_come_again_and_not_that_nothing_ran(surface: str) -> None:
    async with stand() as it:
        for name, body in BODIES.items():
            it.backend.on("add", busy(503, "7", body))
            if name.startswith("a JSON-RPC error"):
                words, wait, _ = await called(it.of("ann"), surface)
                assert words.startswith(("Slow down", "Invalid params"))
                assert wait is None
                continue
            for retry_after, least, most in times():
                it.backend.on("add", busy(503, retry_after, body))
                said = f"The backend is busy (HTTP 503); {UNKNOWN}; come again after ", " s"
                await check_told(it.of("ann"), surface, said, least, most, name)


async def check_told(client: Bearer, surface: str, said: tuple[str, str], least: int, most: int, name: str) -> None:
    """Check what a call that meets a busy service is told, in words and in seconds that a program reads."""
    words, wait, http_status = await called(client, surface)
    assert words.startswith(said[0]), (name, words)
    seconds = int(words.removeprefix(said[0]).removesuffix(said[1]))
    assert least <= seconds <= most, name
    if surface != "a batch":
        assert wait == seconds, name
    assert http_status == (503 if surface in (REST, "tool", "jsonrpc") else 200)


async def words_of(it: Stand, answer: Body, surface: str = REST) -> tuple[str, int | None]:
    it.backend.on("add", answer)
    words, wait, _ = await called(it.of("ann"), surface)
    return words, wait


@pytest.mark.parametrize("retry_after", NO_TIMES)
async def test_a_503_without_a_time_names_none(retry_after: str | None) -> None:
    async with stand() as it:
        words = f"The backend is busy (HTTP 503); {UNKNOWN}"
        assert await words_of(it, busy(503, retry_after, BODIES["a JSON-RPC error"])) == ("Slow down", None)
        assert await words_of(it, busy(503, retry_after, BODIES["empty"])) == (words, None)


async def test_the_operator_may_say_with_which_statuses_nothing_ran() -> None:
    async with stand("backend.not_run=[502, 503]") as it:
        for status in (502, 503):
            assert await words_of(it, busy(status, "7", BODIES["HTML"])) == (f"{RAN_NOTHING.format(status)}7 s", 7)
            assert await words_of(it, busy(status, None, BODIES["empty"])) == (f"{RAN_NOTHING.format(status)}1 s", 1)
            assert await words_of(it, busy(status, "7", BODIES["a JSON-RPC error"])) == ("Slow down", None)
        assert await words_of(it, busy(504, "7", BODIES["HTML"])) == (f"The backend failed (HTTP 504); {UNKNOWN}", None)


@pytest.mark.parametrize("status", [200, 400, 500, 502])
async def test_no_other_status_says_that_nothing_ran(status: int) -> None:
    async with stand() as it:
        assert await words_of(it, busy(status, "7", BODIES["a JSON-RPC error"])) == ("Slow down", None)


async def test_a_result_is_one_whatever_its_status_says() -> None:
    """The call ran: nobody may be told that it is safe to repeat."""
    async with stand() as it:
        it.backend.on("add", busy(503, "7", result({"sum": 5})))
        answer = await it.of("ann").call(REST, "add", TWO_AND_THREE)
        assert (answer.status, answer.json["result"]) == (200, {"sum": 5})


async def test_a_busy_service_opens_no_breaker() -> None:
    async with stand() as it:
        it.backend.on("add", busy(503, "0", BODIES["empty"]))
        ann = it.of("ann")
        for _ in range(40):
            await called(ann, REST)
        assert it.backend.calls("add") == 40
        it.backend.on("add", Honest())
        assert (await ann.call(REST, "add", TWO_AND_THREE)).status == 200


async def test_a_notification_that_meets_a_busy_service_has_no_answer() -> None:
    async with stand() as it:
        it.backend.on("void", busy(503, "7", BODIES["empty"]))
        void: dict[str, object] = {"jsonrpc": "2.0", "method": "void"}
        for path in ("/jsonrpc", "/mcp/tools/void"):
            assert (await it.of("ann").post(path, void)).status == 204
        assert it.backend.calls("void") == 2
