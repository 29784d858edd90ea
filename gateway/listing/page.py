"""``docs/dialects.md``: what each dialect says of itself, in the order of probing."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.listing.dialect import PARTS, Dialect
from gateway.listing.probe import DIALECTS

_INTRODUCTION = """\
# Dialects

Made by `make config` from `gateway/listing/`; do not edit.

`backend.listing.dialect` names one of these. `auto`, the default, asks for those that have a number, in that order, one
question at a time and without params, and takes the first that answers; the others have to be named.
`{base}` is `backend.url` without its last path segment. `backend.listing.url` is asked in place of all that is asked by
GET here, and is where calls for the listing go.
[listings.md](listings.md) says what is made of a listing, [new-dialect.md](new-dialect.md) how to add one.
"""


def dialects() -> str:
    """The page."""
    return "\n".join([_INTRODUCTION, *_asked(), "", *_carried(), "", "## What is lost", "", *_lost()])


def _asked() -> Iterator[str]:
    yield from ("| | dialect | spoken by | asked | recognized by |", "|---|---|---|---|---|")
    turn = 0
    for name, dialect in DIALECTS.items():
        about = dialect.about
        turn += about.probed
        yield f"| {turn if about.probed else ''} | `{name}` | {about.of} | {about.asked} | {about.recognized} |"


def _carried() -> Iterator[str]:
    yield from ("## What is carried", "", "Besides the name of each method:", "")
    yield f"| dialect | {' | '.join(PARTS)} | passed |"
    yield "|---" * (len(PARTS) + 2) + "|"
    for name, dialect in DIALECTS.items():
        yield f"| `{name}` | {' | '.join(_marks(dialect))} | {dialect.about.passed} |"


def _marks(dialect: Dialect) -> Iterator[str]:
    return ("✓" if part in dialect.about.carries else "" for part in PARTS)


def _lost() -> Iterator[str]:
    for name, dialect in DIALECTS.items():
        yield from (f"**{name}**: {dialect.about.lost}", "")
