"""Decide which scopes a request needs, and what callers without a token may do.

No scope is needed unless the configuration or the backend's own annotations say so. A refusal names all scopes that the
request needs, so that a client asks its issuer only once (2026-07-28, authorization "Scope Challenge Handling").
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from typing import Final

from cachetools import LRUCache

from gateway import jsonrpc
from gateway.auth.authenticator import NO_TOKEN
from gateway.auth.presets import preset_of
from gateway.errors import InsufficientScope, Unauthorized
from gateway.model import SHARED, Caller, Catalog, Demand, Principal, ServiceInfo, Tool, View
from gateway.settings.auth import SCOPE, Auth
from gateway.text import excerpt

_MAX_CATALOGS: Final = 1000  # one for each catalog and set of demands, not for each caller
_MAX_MESSAGE: Final = 1024
_MAX_SCOPES: Final = 50
MOST_LANGUAGES: Final = 8
MOST_LANGUAGES_OF_CALLER: Final = 4
_MAX_HEADER: Final = 256
# RFC 9110 §12.5.4: a range that is acceptable, which has no weight or one above 0. "*" names no language.
_RANGE: Final = re.compile(r"\s*([A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8}){0,3})\s*(?:;\s*q=(?!0(?:\.0*)?\s*\Z).*)?")


class Access:
    """Decide what callers may list and call. ``resource`` is the tokens' audience. With ``per_caller`` each has a view,
    with ``own_languages`` one in each language. ``tool_scopes`` returns the scopes of tools that all may know."""

    def __init__(self, settings: Auth, resource: str = "", *, per_caller: bool, own_languages: bool = True) -> None:
        self.languages: dict[str, tuple[str, str]] = {}  # and who asked first
        self._own_languages = own_languages
        self.enabled = settings.traits.authenticates
        self.anonymous = settings.anonymous
        self._list = frozenset(settings.scopes.list_)
        self._call = frozenset(settings.scopes.call)
        self._asks_all = settings.scopes.challenge == "all"
        self._shows_all = settings.scopes.show == "all"
        self.tool_scopes: Callable[[], Iterable[str]] = lambda: ()
        prefixes = {preset_of(issuer).scope_prefix_of(issuer, resource) for issuer in settings.issuers}
        self._prefixes = prefixes or {""}
        self._per_caller = per_caller
        self._visible_catalogs: LRUCache[tuple[str, ServiceInfo, frozenset[Demand]], Catalog] = LRUCache(_MAX_CATALOGS)

    @property
    def supported_scopes(self) -> tuple[str, ...]:
        """Return the scopes that a client may request: those that all need, and the first scope tokens of tools."""
        of_tools = islice(filter(SCOPE.fullmatch, self.tool_scopes()), _MAX_SCOPES)
        return self.requested_scopes((*self._list, *self._call, *of_tools))

    def challenged_scopes(self, needed: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the scopes that a client should request first. ``needed`` are those of its request, where known."""
        asked = {*needed, *(self.supported_scopes if self._asks_all else ())}
        return tuple(sorted(asked)) or self.requested_scopes(self._list | self._call)

    def requested_scopes(self, scopes: Iterable[str]) -> tuple[str, ...]:
        """Return scopes as clients request them from an issuer."""
        return tuple(sorted({prefix + scope for prefix in self._prefixes for scope in scopes}))

    def view_of(self, principal: Principal | None, accept_language: str | None = None) -> View:
        """Return the view whose catalog the caller sees, in the language of a header Accept-Language. Each language may
        cost each caller a listing: beyond the maximum numbers it is the one that was asked for first."""
        if principal is None or not self._per_caller:
            return SHARED
        language = preferred_language(accept_language[:_MAX_HEADER]) if accept_language and self._own_languages else ""
        if language and language not in self.languages:
            first = principal.issuer, principal.subject
            own = sum(caller == first for caller in self.languages.values())
            if len(self.languages) < MOST_LANGUAGES and own < MOST_LANGUAGES_OF_CALLER:
                self.languages[language] = first
            else:
                language = next(iter(self.languages))
        told = sha256(jsonrpc.encode(principal.claims)).hexdigest() if principal.claims else ""
        return View(principal.issuer, principal.subject, principal.client, principal.scopes, language, told)

    def may_enter(self, principal: Principal | None) -> bool:
        """Return whether a request may go on; ``principal`` is None without a token."""
        return principal is not None or not self.enabled or self.anonymous != "none"

    def check_list(self, caller: Caller) -> None:
        """Raise :class:`InsufficientScope` where the caller's token lacks a scope that a listing needs."""
        if self.enabled and caller.principal is not None and not self._list <= caller.principal.scopes:
            raise self._insufficient_scope(self._list)

    def check_call(self, caller: Caller, tool: Tool, *, lists: bool = False) -> None:
        """Raise :class:`Unauthorized` or :class:`InsufficientScope`, with every scope that the call needs. For callers
        where authentication is :attr:`enabled`."""
        principal = caller.principal
        is_open, scopes = tool.demand
        if principal is not None and not lists and self._call <= principal.scopes and scopes <= principal.scopes:
            return
        needed = self._call | scopes | (self._list if lists else frozenset())
        if principal is None:
            if self.anonymous != "open-tools" or not is_open:
                raise Unauthorized(NO_TOKEN, scopes=self.requested_scopes(needed))
        elif not needed <= principal.scopes:
            raise self._insufficient_scope(needed)

    def scopes_to_call(self, tool: Tool) -> tuple[str, ...]:
        """Return all scopes that a call of the tool needs, as clients request them."""
        return self.requested_scopes(self._call | tool.demand[1])

    def needs_token(self, tool: Tool, shared: Catalog | None) -> bool:
        """Return whether a call of the tool is refused without a token. ``shared`` is the catalog of such callers,
        which may lack the tool where each caller has a view."""
        if not self.enabled:
            return False
        if self.anonymous != "open-tools" or not tool.demand[0]:
            return True
        if not self._per_caller:
            return False
        found = shared.by_name.get(tool.name) if shared is not None else None
        return found is None or not found.demand[0]

    def check_describe(self, caller: Caller, tool: Tool) -> None:
        """Check that the caller may read the tool's description. Raises as :meth:`check_call`."""
        self.check_list(caller)
        if self.enabled and not self._may_see(caller, tool.demand):
            self.check_call(caller, tool)

    def visible_catalog(self, caller: Caller, catalog: Catalog) -> Catalog:
        """Return what a caller may see of a catalog: what it may call, or all by ``scopes.show`` or ``anonymous``."""
        if not self.enabled:
            return catalog
        met = frozenset(demand for demand in catalog.demands if self._may_see(caller, demand))
        if met == catalog.demands:
            return catalog
        # Many callers meet the same demands, so they share one catalog.
        key = (catalog.digest, catalog.service, met)
        visible = self._visible_catalogs.get(key)
        if visible is None:
            tools = tuple(tool for tool in catalog.tools if tool.demand in met)
            visible = self._visible_catalogs[key] = replace(catalog, tools=tools)
        return visible

    def listable_catalog(self, caller: Caller, catalog: Catalog) -> Catalog:
        """Return what a caller may list of a catalog, also tools that it sees only with more scopes."""
        return catalog

    def _may_see(self, caller: Caller, demand: Demand) -> bool:
        is_open, scopes = demand
        if caller.principal is None:
            return self.anonymous == "list" or is_open
        return self._shows_all or (self._call | scopes) <= caller.principal.scopes

    def _insufficient_scope(self, needed: frozenset[str]) -> InsufficientScope:
        requested = self.requested_scopes(needed)
        # Scopes may come from the backend's annotations, so the message is cleaned and bounded.
        message = excerpt(f"The token lacks a scope that this request needs: {' '.join(requested)}", _MAX_MESSAGE)
        return InsufficientScope(message, error="insufficient_scope", scopes=requested)


@lru_cache(100)
def preferred_language(header: str) -> str:
    """Return the first acceptable language of a header Accept-Language, lower-case; "" where it names none."""
    return next((found[1].lower() for part in header.split(",") if (found := _RANGE.fullmatch(part))), "")
