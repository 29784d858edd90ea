"""Ask the same questions about each method of a listing, and keep what was answered until the next refresh.

A question that is late, limited or failed says nothing about its method. So the method is held back, the listing is
partial, and the next refresh asks only for the rest. What fails in the same way in two refreshes, while others are
answered, is the answer: there is none.
"""

import asyncio
import hashlib
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from gateway.backend.pace import AT_ONCE, MOST_LIMITED, Pace
from gateway.model import Listing, QuarantinedMethod, SourceAnswer
from gateway.settings import ListingSettings
from gateway.text import shorten

SAMPLE_SIZE: Final = 16
"""Number of methods that are asked about before one has to have a useful answer."""
MOST_ASKED: Final = 5000
"""Methods that are asked about. Tryton lists a thousand."""
MOST_TIME: Final = 1.5
"""Time for the questions of one refresh, pauses included, as a multiple of the time for a listing. Then the part that
is known is shown, and the rest follows."""
TRIES: Final = 3
"""Attempts at a question on which all methods depend."""
UNSUPPORTED: Final = "signatures not supported"
"""Answer in place of a signature, of Python's XML-RPC servers and services that follow them."""
AGAIN: Final = 20
"""Methods of a known listing that a refresh asks about again."""
_SHOWN: Final = 200
"""Characters of the names in a remark."""
_LIMITED: Final = "limited"
"""Failure that says nothing of the method: it is never its answer."""
_LIMITING_STATUSES: Final = (429, 503)
_PASSING_STATUSES: Final = (408, 425)
_PASSING: Final = re.compile(
    r"\btoo (?:many|fast|often)\b|\brate.?limit|\bbusy\b|\boverload|\btry again\b|\btime[d -]*out\b|\bunavailable\b",
    re.IGNORECASE,
)
BY_NAME: Final = ""
"""Name in the question that finds out for all methods whether params may be named."""
_REMEDY: Final = "nothing has to be done: the gateway asks again by itself"


class MethodQuestion(NamedTuple):
    """Name a question about one method."""

    method: str
    name: str


class Asked(Protocol):
    """Answer questions about a listing: what an interview needs of a source."""

    listing: ListingSettings

    async def call_method(self, method: str, params: Any = None) -> SourceAnswer: ...


