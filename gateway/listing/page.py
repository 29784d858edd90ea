"""Write ``docs/dialects.md``: what each dialect says about itself, in the order of probing."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.listing.dialect import PARTS, Dialect
from gateway.listing.probe import DIALECTS

_INTRODUCTION = """\
# Dialects

Made by `make config` from `gateway/listing/`; do not edit.

`backend.listing.dialect` names one of these dialects. `auto`, the default, tries those with a number, in that order.
It asks one question at a time, without params, and takes the first dialect that answers. The others have to be named.
`{base}` is `backend.url` without its last path segment. `backend.listing.url` replaces every address that is asked by
GET here, and calls for the listing go to it.
[listings.md](listings.md) says how a listing becomes tools, [new-dialect.md](new-dialect.md) how to add a dialect.
"""


def dialects() -> str:
    """Return the page."""
    return "\n".join([_INTRODUCTION, *_requests(), "", *_carried(), "", "## What is not carried", "", *_not_carried()])


def _requests() -> Iterator[str]:
    yield from ("| | dialect | spoken by | asked | recognized by |", "|---|---|---|---|---|")
    number = 0
    for name, dialect in DIALECTS.items():
        info = dialect.info
        number += info.probed
        first = number if info.probed else ""
        yield f"| {first} | `{name}` | {info.spoken_by} | {info.requests} | {info.recognized_by} |"


def _carried() -> Iterator[str]:
    yield from ("## What is carried", "", "Besides the name of each method:", "")
    yield f"| dialect | {' | '.join(PARTS)} | passed |"
    yield "|---" * (len(PARTS) + 2) + "|"
    for name, dialect in DIALECTS.items():
        yield f"| `{name}` | {' | '.join(_marks(dialect))} | {dialect.info.params} |"


def _marks(dialect: Dialect) -> Iterator[str]:
    return ("✓" if part in dialect.info.carries else "" for part in PARTS)


def _not_carried() -> Iterator[str]:
    for name, dialect in DIALECTS.items():
        yield from (f"**{name}**: {dialect.info.not_carried}", "")
