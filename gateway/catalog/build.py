"""Listing → Catalog: decide which methods are offered, under which names, and which are quarantined.

Building yields to the event loop every few milliseconds, so that a large catalog does not delay other requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, MutableMapping
from typing import Final

from cachetools import LRUCache

from gateway.catalog.curation import Curation
from gateway.catalog.names import assign_names
from gateway.catalog.normalize import ToolPolicy, build_tool
from gateway.catalog.pins import Pins
from gateway.concurrency.turns import Turns
from gateway.jsonrpc import parts_of
from gateway.model import Catalog, Listing, Method, QuarantinedMethod, Tool
from gateway.schema import texts
from gateway.schema.bundling import UnsoundSchema
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params

_REMEDY: Final = "correct the entry in the backend's listing, or name it in catalog.exclude"


class Builder:
    """Build catalogs. Equal tools of successive catalogs are one object, so that their cached digests stay.
    ``leading_params`` says that the credential of calls stands before their params."""

    def __init__(
        self, params: Params, validators: ValidatorCache, pins: Pins | None = None, *, leading_params: bool = False
    ) -> None:
        self._params = params
        self._leading_params = leading_params
        self._validators = validators
        self._pins = pins
        self._tools: LRUCache[str, Tool] = LRUCache(20_000)

    async def build_catalog(self, listing: Listing, settings: CatalogSettings) -> Catalog:
        curation, draft = Curation(settings), _CatalogDraft(self._pins, listing.quarantined)
        all_tools = settings.trust_annotations, listing.form, listing.by_position, self._leading_params
        policy = ToolPolicy(self._params, *all_tools)
        methods, notes = _unique(method for method in listing.methods if curation.offers(method.name))
        methods = draft.drop_unreviewed(methods)
        # These steps go over all methods at once and would block the loop; a thread lets others run every 5 ms.
        wanted = [method.name for method in methods]
        overrides = await asyncio.to_thread(lambda: {name: curation.override_for(name) for name in wanted})
        chosen = {name: override.name for name, override in overrides.items() if override.name}
        names = await asyncio.to_thread(assign_names, overrides, chosen)
        turns = Turns()
        for method in methods:
            try:
                tool = build_tool(method, names[method.name], overrides[method.name], policy, self._validators)
                draft.add(tool, self._tools)
            except UnsoundSchema as error:
                draft.quarantined.append(_quarantine(method, error))
            except (ValueError, RecursionError):
                draft.quarantined.append(QuarantinedMethod(method.name, "its entry cannot be written as JSON", _REMEDY))
            await turns.give()
        listed = {method.name for method in listing.methods}
        hidden = await asyncio.to_thread(lambda: tuple(sorted(name for name in listed if not curation.offers(name))))
        return Catalog(
            tools=tuple(sorted(draft.tools, key=lambda tool: tool.name)),
            dialect=listing.dialect,
            quarantined=tuple(draft.quarantined),
            notes=(*listing.notes, *notes),
            hidden=hidden,
            service=texts.clean_service_info(listing.service),
        )


class _CatalogDraft:
    """Collect the tools of a catalog and the methods that are quarantined."""

    def __init__(self, pins: Pins | None, quarantined: Iterable[QuarantinedMethod]) -> None:
        self.tools: list[Tool] = []
        self.quarantined = list(quarantined)
        self._pins = pins

    def drop_unreviewed(self, methods: list[Method]) -> list[Method]:
        """Return the reviewed methods: an unreviewed one must not take the name of a reviewed one."""
        pins = self._pins
        if pins is None:
            return methods
        self.quarantined += [pins.unreviewed(method.name) for method in methods if not pins.admits(method.name)]
        return [method for method in methods if pins.admits(method.name)]

    def add(self, tool: Tool, known: MutableMapping[str, Tool]) -> None:
        """Add a tool, or the equal one in ``known`` (by digest), unless its pin holds it back."""
        drift = None if self._pins is None else self._pins.drift(tool)
        if drift is None:
            self.tools.append(known.setdefault(tool.digest, tool))
        else:
            self.quarantined.append(drift)


def _unique(methods: Iterable[Method]) -> tuple[list[Method], list[str]]:
    unique: dict[str, Method] = {}
    repeated = [method.name for method in methods if unique.setdefault(method.name, method) is not method]
    return list(unique.values()), [f"{name} is listed twice; the first entry is used" for name in repeated]


def _quarantine(method: Method, error: UnsoundSchema) -> QuarantinedMethod:
    where = f'catalog.tools."{method.name}".arguments'
    argument = error.argument
    match parts_of(error.pointer):
        case ["properties", name, *_] if argument is None:
            argument = name
    if argument is not None:
        where = f"{where}.{argument}.schema"
    return QuarantinedMethod(method.name, error.reason, f"give it a schema under {where}", error.pointer)
