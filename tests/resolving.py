"""A name service that answers what a test says. Names that the test does not mention are resolved as ever.

names = Names(monkeypatch)
names["idp.example.com"] = [["127.0.0.1"], ["127.0.0.2", "::1"]]  # at first so, then so for ever

It stands in for the operating system's (``socket.getaddrinfo``): everything above it is real.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from tests.waiting import PATIENCE


class Names:
    """``asked`` has the names that were looked up, of those that the test mentions. A name in ``hanging`` gets no
    answer before ``release`` is set; :meth:`wait` returns once so many such look-ups are under way. Make it in the
    loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.hanging: set[str] = set()
        self.release = threading.Event()
        self._answers: dict[str, list[list[str]]] = {}
        self._loop = asyncio.get_running_loop()
        self._under_way = 0
        self._news = asyncio.Condition()
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._look_up)

    def __setitem__(self, name: str, answers: list[list[str]]) -> None:
        self._answers[name] = list(answers)

    async def wait(self, number: int) -> None:
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: self._under_way >= number)

    def _look_up(self, host: Any, port: Any, *how: Any, **more: Any) -> list[Any]:
        if host in self.hanging:
            asyncio.run_coroutine_threadsafe(self._count(1), self._loop).result()
            self.release.wait()
        answers = self._answers.get(host)
        if answers is None:
            return list(self._real(host, port, *how, **more))
        self.asked.append(host)
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [_info(address, int(port or 0)) for address in addresses]

    async def _count(self, more: int) -> None:
        async with self._news:
            self._under_way += more
            self._news.notify_all()


def _info(address: str, port: int) -> tuple[Any, ...]:
    if ":" in address:
        return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)
