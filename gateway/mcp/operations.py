"""Operations on tools that are the same in every revision of MCP: admission, listing, server info."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from cachetools import FIFOCache
from msgspec import Struct

from gateway import __version__, jsonrpc
from gateway.catalog.pages import PageCache, Projector
from gateway.discovery.subscriptions import Subscriptions
from gateway.errors import InvalidCursor
from gateway.invocation.invocation import Call, Invocation
from gateway.jsonrpc import Raw
from gateway.limits import Budget, StreamLimit
from gateway.mcp.messages import Events
from gateway.mcp.running import stream_notices
from gateway.model import Caller, Catalog, ServiceInfo
from gateway.settings.mcp import Icon, McpServer
from gateway.signing import Signer, SigningKeys

# Members of schema.ts ``Implementation``: 2024-11-05 and 2025-03-26 know ``name`` and ``version``, 2025-06-18 adds
# ``title``, 2025-11-25 and 2026-07-28 the rest.
PLAIN: Final = ("name", "version")
TITLED: Final = ("name", "title", "version")
WHOLE: Final = ("name", "title", "version", "description", "websiteUrl", "icons")
SERVER_NAME: Final = "jsonrpc-mcp-gateway"
META_MISSING: Final = "missingServices"
"""Member of ``_meta``: the services of a group whose tools cannot be listed."""
CAPABILITIES: Final = {"tools": {"listChanged": True}}
"""The gateway's, in both eras."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The server's description for clients. ``members`` are those of an ``Implementation``, without empty ones.
    ``missing`` are services of a group whose tools cannot be listed."""

    members: dict[str, Any]
    instructions: str = ""
    missing: tuple[str, ...] = ()

    def implementation(self, known: Collection[str]) -> dict[str, Any]:
        """Return the members that are in ``known``, which a revision lists."""
        return {name: value for name, value in self.members.items() if name in known}


def describe_server(own: McpServer, service: ServiceInfo, hints: Iterable[str] = ()) -> ServerInfo:
    """Return the description of the server: from its ``own`` settings, then from what the listing says of the service.
    Its instructions are the operator's, or those of the listing and ``hints`` on its tools."""
    about = own.about
    members = {
        "name": own.name or service.title or SERVER_NAME,
        "title": service.title if about.title is None else about.title,
        "version": service.version or __version__,
        "description": about.description,
        "websiteUrl": about.website_url or service.website,
        "icons": [_icon(icon) for icon in about.icons],
    }
    listed = "\n\n".join(filter(None, (service.description, *hints)))
    instructions = listed if own.instructions is None else own.instructions
    if service.missing:
        away = f"The tools of {', '.join(service.missing)} cannot be listed at the moment; list again later."
        instructions = f"{instructions}\n\n{away}".lstrip()
    return ServerInfo({name: value for name, value in members.items() if value}, instructions, service.missing)


def _icon(icon: Icon) -> dict[str, Any]:
    members = {"src": icon.src, "mimeType": icon.mime_type, "sizes": list(icon.sizes), "theme": icon.theme}
    return {name: value for name, value in members.items() if value}


_KEPT: Final = 1000
"""Catalogs of which is known what is listed in their place."""
_CURSOR_TTL: Final = 600.0
"""Seconds for which a cursor is good."""


class ToolPage(Struct):
    """A page of tools: the JSON array, the next page's cursor (None on the last), milliseconds to cache it, and the
    services of a group whose tools are missing."""

    tools: Raw
    cursor: str | None
    ttl_ms: int
    is_shared: bool
    missing: tuple[str, ...] = ()

    @property
    def next_cursor(self) -> bytes:
        """Return the JSON of the member that follows ``tools``, nothing on the last page."""
        return b"" if self.cursor is None else b',"nextCursor":' + jsonrpc.encode(self.cursor)


