"""Take turns to ask an issuer about tokens (RFC 7662). Anybody can invent tokens, so the questions are bounded, and no
network's keep those of others waiting. An IPv6 /48 is one network, since one stranger may have all of it:

- At most 16 questions are under way, and 50 begin within a second. While others wait, one network has half of each.
- A question that finds no turn waits for 2 s. A network that has asked nothing within the last second is first; the
  others are served in turn.
- At most 256 tokens wait, and a quarter of that of one network. Where all wait that may, the network with the most
  loses its newest.

Who finds no turn gets 503 with Retry-After, and is never told that the token is bad.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Hashable
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Final

from gateway.auth.compact import Undecidable
from gateway.concurrency.lines import Waiter, WaitingLines

MAX_UNDER_WAY: Final = 16
"""Questions to one issuer at the same time."""
MAX_PER_SECOND: Final = 50
"""Questions to one issuer within a second."""
MAX_WAITING: Final = 256
"""Tokens that wait for their question, a quarter of them of one network."""
PATIENCE: Final = 2.0
"""Seconds that a token waits for its question."""
_SHARE: Final = 2
_SHARE_OF_WAITING: Final = 4
_SECOND: Final = 1.0
_LATER: Final = 0.01  # seconds: a timer of uvloop may be early by a millisecond
_RETRY_AFTER: Final = 1


class _Asker(Waiter):
    """Hold a token that a network waits for, with what begins its question, and in which context."""

    begin: Callable[[], asyncio.Task[Any]]
    context: Context
    requests: int = 0
    """How many requests wait for it."""


class IssuerTurns:
    """Give turns to the networks that show tokens of the ``issuer``."""

    def __init__(self, issuer: str) -> None:
        self._issuer = issuer
        self._lines = WaitingLines[_Asker]()
        self._under_way: Counter[Hashable] = Counter()
        self._begun: deque[tuple[float, Hashable]] = deque()
        """When each question of the last second began, and of which network."""
        self._recent: Counter[Hashable] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        under_way, recent = self._under_way.total(), len(self._begun)
        return f"<IssuerTurns {under_way} under way, {recent} within a second, {self._lines.total} wait>"

    async def take(self, network: str, token: Hashable, begin: Callable[[], asyncio.Task[Any]]) -> asyncio.Task[Any]:
        """Return the task that ``begin`` starts in a turn of the network, or that a turn of another one has started for
        the same token. Raise :class:`Undecidable` where there is no turn."""
        self._serve()
        line = self._lines.callers.get(network, {}).get(token)
        if not line and self._has_room() and self._may_go(network, token):
            return self._begin(network, token, begin)
        asker = line[0] if line else self._wait(network, token, begin)
        asker.requests += 1
        try:
            return await asyncio.shield(asker.turn)
        finally:
            asker.requests -= 1
            if not asker.requests and not asker.turn.done():  # all have given up
                self._lines.discard(asker)
                asker.turn.cancel()
                self._serve()

    def _wait(self, network: str, token: Hashable, begin: Callable[[], asyncio.Task[Any]]) -> _Asker:
        """Put a token at the end of the line of a network."""
        lines, loop = self._lines, asyncio.get_running_loop()
        if lines.lengths[network] >= MAX_WAITING // _SHARE_OF_WAITING:
            raise self._fault()
        if lines.total >= MAX_WAITING:
            last = lines.surplus(network)
            if last is None:
                raise self._fault()
            self._refuse(last)
        asker = _Asker(network, token, loop.create_future(), begin, copy_context())
        lines.add(asker)
        timer = loop.call_later(PATIENCE, self._refuse, asker, context=Context())
        asker.turn.add_done_callback(lambda _: timer.cancel())
        self._look_later()
        return asker

    def _has_room(self) -> bool:
        """Return whether one more question may begin."""
        now = asyncio.get_running_loop().time()
        while self._begun and now - self._begun[0][0] >= _SECOND:
            _decrement(self._recent, self._begun.popleft()[1])
        return self._under_way.total() < MAX_UNDER_WAY and len(self._begun) < MAX_PER_SECOND

    def _may_go(self, network: Hashable, _: Hashable) -> bool:
        """Return whether a network is within its half, or no other waits."""
        if self._under_way[network] < MAX_UNDER_WAY // _SHARE and self._recent[network] < MAX_PER_SECOND // _SHARE:
            return True
        return self._lines.callers.keys() <= {network}

    def _is_new(self, network: Hashable, _: Hashable) -> bool:
        return not self._under_way[network] and not self._recent[network]

    def _serve(self) -> None:
        """Give all turns that there are."""
        while self._lines.total and self._has_room():
            asker = self._lines.pop_next(_any_token, self._is_new) or self._lines.pop_next(_any_token, self._may_go)
            if asker is None:
                break
            task = asker.context.run(self._begin, asker.caller, asker.tool, asker.begin)
            asker.turn.set_result(task)
        self._look_later()

    def _look_later(self) -> None:
        """Look again when the oldest question of the last second is none of it any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._lines.total and self._begun:
            due = self._begun[0][0] + _SECOND + _LATER
            self._timer = asyncio.get_running_loop().call_at(due, self._serve, context=Context())

    def _begin(self, network: Hashable, token: Hashable, begin: Callable[[], asyncio.Task[Any]]) -> asyncio.Task[Any]:
        """Begin a question, and let all who wait for the same token have its answer."""
        self._under_way[network] += 1
        self._recent[network] += 1
        self._begun.append((asyncio.get_running_loop().time(), network))
        task = begin()
        task.add_done_callback(partial(self._end, network))
        for other in list(self._lines.of_tool(token)):
            self._lines.discard(other)
            other.turn.set_result(task)
        return task

    def _end(self, network: Hashable, _: object) -> None:
        _decrement(self._under_way, network)
        self._serve()

    def _refuse(self, asker: _Asker) -> None:
        if not asker.turn.done():
            asker.turn.set_exception(self._fault())
            self._lines.discard(asker)
            self._serve()

    def _fault(self) -> Undecidable:
        busiest = max(self._lines.lengths, key=self._lines.lengths.__getitem__)
        reason = f"{self._issuer}: too many introspection requests at once, most that wait are of {busiest}"
        return Undecidable(reason, _RETRY_AFTER)


def _any_token(_: Hashable) -> bool:
    return True


def _decrement(counter: Counter[Hashable], key: Hashable) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
