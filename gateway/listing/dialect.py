"""What a dialect is, and what it may ask."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args
from urllib.parse import urlsplit, urlunsplit

from gateway.model import Listing, Method, Parameter, QuarantinedMethod, Schema, SourceAnswer, Structure
from gateway.settings import CustomListing
from gateway.text import masked_url

MAX_NAME: Final = 512
"""Longest method name, in characters, that any dialect takes; real ones have some tens."""
_NO_KEY: Final = re.compile(r"[\s()\[\]{}<>]")
_MEND: Final = "mend the entry in the backend's listing"


class ListingSource(Protocol):
    """Where a listing comes from. Questions do not raise: what came instead is in :class:`~gateway.model.SourceAnswer`.

    ``url`` is the JSON-RPC endpoint, ``base`` its parent path, ``origin`` its root; ``listing_url`` is where the
    operator says the listing is, ``file`` the file it is in, ``custom`` the form it has for ``dialect: custom``.
    ``documents`` are the files of the documents that it leads to, by their addresses.
    """

    url: str
    base: str
    origin: str
    listing_url: str | None
    file: str | None
    custom: CustomListing
    documents: Mapping[str, str]

    async def call_method(self, method: str, params: Any = None) -> SourceAnswer: ...

    async def get_document(self, url: str) -> SourceAnswer: ...

    async def read_file(self, file: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Step:
    """One question and what it brought, for the operator to read."""

    question: str
    answer: SourceAnswer

    def __str__(self) -> str:
        return f"{self.question}: {self.answer.summary}"


class NoListing(Exception):
    """The backend gave no listing in this dialect; ``steps`` tell what was asked and seen."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self.steps = tuple(steps)
        super().__init__("; ".join(map(str, self.steps)))

    @property
    def denied(self) -> bool:
        return any(step.answer.denied for step in self.steps)

    @property
    def unauthorized(self) -> bool:
        """Tell whether the backend does not know who asked, rather than knowing and refusing."""
        return any(step.answer.unauthorized for step in self.steps)

    @property
    def unreachable(self) -> bool:
        return any(step.answer.unreachable for step in self.steps)


Part: TypeAlias = Literal["title", "description", "parameters", "types", "required", "result", "scopes"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)
"""What a listing can tell of a method besides its name."""


@dataclass(frozen=True, slots=True)
class About:
    """What an operator wants to know of a dialect; ``docs/dialects.md`` is made from it.

    ``probed`` is whether ``dialect: auto`` asks for it: not where that takes params, or an operator's file.
    """

    of: str
    asked: str
    recognized: str
    carries: tuple[Part, ...]
    passed: str
    lost: str
    probed: bool = True


class Dialect(Protocol):
    """A form of listing. ``name`` is what ``backend.listing.dialect`` calls it."""

    name: str
    about: About

    async def fetch_listing(self, source: ListingSource) -> Listing:
        """Ask for the listing. Raises :class:`NoListing`."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """Something to ask a source, and what it is called in a :class:`Step`."""

    text: str
    ask: Callable[[], Awaitable[SourceAnswer]]


def get_question(source: ListingSource, url: str) -> Question:
    return Question(f"GET {masked_url(path_of(url))}", lambda: source.get_document(url))


def call_question(source: ListingSource, method: str, params: Any = None) -> Question:
    return Question(method, lambda: source.call_method(method, params))


async def first_answer(questions: Iterable[Question], recognizes: Callable[[Any], bool], wanted: str) -> Any:
    """The first JSON that ``recognizes`` takes, asking one question after the other.

    ``wanted`` ends the sentence "JSON, but …". Raises :class:`NoListing` with all that was asked.
    """
    steps: list[Step] = []
    for question in questions:
        answer = await question.ask()
        if answer.has_value and recognizes(answer.value):
            return answer.value
        add_step(steps, question.text, answer, wanted)
        if answer.unreachable:
            break
    raise NoListing(steps)


def add_step(steps: list[Step], question: str, answer: SourceAnswer, wanted: str) -> None:
    """Note a question that brought JSON, but not the JSON of this dialect."""
    if answer.has_value:
        answer = SourceAnswer(f"JSON, but {wanted}")
    steps.append(Step(question, answer))


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


def entry_of(value: Any) -> dict[str, Any]:
    """The entry of a method. Raises :class:`UnusableMethod` for what is no object."""
    if isinstance(value, dict):
        return value
    raise UnusableMethod("the entry is no object", _MEND)


def is_heading(name: Any) -> bool:
    """Tell whether a name can be no key of ``params``: a heading over a place (Ethereum's "Transaction hash"), or none.

    A document with one is of a service that takes its params by position: what it does not say of other methods holds
    for them too, however their parameters are called.
    """
    return not isinstance(name, str) or not name or _NO_KEY.search(name) is not None


def schema_of(value: Any) -> Schema:
    """A schema; anything that is none (null, ``[]``) says nothing about the value."""
    return value if isinstance(value, dict | bool) else True


def name_fault(name: Any, index: int) -> QuarantinedMethod | None:
    """Why an entry's name cannot be called, or None."""
    if isinstance(name, str) and 0 < len(name) <= MAX_NAME:
        return None
    shown = f"entry {index}" if not isinstance(name, str) or not name else name[:40] + "…"
    return QuarantinedMethod(shown, "the entry has no usable method name", _MEND)


def listing_of(dialect: str, entries: Iterable[tuple[Any, Any]], parse_entry: Callable[[str, Any], Method]) -> Listing:
    """A listing of (name, entry) pairs; an entry without a usable name, or that ``parse_entry`` cannot take, is
    quarantined.

    ``parse_entry`` makes a method of a name and its entry, and raises :class:`UnusableMethod`.
    """
    methods: list[Method] = []
    quarantined: list[QuarantinedMethod] = []
    for index, (name, entry) in enumerate(entries):
        fault = name_fault(name, index)
        if fault is None:
            try:
                methods.append(parse_entry(name, entry))
            except UnusableMethod as error:
                fault = QuarantinedMethod(name, error.reason, error.remedy)
            except RecursionError:
                fault = QuarantinedMethod(name, "the entry is nested too deeply", _MEND)
        if fault is not None:
            quarantined.append(fault)
    return Listing(dialect, tuple(methods), tuple(quarantined))


class UnusableMethod(Exception):
    """A method that is listed and cannot be called through a gateway."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


def name_parameters(parameters: Iterable[Parameter], structure: Structure) -> tuple[tuple[Parameter, ...], Structure]:
    """Parameters with a name for each, and the structure to pass them in: by position where a name is missing or
    stands twice, since only its place tells such a parameter."""
    named: dict[str, Parameter] = {}
    for position, parameter in enumerate(parameters):
        name = parameter.name or f"arg{position}"
        while name in named:
            name = f"{name}_{position}"
        if name != parameter.name:
            structure = Structure.BY_POSITION
        named[name] = replace(parameter, name=name)
    return tuple(named.values()), structure
