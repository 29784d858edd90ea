"""Write to the log what changes when one catalog takes another's place."""

from __future__ import annotations

from typing import Final

import structlog

from gateway.model import Catalog

MOST_NAMES: Final = 20
"""Names in one list of a line."""

MOST_LINES: Final = 100
"""Lines about quarantined methods, or such as differ from their pins, for one catalog."""

log = structlog.get_logger()


def log_news(before: Catalog | None, after: Catalog) -> None:
    """Name what is new, gone, quarantined or not as pinned. Of a first catalog nothing is new."""
    if before is not None and before.digest != after.digest:
        old, new = set(before.names), set(after.names)
        if old != new:
            log.info("tools changed", **_named("new", new - old), **_named("gone", old - new))
    known = {*before.quarantined, *before.drifted} if before is not None else set()
    for event, methods in (
        ("method quarantined", after.quarantined), ("tool differs from its pin", after.drifted)
    ):  # fmt: skip
        news = [method for method in methods if method not in known]
        for method in news[:MOST_LINES]:
            log.warning(event, method=method.name, reason=method.reason, remedy=method.remedy)
        if len(news) > MOST_LINES:  # a listing may have a million broken entries
            log.warning(event, more=len(news) - MOST_LINES, remedy="the command `check` names all of them")


def _named(what: str, names: set[str]) -> dict[str, object]:
    """The first names, and how many more there are."""
    fields: dict[str, object] = {what: sorted(names)[:MOST_NAMES]}
    if len(names) > MOST_NAMES:
        fields[f"more_{what}"] = len(names) - MOST_NAMES
    return fields