@dataclass(eq=False)
class Interview:
    """Hold the answers about the methods of one view's listing. :meth:`start` begins a refresh. ``held_back`` are the
    methods that a question of this refresh left open, ``retry_after`` the seconds after which the service wants to be
    asked again, 0 where it said none."""

    pace: Pace = field(default_factory=Pace)
    held_back: dict[str, str] = field(default_factory=dict)
    retry_after: int = 0
    _answers: dict[MethodQuestion, Any] = field(default_factory=dict)
    _failures: dict[MethodQuestion, str] = field(default_factory=dict)
    _failed_before: dict[MethodQuestion, str] = field(default_factory=dict)
    _failed_now: set[MethodQuestion] = field(default_factory=set)
    _lacking: dict[MethodQuestion, str] = field(default_factory=dict)
    _repeated: dict[MethodQuestion, str] = field(default_factory=dict)
    _recognize: Callable[[], None] = lambda: None
    _grant: Callable[[float], None] = lambda _: None
    _is_whole: bool = False
    _next: int = 0
    _began: float = 0.0
    _names: list[str] = field(default_factory=list)
    _answered: int = 0

    @property
    def size(self) -> int:
        """Return about how many bytes of answers are kept."""
        return 1 + sum(len(answer) if isinstance(answer, str) else 100 for answer in self._answers.values())

    def start(
        self, recognize: Callable[[], None] = lambda: None, grant: Callable[[float], None] = lambda _: None
    ) -> None:
        """Begin a refresh. ``recognize`` is called before its first question about a method, and
        ``grant`` with the seconds of all pauses: they do not count against the time for a listing."""
        self._recognize, self._grant, self._answered, self.retry_after = recognize, grant, 0, 0
        self.pace.paused, self.pace.limited = 0.0, 0
        self.held_back.clear()
        self._failed_before, self._failed_now = dict(self._failures), set()

    def begin(self, names: Iterable[str]) -> list[str]:
        """Begin with the methods that are listed. Return those that are asked about, at most 5,000."""
        self._recognize()
        self._began = self.pace.clock()
        self._names = list(islice(dict.fromkeys(names), MOST_ASKED))
        listed = {*self._names, BY_NAME}
        for kept in (self._answers, self._failures, self._lacking):
            for question in [question for question in kept if question.name not in listed]:
                del kept[question]
        return self._names

    def ask_all(self) -> None:
        """Ask for all methods in the next refresh, although the last listing was whole."""
        if self._is_whole:
            self._answers.clear()
            self._is_whole = False

    async def ask_again(self, source: Asked, methods: Sequence[str]) -> None:
        """Where the last listing was whole, ask again for 20 methods, in turn. Where one answer differs, forget all."""
        if not self._is_whole or not self._names:
            return
        count = min(AGAIN, len(self._names))
        names = [self._names[(self._next + place) % len(self._names)] for place in range(count)]
        self._next = (self._next + count) % len(self._names)
        kept = dict(self._answers)
        known = [question for name in names for method in methods if (question := MethodQuestion(method, name)) in kept]
        await self._ask_some(source, known)
        if any(self._answers[question] != kept[question] for question in known):
            self.ask_all()

    async def sample(self, source: Asked, method: str) -> bool:
        """Call a method with the first names. Return whether to call it with the others, too: not where that brings
        nothing useful."""
        questions = [MethodQuestion(method, name) for name in self._names]
        enough = min(SAMPLE_SIZE, len(questions))
        if self._has_useful(questions):
            return True
        if sum(question in self._answers for question in questions) >= enough:
            return False
        # What failed before comes first: only then can a whole sample be without an answer.
        waiting = [question for question in questions if question not in self._answers]
        waiting.sort(key=lambda question: question not in self._failures)
        for start in range(0, SAMPLE_SIZE, AT_ONCE):
            await self._ask_some(source, waiting[:SAMPLE_SIZE][start : start + AT_ONCE])
            if self._has_useful(questions):
                return True
        if sum(question in self._answers for question in questions) < enough:
            self._hold_back(questions)
        return False  # Tryton answers "signatures not supported" for each of its thousand methods

    async def ask_rest(self, source: Asked, methods: Sequence[str]) -> None:
        """Call each of these methods with every name that is left."""
        questions = [MethodQuestion(method, name) for name in self._names for method in methods]
        waiting = [
            question for question in questions if not (question in self._answers or question in self._failed_now)
        ]
        # A page that never comes must not take the time of all others.
        waiting.sort(key=lambda question: question in self._failures)
        await self._ask_some(source, waiting)
        self._hold_back(questions)

    def answers_to(self, method: str) -> dict[str, Any]:
        """Return the results of calling a method, by name; None where there is none."""
        return {name: self._answers.get(MethodQuestion(method, name)) for name in self._names}

    async def ask_by_name(self, source: Asked, method: str, argument: str) -> bool:
        """Return whether a method answers the same where its argument is named. Without an answer, the methods about
        which it said something are held back: their arguments depend on it."""
        question = MethodQuestion(method, BY_NAME)
        useful = {name: answer for name, answer in self.answers_to(method).items() if is_useful(answer)}
        for tries in range(TRIES):
            if question in self._answers or not useful or self.retry_after or (tries and not self._may_ask(source)):
                break
            name = next(iter(useful))
            await self._ask(source, question, {argument: name})
            await self._settle(source)
            if question in self._answers:
                self._answers[question] = self._answers[question] == useful[name]
        if useful and question not in self._answers:
            self._hold_back([question], useful)
        return self._answers.get(question) is True

    def complete(self, listing: Listing, about: Any) -> Listing:
        """Return the listing with the methods that are held back, remarks, and the digest of all answers and of what
        they are ``about``."""
        self._is_whole = not self.held_back
        known = sorted(self._answers.items(), key=lambda item: item[0])
        held = [f"{name} {reason}" for name, reason in self.held_back.items()]
        text = repr((listing.dialect, about, known, held)).encode("utf-8", "surrogatepass")
        listing = replace(
            listing, digest=hashlib.sha256(text).hexdigest(), size=len(text), notes=(*listing.notes, *self._remarks())
        )
        if not self.held_back:
            return listing
        described, total = len({*self._names} - self.held_back.keys()), len(self._names)
        seconds = self.pace.clock() - self._began
        partial = f"{described} of {total} methods were described within {max(1, round(seconds))} s; the rest follows"
        left_out = [
            QuarantinedMethod(name, f"held back until it is described ({reason})", _REMEDY, held_until_described=True)
            for name, reason in self.held_back.items()
        ]
        return replace(
            listing,
            quarantined=(*listing.quarantined, *left_out),
            partial=partial,
            retry_after=self.retry_after,
            notes=(partial, *listing.notes),
        )

    def _remarks(self) -> list[str]:
        lacking = Counter((question.method, failure) for question, failure in self._lacking.items())
        remarks = []
        for (method, failure), count in lacking.items():
            names = [question.name for question in self._lacking if question.method == method and question.name]
            what = f"{method} fails each time ({failure}), so it counts as having no answer"
            remarks.append(f"{what} for {count} methods: {shorten(', '.join(names), _SHOWN)}" if names else what)
        return remarks

    def _hold_back(self, questions: Iterable[MethodQuestion], names: Iterable[str] = ()) -> None:
        """Hold back the methods of questions without an answer, or those of these names."""
        for question in questions:
            if question not in self._answers:
                reason = f"{question.method}: {self._failures.get(question, 'not asked yet')}"
                self.held_back |= dict.fromkeys(names or (question.name,), reason)

    def _has_useful(self, questions: Sequence[MethodQuestion]) -> bool:
        return any(map(is_useful, map(self._answers.get, questions)))

    async def _ask_some(self, source: Asked, questions: Iterable[MethodQuestion]) -> None:
        """Ask, at the service's pace. A question that was limited comes once more, at the end."""
        waiting, repeated = deque(questions), set[MethodQuestion]()

        async def ask() -> None:
            while waiting and self._may_ask(source):
                question = waiting.popleft()
                limited = await self._ask(source, question, [question.name])
                if limited and question not in repeated:
                    repeated.add(question)
                    waiting.append(question)

        await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
        await self._settle(source)

    def _may_ask(self, source: Asked) -> bool:
        is_over = self.pace.clock() - self._began >= MOST_TIME * source.listing.timeout
        return not (self.retry_after or is_over or self.pace.limited >= MOST_LIMITED)

    async def _ask(self, source: Asked, question: MethodQuestion, params: Any) -> bool:
        """Ask a question. Return whether it was limited, with no time at which to come again."""
        asked_at = await self.pace.take_turn()
        self._grant(self.pace.paused)
        answer = await source.call_method(question.method, params)
        had_time = self.pace.clock() - asked_at >= source.listing.timeout / 2
        limited = answer.http is not None and answer.http.status in _LIMITING_STATUSES
        self._note(question, answer, failure_of(answer, had_time=had_time))
        await self.pace.note(asked_at, limited=limited)
        return limited and answer.retry_after is None

    def _note(self, question: MethodQuestion, answer: SourceAnswer, failure: str) -> None:
        self.retry_after = max(self.retry_after, answer.retry_after or 0)
        if not failure:
            self._answers[question] = answer.value if answer.has_value else None
            self._answered += 1
            self._failures.pop(question, None)
            self._lacking.pop(question, None)
        elif was_sent(answer):
            if failure != _LIMITED and self._failed_before.get(question) == failure:
                self._repeated[question] = failure
            self._failures[question] = failure
            self._failed_now.add(question)

    async def _settle(self, source: Asked) -> None:
        """Take failures that repeated for answers, where the service answers other questions."""
        repeated, self._repeated = self._repeated, {}
        if repeated and not self._answered:
            known = next((question for question, answer in self._answers.items() if is_useful(answer)), None)
            if known is not None and known.name:
                await self._ask(source, known, [known.name])
        if self._answered:
            self._answers |= dict.fromkeys(repeated)
            self._lacking |= repeated


