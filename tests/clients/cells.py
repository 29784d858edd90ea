"""What holds in each cell of the table: one coroutine for each capability.

The client's own word is one witness, the wire another (:mod:`tests.clients.tap`), and the backend a third.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import aiohttp

from tests.clients.driver import Driver, Failed
from tests.clients.pipe_tap import PipeTap
from tests.clients.rows import Row
from tests.clients.tap import Tap, tapped
from tests.clients.world import PAGE, Served, World
from tests.waiting import PATIENCE

_ROUND_TRIPS: Final = 3

Check = Callable[[Row, Driver, Any, Served, str], Awaitable[None]]


async def check(capability: str, row: Row, driver: Driver, world: World) -> None:
    """Check one cell. Raise :class:`Failed`, with the conversation, and what :meth:`Driver.observe` raises."""
    if capability == "stdio":
        await _check_stdio(row, driver, world)
        return
    served = {"page": world.paged, "change": world.changing}.get(capability, world.whole)
    token = _token(capability, row)
    async with tapped(served.port) as tap:
        try:
            await _CHECKS[capability](row, driver, tap, served, token)
            expect(tap.versions == {row.revision}, f"the client spoke {sorted(tap.versions)}, not {row.revision}")
        except Failed as failure:
            raise Failed(f"{row.name}, {capability}: {failure}\n{tap.transcript()}") from None


async def _check_stdio(row: Row, driver: Driver, world: World) -> None:
    for scenario in row.stdio:
        served = world.changing if scenario == "change" else world.whole
        token = _token("stdio", scenario, row)
        command = (sys.executable, "-m", "gateway", "stdio", "--config", str(served.file))
        tap = PipeTap(world.scratch / token, *command)
        try:
            await _CHECKS[scenario](row, driver, tap, served, token)
            expect(tap.versions == {row.revision}, f"the client spoke {sorted(tap.versions)}, not {row.revision}")
        except Failed as failure:
            raise Failed(f"{row.name}, {scenario} over stdio: {failure}\n{tap.transcript()}") from None


def _token(*parts: str | Row) -> str:
    """The name of a method that grows, so one that is shown as it is."""
    words = [f"{part.client}_{part.era}" if isinstance(part, Row) else part for part in parts]
    return re.sub(r"[^A-Za-z0-9_-]", "_", "_".join(words))


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Failed(otherwise)


async def _list(_: Row, driver: Driver, tap: Tap | PipeTap, served: Served, token: str) -> None:
    observed = await driver.observe("list", tap.url, token)
    expect(observed["tools"] == served.backend.names, f"listed {observed['tools']}, not {served.backend.names}")


async def _call(_: Row, driver: Driver, tap: Tap | PipeTap, __: Served, token: str) -> None:
    observed = await driver.observe("call", tap.url, token)
    expect(observed["structured"] == {"sum": 5} and not observed["failed"], f"a good call came to {observed}")
    expect(observed["error"], f"a tool's error was not seen as one: {observed}")
    expect("as it always does" in observed["message"], f"the error's text did not arrive: {observed}")


async def _page(_: Row, driver: Driver, tap: Tap | PipeTap, served: Served, token: str) -> None:
    observed = await driver.observe("page", tap.url, token)
    expect(observed["tools"] == served.backend.names, f"gathered {observed['tools']}, not {served.backend.names}")
    sizes = [len(message["result"]["tools"]) for message in tap.responses if "tools" in message.get("result", {})]
    expect(len(sizes) > 1 and max(sizes) <= PAGE, f"the pages had {sizes} tools")


async def _change(_: Row, driver: Driver, tap: Tap | PipeTap, __: Served, token: str) -> None:
    observed = await driver.observe("change", tap.url, token)
    expect(token not in observed["before"], f"{token} was there before: {observed}")
    expect(token in observed["after"] and observed["heard"] > 0, f"the new tool was not heard of: {observed}")
    heard = [message for message in tap.responses if message.get("method") == "notifications/tools/list_changed"]
    expect(bool(heard), "no notifications/tools/list_changed on the wire")


async def _cancel(row: Row, driver: Driver, tap: Tap | PipeTap, _: Served, token: str) -> None:
    observed = await driver.observe("cancel", tap.url, token)
    expect(observed["begun"] == {"happened": True}, "the call did not reach the backend")
    expect(observed["stopped"] == {"happened": True}, "the backend's connection was not closed")
    expect(not observed["outcome"].startswith("result"), f"the cancelled call came to {observed['outcome']}")
    (id,) = (message["id"] for message in tap.requests if _is_slow(message))
    answers = [message for message in tap.responses if message.get("id") == id and "method" not in message]
    expect(not answers, f"the cancelled call was answered: {answers}")
    if not row.modern:
        told = [message for message in tap.requests if message.get("method") == "notifications/cancelled"]
        expect([message["params"]["requestId"] for message in told] == [id], f"cancelled {told}, not {id}")


async def _ask(row: Row, driver: Driver, tap: Tap | PipeTap, served: Served, token: str) -> None:
    """The client asks its user by its own means, who agrees."""
    observed = await driver.observe("ask", tap.url, token)
    expect(len(observed["asked"]) == 1, f"the user was asked {len(observed['asked'])} times: {observed}")
    expect(token in observed["asked"][0], f"the question does not show the arguments: {observed}")
    expect(observed["structured"] == {"token": token} and not observed["failed"], f"the call came to {observed}")
    ran = [sent for sent in served.backend.requests if sent.method == "agree" and sent.params == {"token": token}]
    expect(len(ran) == 1, f"the tool ran {len(ran)} times")
    if not row.modern:
        asked = [message for message in tap.responses if message.get("method") == "elicitation/create"]
        expect(len(asked) == 1, f"there were {len(asked)} questions on the wire")


async def _killed(row: Row, driver: Driver, tap: Tap, served: Served, token: str) -> None:
    call = served.backend.call(token)
    await driver.order("killed", tap.url, token)
    try:
        await _within("the call did not reach the backend", call.started.wait())
    except Failed as failure:
        raise Failed(f"{failure}: {await driver.kill()}") from None
    await driver.kill()
    await _within("the killed client's connections stay open", tap.deserted())
    if row.modern:
        await _within("the backend's connection stays open although nobody awaits its answer", call.stopped.wait())
        return
    # Whatever the gateway does about a client that is gone, it has done before it answers the next ones.
    for _ in range(_ROUND_TRIPS):
        await _round_trip(served)
    call.release.set()
    ends = [asyncio.create_task(end.wait()) for end in (call.answered, call.stopped)]
    try:
        await asyncio.wait(ends, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for end in ends:
            end.cancel()
        await asyncio.gather(*ends, return_exceptions=True)
    expect(call.answered.is_set(), "the backend's call did not run to its end: its connection was closed")


def _is_slow(message: Mapping[str, Any]) -> bool:
    return message.get("method") == "tools/call" and message["params"]["name"] == "slow"


async def _round_trip(served: Served) -> None:
    body = {"name": "add", "arguments": {"a": 2, "b": 3}}
    url = f"http://127.0.0.1:{served.port}/mcp/tools/invoke"
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as response:
        expect((await response.json()) == {"result": {"sum": 5}}, f"the gateway answers {response.status} afterwards")


async def _within(otherwise: str, event: Awaitable[Any]) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            await event
    except TimeoutError:
        raise Failed(otherwise) from None


_CHECKS: Final[Mapping[str, Check]] = {
    "list": _list,
    "call": _call,
    "page": _page,
    "change": _change,
    "cancel": _cancel,
    "killed": _killed,
    "ask": _ask,
}
