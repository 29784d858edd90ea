"""A scripted backend that lets nobody in without a session of its own, which a login call gives."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from typing import Any, Final

from tests.fault.behaviours import Behaviour, Body, Exchange, Honest, error, result
from tests.fault.methods import METHODS, openrpc
from tests.fault.scripted import ScriptedBackend

PASSWORD: Final = "sesame-0pens"
LOGIN: Final = (
    "{method: auth.login, params: ['{user}', '{password}'], find: {session: $.result.session}, "
    "expired: [401, 403, 1, Session terminated]}"
)
KNOBS: Final = (
    f"backend.credentials={{mode: login, user: gw, password: {PASSWORD}, login: {LOGIN}, "
    "send: {headers: {X-Session: 's {session}'}}}"
)
EXPIRED: Final[dict[str, Body]] = {
    "401": Body(b"login, please", status=401, content_type="text/plain"),
    "403": Body(b"login, please", status=403, content_type="text/plain"),
    "a code": error(1, "Not authenticated"),
    "a text": error(-32602, "Invalid params.", "Session terminated, re-login, please."),
}
"""How a service says that a session has ended; :data:`KNOBS` knows each of them."""


class LoginService(ScriptedBackend):
    """``auth.login`` gives ``session-1-…``, then ``session-2-…``. A call needs the header ``X-Session`` with one that
    has not ended, and else gets ``refusal``. ``gate`` holds logins up while it is clear."""

    def __init__(self) -> None:
        super().__init__(default=_Guarded(self, Honest()))
        self.refusal: Behaviour = EXPIRED["401"]
        self.sessions: set[str] = set()
        self.gate = asyncio.Event()
        self.gate.set()
        self.counter = itertools.count(1)
        self.on("auth.login", _LogIn(self))
        self.on("rpc.discover", _Guarded(self, result(openrpc(METHODS))))

    def end_sessions(self) -> None:
        self.sessions.clear()

    def guard(self, method: str, behaviour: Behaviour) -> None:
        """Answer this method so, to whoever has a session."""
        self.on(method, _Guarded(self, behaviour))

    def sent(self, method: str) -> list[str | None]:
        """The sessions with which a method was called."""
        return [one.headers.get("X-Session") for one in self.requests if one.method == method]


@dataclass(frozen=True)
class _Guarded:
    service: LoginService
    behaviour: Behaviour

    async def play(self, exchange: Exchange) -> None:
        shown = exchange.request.headers.get("X-Session", "").removeprefix("s ")
        await (self.behaviour if shown in self.service.sessions else self.service.refusal).play(exchange)


@dataclass(frozen=True)
class _LogIn:
    service: LoginService

    async def play(self, exchange: Exchange) -> None:
        await self.service.gate.wait()
        answer: Any = error(-32000, f"no user gw with {PASSWORD}")
        if exchange.request.params == ["gw", PASSWORD]:
            session = f"session-{next(self.service.counter)}-of-gw"
            self.service.sessions.add(session)
            answer = result({"session": session})
        await answer.play(exchange)
