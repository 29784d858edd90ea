"""Challenges as servers write them (RFC 7616 §3.3, RFC 9110 §11.6.1), each answered so that a server can check it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from tests.each import each
from tests.fault.behaviours import Body, Exchange, Honest
from tests.fault.scripted import ScriptedBackend
from tests.fault.wire import Request
from tests.front import front
from tests.tables import each_row

pytestmark = pytest.mark.usefixtures("both_servers")

SUM: Final = {"a": 2, "b": 3}
PASSWORD: Final = "sesame-0pens"
KNOBS: Final = f"backend.credentials={{mode: digest, user: gw, password: {PASSWORD}}}"
MD5: Final = 'Digest realm="r", nonce="n-md5", qop="auth", algorithm=MD5'
SHA: Final = 'Digest realm="r", nonce="n-sha", qop="auth", algorithm=SHA-256, userhash=true, charset=UTF-8'
NEWER: Final = 'Digest realm="r", nonce="n-512", qop="auth", algorithm=SHA-512-256'
_MEMBER: Final = re.compile(r'(\w+)=(?:"([^"]*)"|([^\s,]+))')


def is_right(request: Request, answer: dict[str, str]) -> bool:
    """Check an answer as RFC 7616 §3.4.1 computes it."""
    kind = {"n-sha": "sha256"}.get(answer["nonce"], "md5")

    def hashed(*parts: str) -> str:
        return hashlib.new(kind, ":".join(parts).encode()).hexdigest()

    what = (request.verb, answer["uri"])
    if answer.get("qop") == "auth-int":
        what = (*what, hashlib.new(kind, request.body).hexdigest())
    middle = [answer[name] for name in ("nc", "cnonce", "qop")] if "qop" in answer else []
    wanted = hashed(hashed("gw", "r", PASSWORD), answer["nonce"], *middle, hashed(*what))
    return answer["response"] == wanted and answer["uri"] == request.path


@dataclass
class Challenging:
    """Let in who answers a challenge of ours rightly, with a nonce that was used fewer than ``uses`` times."""

    headers: tuple[str, ...]
    uses: int = 1000
    answers: list[dict[str, str]] = field(default_factory=list)

    async def play(self, exchange: Exchange) -> None:
        given = exchange.request.headers.get("Authorization", "")
        answer = {name: quoted or plain for name, quoted, plain in _MEMBER.findall(given)}
        if given.startswith("Digest "):
            self.answers.append(answer)
            if is_right(exchange.request, answer) and int(answer.get("nc", "0"), 16) <= self.uses:
                await Honest().play(exchange)
                return
        challenges = tuple(("WWW-Authenticate", one) for one in self.headers)
        await Body(b"who?", status=401, content_type="text/plain", headers=challenges).play(exchange)


@each_row
async def test_a_challenge_is_answered_wherever_it_stands(headers: tuple[str, ...], nonce: str) -> None:
    service: Any = Challenging(headers)
    async with ScriptedBackend() as backend:
        backend.on("add", service)
        async with front(backend.url, KNOBS) as gateway:
            for _ in range(2):
                assert (await gateway.call("modern", "add", SUM)).value == {"sum": 5}
    assert [answer["nonce"] for answer in service.answers] == [nonce] * 2


async def test_the_body_is_not_signed_where_a_server_leaves_the_choice() -> None:
    service = Challenging(('Digest realm="r", nonce="n-md5", qop="auth-int,auth"',))
    async with ScriptedBackend() as backend:
        backend.on("add", service)
        async with front(backend.url, KNOBS) as gateway:
            assert (await gateway.call("modern", "add", SUM)).value == {"sum": 5}
    assert [answer["qop"] for answer in service.answers] == ["auth"]


async def test_a_nonce_that_is_used_up_is_replaced_within_the_call() -> None:
    service = Challenging((MD5,), uses=2)
    async with ScriptedBackend() as backend:
        backend.on("add", service)
        async with front(backend.url, KNOBS) as gateway:
            for _ in range(2):
                assert (await gateway.call("modern", "add", SUM)).value == {"sum": 5}


@each("header", [NEWER, "Digest", 'Digest realm="r"', 'Digest nonce="", realm="r"', "Basic", "", '"', "Digest ,,=,"])
async def test_a_challenge_that_cannot_be_answered_is_a_refusal(header: str) -> None:
    service = Challenging((header,))
    async with ScriptedBackend() as backend:
        backend.on("add", service)
        async with front(backend.url, KNOBS) as gateway:
            refused = await gateway.call("modern", "add", SUM)
    assert refused.message == "The backend does not accept the gateway's credential"
    assert backend.calls("add") == 1
