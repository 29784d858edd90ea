"""List and call services that deviate from JSON-RPC 2.0: they require ``params``, take integers for ids, speak 1.0, or
answer bare results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpServer

from gateway.backend.http import HttpTransport
from gateway.backend.request_parts import RequestParts
from gateway.backend.source import ALWAYS, ONE, PLAIN, BackendSource
from gateway.backend.transport import UNKNOWN
from gateway.http_client.session import Outbound
from gateway.settings import ListingSettings
from tests.each import each
from tests.fault.behaviours import InTurn, Raw, result
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Surface, front
from tests.services.methods_file import written_and_read

Body: TypeAlias = dict[str, Any]
Serve: TypeAlias = Callable[[Callable[[Body], web.Response]], Awaitable[tuple[str, list[Body]]]]
LISTED: Final = ["greet", "ping", "system.listMethods"]


def outcome(body: Body) -> Any:
    """Return the result of a method. Raise :class:`LookupError` for an unknown one."""
    if body["method"] == "system.listMethods":
        return LISTED
    if body["method"] not in LISTED:
        raise LookupError("Unknown method")
    return {"method": body["method"], "params": body.get("params", "none")}


def wants_params(body: Body) -> web.Response:
    """Answer as Deluge's web interface: require ``params``, omit ``jsonrpc``, send both ``result`` and ``error``."""
    if "params" not in body:
        return web.json_response(
            {"result": None, "id": None, "error": {"code": 5, "message": "missing param 'params'"}}
        )
    try:
        return web.json_response({"result": outcome(body), "error": None, "id": body["id"]})
    except LookupError as fault:
        return web.json_response({"result": None, "error": {"code": 2, "message": str(fault)}, "id": body["id"]})


def only_one(body: Body) -> web.Response:
    """Answer as Tryton: a request with members that JSON-RPC 1.0 does not have gets an HTML page or a bare result."""
    if body.keys() != {"id", "method", "params"}:
        try:
            return web.json_response(outcome({**body, "params": [*body["params"]]}))
        except (KeyError, LookupError):
            return web.Response(status=500, text="<h1>Internal Server Error</h1>", content_type="text/html")
    try:
        return web.json_response({"id": body["id"], "result": outcome(body)})
    except LookupError as fault:
        return web.json_response({"id": body["id"], "error": [str(fault), ""]})


def bare(body: Body) -> web.Response:
    """Answer bare results, without an envelope."""
    try:
        return web.json_response(outcome(body))
    except LookupError as fault:
        return web.json_response({"message": str(fault)}, status=404)


def unquoting(body: Body) -> web.Response:
    """Answer as i2pd: an id that is a text comes back without its quotes, which is not JSON."""
    try:
        answered = f'"result":{json.dumps(outcome(body))}'
    except LookupError:
        answered = '"error":{"code":-32601,"message":"Method not found"}'
    return web.Response(text=f'{{"id":{body["id"]},{answered},"jsonrpc":"2.0"}}', content_type="application/json")


def _answered(body: Body) -> web.Response:
    try:
        return web.json_response({"jsonrpc": "2.0", "id": body["id"], "result": outcome(body)})
    except LookupError as fault:
        return web.json_response({"jsonrpc": "2.0", "id": body["id"], "error": {"code": -32601, "message": str(fault)}})


def _of_integers(refusal: Callable[[Body], web.Response]) -> Callable[[Body], web.Response]:
    return lambda body: _answered(body) if type(body["id"]) is int else refusal(body)


def _refused(code: int, message: str, status: int = 200) -> web.Response:
    return web.json_response({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}, status=status)


INTEGERS_ALONE: Final = {
    "i2pd": unquoting,
    "refuses": _of_integers(lambda _: _refused(-32600, "Invalid Request")),
    "cannot parse (Rust, Go)": _of_integers(lambda _: _refused(-32700, "Parse error: expected u64", 400)),
    "names the id": _of_integers(lambda _: _refused(-32000, "id must be an integer")),
    "pydantic": _of_integers(lambda _: web.json_response({"detail": [{"loc": ["body", "id"]}]}, status=422)),
    "atoi": _of_integers(lambda body: _answered({**body, "id": 0})),
}


@pytest.fixture
def serve(aiohttp_server: AiohttpServer) -> Serve:
    """``await serve(answer)`` runs a service. It returns its URL and the messages that it receives."""

    async def serving(answer: Callable[[Body], web.Response]) -> tuple[str, list[Body]]:
        seen: list[Body] = []

        async def handle(request: web.Request) -> web.Response:
            seen.append(json.loads(await request.read()))
            return answer(seen[-1])

        application = web.Application()
        application.router.add_post("/rpc", handle)
        return str((await aiohttp_server(application)).make_url("/rpc")), seen

    return serving


@asynccontextmanager
async def source(url: str, **members: Any) -> AsyncIterator[BackendSource]:
    transport = Outbound()
    try:
        way, listing = HttpTransport(transport, url), ListingSettings(timeout=10)
        yield BackendSource(way, url, RequestParts(), listing=listing, max_bytes=2**20, **members)
    finally:
        await transport.close()


