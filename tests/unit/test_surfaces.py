"""What users rely on changes only with a line in the changelog, and goes only after it was deprecated for long."""

from __future__ import annotations

from pathlib import Path

from gateway import __version__
from tests.each import each
from tests.surfaces import RELEASED, Promise, current, read, text_of
from tests.surfaces.judging import faults

CHANGELOG = (Path(__file__).parents[2] / "CHANGELOG.md").read_text()
KNOB = Promise("knobs", "catalog.ttl")
OLD = "\n## [0.1.0]\n\n### Deprecated\n\n- `catalog.ttl`: see `catalog.max_stale`.\n"


def said(before: str | None, after: str | None, changelog: str, version: str = "0.2.0", promise: Promise = KNOB) -> str:
    """What is wrong where a promise was worth ``before`` and is worth ``after``; None where it is not there."""
    released = {} if before is None else {promise: before}
    now = {} if after is None else {promise: after}
    return "".join(faults(released, now, "0.1.0", version, changelog))


def unreleased(kind: str, line: str) -> str:
    return f"# Changelog\n\n## [Unreleased]\n\n### {kind}\n\n- {line}\n"


def test_what_changed_since_the_last_release_is_in_the_changelog() -> None:
    since, released = read(RELEASED.read_text())
    found = [*faults(released, current(), since, __version__, CHANGELOG)]
    remedy = f"{since} is not released yet? Then: python -m tests.surfaces"
    assert not found, "\n".join([*found, remedy])


def test_the_file_is_read_as_it_was_written() -> None:
    text = text_of("1.2.3", current())
    assert read(text) == ("1.2.3", current())
    assert text.count("\n") == len(current()) + 1, "a line for each, so that branches merge"


def test_every_surface_is_looked_at() -> None:
    surfaces = {promise.surface for promise in current()}
    assert surfaces == {"audit members", "exit codes", "knobs", "log fields", "metrics", "pin fields", "tool names"}


@each(
    ("before", "after"), {"a new knob": (None, "5m"), "another default": ("5m", "6m")}
)  # fmt: skip
def test_a_change_has_to_be_named_in_code(before: str | None, after: str) -> None:
    assert said(before, after, unreleased("Added", "A knob `catalog.ttl`.")) == ""
    assert said(before, after, unreleased("Changed", "`catalog.ttl: 6m` is the default.")) == ""
    for line in ("catalog.ttl is new.", "`catalog.ttls`, `catalog.ttl.x` and `x.catalog.ttl` are new."):
        assert "does not name `catalog.ttl`" in said(before, after, unreleased("Added", line))


def test_a_change_of_an_earlier_release_does_not_count() -> None:
    older = "\n## [0.1.0]\n\n### Added\n\n- `catalog.ttl`.\n"
    assert "does not name" in said("5m", "6m", unreleased("Added", "Nothing.") + older)


def test_what_goes_was_deprecated_for_two_minor_versions_and_is_named_as_removed() -> None:
    removed = unreleased("Removed", "`catalog.ttl`.")
    assert said("5m", None, removed + OLD, "0.3.0") == ""
    assert said("5m", None, removed + OLD, "1.0.0") == ""
    assert "under Deprecated" in said("5m", None, removed + OLD, "0.2.0")
    assert "under Deprecated" in said("5m", None, removed, "0.3.0")
    assert "under Removed" in said("5m", None, unreleased("Changed", "`catalog.ttl` is gone.") + OLD, "0.3.0")


def test_what_is_a_weakness_may_go_at_once_and_is_named_under_security() -> None:
    assert said("5m", None, unreleased("Security", "`catalog.ttl` is gone: it let others in.")) == ""


def test_names_of_tools_and_pins_and_exit_codes_are_told_in_words() -> None:
    told = unreleased("Changed", "The names of tools have no digits; the pin file has a version; exit code 4 is new.")
    for promise in (Promise("tool names", "a b"), Promise("pin fields", "title"), Promise("exit codes", "exit code 4")):
        assert said("x", "y", told, promise=promise) == ""
        assert "does not name" in said("x", "y", unreleased("Changed", "Nothing."), promise=promise)
