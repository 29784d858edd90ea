"""Build catalogs of listings, and hold the state of each view: its catalog, its last failure, and a refusal to list."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final
from weakref import WeakValueDictionary

import structlog
from cachetools import LRUCache

from gateway.catalog.build import Builder
from gateway.catalog.curation import Curation
from gateway.catalog.pins import schema_digest
from gateway.errors import CatalogUnavailable, Forbidden, GatewayError, Unauthorized
from gateway.listing.dialect import NoListing, Step
from gateway.model import AccessToken, Caller, Catalog, Listing, SourceAnswer, Tool, View
from gateway.settings import CatalogSettings

MAX_TOOLS: Final = 5000
"""Methods that one service may offer."""
MAX_METHODS: Final = 10_000
MAX_SCHEMAS: Final = 8
"""Broken schemas that are remembered of one method: views may list it with different ones."""
_NOTE: Final = "a result broke it"
MAX_VIEWS: Final = 10_000
MAX_LISTED: Final = 16 * 1024**2
"""Bytes of callers' listings that are kept, as the backend sent them. In memory they take a few times as much."""
DENIED_TTL: Final = 5.0
"""Seconds after a refusal before the backend is asked again for that caller."""
_RETRY_AFTER: Final = 5
_UNAVAILABLE: Final = "The backend's methods cannot be listed at the moment"

log = structlog.get_logger()


def check_listing_size(listing: Listing, settings: CatalogSettings) -> None:
    """Raise :class:`NoListing` for more methods than :data:`MAX_TOOLS`, before any tool is built of them."""
    if len(listing.methods) <= MAX_TOOLS:
        return
    offers = Curation(settings).offers
    offered = sum(offers(method.name) for method in listing.methods)
    if offered > MAX_TOOLS:
        what = f"{offered} methods to offer, more than {MAX_TOOLS}; narrow catalog.include"
        raise NoListing([Step("the listing", SourceAnswer(what))])


class BrokenOutputSchemas:
    """Hold the digests of output schemas that a result violated: clients refuse such a result, so the tool is listed
    without the schema until the listing has another one. ``version`` grows with each. ``after_recording`` is called
    with each method and digest that this process found. It may not raise."""

    def __init__(self) -> None:
        self.version = 0
        self._broken: LRUCache[str, deque[str]] = LRUCache(MAX_METHODS)
        self._stripped: LRUCache[str, Tool] = LRUCache(MAX_METHODS)
        self.after_recording: Callable[[str, str], None] = lambda *_: None

    @property
    def recorded(self) -> Iterator[tuple[str, str]]:
        """Yield methods and digests, the last methods first."""
        return ((method, digest) for method in reversed(list(self._broken)) for digest in self._broken[method])

    def record(self, tool: Tool) -> bool:
        """Record that a result violated the tool's output schema. Return False where that was known."""
        broken = schema_digest(tool.output_schema)
        if not self.adopt(tool.method, broken):
            return False
        self.after_recording(tool.method, broken)
        return True

    def adopt(self, method: str, digest: str) -> bool:
        """Record what a result violated, here or on another replica. Return False where that was known."""
        schemas = self._broken.setdefault(method, deque(maxlen=MAX_SCHEMAS))
        if digest in schemas:
            return False
        schemas.append(digest)
        self.version += 1
        return True

    def strip(self, catalog: Catalog) -> Catalog:
        """Return the catalog without the broken schemas; the same object where it has none."""
        if not self._broken:
            return catalog
        tools = tuple(self._strip_tool(tool) if tool.method in self._broken else tool for tool in catalog.tools)
        if all(ours is theirs for ours, theirs in zip(tools, catalog.tools, strict=True)):
            return catalog
        return replace(catalog, tools=tools)

    def _strip_tool(self, tool: Tool) -> Tool:
        if tool.output_schema is None or schema_digest(tool.output_schema) not in self._broken[tool.method]:
            return tool
        bare = self._stripped.get(tool.digest)
        if bare is None:
            bare = replace(tool, output_schema=None, meta={**tool.meta, "outputSchemaDropped": _NOTE})
            self._stripped[tool.digest] = bare
        return bare


