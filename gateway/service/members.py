"""The tools of a group: the views of its services joined, each tool under the name of its service.

``books.get`` of the service ``crm`` is ``crm.books.get``, and ``crm_books_get`` for LLM APIs. A name depends on its
tool and on the names of the group's services alone: a service that is away changes no name of another one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final
from weakref import WeakValueDictionary

from cachetools import LRUCache

from gateway.auth.access import Access
from gateway.catalog.names import NAME_RULES
from gateway.concurrency.background import Problem
from gateway.concurrency.turns import Turns, run_in_turns
from gateway.errors import CatalogUnavailable, Forbidden, GatewayError, InsufficientScope, RateLimited, Unauthorized
from gateway.invocation.invocation import Invocation
from gateway.model import SHARED, Caller, Catalog, NameStyle, ServiceInfo, Tool, View
from gateway.service.service import Service
from gateway.text import excerpt, quote

PATIENCE: Final = 3.5
"""Seconds for which a list waits for the first listing of a service, while other services have theirs."""
_WITH_SUFFIX: Final = replace(NAME_RULES[NameStyle.LLM], longest=NAME_RULES[NameStyle.LLM].longest - 9)
"""Form of the names that stay whole with a suffix, which is "_" and eight digits."""
_TABLES: Final = 64
_MAX_SHOWN: Final = 4096
_MOST_TOLD: Final = 1000
"""Characters of what one service says of itself."""
_ABSENT: Final = (CatalogUnavailable, Forbidden, RateLimited, Unauthorized)
"""Errors of a service that has no listing for this caller."""


@dataclass(frozen=True, slots=True)
class GroupTool:
    """Hold a tool of a group: as the group offers it, and as its service does. ``caller`` is whom the service sees."""

    tool: Tool
    own: Tool
    member: Member
    caller: Caller


class Member:
    """Hold one service of a group. ``access`` and ``invocation`` are the service's, as they are at the group's address.
    ``others`` are the names of the other services."""

    def __init__(self, service: Service, access: Access, invocation: Invocation, others: Sequence[str]) -> None:
        self.service = service
        self.name = service.name
        self.discovery = service.discovery
        self.access = access
        self.invocation = invocation
        self._others = others
        self._call_scopes = frozenset(service.settings.auth.scopes.call if access.enabled else ())
        self._told = frozenset(service.settings.backend.told_claims)
        self._tools: WeakValueDictionary[str, Tool] = WeakValueDictionary()
        self._by_name: LRUCache[str, Mapping[str, tuple[Tool, Tool]]] = LRUCache(_TABLES)

    def caller(self, caller: Caller) -> Caller:
        """Return a caller of the group as the service sees it: with the claims that it is told, in its own view."""
        principal = caller.principal
        if principal is not None and principal.claims:
            told = tuple(claim for claim in principal.claims if claim[0] in self._told)
            principal = replace(principal, claims=told)
        view = self.access.view_of(principal, caller.view.language)
        return Caller(caller.address, view, principal, caller.name_style)

    async def catalog(self, caller: Caller, patience: float | None) -> Catalog:
        """Return the catalog of the caller's view. Raise as :meth:`Discovery.catalog` does, and :class:`RateLimited`
        where the caller made the service list too often."""
        if self.discovery.would_list(caller):
            await self.service.listings.spend(caller)
        catalog = await self.discovery.catalog(caller, patience)
        if catalog.digest not in self._by_name:
            self._by_name[catalog.digest] = await run_in_turns(self._named(catalog), Turns())
        return catalog

    def _named(self, catalog: Catalog) -> Generator[None, None, dict[str, tuple[Tool, Tool]]]:
        """Name one tool in each step. Return each, as the group and as the service offers it, by its names here."""
        by_name: dict[str, tuple[Tool, Tool]] = {}
        for own in catalog.tools:
            tool = self.renamed(own)
            by_name |= dict.fromkeys(tool.names.values(), (tool, own))
            yield
        return by_name

    def visible(self, caller: Caller, catalog: Catalog) -> Catalog | None:
        """Return what a caller of the group sees of a catalog of the service, None where it may not list it."""
        caller = self.caller(caller)
        try:
            self.access.check_list(caller)
        except InsufficientScope:
            return None
        return self.access.visible_catalog(caller, catalog)

    async def find(self, caller: Caller, name: str, patience: float | None) -> GroupTool | None:
        """Return the tool of this name in the group, None where the service has none. ``crm.`` may also stand before
        any name by which the service finds a tool."""
        caller = self.caller(caller)
        catalog = await self.catalog(caller, patience)
        if (found := self._by_name[catalog.digest].get(name)) is not None:
            return GroupTool(*found, self, caller)
        _, dot, rest = name.partition(".")
        own = await self.discovery.find_tool(caller, rest) if dot and name.startswith(f"{self.name}.") else None
        return None if own is None else GroupTool(self.renamed(own), own, self, caller)

    def renamed(self, tool: Tool) -> Tool:
        """Return a tool of the service as the group offers it. Both share their schemas."""
        known = self._tools.get(tool.digest)
        if known is None:
            known = self._tools[tool.digest] = tool.renamed(self._names(tool), self._call_scopes)
        return known

    def _names(self, tool: Tool) -> dict[NameStyle, str]:
        raw, text = f"{self.name}.{tool.name}", f"{self.name}_{tool.name_for(NameStyle.LLM)}"
        mcp, llm = NAME_RULES[NameStyle.MCP], NAME_RULES[NameStyle.LLM]
        # crm_books_get may be books_get of crm, or get of crm_books: a suffix always tells them apart. It is made of
        # the service's name alone, so that no service can look for a method that gets the suffix of another one's.
        is_ambiguous = any(text.startswith(f"{other}_") for other in self._others)
        rule = _WITH_SUFFIX if is_ambiguous else llm
        name = text if rule.accepts(text) else rule.add_suffix(text, raw)
        return {
            NameStyle.MCP: raw if mcp.accepts(raw) else mcp.make_name(raw, raw),
            NameStyle.LLM: llm.add_suffix(name, self.name) if is_ambiguous else name,
        }


@dataclass(frozen=True)
class Joined(Catalog):
    """Hold the tools of several services, and the catalogs that they are from."""

    parts: tuple[tuple[Member, Catalog], ...] = ()


class GroupCatalogs:
    """Join the catalogs of services. ``before_publish`` is called with each joined catalog before it is shown."""

    def __init__(self, members: Sequence[Member], before_publish: Callable[[Catalog], object]) -> None:
        self.members = members
        self.after_publish: Callable[[View], None] = lambda _: None
        self._before_publish = before_publish
        self._joined: LRUCache[tuple[object, ...], Joined] = LRUCache(_TABLES)
        self._latest: LRUCache[View, Joined] = LRUCache(_TABLES)
        self._shown: LRUCache[View, tuple[Caller, str]] = LRUCache(_MAX_SHOWN)
        """To whom what was shown last: the digest of the tools."""

    def take_over(self, before: GroupCatalogs) -> None:
        """Take what each view was shown last, so that clients learn of a change."""
        self._shown = before._shown

    def current(self, view: View = SHARED) -> Catalog | None:
        if (latest := self._latest.get(view)) is not None or not view.is_shared:
            return latest
        parts = [(member, part) for member in self.members if (part := member.discovery.current()) is not None]
        return self.join(parts) if parts else None

    def shown_digest(self, view: View) -> str:
        return self._shown[view][1] if view in self._shown else ""

    def seconds_fresh(self, view: View) -> float:
        """Return the seconds for which all that was shown is fresh: none where a service is missing, since it may be
        back at any time."""
        catalog, (caller, _) = self._latest.get(view), self._shown.get(view, (Caller(), ""))
        if catalog is None or catalog.service.missing:
            return 0.0
        return min(member.discovery.seconds_fresh(member.caller(caller).view) for member in self.members)

    def find_fresh_tool(self, caller: Caller, name: str) -> Tool | None:
        return None  # this would have to ask each service

    def would_list(self, caller: Caller) -> bool:
        return False  # each service counts its own listings

    def refresh_if_stale(self, caller: Caller) -> None:
        if caller.view in self._shown:  # the token that it was shown to may end before that of its stream
            self._shown[caller.view] = caller, self._shown[caller.view][1]
        for member in self.members:
            member.discovery.refresh_if_stale(member.caller(caller))

    async def drop_output_schema(self, tool: Tool) -> None:
        """Do nothing: the service drops it."""

    @property
    def problem(self) -> Problem:
        causes = [f"{one.name}: {quote(cause)}" for one in self.members if (cause := one.discovery.problem.cause)]
        return Problem("; ".join(causes))

    @property
    def astray(self) -> Problem:
        """Return nothing: each service says it of itself."""
        return Problem()

    async def catalog(self, caller: Caller, patience: float | None = None) -> Catalog:
        """Return the tools of each service in the caller's view. Those without a listing are named. Raise what the
        first service raises where none has a listing."""
        catalog = self.join(await self._parts(caller, patience))
        before = self.shown_digest(caller.view)
        self._latest[caller.view], self._shown[caller.view] = catalog, (caller, catalog.digest)
        if before != catalog.digest:
            self._before_publish(catalog)
            if before:
                self.after_publish(caller.view)
        return catalog

    async def check(self, views: Iterable[View]) -> None:
        """Notify the streams of these views whose tools are not those that were shown last."""
        for view in views:
            caller, _ = self._shown.get(view, (None, ""))
            if caller is not None and caller.token_still_valid(time.time()):
                with suppress(GatewayError):
                    await self.catalog(caller, 0.0)
            await asyncio.sleep(0)

    async def find_tool(self, caller: Caller, name: str, patience: float | None = None) -> Tool | None:
        found = await self.find(caller, name, patience)
        if found is None:
            return None
        found.member.access.check_describe(found.caller, found.own)
        return found.tool

    async def find(self, caller: Caller, name: str, patience: float | None = None) -> GroupTool | None:
        """Return the tool of this name, None where there is none. Only services whose name it begins with are asked.
        Where these are several, one is waited for only if the others do not have the tool."""
        failure: GatewayError | None = None
        asked = [member for member in self.members if name.startswith((f"{member.name}.", f"{member.name}_"))]
        for wait in (patience,) if len(asked) == 1 else (0.0, patience):
            for member in asked:
                try:
                    if (found := await member.find(caller, name, wait)) is not None:
                        return found
                except _ABSENT as error:
                    failure = error
        if failure is not None:
            raise failure
        return None

    def join(self, parts: Sequence[tuple[Member, Catalog]]) -> Joined:
        """Return the tools of catalogs of services as one catalog, which says what they are and which are missing."""
        key = tuple((member.name, part.digest, part.service) for member, part in parts)
        if (known := self._joined.get(key)) is not None:
            return known
        told = {member.name: excerpt(part.service.description, _MOST_TOLD) for member, part in parts}
        texts = [f"Tools of {', '.join(told)}; the name of each begins with that of its service."]
        texts += [f"{name} says of itself: {quote(text)}" for name, text in told.items() if text]
        missing = tuple(sorted(member.name for member in self.members if member.name not in told))
        tools = sorted((m.renamed(own) for m, part in parts for own in part.tools), key=lambda tool: tool.name)
        info = ServiceInfo(description="\n\n".join(texts), missing=missing)
        joined = self._joined[key] = Joined(tuple(tools), "group", service=info, parts=tuple(parts))
        return joined

    async def _parts(self, caller: Caller, patience: float | None) -> list[tuple[Member, Catalog]]:
        """Return what each service lists for the caller. Once one has its listing, the others have :data:`PATIENCE`
        left, and those that failed before none."""
        pairs = [(member, member.caller(caller)) for member in self.members]
        absent = [member for member, own in pairs if not member.discovery.can_serve(own.view)]
        some = 0 < len(absent) < len(pairs)

        async def ask(member: Member, own: Caller) -> Catalog | GatewayError:
            failed = some and member in absent and own.view.is_shared and member.discovery.first_attempt_over.is_set()
            try:
                return await member.catalog(own, 0.0 if failed else patience)
            except _ABSENT as error:
                return error

        asks = [ask(*pair) for pair in pairs]
        found = await _first_and_soon(asks) if absent else [await one for one in asks]
        if parts := [(member, it) for member, it in zip(self.members, found, strict=True) if isinstance(it, Catalog)]:
            return parts
        raise next(one for one in found if isinstance(one, GatewayError))


async def _first_and_soon(asks: Iterable[Coroutine[Any, Any, Catalog | GatewayError]]) -> list[Catalog | GatewayError]:
    """Return the answers in their order, an error for each that comes :data:`PATIENCE` after the first catalog."""
    tasks = [asyncio.create_task(ask) for ask in asks]
    try:
        for answer in asyncio.as_completed(tasks):
            if isinstance(await answer, Catalog):
                break
        await asyncio.wait(tasks, timeout=PATIENCE)
        return [task.result() if task.done() else CatalogUnavailable("It has no listing yet") for task in tasks]
    finally:
        for task in tasks:
            task.cancel()


class GroupAccess(Access):
    """Decide what callers of a group may list and call: what the group lets them, and the service, too. ``catalogs``
    is set once there is one."""

    catalogs: GroupCatalogs

    def visible_catalog(self, caller: Caller, catalog: Catalog) -> Catalog:
        """Return what a caller may see of a catalog. Raise :class:`InsufficientScope` where it may list no service."""
        if self.enabled and isinstance(catalog, Joined):
            seen = [(member, visible) for member, part in catalog.parts if (visible := member.visible(caller, part))]
            if not seen:
                catalog.parts[0][0].access.check_list(caller)
            catalog = self.catalogs.join(seen)
        return super().visible_catalog(caller, catalog)

    def listable_catalog(self, caller: Caller, catalog: Catalog) -> Catalog:
        parts = catalog.parts if isinstance(catalog, Joined) else ()
        return self.catalogs.join([(member, part) for member, part in parts if member.visible(caller, part)])
