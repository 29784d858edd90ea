"""Whether the changelog says what changed since the last release, and whether what is gone was deprecated for long."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tests.surfaces import Promise, Surfaces

DEPRECATED_FOR: Final = 2
"""Minor versions between the one that deprecates something and the one that may remove it."""
_UNRELEASED: Final = "Unreleased"
_SPOKEN: Final = {"tool names": "names of tools", "pin fields": "pin file"}
"""Surfaces whose changes are told in words: their promises are examples."""


def faults(released: Surfaces, now: Surfaces, since: str, version: str, changelog: str) -> Iterator[str]:
    """Yield what is wrong with the changes between the release ``since`` and the code, which is of ``version``."""
    releases = _releases(changelog)
    later = [name for name in releases if name == _UNRELEASED or _number(name) > _number(since)]
    news = "".join(releases[name] for name in later)
    removed = "".join(_kind(releases[name], "Removed") for name in later)
    urgent = "".join(_kind(releases[name], "Security") for name in later)
    old = [name for name in releases if name != _UNRELEASED and _is_long_ago(name, version)]
    deprecated = "".join(_kind(releases[name], "Deprecated") for name in old)
    for promise in sorted({*released, *now}):
        before, after = released.get(promise), now.get(promise)
        if before == after:
            continue
        if after is None and _names(urgent, promise):  # a weakness does not wait for two versions
            continue
        what = f"{promise.surface}: {promise.name}"
        if after is not None:
            if not _names(news, promise):
                how = "is new" if before is None else f"was {before!r} and is {after!r}"
                yield f"{what} {how}: CHANGELOG.md does not name {_word(promise)}"
        elif not _names(removed, promise):
            yield f"{what} is gone: CHANGELOG.md does not name {_word(promise)} under Removed"
        elif not _names(deprecated, promise):
            yield f"{what} is gone: no release of {DEPRECATED_FOR} minor versions ago named it under Deprecated"


def _word(promise: Promise) -> str:
    """Return what the changelog has to say."""
    spoken = _SPOKEN.get(promise.surface) or (promise.name if promise.surface == "exit codes" else "")
    return f'"{spoken}"' if spoken else f"`{promise.name}`"


def _names(text: str, promise: Promise) -> bool:
    """Return whether a text names it: in code, alone or within more, or in words."""
    word = _word(promise)
    if word.startswith('"'):
        return word.strip('"') in text
    whole = re.compile(rf"(?<![\w.]){re.escape(promise.name)}(?![\w]|\.\w)")
    return any(whole.search(code) for code in re.findall(r"`([^`]+)`", text))


def _releases(changelog: str) -> Mapping[str, str]:
    _, *parts = re.split(r"^## \[(.+?)\].*$", changelog, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _kind(release: str, kind: str) -> str:
    """Return what a release says under a heading."""
    _, *parts = re.split(r"^### (.+)$", release, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True)).get(kind, "")


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _is_long_ago(name: str, version: str) -> bool:
    """Return whether what a release deprecated may be gone from ``version`` on."""
    then, now = _number(name), _number(version)
    return now[0] > then[0] or now[1] - then[1] >= DEPRECATED_FOR
