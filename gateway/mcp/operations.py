"""What an MCP client can ask of a server with tools, whatever the revision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.auth.access import Access
from gateway.catalog.pages import PageCache, Projector
from gateway.discovery.discovery import Discovery
from gateway.discovery.subscriptions import Subscriptions
from gateway.errors import InvalidParams
from gateway.jsonrpc import Raw
from gateway.limits import Budget, StreamLimit
from gateway.mcp.cursors import Cursors
from gateway.mcp.server_info import UNKNOWN, Introduction, ServerInfo
from gateway.model import Caller
from gateway.search.tools import SEARCH_CATALOG
from gateway.settings import CatalogSettings


@dataclass(frozen=True, slots=True)
class ToolPage:
    """A page of tools: the JSON array, the cursor of the next page, and how long it may be kept (milliseconds)."""

    tools: Raw
    cursor: str | None
    ttl_ms: int
    is_shared: bool


class Operations:
    def __init__(
        self,
        discovery: Discovery,
        pages: PageCache,
        budget: Budget,
        cursors: Cursors,
        settings: CatalogSettings,
        introduction: Introduction,
        subscriptions: Subscriptions,
        streams: StreamLimit,
        heartbeat: float,
        access: Access,
        max_response: int,
    ) -> None:
        self.subscriptions = subscriptions
        self.epoch = subscriptions.epoch
        """That of ``subscriptions`` for whoever is let in by this service; set where the service is put in place."""
        self.streams = streams
        self.heartbeat = heartbeat
        self.max_response = max_response
        self._access = access
        self.discovery = discovery
        self._pages = pages
        self._budget = budget
        self._cursors = cursors
        self._settings = settings
        self._introduction = introduction

    def server_info(self, caller: Caller) -> ServerInfo:
        """How the gateway introduces itself."""
        catalog = self.discovery.current(caller.view)  # nobody waits for a listing
        return self._introduction.server_info(UNKNOWN if catalog is None else catalog.service)

    async def admit_discovery(self, caller: Caller) -> None:
        """Check that the caller may learn what tools there are, and count one. Raises
        :class:`~gateway.errors.InsufficientScope`, :class:`~gateway.errors.RateLimited`."""
        self._access.check_list(caller)
        await self._budget.spend(caller)

    async def list_tools(
        self,
        caller: Caller,
        cursor: object,
        projector: Projector,
        size: int | None = None,
        patience: float | None = None,
    ) -> ToolPage:
        """A page, the first without a cursor. ``patience`` is the longest wait in seconds for a listing where there is
        none at hand.

        Raises as :meth:`admit_discovery` does; :class:`~gateway.errors.InvalidCursor`,
        :class:`~gateway.errors.CatalogUnavailable`.
        """
        after = None
        if cursor is None:
            await self.admit_discovery(caller)
        else:
            self._access.check_list(caller)
            after = await self._cursors.follow(cursor, caller)
        catalog = self._access.visible_catalog(caller, await self.discovery.catalog(caller, patience))
        if self._settings.search:
            catalog = SEARCH_CATALOG
        page = self._pages.get_page(catalog, projector, after, size or self._settings.page_size)
        return ToolPage(
            page.tools,
            None if page.last is None else self._cursors.issue(page.last, caller),
            int(self.discovery.seconds_fresh(caller.view) * 1000),
            not self._access.enabled,
        )

    def check_stream(self, caller: Caller) -> None:
        """Check that the caller may open a stream of news about its tools. Raises
        :class:`~gateway.errors.InsufficientScope`, :class:`~gateway.errors.RateLimited`."""
        self._access.check_list(caller)
        self.streams.check(caller)


def parse_call_params(params: Mapping[str, Any]) -> tuple[str, dict[str, Any], str | int | None]:
    """The name, the arguments and the progressToken, if it is a good one, in the params of ``tools/call``.

    Raises :class:`InvalidParams`.
    """
    name = params.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidParams('"name" must be the name of a tool')
    arguments = params.get("arguments")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise InvalidParams('"arguments" must be an object')
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return name, arguments, token if type(token) in (str, int) else None
