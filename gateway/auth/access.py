"""Which scopes what takes, and what is open to callers without a token.

No scope is needed unless the configuration or the backend's own annotations say so. A refusal names all that the
request takes, so that a client steps up once (2026-07-28, authorization "Scope Challenge Handling").
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from cachetools import LRUCache

from gateway.auth.authenticator import NO_TOKEN
from gateway.auth.presets import preset_of
from gateway.errors import InsufficientScope, Unauthorized
from gateway.model import SHARED, Caller, Catalog, Demand, Principal, Tool, View
from gateway.settings import Auth
from gateway.text import excerpt

_MAX_CATALOGS: Final = 1000
_MAX_MESSAGE: Final = 1024


class Access:
    """What callers may do. ``resource`` is what tokens are for; ``per_caller`` says that each has a view of its own."""

    def __init__(self, settings: Auth, resource: str = "", *, per_caller: bool) -> None:
        self.enabled = settings.mode != "off"
        self.anonymous = settings.anonymous
        self._list = frozenset(settings.scopes.list_)
        self._call = frozenset(settings.scopes.call)
        prefixes = {preset_of(issuer).scope_prefix_of(issuer, resource) for issuer in settings.issuers}
        self._prefixes = prefixes or {""}
        self._per_caller = per_caller
        self._narrowed: LRUCache[tuple[str, frozenset[Demand]], Catalog] = LRUCache(_MAX_CATALOGS)

    @property
    def baseline_scopes(self) -> tuple[str, ...]:
        """What a client should ask for to begin with."""
        return self.requested_scopes(self._list | self._call)

    def requested_scopes(self, scopes: Iterable[str]) -> tuple[str, ...]:
        """Scopes as clients ask an issuer for them."""
        return tuple(sorted({prefix + scope for prefix in self._prefixes for scope in scopes}))

    def view_of(self, principal: Principal | None) -> View:
        """Whose catalog a caller sees."""
        if principal is None or not self._per_caller:
            return SHARED
        return View(principal.issuer, principal.subject, principal.client, principal.scopes)

    def may_enter(self, principal: Principal | None) -> bool:
        """Tell whether a request may be looked at, token or not."""
        return principal is not None or not self.enabled or self.anonymous != "none"

    def check_list(self, caller: Caller) -> None:
        """Raises :class:`InsufficientScope`."""
        if self.enabled and caller.principal is not None and not self._list <= caller.principal.scopes:
            raise self._insufficient_scope(self._list)

    def check_call(self, caller: Caller, tool: Tool, *, lists: bool = False) -> None:
        """Raises :class:`Unauthorized`, :class:`InsufficientScope` with everything that the call takes; one that
        ``lists`` tools takes what a listing does, too."""
        if not self.enabled:
            return
        is_open, scopes = tool.demand
        needed = self._call | scopes | (self._list if lists else frozenset())
        if caller.principal is None:
            if self.anonymous != "open-tools" or not is_open:
                raise Unauthorized(NO_TOKEN, scopes=self.requested_scopes(needed))
        elif not needed <= caller.principal.scopes:
            raise self._insufficient_scope(needed)

    def needs_token(self, tool: Tool, shared: Catalog | None) -> bool:
        """Tell whether a call of the tool without a token is refused. ``shared`` is what callers without a token see:
        where each caller has a view of its own, a tool may be in that one alone."""
        if not self.enabled:
            return False
        if self.anonymous != "open-tools" or not tool.demand[0]:
            return True
        if not self._per_caller:
            return False
        found = shared.by_name.get(tool.name) if shared is not None else None
        return found is None or not found.demand[0]

    def check_describe(self, caller: Caller, tool: Tool) -> None:
        """That a caller may read a tool's description. Raises as :meth:`check_call`."""
        self.check_list(caller)
        if self.enabled and not self._shows(caller, tool.demand):
            self.check_call(caller, tool)

    def visible_catalog(self, caller: Caller, catalog: Catalog) -> Catalog:
        """Of a catalog, what the caller may call; for anonymous callers who may only list, what there is."""
        if not self.enabled:
            return catalog
        shown = frozenset(demand for demand in catalog.demands if self._shows(caller, demand))
        if shown == catalog.demands:
            return catalog
        key = (catalog.digest, shown)
        narrowed = self._narrowed.get(key)
        if narrowed is None:
            tools = tuple(tool for tool in catalog.tools if tool.demand in shown)
            narrowed = self._narrowed[key] = replace(catalog, tools=tools)
        return narrowed

    def _shows(self, caller: Caller, demand: Demand) -> bool:
        is_open, scopes = demand
        if caller.principal is None:
            return self.anonymous == "list" or is_open
        return (self._call | scopes) <= caller.principal.scopes

    def _insufficient_scope(self, needed: frozenset[str]) -> InsufficientScope:
        requested = self.requested_scopes(needed)
        # Some of them are the backend's own words.
        message = excerpt(f"The token lacks a scope that this takes: {' '.join(requested)}", _MAX_MESSAGE)
        return InsufficientScope(message, error="insufficient_scope", scopes=requested)