@each("surface", SURFACES)
@each(
    ("service", "sent"),
    [(wants_params, {"jsonrpc", "id", "method", "params"}), (only_one, {"id", "method", "params"})],
)
async def test_a_service_is_listed_and_called_in_the_form_that_it_understands(
    service: Callable[[Body], web.Response], sent: set[str], surface: Surface, serve: Serve
) -> None:
    url, seen = await serve(service)
    async with front(url) as gateway:
        assert sorted(await gateway.tools()) == ["greet", "ping"]
        called = await gateway.call(surface, "greet", {"params": ["ann"]})
        assert called.value == {"method": "greet", "params": ["ann"]}
        assert (await gateway.call(surface, "ping", {})).value == {"method": "ping", "params": []}
        assert seen[-1].keys() == seen[-2].keys() == sent


@each("surface", SURFACES)
@each("service", [*INTEGERS_ALONE])
async def test_a_service_that_takes_integers_alone_for_ids_gets_integers(
    service: str, surface: Surface, serve: Serve
) -> None:
    url, seen = await serve(INTEGERS_ALONE[service])
    async with front(url) as gateway:
        assert sorted(await gateway.tools()) == ["greet", "ping"]
        learned = len(seen)
        calls = [gateway.call(surface, "greet", {"params": [number]}) for number in range(20)]
        sent = [{"method": "greet", "params": [number]} for number in range(20)]
        assert [called.value for called in await asyncio.gather(*calls)] == sent
        assert (await gateway.call(surface, "ping", {})).value == {"method": "ping", "params": []}
        assert (await gateway.call(surface, "greet", {"params": ["x" * 50_000]})).value["params"] == ["x" * 50_000]
        ids = [body["id"] for body in seen[learned:]]
        assert all(type(id) is int and 0 < id < 2**31 for id in ids)
        assert len(set(ids)) == len(ids) == 22


async def test_what_was_learned_of_ids_stays_for_the_next_listing(serve: Serve) -> None:
    url, seen = await serve(unquoting)
    async with front(url) as gateway:
        assert gateway.gateway is not None
        discovery = gateway.gateway.services[""].discovery
        first = discovery.current()
        learned = len(seen)
        assert await discovery.refresh_now() == ""
        assert all(type(body["id"]) is int for body in seen[learned:])
        assert discovery.current() is first  # equal listings have equal digests


async def test_an_answer_to_another_integer_is_refused(serve: Serve) -> None:
    def late(body: Body) -> web.Response:
        if body["method"] == "greet":
            body["id"] += 1
        return INTEGERS_ALONE["refuses"](body)

    url, _ = await serve(late)
    async with front(url) as gateway:
        assert "the id of another call" in (await gateway.call("modern", "greet", {"params": []})).message


async def test_the_operator_may_say_what_ids_are(tmp_path: Path, serve: Serve) -> None:
    url, seen = await serve(unquoting)
    async with front(url, "backend.ids=integer") as gateway:
        assert sorted(await gateway.tools()) == ["greet", "ping"]
        assert all(type(body["id"]) is int for body in seen)
    url, seen = await serve(unquoting)
    async with front(url, "backend.ids=string") as gateway:
        assert (await gateway.call("rest", "greet", {})).status == 503
        assert all(type(body["id"]) is str for body in seen)
    file = tmp_path / "methods.yaml"
    file.write_text("methods: {greet: {params: {who: {}}, structure: by-position}}")
    static = ("backend.listing.dialect=static", f"backend.listing.file={file}")
    url, seen = await serve(unquoting)
    async with front(url, *static, "backend.ids=integer") as gateway:
        assert (await gateway.call("modern", "greet", {"who": 1})).value == {"method": "greet", "params": [1]}
    async with front(url, *static) as gateway:
        message = (await gateway.call("modern", "greet", {"who": 1})).message
    assert [type(body["id"]) for body in seen] == [int, str]
    assert (
        message == f"The backend did not answer with JSON (invalid character (byte 6)); {UNKNOWN}; "
        "it does not quote the id: set backend.ids to integer"
    )


@each(
    ("id", "message"),
    [
        ("true", "The backend's answer is not a JSON-RPC response: the id of another call"),
        ("%d,", "The backend did not answer with JSON (object keys must be strings (byte 24))"),
        ('%d0,"id":%d', "The backend's answer is not a JSON-RPC response: two members of one name"),
    ],
)
async def test_a_wrong_id_is_refused_and_a_knob_that_is_set_not_named(
    tmp_path: Path, id: str, message: str, serve: Serve
) -> None:
    def answer(body: Body) -> web.Response:
        echoed = id.replace("%d", str(body["id"]))
        return web.Response(text=f'{{"jsonrpc":"2.0","id":{echoed},"result":{json.dumps("x" * 100)}}}')

    file = tmp_path / "methods.yaml"
    file.write_text("methods: {greet: {params: {who: {}}, structure: by-position}}")
    static = ("backend.listing.dialect=static", f"backend.listing.file={file}", "backend.ids=integer")
    url, _ = await serve(answer)
    async with front(url, *static) as gateway:
        assert (await gateway.call("modern", "greet", {"who": 1})).message == f"{message}; {UNKNOWN}"


