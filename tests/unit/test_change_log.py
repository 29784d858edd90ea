"""What the log says of a new catalog is bounded, whatever a listing has in it."""

from __future__ import annotations

from structlog.testing import capture_logs

from gateway.discovery.refreshing import MOST_LINES, log_catalog_change
from gateway.model import Catalog, QuarantinedMethod


def catalog(*quarantined: str) -> Catalog:
    methods = tuple(QuarantinedMethod(name, "it has no name", "name it") for name in quarantined)
    return Catalog((), "test", quarantined=methods)


def test_of_a_flood_of_broken_entries_the_first_are_told_and_the_others_are_counted() -> None:
    with capture_logs() as lines:
        log_catalog_change(None, catalog(*map(str, range(100_000))))
    assert lines.pop(0) == {"event": "first tools", "tools": [], "log_level": "debug"}
    assert [line["method"] for line in lines[:-1]] == [str(number) for number in range(MOST_LINES)]
    assert lines[-1]["event"] == "method quarantined"
    assert lines[-1]["more"] == 100_000 - MOST_LINES


def test_what_was_told_before_is_not_told_again() -> None:
    with capture_logs() as lines:
        log_catalog_change(catalog("a", "b"), catalog("a", "b", "c"))
    assert [line["method"] for line in lines] == ["c"]
