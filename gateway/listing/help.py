"""Read the ``help`` text of Bitcoin Core and its many descendants.

``help`` answers a line for each command; ``help`` with a command's name answers its page. It begins with the call:
texts are quoted, optional arguments stand in parentheses. Below "Arguments" each has a number, a name, its type, and
whether it is required. Every descendant accepts params by position, only some by name.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, Final, TypeGuard

from gateway import jsonrpc
from gateway.backend.interview import says_nothing
from gateway.concurrency.turns import run_in_thread
from gateway.listing.dialect import DialectInfo, ListingSource, NoListing, Step, call_question, first_match, listing_of
from gateway.listing.entries import any_if_null, any_of, schema_of_phrase
from gateway.model import Listing, Method, Parameter, Schema, SourceAnswer, Structure

HELP: Final = "help"
_SECTION: Final = re.compile(r"== [^=]++==")
_COMMAND: Final = re.compile(r"[A-Za-z][\w.:-]*+(?!\S)")
_WORD: Final = re.compile(r'"?([A-Za-z_][\w.-]*)"?')
_HEADER: Final = re.compile(r"(Arguments?|Results?|Examples?|Notes?)\b[^\n]{0,80}")
_ENTRY: Final = re.compile(
    r'(?P<place>\d{1,4})\.\s++"?(?P<name>[A-Za-z_][\w.-]*+)"?[^(]{0,80}\((?P<type>[^()]*+(?:\([^()]*+\)[^()]*+)*+)\)\s*+(?P<text>.*)'
)
_RESULT: Final = re.compile(r"[^(]{0,80}\((?P<type>[^()]*+)\)")
_DEFAULT: Final = re.compile(r"\bdefault\s*+=\s*+(.+)")
_LONGEST_PAGE: Final = 64 * 1024
_LONGEST_LINE: Final = 2000


class Help:
    name = "help"
    info = DialectInfo(
        spoken_by="Bitcoin Core and its descendants",
        requests="`help`; then `help` of each command",
        recognized_by="a text with sections, or whose first command has a page that begins with its name",
        carries=("description", "parameters", "types", "required", "result"),
        params="by position",
        not_carried="The members of lists and objects: only the description of an argument has them. A command "
        "without a page, whose call shows an argument as an example of its value, takes one array, `params`.",
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        text = await first_match([call_question(source, HELP)], recognizes, "no text of commands")
        names = [name for name, _ in commands(text) if name is not None]
        if _SECTION.match(text) is None:
            page = await source.call_method(HELP, names[:1])
            if says_nothing(page):
                raise NoListing([Step(f"{HELP} {names[0]}", page)], is_partial=True)
            if not (page.has_value and _is_page(page.value, names[0])):
                raise NoListing([Step(HELP, SourceAnswer("JSON, but no page for its first command"))])
        interview = source.interview
        interview.begin(names)
        await interview.ask_again(source, [HELP])
        if await interview.sample(source, HELP):
            await interview.ask_rest(source, [HELP])
        pages = interview.answers_to(HELP)

        def read() -> Listing:
            return interview.complete(parse_listing(text, pages, interview.held_back), text)

        return await run_in_thread(read)  # thousands of pages take seconds to read


def recognizes(document: Any) -> bool:
    return isinstance(document, str) and any(name is not None for name, _ in commands(document))


def _is_page(page: Any, name: str) -> TypeGuard[str]:
    return isinstance(page, str) and page.split(maxsplit=1)[:1] == [name]


def commands(text: str) -> Iterator[tuple[str | None, str]]:
    """Yield the name and the call of each command; the name is None for a line that is no call. A text without section
    titles yields nothing where one line is no call: it is another text."""
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    calls = [line for line in lines if _SECTION.fullmatch(line) is None]
    names = [match[0] if (match := _COMMAND.match(line)) else None for line in calls]
    if len(calls) < len(lines) or None not in names:
        yield from zip(names, calls, strict=True)


def parse_listing(text: str, pages: dict[str, Any], held_back: Collection[str] = ()) -> Listing:
    def parse_entry(name: str, line: str) -> Method:
        page = pages.get(name)
        return _method(name, page if _is_page(page, name) and len(page) <= _LONGEST_PAGE else line)

    described = (command for command in commands(text) if command[0] not in held_back)
    return listing_of(Help.name, dict.fromkeys(described), parse_entry)


def _method(name: str, page: str) -> Method:
    first, _, rest = page.strip().partition("\n")
    sections = _sections(rest)
    parameters = _arguments(sections["Arguments"]) if "Arguments" in sections else _from_call(first.removeprefix(name))
    return Method(
        name,
        description="\n".join(sections[""]).strip(),
        parameters=parameters,
        structure=Structure.BY_POSITION,
        result=_result(sections.get("Result", [])),
    )


def _sections(text: str) -> dict[str, list[str]]:
    """Return the lines of each section by its title, and the description under "". A method with two results has a
    condition in each title, so neither is "Result"."""
    sections: dict[str, list[str]] = {"": []}
    lines = sections[""]
    for line in text.splitlines():
        title = line.strip().rstrip(":")
        if _HEADER.fullmatch(title) and not line[:1].isspace():
            lines = sections.setdefault("Arguments" if title == "Argument" else title, [])
        else:
            lines.append(line[:_LONGEST_LINE])
    return sections


def _arguments(lines: list[str]) -> tuple[Parameter, ...]:
    """Return the numbered arguments. The lines up to the next number belong to the description. A number that stands
    twice names an alternative form of the same argument."""
    entries: list[tuple[re.Match[str], list[str]]] = []
    for line in map(str.strip, lines):
        match = _ENTRY.match(line)
        if match is not None:
            entries.append((match, [match["text"].strip()]))
        elif entries and line != "or":
            entries[-1][1].append(line)
    parameters: dict[str, Parameter] = {}
    for match, texts in entries:
        other = _parameter(match["name"], match["type"], "\n".join(texts).strip())
        one = parameters.setdefault(match["place"], other)
        if one is not other:
            text = f"{one.description}\nOr {other.name}: {other.description}"
            parameters[match["place"]] = replace(one, schema=any_of((one.schema, other.schema)), description=text)
    return tuple({parameter.name: parameter for parameter in parameters.values()}.values())


def _parameter(name: str, words: str, text: str) -> Parameter:
    kind, _, more = words.partition(",")
    schema: Schema = _schema(kind)
    default = _DEFAULT.search(more)
    if default is not None:
        value = _json(default[1])
        if value is not None:
            schema = {**(schema if isinstance(schema, dict) else {}), "default": value}
    return Parameter(name, schema, "required" in more and default is None, text)


def _schema(kind: str) -> Schema:
    """Return the schema of a type such as ``json array``, ``numeric or string`` or ``array of strings``."""
    words = re.sub(r"\b(?:json|hex|a|an)\s++", "", kind.strip())
    return any_if_null(schema_of_phrase(words))


def _json(text: str) -> Any:
    """Return a default that is written as JSON; None where it is prose, or no text, number or boolean."""
    try:
        value = jsonrpc.decode(text.strip().encode())
    except ValueError:
        return None
    return value if isinstance(value, str | int | float) else None


def _result(lines: list[str]) -> Schema | None:
    first = next((line.strip() for line in lines if line.strip()), "")
    match = _RESULT.match(first)
    return None if match is None or "," in match["type"] else _schema(match["type"])


def _from_call(call: str) -> tuple[Parameter, ...] | None:
    """Return the arguments of the call itself; None where one is shown as an example of its value."""
    parameters: dict[str, Parameter] = {}
    depth = 0
    for part in call[:_LONGEST_LINE].split():
        if part in ("(", ")"):
            depth += 1 if part == "(" else -1
            continue
        word = _WORD.fullmatch(part)
        # A name that stands twice belongs to an example, not to the call.
        if word is None or word[1] in parameters:
            return None
        kind: Schema = {"type": "string"} if part.startswith('"') else True
        parameters[word[1]] = Parameter(word[1], kind, depth == 0)
    return tuple(parameters.values())