async def test_a_methods_file_of_such_a_service_names_the_knob(tmp_path: Path, serve: Serve) -> None:
    url, _ = await serve(unquoting)
    await written_and_read(url, tmp_path / "methods.yaml", needed=("backend.ids=integer",))


@each("version", ["1.0", "2.0"])
async def test_ids_are_integers_in_every_form(version: str, serve: Serve) -> None:
    knobs = ("backend.ids=integer", f"backend.version={version}")
    url, seen = await serve(only_one if version == "1.0" else wants_params)
    async with front(url, *knobs) as gateway:
        assert (await gateway.call("rest", "greet", {"params": [1]})).value == {"method": "greet", "params": [1]}
        assert all(type(body["id"]) is int for body in seen)


async def test_bare_results_are_results_where_the_operator_says_1_0(serve: Serve) -> None:
    url, seen = await serve(bare)
    async with front(url, "backend.version=1.0") as gateway:
        assert (await gateway.call("modern", "greet", {"params": [1]})).value == {"method": "greet", "params": [1]}
        assert all(body.keys() == {"id", "method", "params"} for body in seen)


async def test_a_bare_result_that_nobody_expects_is_a_fault_that_names_the_knob(tmp_path: Path, serve: Serve) -> None:
    file = tmp_path / "methods.yaml"
    file.write_text("methods: {greet: {params: {who: {}}, structure: by-position}}")
    static = ("backend.listing.dialect=static", f"backend.listing.file={file}")
    url, _ = await serve(bare)
    async with front(url, *static) as gateway:
        called = await gateway.call("modern", "greet", {"who": 1})
    assert called.message.endswith(
        f"neither a result nor an error; {UNKNOWN}; the operator can set backend.version where it is 1.0"
    )


async def test_each_question_has_an_id_of_its_own_and_an_answer_to_another_is_none(serve: Serve) -> None:
    def late(body: Body) -> web.Response:
        """Answer with the id of the question before."""
        answered = ids[-1] if ids else body["id"]
        ids.append(body["id"])
        return web.json_response({"jsonrpc": "2.0", "id": answered, "result": LISTED})

    ids: list[str] = []
    url, _ = await serve(late)
    async with source(url, others=()) as asked:
        assert (await asked.call_method("system.listMethods")).has_value
        second = await asked.call_method("other")
    assert not second.has_value
    assert second.summary == "HTTP 200, no JSON-RPC response: the id of another call"
    assert len(set(ids)) == 2


@each(("service", "learned"), [(wants_params, ALWAYS), (only_one, ONE), (bare, ONE)])
async def test_another_form_is_looked_for_once(
    service: Callable[[Body], web.Response], learned: object, serve: Serve
) -> None:
    url, seen = await serve(service)
    async with source(url) as asked:
        assert (await asked.call_method("system.listMethods")).value == LISTED
        assert asked.form == learned
        before = len(seen)
        await asked.call_method("system.listMethods")
        await asked.call_method("unknown")
    assert len(seen) == before + 2


async def test_a_service_that_refuses_every_form_is_not_asked_in_all_of_them_again(serve: Serve) -> None:
    url, seen = await serve(lambda _: web.Response(status=500))
    async with source(url) as asked:
        await asked.call_method("one")
        await asked.call_method("two")
        assert asked.form == PLAIN
    assert [body["method"] for body in seen] == ["one", "one", "one", "one", "two"]


async def test_2_0_is_not_left_where_the_operator_says_so(serve: Serve) -> None:
    url, seen = await serve(only_one)
    async with front(url, "backend.version=2.0") as gateway:
        assert (await gateway.call("rest", "greet", {})).status == 503
    assert seen
    assert all("jsonrpc" in body for body in seen)


async def test_questions_carry_params_where_the_operator_says_always(serve: Serve) -> None:
    url, seen = await serve(wants_params)
    async with front(url, "backend.version=2.0-with-params") as gateway:
        assert sorted(await gateway.tools()) == ["greet", "ping"]
    assert all(body["params"] == [] for body in seen)


@each("fault", [Raw(b""), Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{")])
async def test_a_question_is_asked_once_more_where_the_connection_ended_before_the_answer(fault: Raw) -> None:
    async with ScriptedBackend() as backend, source(backend.url) as asked:
        backend.on("rpc.discover", InTurn([fault, result(LISTED)]))
        assert (await asked.call_method("rpc.discover")).has_value
        assert backend.calls("rpc.discover") == 2
        assert backend.connections == 2
        backend.on("rpc.discover", fault)
        assert not (await asked.call_method("rpc.discover")).has_value
        assert backend.calls("rpc.discover") == 4


@each("answer", [{"detail": "not found"}, "OK", None])
async def test_a_bare_answer_that_is_no_listing_does_not_teach_version_1_0(answer: Any, serve: Serve) -> None:
    url, _ = await serve(lambda _: web.json_response(answer))
    async with source(url) as asked:
        assert not (await asked.call_method("rpc.discover")).has_value
        assert asked.form == PLAIN
