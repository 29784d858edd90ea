"""Core Lightning and SPDK as stand-ins after their documents: what they want on a socket, and how methods are known."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

from tests.contract.transports import Json, UnixStand
from tests.front import front

_METHODS: Final = Path(__file__).parents[2] / "config" / "examples" / "methods" / "spdk.yaml"
_COMMANDS: Final = [
    {"command": "getinfo ", "category": "utility", "description": "Show information about this node"},
    {"command": "invoice amount_msat label description [expiry]", "category": "payment", "description": "Make one"},
    {"command": "stop ", "category": "utility", "description": "Shut down"},
]


class CoreLightning(UnixStand):
    """Writes JSON in several lines, and an empty one behind it; wants ``params``."""

    framing = "none"

    def wrap(self, body: bytes) -> bytes:
        return json.dumps(json.loads(body), indent=3).encode() + b"\n\n"

    async def take(self, message: Json, writer: asyncio.StreamWriter) -> None:
        self.messages.append(message)
        known: dict[str, Any] = {
            "help": {"help": _COMMANDS},
            "getinfo": {"alias": "far"},
            "invoice": message.get("params"),
        }
        if "params" not in message:
            said: Json = {"error": {"code": -32600, "message": "No params"}}
        elif message["method"] in known:
            said = {"result": known[message["method"]]}
        else:
            said = {"error": {"code": -32601, "message": f"Unknown command '{message['method']}'"}}
        writer.write(self.wrap(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}).encode()))


class Spdk(UnixStand):
    """Refuses ``params`` where a method has none, so that the names that it lists are not enough."""

    framing = "none"

    async def take(self, message: Json, writer: asyncio.StreamWriter) -> None:
        self.messages.append(message)
        said: Json = {"result": "Malloc0"}
        if message["method"] == "spdk_get_version":
            refused = {"error": {"code": -32602, "message": "spdk_get_version method requires no parameters"}}
            said = refused if "params" in message else {"result": {"version": "SPDK v24.09"}}
        writer.write(self.wrap(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}).encode()))


async def test_core_lightning_is_listed_and_called_from_its_url_alone() -> None:
    stand = CoreLightning()
    await stand.open()
    async with front(stand.url) as gateway:
        assert {"getinfo", "invoice"} <= (await gateway.tools()).keys()
        calls = [gateway.call("rest", "getinfo", {}) for _ in range(20)]
        assert [called.value for called in await asyncio.gather(*calls)] == [{"alias": "far"}] * 20
        params = {"amount_msat": 5, "label": "a", "description": "b"}
        assert (await gateway.call("rest", "invoice", {"params": params})).value == params
    await stand.close()


async def test_spdk_is_called_with_its_methods_file() -> None:
    stand = Spdk()
    await stand.open()
    async with front(stand.url, f"backend.listing={{dialect: static, file: {_METHODS}}}") as gateway:
        assert {"bdev_malloc_create", "spdk_get_version"} <= (await gateway.tools()).keys()
        calls = [gateway.call("rest", "spdk_get_version", {}) for _ in range(20)]
        assert [called.value for called in await asyncio.gather(*calls)] == [{"version": "SPDK v24.09"}] * 20
        params = {"num_blocks": 8, "block_size": 512}
        assert (await gateway.call("rest", "bdev_malloc_create", params)).value == "Malloc0"
        assert stand.messages[-1]["params"] == params
    await stand.close()
