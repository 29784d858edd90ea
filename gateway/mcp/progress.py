"""Progress of calls that asked for it: a heartbeat, since a backend that speaks JSON-RPC reports none.

Values grow by one with each beat (2026-07-28, basic/patterns/progress); the last message is the response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from gateway import jsonrpc
from gateway.jsonrpc import Request
from gateway.mcp.messages import Events
from gateway.telemetry.internal_errors import to_gateway_error
from gateway.units import format_duration


async def stream_progress(
    request: Request,
    token: str | int,
    start: Callable[[], asyncio.Task[dict[str, Any]]],
    heartbeat: float,
    *,
    cancels: bool,
    tool: str = "",
) -> Events:
    """Progress while the work that ``start`` begins is under way, then the response: its result, or the error
    that came of it.

    ``cancels`` says whether the end of the stream before that ends the work. ``tool`` is what messages call it; without
    it there are none (2024-11-05 has no ``message``).
    """
    beat = 0
    work = start()
    try:
        while True:
            yield _progress(token, beat, _wait_message(tool, beat * heartbeat) if tool else None)
            beat += 1
            done, _ = await asyncio.wait({work}, timeout=heartbeat)
            if done:
                if not work.cancelled():  # a call that was cancelled gets no response
                    yield _response_to(request, work)
                return
    finally:
        if cancels and not work.done():
            work.cancel()
            await asyncio.wait({work})
        if work.done() and not work.cancelled():
            work.exception()  # an error that nobody is left to hear


def _response_to(request: Request, work: asyncio.Task[dict[str, Any]]) -> bytes:
    error = work.exception()
    if error is None:
        return jsonrpc.response_bytes(request.id, work.result())
    return jsonrpc.error_bytes(request.id, to_gateway_error(error, method=request.method))


def _wait_message(tool: str, seconds: float) -> str:
    return f"Waiting for {tool}" + (f", {format_duration(round(seconds, 3))} so far" if seconds else "")


def _progress(token: str | int, beat: int, message: str | None) -> bytes:
    params: dict[str, Any] = {"progressToken": token, "progress": beat}
    if message is not None:
        params["message"] = message
    return jsonrpc.request_bytes(None, "notifications/progress", params)
