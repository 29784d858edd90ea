"""A group: several services at one address, which is a protected resource of its own.

Who may enter, the group's own settings say. A call then goes through the door of its service: with the service's
scopes, limits, consent and credential, as if its caller had called there. docs/groups.md.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, cast

from gateway.auth.access import Access
from gateway.config.service_files import ServiceFiles
from gateway.credentials import credential_modes
from gateway.discovery.tool_search import ToolSearch
from gateway.errors import CallLimited, CatalogUnavailable
from gateway.invocation.input_requests import InputRequests
from gateway.invocation.invocation import Arguments, Call, Invocation
from gateway.mcp import legacy, modern
from gateway.model import ANONYMOUS, SHARED, Caller, CallExtras, Catalog, NameStyle, Outcome, View
from gateway.schema.validation import ValidatorCache
from gateway.service.members import GroupAccess, GroupCatalogs, GroupTool, Member
from gateway.service.mount import Mount
from gateway.service.resource import BuildContext, Resource, lists_per_caller
from gateway.service.service import Service
from gateway.settings import GroupSettings, ResourceSettings, ServiceSettings
from gateway.signing import SigningKeys, read_secrets
from gateway.store.memory import MemoryStore
from gateway.telemetry.record import RECORD

_SETTLE: Final = 0.2
"""Seconds in which the changes of several services become one notice."""


class Group(Resource):
    """Hold the parts of one group. ``services`` are its services by name, which it calls as they are now: a reload that
    makes another one of them makes another group, too."""

    settings: GroupSettings
    access: GroupAccess
    discovery: GroupCatalogs
    _access_type = GroupAccess

    def __init__(self, settings: GroupSettings, context: BuildContext, services: Mapping[str, Service]) -> None:
        super().__init__(settings, context)
        self.services = services
        self._search = ToolSearch()
        members = [self._member(service, context.secrets) for service in services.values()]
        self.discovery = self.access.catalogs = GroupCatalogs(members, self._name_tools)
        self.invocation = self._make_invocation(GroupInvocation, ValidatorCache())
        self.site = self._site()
        self._changed = asyncio.Event()
        self._views: set[View] = set()

    def is_made_of(self, settings: ResourceSettings, files: ServiceFiles, known: Mapping[str, Resource]) -> bool:
        is_current = all(known.get(one.settings.mount) is one for one in self.services.values())
        return is_current and super().is_made_of(settings, files, known)

    def start(self) -> None:
        if isinstance(self._before, Group):
            self.discovery.take_over(self._before.discovery)
        super().start()
        for service in self.services.values():
            service.discovery.followers.add(self._note_change)
        self.background.start("changes of its services", self._follow)
        self._note_change(SHARED)

    async def close(self) -> None:
        for service in self.services.values():
            service.discovery.followers.discard(self._note_change)
        await super().close()

    def unready(self) -> str | None:
        reasons = [service.unready() for service in self.services.values()]
        return super().unready() if None in reasons else reasons[0]

    def _member(self, service: Service, secrets: tuple[bytes, ...]) -> Member:
        """Return a service as it is in this group: it names scopes as clients of the group request them, and its
        consents are signed for the group."""
        own = service.settings
        auth = own.auth.model_copy(update={"issuers": self.settings.auth.issuers})
        per_caller, languages = credential_modes(own).lists_per_caller, own.backend.listing.language is None
        access = Access(auth, self.settings.resource, per_caller=per_caller, own_languages=languages)
        keys = SigningKeys(secrets, f"{self.settings.mount_id} {own.name}")  # two services may have equal tools
        invocation = service.invocation.at_group(access, InputRequests(keys, self._store, service=own.name))
        return Member(service, access, invocation, [name for name in self.services if name != own.name])

    def _tool_scopes(self) -> Iterator[str]:
        for service in self.services.values():
            yield from (*service.settings.auth.scopes.list_, *service.settings.auth.scopes.call)
            yield from service.access.tool_scopes()

    def _note_change(self, view: View) -> None:
        self._views.add(view)
        self._changed.set()

    async def _follow(self) -> None:
        """Notify the streams whose tools changed: once where several services change at a time."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(_SETTLE)
            self._changed.clear()
            changed, self._views = {(view.issuer, view.subject) for view in self._views}, set()
            of_all = (SHARED.issuer, SHARED.subject) in changed
            streams = self.mount.subscriptions.views
            await self.discovery.check(view for view in streams if of_all or (view.issuer, view.subject) in changed)
            if of_all and not lists_per_caller(self.settings):
                await self._prepare()

    async def _prepare(self) -> None:
        """Join the tools, and make the first page of each era, before a client asks."""
        with suppress(CatalogUnavailable):
            catalog = await self.discovery.catalog(ANONYMOUS, 0.0)
            catalog, style = self._in_place(catalog) or catalog, NameStyle(self.settings.catalog.names)
            for projector in (modern.PROJECTOR, legacy.PROJECTORS[0]):
                size = self.settings.catalog.page_size
                await self._pages.get_page(catalog, projector.with_name_style(style), None, size)

    def _contents(self, catalog: Catalog) -> str:
        counts = Counter(tool.name.partition(".")[0] for tool in catalog.tools)
        return ", ".join(f"{service} ({count} tools)" for service, count in counts.items()) or "this group"


