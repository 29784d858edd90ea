"""Listing → Catalog: which methods are offered, under which names, and who is quarantined.

Building yields to the event loop every few milliseconds, so that a large catalog stalls nobody.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Callable, Iterable
from fnmatch import translate
from typing import Any, Final

from cachetools import LRUCache

from gateway.catalog.names import assign
from gateway.catalog.normalize import Policy, tool_of
from gateway.catalog.schemas import Unsound
from gateway.catalog.validation import Validators
from gateway.model import Catalog, Listing, Method, Quarantined, Tool
from gateway.settings import Annotations, CatalogSettings, Params, ToolOverride

_SLICE: Final = 0.005
"""Seconds of work between two turns of the loop."""
_HIDE: Final = "mend the entry in the backend's listing, or name it in catalog.exclude"


class Builder:
    """Builds catalogs. Equal tools of successive catalogs are one object."""

    def __init__(self, params: Params, validators: Validators, clock: Callable[[], float] = time.time) -> None:
        self._params = params
        self._validators = validators
        self._clock = clock
        self._tools: LRUCache[str, Tool] = LRUCache(20_000)

    async def build(self, listing: Listing, settings: CatalogSettings) -> Catalog:
        curation = Curation(settings)
        policy = Policy(self._params, settings.trust_annotations, settings.confirm_destructive)
        methods, notes = _unique(method for method in listing.methods if curation.offers(method.name))
        overrides = {method.name: curation.override(method.name) for method in methods}
        names = assign(overrides, {name: override.name for name, override in overrides.items() if override.name})
        tools: list[Tool] = []
        quarantined = list(listing.quarantined)
        turn = time.monotonic()
        for method in methods:
            try:
                tool = tool_of(method, names[method.name], overrides[method.name], policy, self._validators)
                tools.append(self._tools.setdefault(tool.digest, tool))
            except Unsound as error:
                quarantined.append(_quarantined(method, error))
            except (ValueError, RecursionError):
                quarantined.append(Quarantined(method.name, "its entry cannot be written as JSON", _HIDE))
            if time.monotonic() - turn > _SLICE:
                await asyncio.sleep(0)
                turn = time.monotonic()
        tools.sort(key=lambda tool: tool.name)
        digest = hashlib.sha256("".join(tool.digest for tool in tools).encode()).hexdigest()
        return Catalog(
            tuple(tools), digest, listing.dialect, self._clock(), tuple(quarantined), (*listing.notes, *notes)
        )


class Curation:
    """What the operator's patterns say about a method. Patterns are shell globs; case counts."""

    def __init__(self, settings: CatalogSettings) -> None:
        self._include = _matcher(settings.include)
        self._exclude = _matcher(settings.exclude)
        self._overrides = [(_matcher([pattern]), override) for pattern, override in settings.tools.items()]

    def offers(self, method: str) -> bool:
        return bool(self._include(method)) and not self._exclude(method)

    def override(self, method: str) -> ToolOverride:
        """All overrides that match, later ones over earlier ones."""
        merged: dict[str, Any] = {}
        for matches, override in self._overrides:
            if matches(method):
                for name in override.model_fields_set:
                    value, before = getattr(override, name), merged.get(name)
                    if name == "arguments":
                        value = {**(before or {}), **value}
                    elif isinstance(before, Annotations):
                        value = before.model_copy(update=value.model_dump(exclude_unset=True))
                    merged[name] = value
        return ToolOverride.model_construct(**(ToolOverride().__dict__ | merged))


def _matcher(patterns: Iterable[str]) -> Callable[[str], Any]:
    # A method's own name matches it, whatever it means as a glob.
    together = "|".join(rf"{translate(pattern)}|{re.escape(pattern)}\Z" for pattern in patterns)
    return re.compile(together or r"(?!)").match


def _unique(methods: Iterable[Method]) -> tuple[list[Method], list[str]]:
    unique: dict[str, Method] = {}
    repeated = [method.name for method in methods if unique.setdefault(method.name, method) is not method]
    return list(unique.values()), [f"{name} is listed twice; the first entry is used" for name in repeated]


def _quarantined(method: Method, error: Unsound) -> Quarantined:
    where = f'catalog.tools."{method.name}".arguments'
    argument = error.argument
    parts = error.pointer.split("/")
    if argument is None and len(parts) > 2 and parts[1] == "properties":
        argument = parts[2].replace("~1", "/").replace("~0", "~")
    if argument is not None:
        where = f"{where}.{argument}.schema"
    return Quarantined(method.name, error.reason, f"give it a schema under {where}", error.pointer)
