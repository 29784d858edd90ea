"""A service that wants a login: who logs in, how often, what is sent once more, and what nobody gets to see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import pytest
from structlog.testing import capture_logs

from tests.each import each
from tests.fault.behaviours import Body, error, result
from tests.fault.methods import METHODS, openrpc
from tests.front import SURFACES, Surface, front
from tests.program import run, settings
from tests.protocol.login_service import EXPIRED, KNOBS, PASSWORD, LoginService
from tests.waiting import PATIENCE

SUM: Final = {"a": 2, "b": 3}


@pytest.fixture
async def service() -> AsyncIterator[LoginService]:
    async with LoginService() as scripted:
        yield scripted


@pytest.mark.parametrize("surface", SURFACES)
async def test_one_login_serves_the_listing_and_all_calls(service: LoginService, surface: Surface) -> None:
    async with front(service.url, KNOBS) as gateway:
        assert "add" in await gateway.tools()
        for _ in range(3):
            assert (await gateway.call(surface, "add", SUM)).value == {"sum": 5}
    assert service.calls("auth.login") == 1
    assert {*service.sent("rpc.discover"), *service.sent("add")} == {"s session-1-of-gw"}
    assert service.sent("auth.login") == [None]


@each("refusal", EXPIRED)
async def test_a_login_that_has_expired_is_renewed_and_the_call_sent_once_more(refusal: Body) -> None:
    async with LoginService() as service, front(service.url, KNOBS) as gateway:
        service.refusal = refusal
        service.end_sessions()
        assert (await gateway.call("modern", "add", SUM)).value == {"sum": 5}
        assert service.calls("auth.login") == 2
        assert service.sent("add") == ["s session-1-of-gw", "s session-2-of-gw"]


async def test_an_expired_login_is_renewed_where_the_service_is_told_who_calls_too(service: LoginService) -> None:
    async with front(service.url, KNOBS, "backend.caller_headers={X-Caller: '{sub}'}") as gateway:
        service.end_sessions()
        assert (await gateway.call("modern", "add", SUM)).value == {"sum": 5}
    assert service.sent("add") == ["s session-1-of-gw", "s session-2-of-gw"]


async def test_many_calls_with_an_expired_login_log_in_once(service: LoginService) -> None:
    async with front(service.url, KNOBS) as gateway, asyncio.timeout(PATIENCE):
        service.end_sessions()
        service.gate.clear()
        calls = [asyncio.create_task(gateway.call("modern", "add", {"a": n, "b": 1})) for n in range(20)]
        await service.called("add", 20)
        await service.called("auth.login", 2)
        service.gate.set()
        answers = await asyncio.gather(*calls)
    assert [answer.value for answer in answers] == [{"sum": n + 1} for n in range(20)]
    assert service.calls("auth.login") == 2
    assert service.calls("add") == 40


async def test_what_is_refused_with_a_new_login_is_refused_for_another_reason(service: LoginService) -> None:
    denied = error(1, "Only for admins")
    async with front(service.url, KNOBS) as gateway:
        service.guard("add", denied)
        for _ in range(5):
            assert (await gateway.call("modern", "add", SUM)).message == "Only for admins"
    assert service.calls("auth.login") == 2, "the first refusal renews the login, and then it is known to be good"
    assert service.calls("add") == 6


async def test_a_listing_that_is_refused_logs_in_again_at_once(service: LoginService) -> None:
    async with front(service.url, KNOBS, "catalog.ttl=50ms") as gateway, asyncio.timeout(PATIENCE):
        service.end_sessions()
        listings = service.calls("rpc.discover")
        while service.sent("rpc.discover")[-1] != "s session-2-of-gw":
            await service.called("rpc.discover", (listings := listings + 1))
        assert (await gateway.call("modern", "add", SUM)).value == {"sum": 5}
    assert service.calls("auth.login") == 2


async def test_a_refused_login_is_not_repeated_by_every_call(service: LoginService) -> None:
    service.on("auth.login", error(-32000, f"no user gw with {PASSWORD}"))
    with capture_logs() as lines:
        async with front(service.url, KNOBS) as gateway:
            for _ in range(5):
                answer = await gateway.call("rest", "add", SUM)
                assert PASSWORD not in answer.everything
    assert service.calls("auth.login") == 1
    assert service.calls("add") == service.calls("rpc.discover") == 0, "nothing goes without its credential"
    assert "no user gw with [redacted]" in repr(lines)
    assert PASSWORD not in repr(lines)


@pytest.mark.parametrize("surface", SURFACES)
async def test_neither_errors_nor_results_nor_logs_have_a_password_or_a_session(
    service: LoginService, surface: Surface
) -> None:
    quoted = f"{PASSWORD} and session-1-of-gw"
    with capture_logs() as lines:
        async with front(service.url, KNOBS, "backend.errors=passed") as gateway:
            service.guard("add", error(-32000, quoted, {"shown": quoted}))
            failed = await gateway.call(surface, "add", SUM)
            assert "[redacted] and [redacted]" in failed.everything
            service.guard("echo", result({"shown": quoted, quoted: [quoted], "user": "gw"}))
            called = await gateway.call(surface, "echo", {"value": 1})
            clean = "[redacted] and [redacted]"
            assert called.value == {"shown": clean, clean: [clean], "user": "gw"}
    for text in (failed.everything, called.everything, repr(lines)):
        assert PASSWORD not in text
        assert "session-1" not in text


async def test_a_session_that_was_renewed_is_still_a_secret(service: LoginService) -> None:
    async with front(service.url, KNOBS) as gateway:
        service.end_sessions()
        service.guard("add", error(-32000, "session-1-of-gw has ended, session-2-of-gw goes on"))
        assert (await gateway.call("modern", "add", SUM)).message == "[redacted] has ended, [redacted] goes on"


@each("given", [1024, "result"])
async def test_what_a_login_gives_is_taken_out_of_other_texts_only_where_it_looks_like_a_secret(given: object) -> None:
    async with LoginService() as service:
        service.on("auth.login", result({"session": given}))
        service.sessions.add(str(given))
        async with front(service.url, KNOBS) as gateway:
            assert "add" in await gateway.tools()
            service.guard("add", error(-32000, "at most 1024 in the result"))
            assert (await gateway.call("modern", "add", SUM)).message == "at most 1024 in the result"


async def test_check_says_that_it_logs_in_and_shows_no_secret(service: LoginService) -> None:
    issuers = ("auth.issuers=[{issuer: 'http://127.0.0.1:9'}]", "server.public_url=https://gw.example.com")
    ran = await run("check", *settings(service.url, KNOBS, *issuers))
    assert "calls send   what a login call of the service gives: a token, a cookie" in ran.said
    assert PASSWORD not in ran.said
    assert "session-1" not in ran.said


async def test_check_tells_the_cause_of_a_login_that_gives_nothing_and_what_to_do_next(service: LoginService) -> None:
    other = KNOBS.replace(PASSWORD, "not-the-pa55word")
    service.on("auth.login", error(5, "not with not-the-pa55word"))
    refused = (await run("check", *settings(service.url, other))).err.splitlines()
    cause = "The gateway gets no credential for the service: login: HTTP 200, error 5: not with [redacted]; no text"
    assert [line for line in refused if line.startswith(f"cause        {cause}")]
    assert "next         Correct backend.credentials, whose mode is login." in refused
    service.on("auth.login", Body(b"<html>", 503, "text/html"))
    assert "next         Try again later." in (await run("check", *settings(service.url, KNOBS))).err
    gone = (await run("check", *settings(service.refused_url, KNOBS))).err.splitlines()
    assert "  login: connection refused" in gone
    assert [line for line in gone if line.startswith("cause        Nothing listens at ")]
    assert "next         Start the service, or set backend.url to where it listens." in gone
    scheme = (await run("check", *settings(service.url.replace("http:", "https:"), KNOBS))).err.splitlines()
    assert f"next         Set backend.url to {service.url}" in scheme


async def test_a_login_may_have_a_path_and_a_cookie_and_headers_that_need_nothing(service: LoginService) -> None:
    cookies = (("Set-Cookie", "lang=en; Path=/"), ("Set-Cookie", 'sid="a-session==1"; HttpOnly; Path=/'))
    service.on("auth.login", result(True, headers=(*cookies, ("X-Id", "41"))))
    service.on("rpc.discover", result(openrpc(METHODS)))
    service.on("add", result({"sum": 5}))
    login = "{method: auth.login, endpoint: /door, find: {sid: $.cookies.sid, id: \"$.headers['x-id']\"}}"
    send = (
        "{headers: {Cookie: 'sid={sid}', X-App: gateway, Authorization: 'Basic {base64({user}:{password})}'}, "
        "query: {id: '{id}', app: g w}}"
    )
    knobs = f"backend.credentials={{mode: login, user: u, password: p, login: {login}, send: {send}}}"
    async with front(service.url, knobs) as gateway:
        assert (await gateway.call("modern", "add", SUM)).value == {"sum": 5}
    first, *others = [one for one in service.requests if one.verb == "POST"]
    assert (first.path, first.headers.get("Cookie")) == ("/door?app=g+w", None)
    assert {one.path for one in others} == {"/jsonrpc?id=41&app=g+w"}
    assert {one.headers["Cookie"] for one in others} == {'sid="a-session==1"'}
    assert {one.headers["Authorization"] for one in (first, *others)} == {"Basic dTpw"}
    assert {one.headers["X-App"] for one in (first, *others)} == {"gateway"}


async def test_a_session_may_stand_beside_the_result_and_go_into_each_message(service: LoginService) -> None:
    service.on("exec", Body(b'{"id":1,"result":[{"status":{"code":0}}],"session":"nT1+s/session=="}'))
    service.on("rpc.discover", result(openrpc(METHODS)))
    service.on("add", result({"sum": 5}))
    login = "{method: exec, params: [{user: '{user}', passwd: '{password}'}], find: {session: $.message.session}}"
    send = "{message: {session: '{session}'}}"
    knobs = f"backend.credentials={{mode: login, user: u, password: p4ssword, login: {login}, send: {send}}}"
    async with front(service.url, knobs) as gateway:
        assert (await gateway.call("modern", "add", SUM)).value == {"sum": 5}
    sent = [one.json.get("session") for one in service.requests if one.json]
    assert sent == [None, *["nT1+s/session=="] * (len(sent) - 1)]


UNUSABLE: Final = {
    "no result": (result({"session": None}), "no text or integer at $.result.session"),
    "not let in": (result({"session": False}), "no text or integer at $.result.session"),
    "an empty text": (result({"session": ""}), "no text or integer at $.result.session"),
    "a header within": (result({"session": "x\r\nX-Admin: yes"}), "cannot be sent in a header"),
    "far too long": (result({"session": "x" * 9000}), "no text or integer"),
    "a page": (Body(b"<html>", status=500, content_type="text/html"), "HTTP 500; no text or integer"),
}


@each(("answer", "reason"), UNUSABLE)
async def test_an_answer_that_gives_no_session_is_a_refused_login(answer: Body, reason: str) -> None:
    async with LoginService() as service:
        service.on("auth.login", answer)
        with capture_logs() as lines:
            async with front(service.url, KNOBS) as gateway:
                called = await gateway.call("rest", "add", SUM)
                assert called.status >= 500
        assert reason in repr(lines)
        assert {one.method for one in service.requests} == {"auth.login"}