class GroupInvocation(Invocation):
    """Prepare the calls of a group: spend its limits, and then prepare the call at the door of its service."""

    discovery: GroupCatalogs

    async def prepare(
        self,
        caller: Caller,
        name: str,
        arguments: Arguments,
        extras: CallExtras | None = None,
        *,
        as_sent: bool = False,
    ) -> Call:
        found, given = await self._found(caller, name, arguments, as_sent)
        if found is None:
            return await super().prepare(caller, name, given, extras, as_sent=as_sent)
        quota = await self.budget.spend(caller)
        if quota.wait:
            return Call(caller, found.tool, {}, extras, quota.fault, quota.headers, self._execute)
        door, own, tool = found.member.invocation, found.own.name, found.tool
        of_group = (lambda _: given(tool)) if callable(given) else given
        try:
            call = await door.prepare(found.caller, own, of_group, extras, as_sent=as_sent)
        finally:
            RECORD.get().tool = tool.name
        headers = call.headers or quota.headers
        return Call(caller, tool, call.arguments, call.extras, call.fault, headers, partial(self._run, call))

    async def preview(self, caller: Caller, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        found, given = await self._found(caller, name, arguments, as_sent=False)
        if found is None:
            raise await self._unknown_tool(caller, name)
        quota = await self.budget.spend(caller)
        if quota.wait:
            raise quota.fault
        try:
            return await found.member.invocation.preview(found.caller, found.own.name, cast(Mapping[str, Any], given))
        finally:
            RECORD.get().tool = found.tool.name

    async def _found(
        self, caller: Caller, name: str, arguments: Arguments, as_sent: bool
    ) -> tuple[GroupTool | None, Arguments]:
        """Return the tool that a call is for, and its arguments; None for search itself, and for a call of a tool that
        search did not find. Raise :class:`UnknownTool`, and what refuses the caller."""
        RECORD.get().tool = name
        builtin = self.builtin.get(name)
        if builtin is None or not await builtin.is_offered(caller):
            found = await self.discovery.find(caller, name)
            if found is None:
                raise await self._unknown_tool(caller, name)
        else:
            sent = arguments(builtin.tool) if callable(arguments) else arguments
            wanted, given = self._named(builtin, sent, as_sent)
            found = None if wanted is None else await self.discovery.find(caller, wanted)
            if found is None:
                return None, given
            arguments = given.get("arguments", {})
        if self.access.enabled:
            self.access.check_call(caller, found.tool)
        return found, arguments

    async def _run(self, inner: Call, call: Call, answer_started: bool) -> Outcome:
        """Make the call at the door of its service, and count it among those under way here, too."""
        try:
            held = self.concurrency.begin_call(call.caller)
        except CallLimited as fault:
            RECORD.get().note_outcome(fault.slug)
            return Outcome(call.tool, fault=fault)
        try:
            return await inner.execute(answer_started=answer_started)
        finally:
            self.concurrency.end(held)


async def make_resource(settings: ResourceSettings, context: BuildContext, known: Mapping[str, Resource]) -> Resource:
    """Return a service or, of the services in ``known`` by mount, a group. Raises as :meth:`Service.build` does."""
    if isinstance(settings, GroupSettings):
        services = {one.name: one for name in settings.services if isinstance(one := known.get(name.mount), Service)}
        return Group(settings, context, services)
    return await Service.build(cast(ServiceSettings, settings), context)


async def build_alone(settings: ResourceSettings, mount: Mount, progress: Callable[[str], None]) -> list[Resource]:
    """Return a service, or the services of a group and then the group, for a command: with a store of its own. Raises
    as :meth:`Service.build` does, and ``SecretError``. Close them in reverse."""
    store, secrets, built = MemoryStore(), read_secrets(settings.server.secret_file), dict[str, Resource]()
    wanted = settings.services if isinstance(settings, ServiceSettings) else (*settings.services, settings)
    try:
        for one in wanted:
            files, path = await ServiceFiles.read(one), mount if one is settings else Mount()
            context = BuildContext(files, store, secrets, path, progress=progress)
            built[one.mount] = await make_resource(one, context, built)
    except BaseException:
        for made in built.values():
            await made.close()
        raise
    return [*built.values()]
