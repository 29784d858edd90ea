"""What the programs for the Python clients share.

Each runs in the environment of its client, named ``python <driver>.py ERA``. It reads orders from standard input, one
JSON object on a line, ``{"scenario": …, "url": …, "token": …}``, and answers each with one line: what it observed, or
``{"failure": …}``. By hand::

    echo '{"scenario": "list", "url": "http://127.0.0.1:8080/mcp", "token": ""}' | python mcp2.py legacy

It serves many orders, since an import of these libraries takes seconds. Every order gets a client of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

PATIENCE = 75.0
"""Seconds after which an order is given up, and says why: before tests/clients/driver.py gives the program up."""


@dataclass(frozen=True)
class Order:
    """``token`` names what this order adds to the backend: a call of ``slow``, or a tool. Over standard input and
    output, ``url`` is the command that the client starts. ``tool`` and ``arguments`` are for agent frameworks."""

    era: str
    scenario: str
    url: str | list[str]
    token: str
    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)


Observed: TypeAlias = dict[str, Any]
Scenario: TypeAlias = Callable[[Order], Awaitable[Observed]]


def drive(scenarios: Mapping[str, Scenario]) -> None:
    """Answer orders until standard input ends. What a library prints goes to standard error."""
    era = sys.argv[1]
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        order = Order(era, **json.loads(line))
        try:
            observed = asyncio.run(_bounded(scenarios[order.scenario], order))
        except BaseException:  # also groups of exceptions, and what a library makes of its own cancellation
            observed = {"failure": traceback.format_exc()}
        print(json.dumps(observed, default=str), file=answers, flush=True)


async def _bounded(scenario: Scenario, order: Order) -> Observed:
    async with asyncio.timeout(PATIENCE):
        return await scenario(order)


async def abandoned(call: asyncio.Task[Any]) -> str:
    """Cancel a call as asyncio has it, and say what its awaiter gets."""
    call.cancel()
    try:
        return f"result: {await call}"
    except BaseException as error:
        return type(error).__name__


async def grown(
    order: Order, client: Any, names: Callable[[], Awaitable[list[str]]], changes: asyncio.Queue[None]
) -> Observed:
    """Let the backend add a tool, and list once for each change that was told, until the tool is there."""
    before = await names()
    await client.call_tool("grow", {"name": order.token})
    heard = 0
    while True:
        await changes.get()
        heard += 1
        after = await names()
        if order.token in after:
            return {"before": before, "after": after, "heard": heard}


async def given_up(order: Order, client: Any) -> Observed:
    """Give up a call that the backend has, and see that it is stopped there."""
    call = asyncio.create_task(client.call_tool("slow", {"token": order.token}))
    begun = await client.call_tool("await_slow", {"token": order.token})
    outcome = await abandoned(call)
    stopped = await client.call_tool("await_stopped", {"token": order.token})
    return {"begun": begun.structured_content, "outcome": outcome, "stopped": stopped.structured_content}
