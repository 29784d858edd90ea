"""Send progress notifications while a call runs. They are a heartbeat: JSON-RPC backends report no progress.

The value grows by one with each beat (2026-07-28, basic/patterns/progress). The last message is the response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
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
    held: AbstractContextManager[None],
    *,
    cancels: bool,
    tool: str = "",
) -> Events:
    """Yield progress while the task that ``start`` returns runs, every ``heartbeat`` seconds; then its response, with
    the result or the error.

    ``held`` counts the stream while it is open. ``cancels`` tells whether closing the stream early cancels the task.
    ``tool`` is the name used in the notifications'
    ``message``; without it they have none (2024-11-05 does not know the member).
    """
    beat = 0
    with held:
        work = start()
        try:
            while True:
                yield _progress(token, beat, _wait_message(tool, beat * heartbeat) if tool else None)
                beat += 1
                done, _ = await asyncio.wait({work}, timeout=heartbeat)
                if done:
                    if not work.cancelled():  # a call that was cancelled gets no response
                        yield _response_bytes(request, work)
                    return
        finally:
            if cancels and not work.done():
                work.cancel()
                await asyncio.wait({work})
            if work.done() and not work.cancelled():
                work.exception()  # read it, or asyncio logs it as never retrieved


def _response_bytes(request: Request, work: asyncio.Task[dict[str, Any]]) -> bytes:
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
