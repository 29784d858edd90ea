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
from gateway.telemetry.logs import to_gateway_error
from gateway.units import format_duration


async def stream_progress(
    request: Request,
    token: str | int | None,
    start: Callable[[], asyncio.Task[dict[str, Any]]],
    heartbeat: float,
    held: AbstractContextManager[None],
    *,
    cancels: bool,
    tool: str = "",
    outbox: asyncio.Queue[bytes | None] | None = None,
) -> Events:
    """Yield progress while the task that ``start`` returns runs, every ``heartbeat`` seconds; without a ``token``,
    keep-alives. Then yield its response, with the result or the error.

    ``held`` counts the stream while it is open. ``cancels`` tells whether closing the stream early cancels the task.
    ``tool`` is the name in the ``message`` of the notifications; without it they have none (2024-11-05 does not know
    the member). What the task puts into ``outbox`` is sent at once.
    """
    outbox = outbox or asyncio.Queue()
    beat = 0
    with held:
        work = start()
        work.add_done_callback(lambda _: outbox.put_nowait(None))
        try:
            yield _beat(token, beat, tool, heartbeat)
            while True:
                try:
                    async with asyncio.timeout(heartbeat):
                        message = await outbox.get()
                except TimeoutError:
                    beat += 1
                    yield _beat(token, beat, tool, heartbeat)
                    continue
                if message is None:
                    break
                yield message
            if not work.cancelled():  # a call that was cancelled gets no response
                yield _response_bytes(request, work)
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


def _beat(token: str | int | None, beat: int, tool: str, heartbeat: float) -> bytes | None:
    if token is None:
        return None
    params: dict[str, Any] = {"progressToken": token, "progress": beat}
    if tool:
        waited = f", {format_duration(round(beat * heartbeat, 3))} so far" if beat else ""
        params["message"] = f"Waiting for {tool}{waited}"
    return jsonrpc.request_bytes(None, "notifications/progress", params)
