"""``help``, the text of Bitcoin Core and its many descendants: a line for each command, and a page for each by
``help`` with its name.

A page begins with the call, in which texts are quoted and what is optional stands in parentheses. Beneath "Arguments"
each has a number, a name, and in parentheses its type and whether it is required. By position every descendant can be
called, by name only some. A service whose ``help`` is another text is told apart by the first page, which has to begin
with the name that was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, TypeGuard

from gateway import jsonrpc
from gateway.listing.dialect import About, ListingSource, NoListing, Step, call_question, first_answer, listing_of
from gateway.listing.introspection import ask_each
from gateway.listing.typewords import any_if_null, any_of, schema_of_phrase
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
    about = About(
        of="Bitcoin Core and its descendants",
        asked="`help`; then `help` of each command",
        recognized="a text with sections, or whose first command has a page that begins with its name",
        carries=("description", "parameters", "types", "required", "result"),
        passed="by position",
        lost="What stands within lists and objects, which only the description of an argument tells. A command whose "
        "call shows an argument by an example of its value, and that has no page, takes one array, `params`.",
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        text = await first_answer([call_question(source, HELP)], recognizes, "no text of commands")
        names = [name for name, _ in commands(text) if name is not None]
        if _SECTION.match(text) is None:
            page = await source.call_method(HELP, names[:1])
            if not (page.has_value and _is_page(page.value, names[0])):
                raise NoListing([Step(HELP, SourceAnswer("JSON, but no page for its first command"))])
        return parse(text, await ask_each(source, HELP, names))


def recognizes(document: Any) -> bool:
    return isinstance(document, str) and any(name is not None for name, _ in commands(document))


def _is_page(page: Any, name: str) -> TypeGuard[str]:
    return isinstance(page, str) and page.split(maxsplit=1)[:1] == [name]


def commands(text: str) -> Iterator[tuple[str | None, str]]:
    """The name of each command and its call; None is a line that is none among sections. A text without sections has
    nothing but calls, else it is another text."""
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    called = [line for line in lines if _SECTION.fullmatch(line) is None]
    names = [match[0] if (match := _COMMAND.match(line)) else None for line in called]
    if len(called) < len(lines) or None not in names:
        yield from zip(names, called, strict=True)


def parse(text: str, pages: dict[str, Any]) -> Listing:
    def read(name: str, line: str) -> Method:
        page = pages.get(name)
        return _method(name, page if _is_page(page, name) and len(page) <= _LONGEST_PAGE else line)

    return listing_of(Help.name, dict.fromkeys(commands(text)), read)


def _method(name: str, page: str) -> Method:
    first, _, rest = page.strip().partition("\n")
    sections = _sections(rest)
    parameters = _listed(sections["Arguments"]) if "Arguments" in sections else _called(first.removeprefix(name))
    return Method(
        name,
        Help.name,
        description="\n".join(sections[""]).strip(),
        parameters=parameters,
        structure=Structure.BY_POSITION,
        result=_result(sections.get("Result", [])),
    )


def _sections(text: str) -> dict[str, list[str]]:
    """The lines of each section; before the first title is the description, as "". Two results are told apart by their
    conditions, so that neither is "Result"."""
    sections: dict[str, list[str]] = {"": []}
    lines = sections[""]
    for line in text.splitlines():
        title = line.strip().rstrip(":")
        if _HEADER.fullmatch(title) and not line[:1].isspace():
            lines = sections.setdefault("Arguments" if title == "Argument" else title, [])
        else:
            lines.append(line[:_LONGEST_LINE])
    return sections


def _listed(lines: list[str]) -> tuple[Parameter, ...]:
    """The numbered arguments; what follows each, up to the next, is its description too. A number that stands twice has
    another form of its argument."""
    entries: list[tuple[re.Match[str], list[str]]] = []
    for line in map(str.strip, lines):
        match = _ENTRY.match(line)
        if match is not None:
            entries.append((match, [match["text"].strip()]))
        elif entries and line != "or":
            entries[-1][1].append(line)
    places: dict[str, Parameter] = {}
    for match, texts in entries:
        other = _parameter(match["name"], match["type"], "\n".join(texts).strip())
        one = places.setdefault(match["place"], other)
        if one is not other:
            text = f"{one.description}\nOr {other.name}: {other.description}"
            places[match["place"]] = replace(one, schema=any_of((one.schema, other.schema)), description=text)
    return tuple({parameter.name: parameter for parameter in places.values()}.values())


def _parameter(name: str, said: str, text: str) -> Parameter:
    kind, _, more = said.partition(",")
    schema: Schema = _schema(kind)
    default = _DEFAULT.search(more)
    if default is not None:
        value = _json(default[1])
        if value is not None:
            schema = {**(schema if isinstance(schema, dict) else {}), "default": value}
    return Parameter(name, schema, "required" in more and default is None, text)


def _schema(kind: str) -> Schema:
    """``json array``, ``numeric or string``, ``array of strings``; an amount is a number or a text of one."""
    words = re.sub(r"\b(?:json|hex|a|an)\s++", "", kind.strip())
    return any_if_null(schema_of_phrase(words))


def _json(text: str) -> Any:
    """A default that is written as JSON; None where it is told in words, or is no plain value."""
    try:
        value = jsonrpc.decode(text.strip().encode())
    except ValueError:
        return None
    return value if isinstance(value, str | int | float) else None


def _result(lines: list[str]) -> Schema | None:
    first = next((line.strip() for line in lines if line.strip()), "")
    match = _RESULT.match(first)
    schema = True if match is None or "," in match["type"] else _schema(match["type"])
    return None if schema is True else schema


def _called(call: str) -> tuple[Parameter, ...] | None:
    """The arguments of the call itself; None where one is shown by an example of its value."""
    found: list[Parameter] = []
    depth = 0
    for shown in call.split():
        if shown in ("(", ")"):
            depth += 1 if shown == "(" else -1
            continue
        word = _WORD.fullmatch(shown)
        if word is None or any(parameter.name == word[1] for parameter in found):
            return None
        found.append(Parameter(word[1], {"type": "string"} if shown.startswith('"') else True, depth == 0))
    return tuple(found)
