"""Ask the questions of one listing, as a client would that always knows the right call, and never the wrong one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import jsonschema

from lab.agents.judge import is_mended, read_repair
from lab.agents.listings import Listing
from lab.agents.mistakes import Place, Try, with_value, wrong_tries
from lab.agents.questions import Question
from tests.front import Called, Front, front

QUIET: Final = "telemetry.log.level=error"
_FIRST: Final = 5
_READ: Final = ("name", "description", "inputSchema")
"""What of a tool a model is given."""
_ABSENT: Final = object()


@dataclass(frozen=True)
class Judged:
    """Hold a wrong try, whether the next call is right, and what the gateway said."""

    wrong: Try
    is_right: bool
    text: str


@dataclass(frozen=True)
class Asked:
    """Hold what a question came to. ``rank`` is the wanted tool's in search, None where it is not among the first five;
    ``is_whole`` says that it was found with its arguments, not as a name in the line of a group. ``tokens`` are read
    before the call with search. ``fault`` says why the right call was not answered rightly."""

    question: Question
    rank: int | None
    is_whole: bool
    tokens: int
    tries: tuple[Judged, ...]
    fault: str = ""


@dataclass(frozen=True)
class Measured:
    """Hold the figures of one listing. ``tokens`` is the size of its whole list."""

    name: str
    tools: int
    tokens: int
    searches: bool
    asked: tuple[Asked, ...] = field(default=())


def tokens_of(value: Any) -> int:
    """Return about how many tokens a value is for a model: four characters of JSON are one."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":"))) // 4


def tokens_of_tools(tools: Mapping[str, Mapping[str, Any]]) -> int:
    return sum(tokens_of({key: tool[key] for key in _READ if key in tool}) for tool in tools.values())


async def measure(name: str, listing: Listing, questions: Sequence[Question]) -> Measured:
    """Start the service, ask everything, and stop it."""
    with listing.start() as service:
        knobs = (QUIET, *listing.settings)
        async with front(service.url, "catalog.search=false", *knobs) as gateway:
            tools = await gateway.tools()
        async with front(service.url, "catalog.search=true", *knobs) as gateway:
            listed = tokens_of_tools(await gateway.tools())
            found = [await _found(gateway, question) for question in questions]
        async with front(service.url, *knobs) as gateway:
            searches = "search_tools" in await gateway.tools()
            asked = [
                Asked(
                    question,
                    rank_of(question, answer),
                    question.name in [tool["name"] for tool in answer["tools"]],
                    listed + tokens_of(answer),
                    await _tries(gateway, question, tools, number, searches=searches),
                    await _fault(gateway, question, tools, searches=searches),
                )
                for number, (question, answer) in enumerate(zip(questions, found, strict=True))
            ]
    return Measured(name, len(tools), tokens_of_tools(tools), searches, tuple(asked))


async def _found(gateway: Front, question: Question) -> Any:
    return (await gateway.call("modern", "search_tools", {"query": question.text})).value


def rank_of(question: Question, answer: Mapping[str, Any]) -> int | None:
    """Return the place of the wanted tool among what a search found, None where it is not among the first five. A group
    of tools counts where its line names the wanted one."""
    entries = [*answer["tools"], *answer.get("groups", ())][:_FIRST]
    for rank, entry in enumerate(entries, 1):
        if question.name in (entry.get("name"), *entry.get("tools", ())):
            return rank
    return None


async def _fault(gateway: Front, question: Question, tools: Mapping[str, Any], *, searches: bool) -> str:
    """Return why the right call is not right, "" where it is."""
    errors = jsonschema.Draft202012Validator(tools[question.name]["inputSchema"]).iter_errors(question.arguments)
    if error := next(iter(errors), None):
        return str(error.message)
    if not question.is_called:
        return ""
    called = await _called(gateway, question.name, question.arguments, searches=searches)
    return "" if is_right(question, called) else called.text


async def _tries(
    gateway: Front, question: Question, tools: Mapping[str, Any], number: int, *, searches: bool
) -> tuple[Judged, ...]:
    schema = tools[question.name]["inputSchema"]
    validator = jsonschema.Draft202012Validator(schema)
    judged = []
    for wrong in wrong_tries(question.name, schema, question.arguments, question.listing, number):

        def accepts(value: Any, wrong: Try = wrong) -> bool:
            return validator.is_valid(with_value(question.arguments, wrong.place, value))

        called = await _called(gateway, wrong.tool, wrong.arguments, searches=searches)
        text = call_text(called)
        right = _value_at(question.arguments, wrong.place)
        mended = is_mended(read_repair(text), wrong, question.name, right, accepts)
        judged.append(Judged(wrong, mended or is_right(question, called), text))
    return tuple(judged)


async def _called(gateway: Front, name: str, arguments: Mapping[str, Any], *, searches: bool) -> Called:
    if searches:
        return await gateway.call("modern", "call_tool", {"name": name, "arguments": arguments})
    return await gateway.call("modern", name, arguments)


def is_right(question: Question, called: Called) -> bool:
    """Return whether a call answered a question."""
    return not call_failed(called) and question.is_answered_by(called.value)


def call_failed(called: Called) -> bool:
    return "error" in called.body or called.failed


def call_text(called: Called) -> str:
    """Return what a model is shown of a call."""
    if "error" in called.body:
        return str(called.body["error"]["message"])
    return "\n".join(block.get("text", "") for block in called.result["content"])


def _value_at(value: Any, place: Place) -> Any:
    for key in place:
        if not isinstance(value, Mapping | list) or (isinstance(value, Mapping) and key not in value):
            return _ABSENT
        value = value[key]  # type: ignore[index]
    return value
