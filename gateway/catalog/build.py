"""Listing → Catalog: decide which methods are offered, under which names, and which are quarantined.

Building yields to the event loop every few milliseconds, so that a large catalog does not delay other requests.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from cachetools import LRUCache

from gateway.catalog.curation import Curation
from gateway.catalog.diff import changes_since
from gateway.catalog.names import assign_names
from gateway.catalog.normalize import ToolPolicy, build_tool
from gateway.catalog.pins import Pins
from gateway.concurrency.turns import Turns, run_in_thread
from gateway.jsonrpc import parts_of
from gateway.model import Catalog, Listing, Method, NameStyle, QuarantinedMethod, Tool
from gateway.schema import texts
from gateway.schema.bundling import UnsoundSchema
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Params, ToolOverride

_REMEDY: Final = "correct the entry in the backend's listing, or name it in catalog.exclude"


@dataclass(eq=False, repr=False)
class Builder:
    """Build catalogs. Equal tools of successive catalogs are one object, so that their cached digests stay.
    ``leading_params`` and ``named_arguments`` say that the credential stands before, or among, the params of calls."""

    params: Params
    validators: ValidatorCache
    pins: Pins | None = None
    leading_params: bool = False
    named_arguments: bool = False
    _tools: LRUCache[str, Tool] = field(init=False, default_factory=lambda: LRUCache(20_000))

    async def build_catalog(self, listing: Listing, settings: CatalogSettings) -> Catalog:
        curation, pins, quarantined = Curation(settings), self.pins, list(listing.quarantined)
        policy = ToolPolicy(
            self.params, settings.trust_annotations, listing.form, listing.by_position, self.leading_params,
            self.named_arguments, settings.results.max, listing.dialect,
        )  # fmt: skip
        methods, notes = _unique(method for method in listing.methods if curation.offers(method.name))
        hidden = {method.name for method in listing.methods} - {method.name for method in methods}
        if pins is not None:  # an unreviewed method must not take the name of a reviewed one
            quarantined += [pins.unreviewed(method.name) for method in methods if not pins.admits(method.name)]
            methods = [method for method in methods if pins.admits(method.name)]
        # These steps go over all methods at once and would block the loop; beside a thread, others run.
        wanted = [method.name for method in methods]
        overrides = await run_in_thread(lambda: {name: curation.override_for(name) for name in wanted})
        chosen = {name: override.name for name, override in overrides.items() if override.name}
        names = await run_in_thread(assign_names, overrides, chosen)
        turns, tools = await Turns.begin(), []
        for method in methods:
            made = self._build(method, names[method.name], overrides[method.name], policy)
            if isinstance(made, Tool):
                tools.append(made)
            else:
                quarantined.append(made)
            await turns.give()
        return Catalog(
            tools=tuple(sorted(tools, key=lambda tool: tool.name)),
            dialect=listing.dialect,
            quarantined=tuple(quarantined),
            notes=(*listing.notes, *notes),
            hidden=tuple(sorted(hidden)),
            service=texts.clean_service_info(listing.service),
            endpoints=listing.endpoints,
        )

    def _build(
        self, method: Method, names: Mapping[NameStyle, str], override: ToolOverride, policy: ToolPolicy
    ) -> Tool | QuarantinedMethod:
        """Return the tool, or an equal one of an earlier catalog."""
        try:
            tool = build_tool(method, names, override, policy, self.validators)
            if self.pins is not None and (drift := self.pins.drift(tool)) is not None:
                return replace(drift, changes=changes_since(self.pins.by_method[tool.method], tool))
            return self._tools.setdefault(tool.digest, tool)
        except UnsoundSchema as error:
            return _quarantine(method, error)
        except (ValueError, RecursionError):
            return QuarantinedMethod(method.name, "its entry cannot be written as JSON", _REMEDY)


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
    remedy = f"give it a schema under {where}"
    return QuarantinedMethod(method.name, error.reason, remedy, error.pointer, argument=argument)
