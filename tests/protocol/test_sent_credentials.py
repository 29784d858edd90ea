"""Where a credential goes in a request to the service, and that nobody sees it in what comes back."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from tests.each import each
from tests.fault.behaviours import Behaviour, Body, Exchange, Honest, error, result
from tests.fault.scripted import ScriptedBackend
from tests.fault.wire import Request
from tests.front import SURFACES, Surface, front
from tests.presets import preset
from tests.tables import each_row
from tests.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("both_servers")

SUM: Final = {"a": 2, "b": 3}
KEY: Final = "k3y-for-the-service"
PASSWORD: Final = "sesame-0pens"


def sent(backend: ScriptedBackend, method: str) -> Request:
    """Return the one request for a method."""
    (request,) = [one for one in backend.requests if one.method == method]
    return request


async def test_several_headers_go_with_the_listing_and_calls(backend: ScriptedBackend) -> None:
    user = "'{user} {base64({user}:{password})}'"
    send = f"{{headers: {{Authorization: Bearer {KEY}, X-Api-Key: {KEY}, X-Tenant: crm, X-User: {user}}}}}"
    knobs = f"backend.credentials={{mode: static, user: gw, password: {PASSWORD}, send: {send}}}"
    async with front(backend.url, knobs) as gateway:
        assert (await gateway.call("modern", "add", SUM)).value == {"sum": 5}
    for request in backend.requests:
        assert request.headers["Authorization"] == f"Bearer {KEY}"
        assert request.headers["X-Api-Key"] == KEY
        assert request.headers["X-Tenant"] == "crm"
        assert request.headers["X-User"] == "gw Z3c6c2VzYW1lLTBwZW5z"


async def test_a_key_goes_into_the_query_and_the_message_of_the_listing_and_of_calls(backend: ScriptedBackend) -> None:
    send = f"{{query: {{key: {KEY}, q: 'a&b'}}, message: {{auth: {KEY}, version: '1.1'}}}}"
    async with front(f"{backend.url}?site=1", f"backend.credentials={{mode: static, send: {send}}}") as gateway:
        assert (await gateway.call("modern", "add", SUM)).value == {"sum": 5}
    asked = [one for one in backend.requests if one.method in ("rpc.discover", "add")]
    assert len(asked) == 2
    for request in asked:
        assert request.path == f"/jsonrpc?site=1&key={KEY}&q=a%26b"
        assert (request.json["auth"], request.json["version"]) == (KEY, "1.1")


@each_row
async def test_a_key_goes_among_the_params_of_calls_alone(send: str, structure: str, params: Any) -> None:
    knobs = f"backend.credentials={{mode: static, send: {send.replace('KEY', KEY)}}}"
    async with ScriptedBackend() as backend:
        backend.on("add", result({"sum": 5}))
        async with front(backend.url, knobs, f"backend.params.structure={structure}") as gateway:
            assert (await gateway.call("modern", "add", SUM)).value == {"sum": 5}
        assert sent(backend, "add").params == params
        assert KEY.encode() not in sent(backend, "rpc.discover").body


async def test_a_callers_list_follows_a_fixed_one_and_cannot_replace_it(backend: ScriptedBackend) -> None:
    send = f"{{arguments: {{value: [production, 7, {KEY}]}}}}"
    async with front(backend.url, f"backend.credentials={{mode: static, send: {send}}}") as gateway:
        for value, params in (
            ([1, [2]], ["production", 7, "[redacted]", 1, [2]]),
            ("x", ["production", 7, "[redacted]"]),
        ):
            assert (await gateway.call("modern", "echo", {"value": value})).value == params
    assert [one.params["value"][2] for one in backend.requests if one.method == "echo"] == [KEY, KEY]


async def test_basic_sends_user_and_password_in_utf_8(backend: ScriptedBackend) -> None:
    async with front(backend.url, "backend.credentials={mode: basic, user: gär, password: 'a:bß'}") as gateway:
        assert (await gateway.call("modern", "add", SUM)).value == {"sum": 5}
    assert {one.headers["Authorization"] for one in backend.requests} == {"Basic Z8OkcjphOmLDnw=="}


CANARIES: Final = {
    "static": f"{{mode: static, send: {{headers: {{X-Key: {KEY}}}}}}}",
    "query": f"{{mode: static, send: {{query: {{key: {KEY}}}}}}}",
    "message": f"{{mode: static, send: {{message: {{auth: {{deep: [{KEY}]}}}}}}}}",
    "params": f"{{mode: static, send: {{params: [{KEY}]}}}}",
    "arguments": f"{{mode: static, send: {{arguments: {{token: {KEY}}}}}}}",
    "basic": f"{{mode: basic, user: gw, password: {KEY}}}",
    "digest": f"{{mode: digest, user: gw, password: {KEY}}}",
}


@each("credentials", CANARIES)
async def test_a_key_is_in_no_error_no_result_and_no_log_wherever_it_is_sent(credentials: str) -> None:
    quoted = {"message": f"sent: {KEY}", KEY: [KEY, "admin", 7]}
    clean = {"message": "sent: [redacted]", "[redacted]": ["[redacted]", "admin", 7]}
    with capture_logs() as lines:
        async with (
            ScriptedBackend() as backend,
            front(backend.url, f"backend.credentials={credentials}", "backend.errors=passed") as gateway,
        ):
            backend.on("add", result(quoted))
            backend.on("echo", error(-32000, f"not with {KEY}", quoted))
            for surface in SURFACES:
                called = await gateway.call(surface, "add", SUM)
                assert "sent: [redacted]" in called.everything
                failed = await gateway.call(surface, "echo", {"value": 1})
                assert failed.message.startswith("not with [redacted]")
                assert KEY not in called.everything + failed.everything
            plain = await gateway.post(
                f"{gateway.base}/jsonrpc", {"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {"value": 1}}
            )
            assert plain.body["error"]["data"] == clean
            assert KEY not in repr(gateway.gateway)
    assert KEY not in repr(lines)


IN_URL: Final = "p+a/s&s=W0rd9"


@dataclass(frozen=True)
class QuotingItsUrl:
    """Answer with the path of the request, with slashes as PHP writes them: in a result, or in an error."""

    member: bytes

    async def play(self, exchange: Exchange) -> None:
        path = json.dumps(exchange.request.path).replace("/", r"\/").encode()
        await Body(b'{"jsonrpc":"2.0","id":@ID@,' + self.member % path + b"}").play(exchange)


@each("surface", SURFACES)
async def test_a_key_is_hidden_as_it_stands_in_a_url_too(surface: Surface) -> None:
    knobs = f"backend.credentials={{mode: static, send: {{query: {{key: '{IN_URL}', n: '7'}}}}}}"
    async with ScriptedBackend() as backend, front(backend.url, knobs) as gateway:
        backend.on("echo", QuotingItsUrl(b'"result":%s'))
        called = await gateway.call(surface, "echo", {"value": 1})
        backend.on("echo", QuotingItsUrl(b'"error":{"code":-32000,"message":%s}'))
        failed = await gateway.call(surface, "echo", {"value": 1})
    assert called.value == failed.message == "/jsonrpc?key=[redacted]&n=7"


async def test_a_word_is_not_taken_for_a_password_and_what_is_not_quoted_stays(backend: ScriptedBackend) -> None:
    async with front(backend.url, "backend.credentials={mode: basic, user: admin, password: administrator}") as gateway:
        value = {"login": "administrator", "text": "a" * 100_000}
        assert (await gateway.call("modern", "echo", {"value": value})).value == value


async def test_a_caller_may_see_its_own_words_that_are_part_of_no_secret(backend: ScriptedBackend) -> None:
    async with front(
        backend.url, f"backend.credentials={{mode: static, send: {{headers: {{Authorization: {KEY}}}}}}}"
    ) as gateway:
        assert (await gateway.call("modern", "echo", {"value": "k3y-for"})).value == "k3y-for"


# --- HTTP Digest ------------------------------------------------------------------------------------------------

CHALLENGE: Final = Body(
    b"who?", status=401, content_type="text/plain",
    headers=(("WWW-Authenticate", 'Digest realm="r", nonce="n0nce", qop="auth", algorithm=MD5'),),
)  # fmt: skip


@dataclass(frozen=True)
class Challenged:
    """Challenge a request without an answer; else behave. The digest itself is checked by the real monerod."""

    behaviour: Behaviour

    async def play(self, exchange: Exchange) -> None:
        answers = exchange.request.headers.get("Authorization", "").startswith('Digest username="gw", realm="r"')
        await (self.behaviour if answers else CHALLENGE).play(exchange)


DIGEST: Final = f"backend.credentials={{mode: digest, user: gw, password: {PASSWORD}}}"


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_challenge_is_answered_once_and_later_calls_answer_at_once(
    backend: ScriptedBackend, surface: Surface
) -> None:
    backend.on("add", Challenged(Honest()))
    async with front(backend.url, DIGEST) as gateway:
        for _ in range(3):
            assert (await gateway.call(surface, "add", SUM)).value == {"sum": 5}
    answered = ["Authorization" in one.headers for one in backend.requests if one.method == "add"]
    assert answered == [False, True, True, True]


async def test_a_call_that_was_answered_or_broke_off_is_not_sent_again(backend: ScriptedBackend) -> None:
    backend.on("add", Challenged(Body(b"", ending="reset")))
    async with front(backend.url, DIGEST) as gateway:
        await gateway.call("modern", "add", SUM)
        backend.on("echo", error(-32000, "no"))
        assert (await gateway.call("modern", "echo", {"value": 1})).message == "no"
    assert (backend.calls("add"), backend.calls("echo")) == (2, 1), "one of them was the challenge"


async def test_a_challenge_that_never_ends_does_not_hold_a_call(backend: ScriptedBackend) -> None:
    endless = Body(b"x" * 1_000_000, status=401, headers=CHALLENGE.headers, chunked=True)
    backend.on("add", endless)
    async with front(backend.url, DIGEST) as gateway, asyncio.timeout(PATIENCE):
        assert (await gateway.call("modern", "add", SUM)).failed
    assert backend.calls("add") == 1


# --- the services of docs/credentials.md that cannot be installed here ------------------------------------------


@dataclass(frozen=True)
class Unless:
    """Behave, unless the request lacks what ``accepts`` looks for."""

    accepts: Any
    refusal: Behaviour
    behaviour: Behaviour

    async def play(self, exchange: Exchange) -> None:
        await (self.behaviour if self.accepts(exchange.request) else self.refusal).play(exchange)


async def test_ubus_gets_its_session_as_a_bearer_token(backend: ScriptedBackend, tmp_path: Path) -> None:
    session = "c1ed6c7b025d0caca723a816fa61b668"
    backend.pages["/jsonrpc/list"] = Body(b'{"system": {"info": {}}}')
    backend.on("call", result([0, {"ubus_rpc_session": session, "timeout": 300, "expires": 299}]))
    accepts = lambda request: request.headers["Authorization"] == f"Bearer {session}"  # noqa: E731
    backend.on("info", Unless(accepts, error(-32002, "Access denied"), result({"uptime": 7})))
    async with front(backend.url, file=preset(tmp_path, "ubus (OpenWrt)", backend.url, PASSWORD)) as gateway:
        assert (await gateway.call("modern", "system_info", {})).value == {"uptime": 7}
    nobody = "0" * 32
    login = {"username": "root", "password": PASSWORD}
    assert sent(backend, "call").params == [nobody, "session", "login", login]
    assert sent(backend, "info").path == "/jsonrpc/call/system"


async def test_zabbix_gets_its_token_as_a_member_and_says_in_words_that_it_ended(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    (tmp_path / "zabbix-methods.yaml").write_text("methods: {host.get: {params: {output: {}}}}")
    tokens = iter(["0424bd59b807674191e7d77572075f33", "1535ce60c918785202f8e88683186044"])
    ended = error(-32602, "Invalid params.", "Session terminated, re-login, please.")
    accepts = lambda request: request.json["auth"].startswith("1535")  # noqa: E731
    backend.on("user.login", InTurnOf(tokens))
    backend.on("host.get", Unless(accepts, ended, result([{"hostid": "10084"}])))
    async with front(backend.url, file=preset(tmp_path, "Zabbix", backend.url, PASSWORD)) as gateway:
        assert (await gateway.call("modern", "host_get", {"output": "extend"})).value == [{"hostid": "10084"}]
        refused = error(-32602, "Invalid params.", 'Invalid parameter "/": unexpected parameter "x".')
        backend.on("host.get", refused)
        assert 'unexpected parameter "x"' in (await gateway.call("modern", "host_get", {})).message
    logins = [one for one in backend.requests if one.method == "user.login"]
    assert [one.json["params"] for one in logins] == [{"username": "gateway", "password": PASSWORD}] * 2
    assert all("auth" not in one.json for one in logins), "the login of Zabbix refuses the member"


async def test_fortimanager_gets_the_session_that_stands_beside_its_result(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    (tmp_path / "fortimanager.yaml").write_text("methods: {get: {structure: by-position, params: {request: {}}}}")
    backend.on("exec", Body(b'{"id":1,"result":[{"status":{"code":0,"message":"OK"}}],"session":"nT1+s/c=="}'))
    backend.on("get", result([{"data": [], "status": {"code": 0, "message": "OK"}}]))
    file = preset(tmp_path, "FortiManager", backend.url, PASSWORD)
    file.write_text("\n".join(line for line in file.read_text().splitlines() if "fingerprint" not in line))
    async with front(backend.url, file=file) as gateway:
        assert not (await gateway.call("modern", "get", {"request": {"url": "/dvmdb/device"}})).failed
    assert sent(backend, "exec").params[0]["data"] == {"user": "gateway", "passwd": PASSWORD}
    assert (sent(backend, "get").json["session"], sent(backend, "get").params) == (
        "nT1+s/c==",
        [{"url": "/dvmdb/device"}],
    )


async def test_homematic_gets_named_params_for_methods_with_a_name_alone(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    backend.on("rpc.discover", error(-32601, "Method not found"))
    backend.on("system.listMethods", result(["Interface.getParamset"]))
    backend.on("Session.login", result("aU3xKvF0rd"))
    backend.on("Interface.getParamset", result({"LEVEL": 1}))
    named = {"address": "JEQ0000001:1"}
    async with front(backend.url, file=preset(tmp_path, "HomeMatic", backend.url, PASSWORD)) as gateway:
        assert (await gateway.call("modern", "Interface_getParamset", named)).value == {"LEVEL": 1}
    assert sent(backend, "Interface.getParamset").params == {**named, "_session_id_": "aU3xKvF0rd"}


@dataclass(frozen=True)
class InTurnOf:
    """Answer with one result after the other."""

    results: Any

    async def play(self, exchange: Exchange) -> None:
        await result(next(self.results)).play(exchange)


@pytest.mark.parametrize(
    "asked",
    [
        ["res.partner", "search_read", [[["is_company", "=", True]]], {"fields": ["name"], "limit": 1}],
        ["ir.attachment", "create", [{"name": "plan.png", "datas": "aGk=" * 25_000}]],
    ],
    ids=["small", "large"],
)
async def test_odoo_gets_database_user_and_password_before_what_the_caller_says(
    backend: ScriptedBackend, tmp_path: Path, asked: list[Any]
) -> None:
    is_login = lambda request: request.params["service"] == "common"  # noqa: E731
    backend.on("call", Unless(is_login, result([{"id": 3, "name": "Azure Interior"}]), result(2)))
    async with front(backend.url, file=preset(tmp_path, "Odoo", backend.url, PASSWORD)) as gateway:
        assert "production" not in str(await gateway.tools())
        called = await gateway.call("modern", "call", {"args": asked})
        assert called.value == [{"id": 3, "name": "Azure Interior"}]
        assert PASSWORD not in called.everything
    login, call = (one.params for one in backend.requests)
    assert login == {"service": "common", "method": "login", "args": ["production", "gateway@example.com", PASSWORD]}
    assert call == {"service": "object", "method": "execute_kw", "args": ["production", 2, PASSWORD, *asked]}
