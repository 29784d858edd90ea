"""``requiresAuth`` on REST says whether a call without a token is refused: discovery clients send theirs only then."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from tests.authorization.stand import CALLS, Bearer, bearer_of, running, settings, stand
from tests.each import each
from tests.fault.behaviours import Body, Exchange, result
from tests.fault.scripted import ScriptedBackend

LEVELS: Final[dict[str, Any]] = {
    "free": {"level": "none"},
    "maybe": {"level": "optional", "scopes": ["write"]},
    "scoped": {"scopes": ["write"]},
    "strict": {"level": "required"},
    "unsaid": None,
}
DRUPAL: Final = "backend.listing.dialect=jsonrpc_mcp"


def page(*names: str) -> Body:
    """What jsonrpc_mcp lists."""
    tools = [
        {"name": name, "inputSchema": {"type": "object"}}
        | ({"annotations": {"auth": LEVELS[name]}} if LEVELS[name] else {})
        for name in names
    ]
    return Body(json.dumps({"tools": tools, "nextCursor": None}).encode())


@dataclass
class ByToken:
    """A listing that shows more to who shows a token."""

    nobody: Body
    bearers: Body

    async def play(self, exchange: Exchange) -> None:
        await (self.bearers if bearer_of(exchange.request) else self.nobody).play(exchange)


async def said(client: Bearer) -> dict[str, bool]:
    """What the list says of each tool; describe must agree."""
    listed = (await client.get("/mcp/tools/list")).json["tools"]
    for tool in listed:
        described = (await client.get(f"/mcp/tools/describe?name={tool['name']}")).json["tool"]
        assert described["requiresAuth"] is tool["requiresAuth"]
    return {tool["name"]: tool["requiresAuth"] for tool in listed}


async def refused(nobody: Bearer, names: Any) -> dict[str, bool]:
    """Whether a call without a token is."""
    return {name: {(await nobody.call(surface, name)).status for surface in CALLS} != {200} for name in names}


@each("identity", ["shared", "caller"])
@each(("anonymous", "open_tools"), [("none", set()), ("list", set()), ("open-tools", {"free", "maybe"})])
async def test_it_is_false_only_where_a_call_without_a_token_is_served(
    anonymous: str, open_tools: set[str], identity: str
) -> None:
    async with stand(DRUPAL, f"auth.anonymous={anonymous}", f"backend.listing.identity={identity}") as it:
        it.backend.pages["/mcp/tools/list"] = page(*LEVELS)
        for name in LEVELS:
            it.backend.on(name, result(name))
        async with running(it.gateway.settings) as gateway:
            bearer = Bearer(it.session, gateway.port, it.issuer.sign(scope="write"))
            nobody = Bearer(it.session, gateway.port, None)
            expected = {name: name not in open_tools for name in LEVELS}
            assert await said(bearer) == expected
            assert await refused(nobody, LEVELS) == expected


async def test_a_tool_that_only_bearers_are_shown_takes_a_token_whatever_it_says() -> None:
    async with stand(DRUPAL, "auth.anonymous=open-tools") as it:
        it.backend.pages["/mcp/tools/list"] = ByToken(page("free"), page("free", "maybe"))
        for name in LEVELS:
            it.backend.on(name, result(name))
        async with running(it.gateway.settings) as gateway:
            bearer = Bearer(it.session, gateway.port, it.issuer.sign(scope="write"))
            nobody = Bearer(it.session, gateway.port, None)
            expected = {"free": False, "maybe": True}
            assert await said(bearer) == expected
            assert await refused(nobody, expected) == expected
            it.backend.pages["/mcp/tools/list"] = page("free", "maybe")
            await gateway.services[""].discovery.refresh()
            assert await said(bearer) == {"free": False, "maybe": False}, "what was shown before is not kept"


async def test_without_authentication_no_tool_takes_a_token() -> None:
    async with ScriptedBackend() as backend, stand(DRUPAL) as it:
        backend.pages["/mcp/tools/list"] = page(*LEVELS)
        for name in LEVELS:
            backend.on(name, result(name))
        async with running(settings(backend.url, [], DRUPAL, "auth.mode=off")) as gateway:
            nobody = Bearer(it.session, gateway.port, None)
            assert await said(nobody) == dict.fromkeys(LEVELS, False)
            assert await refused(nobody, LEVELS) == dict.fromkeys(LEVELS, False)
