"""Who calls in ``make soak``: callers with tokens that expire, on all surfaces and in both eras, who also list, listen,
send batches, ask for progress, and hang up. Whatever they are told goes into the ledger."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import aiohttp

from lab.soak.world import World
from tests.authorization.stand import CALLS, LISTS, MODERN, Answer, Bearer
from tests.fault.ledger import Told, read
from tests.protocol.official import LEGACY
from tests.protocol.streams import Mark
from tests.protocol.talk import CAPABILITIES, legacy_headers, modern_headers, modern_request, request

PATIENCE: Final = 15.0
"""Seconds after which an answer is given up as lost; the gateway has 3 for a call."""
_PAUSE: Final = 0.1
"""Seconds between two deeds of one caller, more or less."""
_RENEWAL: Final = 12.0
"""Seconds after which a token is renewed. It is good for 20."""
_BATCHING: Final = "2025-03-26"
_SHOWN: Final = (*CALLS, *LEGACY[1:3])
_NGINX: Final[tuple[Told, str]] = ("failed", "nginx answered")
_GONE: Final = (aiohttp.ClientError, ConnectionError, TimeoutError)


@dataclass
class Actor:
    """One caller. ``deeds`` counts what it did."""

    it: World
    name: str
    opaque: bool
    random: Random
    deeds: Counter[str] = field(default_factory=Counter)
    _client: Bearer | None = None
    _renew_at: float = 0.0

    async def act(self, over: asyncio.Event) -> None:
        """Do one thing after the other until it is over."""
        deeds: Sequence[Callable[[Bearer], Awaitable[None]]] = (
            *(self.plain,) * 8, *(self.slow,) * 2, *(self.lists,) * 3, self.batch, self.legacy_batch, self.progress,
            self.hangs_up, self.cancels, self.expired, self.listens, self.agrees,
        )  # fmt: skip
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            while not over.is_set():
                deed = self.random.choice(deeds)
                self.deeds[deed.__name__] += 1
                await deed(self._with_token(session))
                await asyncio.sleep(self.random.uniform(0, 2 * _PAUSE))

    def _with_token(self, session: aiohttp.ClientSession) -> Bearer:
        """A client whose token is good for some seconds still."""
        now = asyncio.get_running_loop().time()
        if self._client is None or now >= self._renew_at:
            self._client = Bearer(session, self.it.port, self.it.token(self.name, opaque=self.opaque))
            self._renew_at = now + _RENEWAL * self.random.uniform(0.5, 1)
        return self._client

    # Calls

    async def plain(self, client: Bearer) -> None:
        await self._called(self.random.choice(_SHOWN), client)

    async def slow(self, client: Bearer) -> None:
        await self._called(self.random.choice(_SHOWN), client, self.random.uniform(0.1, 0.8))

    async def expired(self, client: Bearer) -> None:
        """A token of yesterday is refused, and nothing runs."""
        token = self.it.token(self.name, opaque=self.opaque, lifetime=-60)
        async with aiohttp.ClientSession() as session:
            await self._called(self.random.choice(CALLS), Bearer(session, client.port, token), good=False)

    async def _called(self, surface: str, client: Bearer, wait: float = 0.0, *, good: bool = True) -> None:
        number = self.it.ledger.number()
        asked = client.call(surface, "work", {"number": number, "wait": wait})
        await self._told([number], asked, lambda answer: [read(surface, number, answer)], good=good)

    async def batch(self, client: Bearer) -> None:
        """On /jsonrpc."""
        numbers = [self.it.ledger.number() for _ in range(3)]
        items = [request("work", _arguments(number), number) for number in numbers]
        await self._told(numbers, client.post("/jsonrpc", items), lambda answer: _items("jsonrpc", numbers, answer))

    async def legacy_batch(self, client: Bearer) -> None:
        """In the one revision of MCP that has them."""
        numbers = [self.it.ledger.number() for _ in range(3)]
        items = [request("tools/call", {"name": "work", "arguments": _arguments(number)}, number) for number in numbers]
        asked = client.mcp(items, legacy_headers(_BATCHING))
        await self._told(numbers, asked, lambda answer: _items(_BATCHING, numbers, answer))

    async def progress(self, client: Bearer) -> None:
        """A call whose answer is a stream."""
        number, era = self.it.ledger.number(), self.random.choice((MODERN, LEGACY[0]))
        params = {"name": "work", "arguments": _arguments(number, 0.2), "_meta": {"progressToken": number}}
        if era == MODERN:
            asked = client.mcp(modern_request("tools/call", params), modern_headers("tools/call", "work"))
        else:
            asked = client.mcp(request("tools/call", params), legacy_headers(era))
        await self._told([number], asked, lambda answer: [read(era, number, _last(answer))])

    # Calls that are called off

    async def hangs_up(self, client: Bearer) -> None:
        number, surface = self.it.ledger.number(), self.random.choice(_SHOWN)
        asked = asyncio.create_task(client.call(surface, "work", _arguments(number, 1.0)))
        await asyncio.sleep(self.random.uniform(0, 0.3))
        asked.cancel()
        await asyncio.wait([asked])
        self.it.ledger.tell(number, "failed", "the caller hung up")

    async def cancels(self, client: Bearer) -> None:
        """Cancel a call as the older eras do."""
        number = self.it.ledger.number()
        try:
            session = await client.initialize()
        except AssertionError:  # the caller cannot be checked now
            return
        except _GONE as failure:
            self.it.ledger.tell(number, "lost", failure)
            return
        params = {"name": "work", "arguments": _arguments(number, 1.0)}
        asked = asyncio.create_task(
            client.mcp(request("tools/call", params, number), legacy_headers(LEGACY[0], session))
        )
        await asyncio.sleep(self.random.uniform(0, 0.3))
        told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
        with suppress(*_GONE):
            await client.mcp(told, legacy_headers(LEGACY[0], session))
        await self._told([number], asked, lambda answer: [_cancelled(number, answer)])

    async def agrees(self, client: Bearer) -> None:
        """One consent, given twice at once: it counts once."""
        number = self.it.ledger.number()
        asks: dict[str, Any] = {"_meta": {CAPABILITIES: {"elicitation": {}}}}
        params: dict[str, Any] = {"name": "agreed", "arguments": _arguments(number), **asks}
        try:
            async with asyncio.timeout(PATIENCE):
                asked = await client.modern("tools/call", params)
                state = json.loads(asked.body).get("result", {}).get("requestState")
                if state is None:
                    self.it.ledger.tell(number, "failed", "the person was not asked")
                    return
                params |= {"requestState": state, "inputResponses": {"confirm": {"action": "accept", "content": {}}}}
                answers = await asyncio.gather(*(client.modern("tools/call", params) for _ in range(2)))
        except _GONE as failure:
            self.it.ledger.tell(number, "lost", repr(failure))
            return
        except ValueError:
            self.it.nginx_answers += 1
            self.it.ledger.tell(number, "failed", "nginx answered")
            return
        outcomes = [_NGINX if self._is_nginx(one) else read(MODERN, number, one) for one in answers]
        told = [one for one in outcomes if one[0] in ("right", "wrong")]
        self.it.ledger.tell(number, *(told[0] if told else ("failed", "the consent was not taken")))

    def _is_nginx(self, answer: Answer) -> bool:
        """Whether no gateway gave this answer, which is counted."""
        is_nginx = self.it.redis is not None and b"<center>nginx" in answer.body
        self.it.nginx_answers += is_nginx
        return is_nginx

    # What is no call

    async def lists(self, client: Bearer) -> None:
        """Whatever is listed, the service has listed at some time."""
        surface = self.random.choice(LISTS)
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await client.list(surface)
            if self._is_nginx(answer):
                return
            if answer.status == 200:
                page = answer.json.get("result", answer.json)
                if frozenset(tool["name"] for tool in page["tools"]) not in self.it.offered:
                    raise AssertionError(answer)
            elif answer.status not in (429, 502, 503, 504):
                raise AssertionError(answer)
        except Exception as failure:  # whatever cannot be read as a listing is a wrong one
            self.it.wrong_lists.append(f"{surface}: {failure!r}"[:500])

    async def listens(self, client: Bearer) -> None:
        """A stream of notices for a while. It may end, as all do whose token expires."""
        modern = self.random.random() < 0.5
        headers = {"Accept": "text/event-stream", **legacy_headers(LEGACY[0])}
        opened = client.listen({"toolsListChanged": True}) if modern else client.stream(None, headers)
        with suppress(TimeoutError, AssertionError):  # an assertion: no stream was to be had
            async with asyncio.timeout(self.random.uniform(0.5, 5)), opened as stream:
                while await stream.event() is not Mark.END:
                    pass

    async def _told(
        self,
        numbers: Sequence[str],
        asked: Awaitable[Answer],
        reading: Callable[[Answer], list[tuple[Told, str]]],
        *,
        good: bool = True,
    ) -> None:
        """Note what each of these calls came to. Whose token is ``good`` must not be refused, and who has none must not
        be answered."""
        ledger = self.it.ledger
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await asked
            outcomes = [_NGINX] * len(numbers) if self._is_nginx(answer) else reading(answer)
        except _GONE as failure:
            outcomes = [("lost", repr(failure))] * len(numbers)
        except Exception as failure:  # whatever cannot be read as an answer is a wrong one
            outcomes = [("wrong", repr(failure))] * len(numbers)
        for number, (told, why) in zip(numbers, outcomes, strict=True):
            if told == ("denied" if good else "right"):
                told, why = "wrong", f"{told} with a {'good' if good else 'bad'} token of {self.name}"
            ledger.tell(number, told, why)


def _arguments(number: str, wait: float = 0.0) -> dict[str, Any]:
    return {"number": number, "wait": wait}


def _items(surface: str, numbers: Sequence[str], answer: Answer) -> list[tuple[Told, str]]:
    """The outcomes of a batch, or one for all."""
    items = json.loads(answer.body)
    if not isinstance(items, list):
        return [read(surface, number, answer) for number in numbers]
    by_id = {item["id"]: item for item in items}
    return [
        read(surface, number, Answer(answer.status, answer.headers, json.dumps(by_id[number]).encode()))
        for number in numbers
    ]


def _last(answer: Answer) -> Answer:
    """The response at the end of a stream, or the answer that is no stream."""
    if answer.headers["Content-Type"] != "text/event-stream":
        return answer
    return Answer(answer.status, answer.headers, json.dumps(answer.messages[-1]).encode())


def _cancelled(number: str, answer: Answer) -> tuple[Told, str]:
    """202 without a body is the answer to a call that was cancelled."""
    return ("failed", "the caller cancelled it") if answer.status == 202 else read(LEGACY[0], number, answer)