@dataclass(eq=False)
class Catalogs:
    """Build catalogs by one service's settings, each once, without broken output schemas."""

    _builder: Builder
    _settings: CatalogSettings
    _broken_output_schemas: BrokenOutputSchemas
    _by_listing: WeakValueDictionary[str, Catalog] = field(default_factory=WeakValueDictionary)
    _by_digest: WeakValueDictionary[str, Catalog] = field(default_factory=WeakValueDictionary)

    async def build_catalog(self, listing: Listing) -> Catalog:
        """Return the catalog of a listing. Raises :class:`NoListing` beyond ``MAX_TOOLS``."""
        check_listing_size(listing, self._settings)
        catalog = self._by_listing.get(listing.digest) if listing.digest else None
        if catalog is None:
            catalog = await self._builder.build_catalog(listing, self._settings)
            if listing.digest:
                self._by_listing[listing.digest] = catalog
        return self._broken_output_schemas.strip(catalog)

    def intern(self, catalog: Catalog) -> Catalog:
        """Return the first catalog that was given here and equals this one."""
        known = self._by_digest.setdefault(catalog.digest, catalog)
        remarks = attrgetter("dialect", "quarantined", "notes", "service", "endpoints")
        return known if remarks(known) == remarks(catalog) else catalog


@dataclass(frozen=True, slots=True)
class ListingRefusal:
    """Hold the backend's refusal to list for one token. With another token the backend is asked again."""

    error: GatewayError
    token: AccessToken | None
    until: float


@dataclass(slots=True)
class ViewState:
    """Hold what is known of one view. Times are seconds of discovery's clock.

    ``shown_digest`` is that of the catalog that callers saw last, ``previous`` the catalog before the last change.
    Callers' own listings may be many and large, so their entries hold only ``listing_digest``, see :class:`Listings`.
    ``is_partial`` says that the catalog lacks methods which the backend did not describe yet, and
    ``came_in_part`` that the last answer did.
    """

    view: View
    listing: Listing | None = None
    listing_digest: str = ""
    catalog: Catalog | None = None
    shown_digest: str = ""
    fresh_until: float = 0.0
    refreshed_at: float = 0.0
    retry_at: float = 0.0
    failures: int = 0
    unavailable: str = _UNAVAILABLE
    shrunk_since: float | None = None
    previous: Catalog | None = None
    previous_until: float = 0.0
    serves_fallback: bool = False
    is_partial: bool = False
    came_in_part: bool = False
    failure: Exception | None = None
    failure_reason: str = ""
    last_kind: str = ""
    refusal: ListingRefusal | None = None
    refresh_task: asyncio.Task[None] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        tools = "no catalog" if self.catalog is None else f"{len(self.catalog.tools)} tools"
        flags = {"refreshing": self.refresh_task, "serves the fallback": self.serves_fallback, "refused": self.refusal}
        states = "".join(f", {name}" for name, is_set in flags.items() if is_set)
        failed = f", {self.failures} failures: {self.failure_reason}" if self.failures else ""
        return f"<ViewState of {self.view.subject or 'all callers'}: {tools}{states}{failed}>"

    def expire(self) -> None:
        """Mark the catalog stale: the next request starts a refresh, and the catalog serves until it ends."""
        self.fresh_until = self.retry_at = 0.0

    def find_vanished(self, name: str, catalog: Catalog, now: float) -> Tool | None:
        """Return a tool that vanished lately, unless the present catalog withholds it."""
        if self.previous is None or now >= self.previous_until:
            return None
        tool = self.previous.by_name.get(name)
        withheld = tool is not None and any(tool.method == method.name for method in catalog.quarantined)
        return None if withheld else tool

    def successor(self, *, listing: bool, catalog: bool) -> ViewState:
        """Return the entry that a reload continues with: the last digest, with ``listing`` the listing, and with
        ``catalog`` also the catalog. After a failure it may try again at once: the reload may be the remedy."""
        if not listing:
            return ViewState(self.view, shown_digest=self.shown_digest)
        entry = replace(self, retry_at=0.0, refresh_task=None)
        if not catalog:
            entry.catalog = entry.previous = None
        return entry

    def record_refusal(self, caller: Caller, error: GatewayError, now: float) -> None:
        """Record the backend's refusal. Forget the catalog at once, however fresh: the caller may not see it."""
        retry_at = self.retry_at
        self.catalog = self.listing = self.previous = None
        self.listing_digest = ""
        self.expire()
        until = now + DENIED_TTL
        if self.view.is_shared:
            until = self.retry_at = max(until, retry_at)
        else:
            self.failures = 0  # no back-off: a caller with another token may ask at once
        self.refusal = ListingRefusal(error, listing_token(caller), until)

    def refuses(self, caller: Caller, now: float) -> bool:
        """Return whether the backend lately refused this caller's token."""
        refusal = self.refusal
        return refusal is not None and now < refusal.until and refusal.token == listing_token(caller)

    def unavailable_error(self, now: float) -> CatalogUnavailable:
        return CatalogUnavailable(self.unavailable, retry_after=max(1, round(self.retry_at - now + 0.5)))

    def check_refusal(self, caller: Caller, now: float) -> None:
        """Raise the refusal that holds for this caller, if there is one."""
        if self.refusal is not None and self.refuses(caller, now):
            raise self.refusal.error.with_traceback(None) from self.failure


