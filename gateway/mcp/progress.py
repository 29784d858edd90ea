"""Progress of calls that asked for it: a heartbeat, since a backend that speaks JSON-RPC reports none.

Values grow by one with each beat (2026-07-28, basic/patterns/progress); the last message is the response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from gateway import jsonrpc
from gateway.mcp.exchange import Events
from gateway.units import format_duration


def token_of(params: dict[str, Any]) -> str | int | None:
    """The request's progressToken, if it has a good one."""
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return token if type(token) in (str, int) else None


async def with_progress(
    token: str | int, start: Callable[[], asyncio.Task[bytes]], heartbeat: float, *, cancels: bool, tool: str = ""
) -> Events:
    """Progress while the work that ``start`` begins is under way, then what it came to, a whole response.

    ``cancels`` says whether the end of the stream before that ends the work. ``tool`` is what messages call it; without
    it there are none (2024-11-05 has no ``message``).
    """
    beat = 0
    work = start()
    try:
        while True:
            yield _progress(token, beat, _waiting(tool, beat * heartbeat) if tool else None)
            beat += 1
            done, _ = await asyncio.wait({work}, timeout=heartbeat)
            if done:
                if not work.cancelled():  # a call that was cancelled gets no response
                    yield work.result()
                return
    finally:
        if cancels and not work.done():
            work.cancel()
            await asyncio.wait({work})


def _waiting(tool: str, seconds: float) -> str:
    return f"Waiting for {tool}" + (f", {format_duration(round(seconds, 3))} so far" if seconds else "")


def _progress(token: str | int, beat: int, message: str | None) -> bytes:
    params: dict[str, Any] = {"progressToken": token, "progress": beat}
    if message is not None:
        params["message"] = message
    return jsonrpc.encode({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
