"""What holds in each cell of the table of agent frameworks: one coroutine for each ability. It returns the cell's word.

What the framework makes of an answer is one witness, the wire another, and the backend a third.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

from lab.clients.frameworks import Framework
from tests.clients.cells import expect
from tests.clients.driver import Driver, Failed
from tests.clients.tap import Tap, tapped
from tests.clients.world import PAGE, Served, World

_WANTED: Final = ("Application_GetProperties", {"properties": ["version"]})
_WORDS: Final = "get properties of the application"

Check = Callable[[Driver, Tap, Served, str], Awaitable[str]]


async def check(ability: str, row: Framework, driver: Driver, world: World) -> str:
    """Check one cell, and return its word. Raise :class:`Failed`, with the conversation."""
    served = world.paged if ability == "page" else world.whole
    async with tapped(world.large.get(ability, served.port)) as tap:
        try:
            word = await _CHECKS[ability](driver, tap, served, f"{ability} {row.name}")
            expected = row.word(ability) or word
            expect(word == expected, f"the cell has {word!r}, not {expected!r}")
            expect(tap.versions == {row.revision}, f"the framework spoke {sorted(tap.versions)}, not {row.revision}")
        except Failed as failure:
            raise Failed(f"{row.name}, {ability}: {failure}\n{tap.transcript()}") from None
    return word


async def _call_of(driver: Driver, tap: Tap, tool: str, arguments: Any) -> dict[str, Any]:
    return await driver.observe("call", tap.url, "", tool=tool, arguments=arguments)


async def _result_of(driver: Driver, tap: Tap, tool: str, arguments: Any) -> str:
    observed = await _call_of(driver, tap, tool, arguments)
    expect(observed["became"] == "result", f"a good call of {tool} came to {observed}")
    return str(observed["text"])


async def _list(driver: Driver, tap: Tap, served: Served, _: str) -> str:
    observed = await driver.observe("list", tap.url, "")
    expect(sorted(observed["tools"]) == served.backend.names, f"listed {observed['tools']}, not {served.backend.names}")
    return "ok"


async def _call(driver: Driver, tap: Tap, _: Served, __: str) -> str:
    text = await _result_of(driver, tap, "add", {"a": 2, "b": 3})
    expect(re.search(r"sum\W+5", text) is not None, f"a good call came to {text}")
    return "ok"


async def _error(driver: Driver, tap: Tap, _: Served, __: str) -> str:
    observed = await _call_of(driver, tap, "fail", {})
    expect("as it always does" in observed["text"], f"the error's text did not arrive: {observed}")
    if observed["became"].startswith("raises"):
        return "raises"
    return "text" if observed["became"] == "result" else "flag"


async def _null(driver: Driver, tap: Tap, served: Served, token: str) -> str:
    """A model leaves out one optional argument and one optional member by null."""
    given = {**_books(token), "note": None, "gift": {"wrap": True, "card": None}}
    observed = await _call_of(driver, tap, "deliver", given)
    if observed["became"] != "result":
        expect(not _sent(tap), f"it was not the framework that refused it: {observed}")
        return "refused"
    _expect_delivered(served, {**_books(token), "gift": {"wrap": True}})
    return "sent" if '": null' in json.dumps(_sent(tap)) else "dropped"


async def _nested(driver: Driver, tap: Tap, served: Served, token: str) -> str:
    given = {**_books(token), "gift": {"wrap": True, "card": "For you"}}
    await _result_of(driver, tap, "deliver", given)
    _expect_delivered(served, given)
    shown = json.dumps((await driver.observe("list", tap.url, "", tool="deliver"))["shown"])
    expect("lines" in shown, f"the model is not told of the arguments: {shown}")
    return "shown" if all(f'"{member}"' in shown for member in ("street", "copies", "card")) else "opaque"


async def _page(driver: Driver, tap: Tap, served: Served, _: str) -> str:
    observed = await driver.observe("list", tap.url, "")
    if sorted(observed["tools"]) == served.backend.names:
        return "all"
    expect(sorted(observed["tools"]) == served.backend.names[:PAGE], f"gathered {observed['tools']}")
    return "first"


async def _large(driver: Driver, tap: Tap, _: Served, __: str) -> str:
    observed = await driver.observe("list", tap.url, "")
    pages = [message["result"] for message in tap.responses if "tools" in message.get("result", {})]
    listed = [tool["name"] for page in pages for tool in page["tools"]]
    expect("nextCursor" not in pages[-1], "the framework read a part of the listing")
    expect(len(listed) > PAGE and sorted(observed["tools"]) == sorted(listed), f"{observed['tools']}, not {listed}")
    return str(len(listed))


async def _wanted(driver: Driver, tap: Tap, served: Served, token: str) -> str:
    observed = await driver.observe("list", tap.url, "")
    if _WANTED[0] not in observed["tools"]:
        return await _search(driver, tap, served, token)
    _expect_version(await _result_of(driver, tap, *_WANTED))
    return "ok"


async def _search(driver: Driver, tap: Tap, _: Served, __: str) -> str:
    name, arguments = _WANTED
    found = await _result_of(driver, tap, "search_tools", {"query": _WORDS})
    expect(name in found, f"{_WORDS!r} does not find {name}: {found}")
    _expect_version(await _result_of(driver, tap, "call_tool", {"name": name, "arguments": arguments}))
    return "ok"


def _expect_version(text: str) -> None:
    expect(re.search(r"version\W+major\W+\d", text) is not None, f"Kodi's version came as {text}")


def _sent(tap: Tap) -> list[Any]:
    """The arguments of the calls that left the framework."""
    return [sent["params"]["arguments"] for sent in tap.requests if sent.get("method") == "tools/call"]


def _books(token: str) -> dict[str, Any]:
    """The arguments of ``deliver`` that are required; the street tells whose call it is."""
    return {"to": {"street": token, "floor": 2}, "lines": [{"book": "Emma", "copies": 2}]}


def _expect_delivered(served: Served, params: dict[str, Any]) -> None:
    got = [sent.params for sent in served.backend.requests if sent.method == "deliver"]
    ours = [one for one in got if one["to"]["street"] == params["to"]["street"]]
    expect(ours == [params], f"the service got {ours}, not {params}")


_CHECKS: Final[dict[str, Check]] = {
    "list": _list,
    "call": _call,
    "error": _error,
    "null": _null,
    "nested": _nested,
    "page": _page,
    "kodi": _large,
    "ethereum": _large,
    "wanted": _wanted,
    "search": _search,
}
