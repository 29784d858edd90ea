"""Log what changes when one catalog replaces another."""

from __future__ import annotations

from typing import Final

import structlog

from gateway.model import Catalog

MOST_NAMES: Final = 20
"""Names in one list of a log line."""

MOST_LINES: Final = 100
"""Log lines about the quarantined methods of one catalog."""

log = structlog.get_logger()


def log_catalog_change(before: Catalog | None, after: Catalog) -> None:
    """Log tools that are new or gone, and methods that are newly quarantined. In a first catalog no tool is new."""
    if before is not None and before.digest != after.digest:
        old, new = set(before.names), set(after.names)
        if old != new:
            log.info("tools changed", **_name_fields("new", new - old), **_name_fields("gone", old - new))
    logged_before = set(before.quarantined) if before is not None else set()
    new_methods = [method for method in after.quarantined if method not in logged_before]
    for method in new_methods[:MOST_LINES]:
        log.warning("method quarantined", method=method.name, reason=method.reason, remedy=method.remedy)
    if len(new_methods) > MOST_LINES:  # a listing may have a million broken entries
        remedy = "the command `check` names all of them"
        log.warning("method quarantined", more=len(new_methods) - MOST_LINES, remedy=remedy)


def _name_fields(what: str, names: set[str]) -> dict[str, object]:
    """Return the first names, and how many more there are, as fields of a log line."""
    fields: dict[str, object] = {what: sorted(names)[:MOST_NAMES]}
    if len(names) > MOST_NAMES:
        fields[f"more_{what}"] = len(names) - MOST_NAMES
    return fields