class Views(dict[View, ViewState]):
    """Hold the states of ``most`` views. A look-up makes one that is missing, in the place of another caller's, chosen
    at random: if it were the least recently used one, callers who are a few more than fit would evict each other in
    turn, and each of their requests would cost the backend a listing."""

    def __init__(self, most: int = MAX_VIEWS) -> None:
        super().__init__()
        self._most = most
        self._callers_views: list[View] = []  # the keys without the shared one, which all callers may need

    def __missing__(self, view: View) -> ViewState:
        entry = self[view] = ViewState(view)
        return entry

    def __setitem__(self, view: View, entry: ViewState) -> None:
        if view not in self:
            views = self._callers_views
            if len(self) >= self._most and views:
                place = random.randrange(len(views))  # noqa: S311, not a secret
                del self[views[place]]
                views[place] = views[-1]  # so that no other key moves
                views.pop()
            if not view.is_shared:
                views.append(view)
        super().__setitem__(view, entry)


class Listings(LRUCache[str, Listing]):
    """Hold callers' own listings by digest, up to ``most`` bytes of those used last. A reload builds catalogs from them
    without asking the backend. Callers with equal listings share one."""

    def __init__(self, most: int = MAX_LISTED) -> None:
        super().__init__(most, getsizeof=lambda listing: listing.size)

    def add(self, listing: Listing) -> str:
        """Keep the listing. Return its digest, "" where it has none or is too large to keep."""
        if not listing.digest or listing.size > self.maxsize:
            return ""
        self[listing.digest] = listing
        return listing.digest


def listing_token(caller: Caller) -> AccessToken | None:
    """Return the caller's token that fetches the listing, itself or after an exchange; None for the shared view."""
    return None if caller.view.is_shared else caller.token


def listing_refusal_error(view: View, error: NoListing, *, uses_callers_token: bool) -> GatewayError:
    """Return the caller's error for a backend's refusal to list."""
    if view.is_shared:
        return Unauthorized("The backend lists nothing to callers without a token")
    if error.unauthorized and not uses_callers_token:
        log.error("the backend does not accept the gateway's credential")
        return CatalogUnavailable(_UNAVAILABLE, retry_after=_RETRY_AFTER)
    if error.unauthorized:
        log.error(
            "the conditions of same_resource do not hold: the backend refuses a token that was accepted here",
            issuer=view.issuer,
        )
        return Unauthorized("The backend does not accept this token", error="invalid_token")
    return Forbidden("The backend lists no methods for this caller")
