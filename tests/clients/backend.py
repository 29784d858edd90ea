"""The JSON-RPC service behind the gateways: its listing grows on request, and a call of it can be seen to be stopped.

All of it is in band, so that a client needs no way to it but the gateway's tools:

- ``slow(token)`` answers when the test says so, and notices when its caller hangs up;
- ``await_slow(token)`` returns once the ``slow`` of that token runs, ``await_stopped(token)`` once it was hung up on;
- ``agree(token)`` gives the token back; the gateway asks a person first;
- ``deliver(to, lines, note?, gift?)`` takes nested objects and optional parameters, and gives back what came;
- ``grow(name)`` adds a method of that name to the listing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Self

from tests.fault.behaviours import Exchange, result
from tests.fault.methods import METHODS, Rpc
from tests.fault.scripted import ScriptedBackend
from tests.waiting import PATIENCE

_TOKEN: Final = {"token": {"type": "string"}}
_HAPPENED: Final = {"type": "object", "properties": {"happened": {"type": "boolean"}}, "required": ["happened"]}
_AGREE: Final = Rpc(
    "agree", _TOKEN, {"type": "object", "properties": _TOKEN, "required": ["token"]}, run=lambda token: {"token": token}
)
_ADDRESS: Final = {
    "type": "object",
    "properties": {"street": {"type": "string"}, "floor": {"type": "integer"}},
    "required": ["street"],
    "additionalProperties": False,
}
_LINE: Final = {
    "type": "object",
    "properties": {"book": {"type": "string"}, "copies": {"type": "integer"}},
    "required": ["book", "copies"],
}
_GIFT: Final = {
    "type": "object",
    "properties": {"wrap": {"type": "boolean"}, "card": {"type": "string"}},
    "required": ["wrap"],
}
_SLOW, _AWAIT_SLOW, _AWAIT_STOPPED = (Rpc(name, _TOKEN, _HAPPENED) for name in ("slow", "await_slow", "await_stopped"))


class _Deliver(Rpc):
    """Its last two parameters are optional, and none of them may be null."""

    def __init__(self) -> None:
        params = {"to": _ADDRESS, "lines": {"type": "array", "items": _LINE}, "note": {"type": "string"}, "gift": _GIFT}
        super().__init__("deliver", params, {"type": "object"}, "Deliver books")

    def __call__(self, params: object) -> object:
        return {"delivered": params}

    def listed(self) -> dict[str, Any]:
        entry = super().listed()
        for param in entry["params"][2:]:
            del param["required"]
        return entry


@dataclass
class Call:
    """One call of ``slow``. After ``started`` it is ``answered``, in full, or ``stopped``: its caller hung up first."""

    started: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)


class Backend(ScriptedBackend):
    """The service; use it as an asynchronous context manager."""

    def __init__(self) -> None:
        grow = Rpc("grow", {"name": {"type": "string"}}, {"type": "null"}, run=lambda name: self.grow(name))
        super().__init__((*METHODS, _AGREE, _Deliver(), grow, _SLOW, _AWAIT_SLOW, _AWAIT_STOPPED))
        self._calls: dict[str, Call] = {}
        self.on("slow", _Slow(self.call))
        self.on("await_slow", _Await(lambda token: self.call(token).started))
        self.on("await_stopped", _Await(lambda token: self.call(token).stopped))

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    @property
    def names(self) -> list[str]:
        """The methods that are listed at the moment, sorted."""
        return sorted(self._methods)

    def call(self, token: str) -> Call:
        """The call of ``slow`` with this token, which may be yet to come."""
        return self._calls.setdefault(token, Call())

    def grow(self, name: str) -> None:
        """List one more method."""
        self._methods[name] = Rpc(name)


@dataclass(frozen=True)
class _Slow:
    call: Callable[[str], Call]

    async def play(self, exchange: Exchange) -> None:
        call = self.call(exchange.request.params["token"])
        call.started.set()
        if await exchange.wait(call.release):
            await result({"happened": True}).play(exchange)
            call.answered.set()
        else:
            call.stopped.set()


@dataclass(frozen=True)
class _Await:
    event: Callable[[str], asyncio.Event]

    async def play(self, exchange: Exchange) -> None:
        event = self.event(exchange.request.params["token"])
        try:
            async with asyncio.timeout(PATIENCE):
                await exchange.wait(event)
        except TimeoutError:
            pass
        await result({"happened": event.is_set()}).play(exchange)
