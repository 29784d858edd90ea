"""What the programs for agent frameworks share: each offers a server's tools to an agent as its framework does, and
calls them as the framework does when a model asks for it. No model is asked: what it would say is in the order.

The orders are ``list`` and ``call``, with ``tool`` and ``arguments`` beside the members of :class:`driving.Order`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from driving import Observed, Order, drive

# No telemetry, no traces, no look-up of newer versions or of a cloud's credentials.
os.environ |= {
    "ANONYMIZED_TELEMETRY": "false", "CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_DISABLE_TRACKING": "true",
    "CREWAI_TRACING_ENABLED": "false", "FASTMCP_CHECK_FOR_UPDATES": "off", "LANGSMITH_TRACING": "false",
    "NO_GCE_CHECK": "true", "OPENAI_AGENTS_DISABLE_TRACING": "1", "OTEL_SDK_DISABLED": "true",
}  # fmt: skip


def stay_here(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse whatever asks a network all the same."""
    if event not in ("socket.connect", "socket.getaddrinfo"):
        return
    address = arguments[1] if event == "socket.connect" else arguments
    if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost", b"127.0.0.1", None):
        print(f"offering: refused {event} {address}", file=sys.stderr)
        raise PermissionError(f"this program reaches loopback alone, not {address[0]}")


sys.addaudithook(stay_here)


@dataclass(frozen=True)
class Answer:
    """Hold what the agent gets of a call. ``became`` says in which form: ``result``, or what an error became."""

    became: str
    text: str


@dataclass(frozen=True)
class Offered:
    """Hold a tool as the agent has it. ``name`` is the server's; ``shown`` is what a model is told of it."""

    name: str
    shown: Any
    call: Callable[[dict[str, Any]], Awaitable[Answer]]


def offer(opened: Callable[[Order], AbstractAsyncContextManager[list[Offered]]]) -> None:
    """Answer orders until standard input ends. ``opened`` connects, and lists the tools."""

    async def listing(order: Order) -> Observed:
        async with opened(order) as tools:
            shown = {tool.name: tool.shown for tool in tools}
            return {"tools": [*shown], "shown": shown.get(order.tool)}

    async def calling(order: Order) -> Observed:
        async with opened(order) as tools:
            (tool,) = (tool for tool in tools if tool.name == order.tool)
            try:
                answer = await tool.call(order.arguments)
            except Exception as error:
                answer = Answer(f"raises {type(error).__name__}", str(error))
            return vars(answer)

    drive({"list": listing, "call": calling})
