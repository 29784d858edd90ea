"""What a dialect is, and what it may ask."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import urlsplit, urlunsplit

from gateway.model import Listing, Quarantined, Schema, Seen

MAX_NAME: Final = 512
"""Longest method name, in characters, that any dialect takes; real ones have some tens."""


class Source(Protocol):
    """Where a listing comes from. Questions do not raise: what came instead is in :class:`~gateway.model.Seen`.

    ``url`` is the JSON-RPC endpoint, ``base`` its parent path, ``origin`` its root; ``place`` is where the operator
    says the listing is, ``file`` the file it is in.
    """

    url: str
    base: str
    origin: str
    place: str | None
    file: str | None

    async def call(self, method: str, params: Any = None) -> Seen: ...

    async def get(self, url: str) -> Seen: ...

    async def read(self, file: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Step:
    """One question and what it brought, for the operator to read."""

    question: str
    saw: Seen

    def __str__(self) -> str:
        return f"{self.question}: {self.saw.summary}"


class NoListing(Exception):
    """The backend gave no listing in this dialect; ``steps`` tell what was asked and seen."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self.steps = tuple(steps)
        super().__init__("; ".join(map(str, self.steps)))

    @property
    def denied(self) -> bool:
        return any(step.saw.denied for step in self.steps)

    @property
    def unauthorized(self) -> bool:
        """Whether the backend does not know who asked, rather than knowing and refusing."""
        return any(step.saw.unauthorized for step in self.steps)

    @property
    def unreachable(self) -> bool:
        return any(step.saw.unreachable for step in self.steps)


class Dialect(Protocol):
    """A form of listing. ``name`` is what ``backend.listing.dialect`` calls it."""

    name: str

    async def fetch(self, source: Source) -> Listing:
        """Ask for the listing. Raises :class:`NoListing`."""
        ...


def not_a_listing(steps: list[Step], question: str, seen: Seen, wanted: str) -> None:
    """Note a question that brought JSON, but not the JSON of this dialect."""
    if seen.found:
        seen = Seen(f"JSON, but {wanted}")
    steps.append(Step(question, seen))


def path_of(url: str) -> str:
    """What of a URL an operator needs to see of a question: all but the origin."""
    parts = urlsplit(url)
    return urlunsplit(("", "", parts.path or "/", parts.query, ""))


def object_of(value: Any) -> dict[str, Any]:
    """An object; PHP writes an empty one as ``[]``, and what is neither counts as empty."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """A list; what is none counts as empty."""
    return value if isinstance(value, list) else []


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def texts_of(value: Any) -> frozenset[str]:
    return frozenset(item for item in value if isinstance(item, str)) if isinstance(value, list) else frozenset()


def schema_of(value: Any) -> Schema:
    """A schema; anything that is none (null, ``[]``) says nothing about the value."""
    return value if isinstance(value, dict | bool) else True


def name_fault(name: Any, index: int) -> Quarantined | None:
    """Why an entry's name cannot be called, or None."""
    if isinstance(name, str) and 0 < len(name) <= MAX_NAME:
        return None
    shown = f"entry {index}" if not isinstance(name, str) or not name else name[:40] + "…"
    return Quarantined(shown, "the entry has no usable method name", "mend the entry in the backend's listing")