@dataclass(kw_only=True, eq=False, repr=False)
class Operations:
    """Do what both eras need. ``searched`` returns what tool search lists in place of a catalog, None where that itself
    is listed; cursors spend from ``next_pages``, which bounds how often one can be replayed."""

    invocation: Invocation
    server: McpServer
    pages: PageCache
    page_size: int
    cursors: Signer
    next_pages: Budget
    searched: Callable[[Catalog], Catalog | None]
    subscriptions: Subscriptions
    streams: StreamLimit
    heartbeat: float
    max_response: int
    epoch: int = field(init=False)
    """The epoch of ``subscriptions`` for callers that this service admits; set again at the swap."""
    _in_place: FIFOCache[tuple[str, str], Catalog | None] = field(init=False, default_factory=lambda: FIFOCache(_KEPT))

    def __post_init__(self) -> None:
        self.epoch = self.subscriptions.epoch

    def server_info(self, caller: Caller) -> ServerInfo:
        """Return the gateway's own description, from the cached listing if there is one."""
        catalog = self.invocation.discovery.current(caller.view)  # a client that connects must not wait for a listing
        if catalog is None:
            return describe_server(self.server, ServiceInfo())
        return describe_server(self.server, catalog.service, catalog.hints)

    def public_info(self) -> ServerInfo:
        """Return what everybody may know: what is configured, and the version of the listing that all callers share."""
        catalog = self.invocation.discovery.current()
        return describe_server(self.server, ServiceInfo(version=catalog.service.version if catalog else ""))

    async def admit_discovery(self, caller: Caller) -> None:
        """Check that the caller may list tools, and count one request. Raise
        :class:`~gateway.errors.InsufficientScope`, :class:`~gateway.errors.RateLimited`."""
        self.invocation.access.check_list(caller)
        await self.invocation.listings.spend(caller)

    async def list_tools(
        self,
        caller: Caller,
        cursor: object,
        projector: Projector,
        size: int | None = None,
        patience: float | None = None,
    ) -> ToolPage:
        """Return a page of tools, the first where ``cursor`` is None. ``patience`` is the longest wait in seconds where
        no listing is cached. Raise as :meth:`admit_discovery` does; :class:`~gateway.errors.InvalidCursor`,
        :class:`~gateway.errors.CatalogUnavailable`."""
        after = None
        self.invocation.access.check_list(caller)
        if cursor is None:
            await self.invocation.listings.spend(caller)
        else:
            # A cursor spends from a budget of its own, so that long listings do not use up discovery's.
            after = await self._follow(cursor, caller)
        whole = await self.invocation.discovery.catalog(caller, patience)
        catalog = self.invocation.access.visible_catalog(caller, whole)
        key = catalog.digest, catalog.service.title
        if key not in self._in_place:
            self._in_place[key] = self.searched(catalog)
        catalog = self._in_place[key] or catalog
        page = await self.pages.get_page(catalog, projector, after, size or self.page_size)
        return ToolPage(
            page.tools,
            None if page.last is None else self.cursors.sign(page.last, *caller.identity),
            int(self.invocation.discovery.seconds_fresh(caller.view) * 1000),
            not self.invocation.access.enabled,
            whole.service.missing,
        )

    def open_stream(
        self, caller: Caller, first: bytes | None, changed: bytes | None, *, last: bytes | None = None,
        session: str | None = None,
    ) -> Events:  # fmt: skip
        """Return a stream of notifications (:func:`stream_notices`). Raise :class:`~gateway.errors.InsufficientScope`,
        and :class:`~gateway.errors.RateLimited` where the caller has too many."""
        self.invocation.access.check_list(caller)
        self.streams.check(caller)
        return stream_notices(self.subscriptions, self.epoch, self.streams, caller, first, changed, last, session)

    def may_stream(self, call: Call) -> bool:
        """Return whether a stream answers a call that asks for progress: the call is made, and its caller has a stream
        left. Otherwise the answer is plain, as a server may choose (2026-07-28, basic/patterns/progress)."""
        return call.fault is None and self.streams.has_room(call.caller)

    async def _follow(self, cursor: object, caller: Caller) -> str:
        """Return the name after which the page begins. Raise :class:`InvalidCursor` (server/utilities/pagination,
        "Error Handling") and :class:`~gateway.errors.RateLimited`."""
        last = self.cursors.verify(cursor, *caller.identity) if isinstance(cursor, str) else None
        if last is None:  # checked before the budget: a forged cursor costs the caller nothing
            raise InvalidCursor(
                f"Invalid cursor: not issued here to this caller within the last {_CURSOR_TTL / 60:.0f} minutes; "
                "list again from the start"
            )
        await self.next_pages.spend(caller)
        return last


def cursor_signer(keys: SigningKeys, clock: Callable[[], float] = time.time) -> Signer:
    """Return what signs cursors of ``tools/list``: each is the last name of the page before. It is good in the current
    catalog and on any replica, and belongs to one caller. ``clock`` is wall-clock seconds, since replicas share it."""
    return Signer(keys, "cursor", _CURSOR_TTL, clock)