def is_useful(answer: Any) -> bool:
    return bool(answer) and answer != UNSUPPORTED


def was_sent(answer: SourceAnswer) -> bool:
    """Return whether the service may have seen the question."""
    return not answer.away or answer.late or answer.ended or answer.http is not None


def says_nothing(answer: SourceAnswer) -> bool:
    """Return whether a question was not answered for a reason that has nothing to do with it."""
    return answer.late or failure_of(answer) == _LIMITED


def failure_of(answer: SourceAnswer, *, had_time: bool = True) -> str:
    """Return how a question failed, "" where it was answered, if only with an error. ``had_time`` says that a late
    answer had its full time."""
    status = 200 if answer.http is None else answer.http.status
    if answer.has_value or (answer.denied and not answer.unauthorized):
        return ""
    if status in _LIMITING_STATUSES or answer.retry_after is not None or not was_sent(answer):
        return _LIMITED
    if answer.late:
        return "no answer in time" if had_time else _LIMITED
    if answer.ended:
        return "the connection ended"
    if answer.error:
        return answer.summary if _PASSING.search(answer.error) else ""
    if answer.http is None or (400 <= status < 500 and status not in _PASSING_STATUSES and not answer.unauthorized):
        return ""
    return "no JSON-RPC response" if status < 300 else f"HTTP {status}"
