"""TrueNAS 25 as a stand-in: its WebSocket alone, a login that belongs to the connection, its list of methods."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from tests.contract.transports import Json, WebSocketStand
from tests.front import front

KEY: Final = "1-abcdefghijklmnop"
_LOGIN: Final = (
    "backend.credentials={mode: login, user: root, password: 1-abcdefghijklmnop, login: {method: auth.login_ex, "
    "params: [{mechanism: API_KEY_PLAIN, username: '{user}', api_key: '{password}'}], "
    "find: {state: $.result.response_type}, "
    "expired: [ENOTAUTHENTICATED]}, send: {}}"
)
_METHODS: Final = {
    "pool.query": {
        "description": "Query pools.",
        "accepts": [{"_name_": "filters", "type": "array", "_required_": False}],
        "returns": [{"type": "array"}],
        "roles": ["POOL_READ"],
        "require_websocket": True,
    },
    "filesystem.get": {"accepts": [], "returns": [], "downloadable": True},
}


class TrueNas(WebSocketStand):
    """Answers after a login on the same connection."""

    def __init__(self) -> None:
        super().__init__()
        self.logins = 0
        self.known: set[asyncio.StreamWriter] = set()

    async def take(self, message: Json, writer: asyncio.StreamWriter) -> None:
        self.messages.append(message)
        writer.write(
            self.wrap(json.dumps({"jsonrpc": "2.0", "id": message["id"], **self.said_to(message, writer)}).encode())
        )

    def said_to(self, message: Json, writer: asyncio.StreamWriter) -> Json:
        if message["method"] == "auth.login_ex":
            self.logins += 1
            is_right = message["params"] == [{"mechanism": "API_KEY_PLAIN", "username": "root", "api_key": KEY}]
            self.known |= {writer} if is_right else set()
            return {"result": {"response_type": "SUCCESS" if is_right else "AUTH_ERR"}}
        if writer not in self.known:
            data = {"error": 207, "errname": "ENOTAUTHENTICATED", "reason": "[ENOTAUTHENTICATED] Not authenticated"}
            return {"error": {"code": -32001, "message": "Method call error", "data": data}}
        results: dict[str, Any] = {"core.get_methods": _METHODS, "pool.query": message.get("params")}
        return {"result": results[message["method"]]}

    async def drop_all(self) -> None:
        """End the connections, as a restart does."""
        await self.close()
        self.known.clear()
        await self.open()


@pytest.fixture
async def nas() -> AsyncIterator[TrueNas]:
    made = TrueNas()
    await made.open()
    yield made
    await made.close()


async def test_it_is_listed_and_called_after_a_login_of_the_connection(nas: TrueNas) -> None:
    async with front(nas.url, _LOGIN, "backend.listing.dialect=truenas") as gateway:
        (tool,) = await gateway.tools()
        assert tool == "pool_query", "one that needs a WebSocket can be called, one that transfers a file cannot"
        assert (await gateway.call("rest", "pool.query", {"filters": [["id", "=", 1]]})).value == [[["id", "=", 1]]]
        assert nas.logins == 1
        await nas.drop_all()
        called = await gateway.call("rest", "pool.query", {"filters": []})
        assert called.value == [[]], "the new connection was logged in first"
        assert nas.logins == 2
