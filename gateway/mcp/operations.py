"""Operations on tools that are the same in every revision of MCP: admission, listing, server info."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from cachetools import FIFOCache
from msgspec import Struct

from gateway import jsonrpc
from gateway.auth.access import Access
from gateway.catalog.pages import PageCache, Projector
from gateway.discovery.discovery import CatalogSource
from gateway.discovery.subscriptions import Subscriptions
from gateway.errors import InvalidCursor
from gateway.invocation.invocation import Call
from gateway.jsonrpc import Raw
from gateway.limits import Budget, StreamLimit
from gateway.model import Caller, Catalog, ServiceInfo
from gateway.settings.mcp import Icon, McpServer
from gateway.signing import Signer, SigningKeys

# Members of schema.ts ``Implementation``: 2024-11-05 and 2025-03-26 know ``name`` and ``version``, 2025-06-18 adds
# ``title``, 2025-11-25 and 2026-07-28 the rest.
PLAIN: Final = ("name", "version")
TITLED: Final = ("name", "title", "version")
WHOLE: Final = ("name", "title", "version", "description", "websiteUrl", "icons")
UNKNOWN: Final = ServiceInfo()
"""A service whose listing is not cached."""
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


class Introduction:
    """Build the server's description from the settings and a listing. ``name`` and ``version`` are the gateway's own,
    the fallback for a listing without them."""

    def __init__(self, configured: McpServer, name: str, version: str) -> None:
        self._configured = configured
        self._name = name
        self._version = version

    def server_info(self, service: ServiceInfo, hints: Iterable[str] = ()) -> ServerInfo:
        """Return the description of the server for this service. Its instructions are the operator's, or those of the
        listing and ``hints`` on its tools."""
        own, about = self._configured, self._configured.about
        members = {
            "name": own.name or service.title or self._name,
            "title": service.title if about.title is None else about.title,
            "version": service.version or self._version,
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


Searched: TypeAlias = Callable[[Catalog], Catalog | None]
"""A function that returns what tool search lists in place of a catalog, None where that itself is listed."""
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
    """Do what both eras need. ``searched`` is None where there is no tool search."""

    discovery: CatalogSource
    pages: PageCache
    budget: Budget
    cursors: Cursors
    page_size: int
    searched: Searched | None
    introduction: Introduction
    subscriptions: Subscriptions
    streams: StreamLimit
    heartbeat: float
    access: Access
    max_response: int
    epoch: int = field(init=False)
    """The epoch of ``subscriptions`` for callers that this service admits; set again at the swap."""
    _in_place: FIFOCache[tuple[str, str], Catalog | None] = field(init=False, default_factory=lambda: FIFOCache(_KEPT))

    def __post_init__(self) -> None:
        self.epoch = self.subscriptions.epoch

    def server_info(self, caller: Caller) -> ServerInfo:
        """Return the gateway's own description, from the cached listing if there is one."""
        catalog = self.discovery.current(caller.view)  # a client that connects must not wait for a listing
        if catalog is None:
            return self.introduction.server_info(UNKNOWN)
        return self.introduction.server_info(catalog.service, catalog.hints)

    def public_info(self) -> ServerInfo:
        """Return what everybody may know: what is configured, and the version of the listing that all callers share."""
        catalog = self.discovery.current()
        return self.introduction.server_info(ServiceInfo(version=catalog.service.version) if catalog else UNKNOWN)

    async def admit_discovery(self, caller: Caller) -> None:
        """Check that the caller may list tools, and count one request. Raise
        :class:`~gateway.errors.InsufficientScope`, :class:`~gateway.errors.RateLimited`."""
        self.access.check_list(caller)
        await self.budget.spend(caller)

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
        self.access.check_list(caller)
        if cursor is None:
            await self.budget.spend(caller)
        else:
            # A cursor spends from a budget of its own, so that long listings do not use up discovery's.
            after = await self.cursors.follow(cursor, caller)
        whole = await self.discovery.catalog(caller, patience)
        catalog = self.access.visible_catalog(caller, whole)
        if self.searched is not None:
            key = catalog.digest, catalog.service.title
            if key not in self._in_place:
                self._in_place[key] = self.searched(catalog)
            catalog = self._in_place[key] or catalog
        page = await self.pages.get_page(catalog, projector, after, size or self.page_size)
        return ToolPage(
            page.tools,
            None if page.last is None else self.cursors.issue(page.last, caller),
            int(self.discovery.seconds_fresh(caller.view) * 1000),
            not self.access.enabled,
            whole.service.missing,
        )

    def searches(self, catalog: Catalog) -> bool:
        """Return whether tool search stands in place of a catalog."""
        return self.searched is not None and self.searched(catalog) is not None

    def check_stream(self, caller: Caller) -> None:
        """Check that the caller may open one more stream of notifications. Raise
        :class:`~gateway.errors.InsufficientScope`, :class:`~gateway.errors.RateLimited`."""
        self.access.check_list(caller)
        self.streams.check(caller)

    def may_stream(self, call: Call) -> bool:
        """Return whether a stream answers a call that asks for progress: the call is made, and its caller has a stream
        left. Otherwise the answer is plain, as a server may choose (2026-07-28, basic/patterns/progress)."""
        return call.fault is None and self.streams.has_room(call.caller)


class Cursors:
    """Issue and follow cursors of ``tools/list``: the last name of the page before, signed. A cursor is good in the
    current catalog and on any replica. Like a session it belongs to one caller. ``keys`` are the resource's;
    :meth:`follow` spends from ``budget``, which bounds how often a cursor can be replayed; ``clock`` gives wall-clock
    seconds, since replicas compare them."""

    def __init__(self, keys: SigningKeys, budget: Budget, clock: Callable[[], float] = time.time) -> None:
        self._signer = Signer(keys, "cursor", _CURSOR_TTL, clock)
        self._budget = budget

    def issue(self, last: str, caller: Caller) -> str:
        """Return the cursor of the page that begins after the name ``last``."""
        return self._signer.sign(last, *caller.identity)

    async def follow(self, cursor: object, caller: Caller) -> str:
        """Return the name after which the page begins. Raise :class:`InvalidCursor` (server/utilities/pagination,
        "Error Handling") and :class:`~gateway.errors.RateLimited`."""
        last = self._signer.verify(cursor, *caller.identity) if isinstance(cursor, str) else None
        if last is None:  # checked before the budget: a forged cursor costs the caller nothing
            raise InvalidCursor(
                f"Invalid cursor: not issued here to this caller within the last {_CURSOR_TTL / 60:.0f} minutes; "
                "list again from the start"
            )
        await self._budget.spend(caller)
        return last
