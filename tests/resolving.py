"""A name service that answers what a test says. Names that the test does not mention are resolved as ever.

names = Names(monkeypatch)
names["idp.example.com"] = [["127.0.0.1"], ["127.0.0.2", "::1"]]  # at first so, then so for ever

It stands in for the operating system's (the running loop's ``getaddrinfo``): everything above it is real.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest


class Names:
    """``asked`` has the names that were looked up, of those that the test mentions. Make it within the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self._answers: dict[str, list[list[str]]] = {}
        loop = asyncio.get_running_loop()
        self._real = loop.getaddrinfo
        monkeypatch.setattr(loop, "getaddrinfo", self._look_up)

    def __setitem__(self, name: str, answers: list[list[str]]) -> None:
        self._answers[name] = list(answers)

    async def _look_up(self, host: Any, port: Any, **how: Any) -> list[Any]:
        answers = self._answers.get(host)
        if answers is None:
            return list(await self._real(host, port, **how))
        self.asked.append(host)
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [_info(address, int(port or 0)) for address in addresses]


def _info(address: str, port: int) -> tuple[Any, ...]:
    if ":" in address:
        return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)
