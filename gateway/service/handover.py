"""Serve what the predecessor of a service listed, and send calls of that to its endpoint, until a new listing comes."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import structlog

from gateway.discovery.discovery import Discovery
from gateway.invocation.forwarding import Forwarder
from gateway.model import SHARED, Caller, Tool, View
from gateway.service.resource import Resource

_LONGER: Final = 0.5
"""Seconds for which the old endpoint stays open after a new listing, for calls that found their tool in the old one."""

log = structlog.get_logger()


Old = TypeVar("Old", bound=Resource)


class Handover(Generic[Old]):
    """Hand the calls of ``old`` over to a successor with another endpoint. ``listed`` serves the listings of ``old`` as
    the successor's settings would have them, at most ``until``, in monotonic seconds."""

    def __init__(self, old: Old, listed: Discovery, until: float = math.inf) -> None:
        self.old = old
        self.listed = listed
        self.until = until
        self._task: asyncio.Task[None] | None = None

    def owns(self, caller: Caller, tool: Tool) -> bool:
        """Return whether this tool is of the old listing: an equal one of a new listing is another object."""
        catalog = self.listed.current(caller.view)
        return catalog is not None and catalog.by_name.get(tool.name) is tool

    async def forward(self, *call: Any, answer_started: bool) -> Any:
        """Forward a call to the old endpoint, as :meth:`~gateway.invocation.forwarding.Forwarder.forward` does."""
        with self.old.uses:
            return await self.old.invocation.forwarder.forward(*call, answer_started=answer_started)

    def start(self, discovery: Discovery, forwarder: Forwarder, at_most: float, end: Callable[[], None]) -> None:
        """Begin to serve beside ``discovery`` and ``forwarder``, for ``at_most`` seconds. ``end`` is called then."""
        self.until = min(self.until, time.monotonic() + at_most)
        discovery.serve_former(self.listed)
        forwarder.former = self
        self._task = asyncio.create_task(self._serve(discovery, forwarder, end))

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _serve(self, discovery: Discovery, forwarder: Forwarder, end: Callable[[], None]) -> None:
        """Keep the old service open until the shared listing has come, or the time is over."""
        has_come = asyncio.Event()

        def follow(view: View) -> None:
            if discovery.has_listing(SHARED):
                has_come.set()

        with self.old.uses:
            discovery.followers.add(follow)
            follow(SHARED)
            try:
                async with asyncio.timeout(self.until - time.monotonic()):
                    await has_come.wait()
            except TimeoutError:
                log.info("the old listing and endpoint serve no longer")
            discovery.followers.discard(follow)
            discovery.end_former()
            await asyncio.sleep(_LONGER)
        forwarder.former = None
        end()
