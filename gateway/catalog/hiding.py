"""Tell what a change of knobs takes away from callers: what they were shown before may then not be shown again."""

from __future__ import annotations

from typing import Final

from gateway.catalog.curation import Curation
from gateway.model import Catalog
from gateway.settings import CatalogSettings

_RESTRICTING: Final = ("scopes", "requires", "confirm", "annotations", "arguments")
"""Overrides that may take something away, or let fewer callers in. Others change how a tool is shown or called."""


class Change:
    """A change of the knobs of the catalog. What it means is found out once: many callers see the same tools."""

    def __init__(self, before: CatalogSettings, after: CatalogSettings) -> None:
        self.before = before
        self.after = after
        self._asks_more = (after.confirm_destructive and not before.confirm_destructive) or (
            before.trust_annotations and not after.trust_annotations
        )
        self._curations = Curation(before), Curation(after)
        self._catalogs: dict[str, bool] = {}
        self._methods: dict[str, bool] = {}

    def hides(self, catalog: Catalog) -> bool:
        """Tell whether it takes something of a catalog away that was built by the knobs before. Pins are not looked
        at."""
        known = self._catalogs.get(catalog.digest)
        if known is None:
            known = self._asks_more or any(self._restricts(tool.method) for tool in catalog.tools)
            self._catalogs[catalog.digest] = known
        return known

    def _restricts(self, method: str) -> bool:
        known = self._methods.get(method)
        if known is None:
            before, after = self._curations
            old, new = before.override(method), after.override(method)
            known = self._methods[method] = not after.offers(method) or any(
                getattr(old, knob) != getattr(new, knob) for knob in _RESTRICTING
            )
        return known
