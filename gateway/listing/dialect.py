"""Define what a dialect is and what it may ask, and make a listing of its entries."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from gateway.backend.interview import Interview, says_nothing
from gateway.backend.redaction import REDACTED
from gateway.concurrency.turns import run_in_thread
from gateway.listing.entries import REMEDY, UnusableMethod, is_heading, name_parameters
from gateway.model import NOT_ASKED, Listing, Method, QuarantinedMethod, SourceAnswer
from gateway.settings import ListingSettings
from gateway.text import masked_url, shorten

MAX_NAME: Final = 512
"""Longest method name, in characters, that any dialect accepts. Real names have some tens."""
_RENAME: Final = "give it another name in the backend's listing"


class ListingSource(Protocol):
    """Fetch what a listing is made of. A failure is a :class:`~gateway.model.SourceAnswer`; only files raise OSError.
    ``url`` is the JSON-RPC endpoint, ``listing`` what the operator says of the listing. ``interview`` asks about each
    method, and keeps the answers from one refresh to the next."""

    url: str
    listing: ListingSettings
    interview: Interview

    async def call_method(self, method: str, params: Any = None) -> SourceAnswer: ...

    async def get_document(self, url: str) -> SourceAnswer: ...

    async def read_file(self, file: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Step:
    """Hold one question and its answer, for the operator to read."""

    question: str
    answer: SourceAnswer

    def __str__(self) -> str:
        return f"{self.question}: {self.answer.summary}"


class NoListing(Exception):
    """Raised where the backend gave no listing in this dialect; ``steps`` are the questions and their answers. With
    ``is_partial`` it gave a part of one, so it speaks this dialect and no other is tried. ``unauthorized``: the backend
    does not know who asked, rather than knowing and refusing. ``refused``: it does not accept the credential that was
    sent, so that no other dialect is tried. ``away``: no question reached the backend itself. ``limited``: it wants
    fewer questions, or none for ``retry_after`` seconds."""

    def __init__(self, steps: Iterable[Step], *, is_partial: bool = False) -> None:
        self.steps = tuple(steps)
        self.is_partial = is_partial
        answers = [step.answer for step in self.steps]
        self.denied = any(answer.denied for answer in answers)
        self.unauthorized = any(answer.unauthorized for answer in answers)
        self.refused = any(answer.refused for answer in answers)
        self.unreachable = any(answer.unreachable for answer in answers)
        self.retry_after = max((answer.retry_after or 0 for answer in answers), default=0)
        self.limited = any(answer.retry_after or (answer.http and answer.http.status == 429) for answer in answers)
        self.away = bool(answers) and all(answer.away for answer in answers)
        super().__init__("; ".join(map(str, self.steps)))


Part: TypeAlias = Literal["title", "description", "parameters", "types", "required", "result", "scopes"]
"""Members that a listing can have of a method besides its name."""


@dataclass(frozen=True, slots=True)
class DialectInfo:
    """Describe a dialect for operators, in Markdown; ``docs/dialects.md`` is made from it. ``dialect: auto`` tries it
    where it is ``probed``: not where a question needs params, or the operator has to name a file. With ``schemes``, it
    is tried only where the URL has one of them."""

    spoken_by: str
    requests: str
    recognized_by: str
    carries: tuple[Part, ...]
    params: str
    not_carried: str
    probed: bool = True
    schemes: tuple[str, ...] = ()


class Dialect(Protocol):
    """Read one form of listing. ``name`` is its value of ``backend.listing.dialect``."""

    name: str
    info: DialectInfo

    async def fetch_listing(self, source: ListingSource) -> Listing:
        """Return the listing of a source. Raise :class:`NoListing`."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """Hold a question to a source, and its text in a :class:`Step`."""

    text: str
    ask: Callable[[], Awaitable[SourceAnswer]]


def get_question(source: ListingSource, usual_url: str) -> Question:
    """Return the question for the document at ``backend.listing.url``; without one, at its usual URL."""
    url = source.listing.url or usual_url
    return Question(f"GET {masked_url(path_of(url))}", lambda: source.get_document(url))


def call_question(source: ListingSource, method: str, params: Any = None) -> Question:
    return Question(method, lambda: source.call_method(method, params))


async def first_listing(
    questions: Iterable[Question], recognizes: Callable[[Any], bool], missing: str, parse: Callable[[Any], Listing]
) -> Listing:
    """Return what ``parse`` makes of the :func:`first_match`, in a thread: megabytes of descriptions take seconds."""
    return await run_in_thread(parse, await first_match(questions, recognizes, missing))


async def first_match(questions: Iterable[Question], recognizes: Callable[[Any], bool], missing: str) -> Any:
    """Ask one question after the other. Return the first JSON that ``recognizes`` accepts. Raise :class:`NoListing`
    with a step for each question; ``missing`` ends its sentence "JSON, but …"."""
    steps: list[Step] = []
    for question in questions:
        answer = await question.ask()
        if answer.has_value and recognizes(answer.value):
            return answer.value
        add_step(steps, question.text, answer, missing)
        # Other questions would only wait for the same host, or count as further attempts with a wrong password.
        if answer.unreachable or answer.refused:
            break
    raise NoListing(steps)


def add_step(steps: list[Step], question: str, answer: SourceAnswer, missing: str) -> None:
    """Append the step of a question that brought no JSON, or not the JSON of this dialect."""
    if answer is NOT_ASKED:
        return
    if answer.has_value:
        answer = SourceAnswer(f"JSON, but {missing}", http=answer.http)
    steps.append(Step(question, answer))


def refuse_half(question: str, answer: SourceAnswer) -> None:
    """Raise :class:`NoListing` where a question about details was late or limited: half a list must not pass for the
    whole, and the last good one stays."""
    if says_nothing(answer):
        raise NoListing([Step(question, answer)], is_partial=True)


def path_of(url: str) -> str:
    """Return a URL without its origin and fragment, as steps show it."""
    parts = urlsplit(url)
    return urlunsplit(("", "", parts.path or "/", parts.query, ""))


def name_fault(name: Any, index: int) -> QuarantinedMethod | None:
    """Return the quarantined entry of a name that cannot be called; None for a usable name."""
    if isinstance(name, str) and 0 < len(name) <= MAX_NAME:
        return None
    shown = f"entry {index}" if not isinstance(name, str) or not name else shorten(name, 40)
    return QuarantinedMethod(shown, "the entry has no usable method name", REMEDY)


def listing_of(dialect: str, entries: Iterable[tuple[Any, Any]], parse_entry: Callable[[str, Any], Method]) -> Listing:
    """Return the listing of (name, entry) pairs. ``parse_entry`` makes a method of a name and its entry, or raises
    :class:`UnusableMethod`. Such an entry, one without a usable name, and one whose name or endpoint quoted a
    credential, is quarantined; the others stay. A result that may be anything says nothing, so it is left out. One name
    that cannot be a key of params shows that the service takes its params by position."""
    methods: list[Method] = []
    quarantined: list[QuarantinedMethod] = []
    by_position = False
    for index, (name, entry) in enumerate(entries):
        fault = name_fault(name, index)
        if fault is None:
            try:
                method = parse_entry(name, entry)
                if REDACTED in f"{name} {method.wire_name} {method.endpoint}":
                    raise UnusableMethod("its name quotes a credential", _RENAME)
                names = (name, *(parameter.name for parameter in method.parameters or ()))
                by_position = by_position or any(map(is_heading, names))
                method = name_parameters(method)
                methods.append(replace(method, result=None) if method.result is True else method)
            except UnusableMethod as error:
                fault = QuarantinedMethod(name, error.reason, error.remedy)
            except RecursionError:
                fault = QuarantinedMethod(name, "the entry is nested too deeply", REMEDY)
        if fault is not None:
            quarantined.append(fault)
    return Listing(dialect, tuple(methods), tuple(quarantined), by_position=by_position)
