"""What a method's description says of its arguments, for listings that do not say it themselves.

Python's conventions (Sphinx's fields, epytext, the sections of Google and NumPy), JSDoc and PHPDoc, and a first line
that is the call itself: ``add(a, b=1) -> int``. What is read of arguments goes out of the text; what is not understood
stays in it. A type is taken where its words are known; else it says nothing of the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from inspect import cleandoc
from typing import Final

from gateway.listing.typewords import any_if_null, or_null, schema_of_phrase
from gateway.model import Method, Parameter, Schema, Structure

_LONGEST: Final = 32 * 1024
"""Longer texts, in characters, are left as they are."""
_LONGEST_CALL: Final = 1000
_ARGUMENT: Final = ("param", "parameter", "arg", "argument", "key", "keyword")
# A role within a text, such as :class:`Track`, has no blank after its colon.
_SPHINX: Final = re.compile(r"[:@](?P<kind>[a-z]++)(?:[ \t]++(?P<head>[^:]{1,200}))?:(?:[ \t]++(?P<rest>.*)|$)")
_TAG: Final = re.compile(r"@(?P<kind>param|arg|argument|returns?)[ \t]++(?P<rest>.+)")
_JSDOC: Final = re.compile(
    r"(?:\{(?P<type>[^}]*+)\}[ \t]*+)?(?P<name>\[[^\]]*+\]|\$?[\w.]++)[ \t]*+[:-]?[ \t]*+(?P<rest>.*)"
)
_PHPDOC: Final = re.compile(r"(?P<type>\S++)[ \t]++\$(?P<name>\w++)[ \t]*+(?P<rest>.*)")
_GOOGLE: Final = re.compile(
    r"(?P<name>\*{0,2}\w++)[ \t]*+(?:\((?P<type>[^()]*+(?:\([^()]*+\)[^()]*+)*+)\))?[ \t]*+:(?:[ \t]++(?P<rest>.*)|$)"
)
_NUMPY: Final = re.compile(r"(?P<name>\*{0,2}\w++(?:, ?\*{0,2}\w++)*+)(?:[ \t]*+:[ \t]*+(?P<type>.*))?")
_ARGUMENTS: Final = re.compile(r"(?:(?:keyword|other) )?(?:args|arguments|params|parameters):?", re.IGNORECASE)
_RETURNS: Final = re.compile(r"returns?:?", re.IGNORECASE)
_RULE: Final = re.compile(r"-{3,}+[ \t]*+")
_CALL: Final = re.compile(r"(?:[\w.]++[ \t]++)?(?P<name>[\w.]++)\((?P<arguments>[^\n]{0,1000})\)(?P<after>[^)]*)")
_OPTIONAL: Final = re.compile(r"\boptional\b|\bdefaults?\b", re.IGNORECASE)
_PLACEHOLDER: Final = re.compile(r"arg\d++")


@dataclass(slots=True)
class DocumentedArgument:
    """What a text says of one argument; ``type`` is in its own words."""

    type: str = ""
    description: str = ""
    optional: bool = False

    @property
    def schema(self) -> Schema:
        return any_if_null(schema_of_phrase(self.type))


@dataclass(slots=True)
class Docs:
    """A description without its fields, and what they said. ``complete`` where they come from the call itself, which
    names all arguments; ``keywords`` are those that it takes by name alone, ``collects`` that it takes any number."""

    text: str = ""
    arguments: dict[str, DocumentedArgument] = field(default_factory=dict)
    result: str = ""
    complete: bool = False
    keywords: bool = False
    collects: bool = False

    def argument(self, name: str) -> DocumentedArgument:
        if name.startswith("*"):
            self.collects = True
            return DocumentedArgument()
        return self.arguments.setdefault(name.removeprefix("$"), DocumentedArgument())


def fill_from_docstring(method: Method) -> Method:
    """Return the method with what its description says, where its listing does not."""
    docs = parse_docstring(method.description, re.split(r"[./:]", method.name)[-1])
    result = method.result
    if result is None and (said := any_if_null(schema_of_phrase(docs.result))) is not True:
        result = said
    parameters = _name_parameters(method.parameters, docs)
    if parameters is not None:
        parameters = tuple(_with(parameter, docs.arguments.get(parameter.name)) for parameter in parameters)
    structure = Structure.BY_NAME if docs.keywords and parameters else method.structure
    return replace(method, description=docs.text, parameters=parameters, result=result, structure=structure)


def _name_parameters(parameters: tuple[Parameter, ...] | None, docs: Docs) -> tuple[Parameter, ...] | None:
    """Return the parameters by the names that the text has, where the listing has none of its own."""
    if docs.collects:
        return parameters
    if parameters is None:
        made = (Parameter(name, required=docs.complete) for name in docs.arguments)
        return tuple(made) if docs.arguments or docs.complete else None
    nameless = all(_PLACEHOLDER.fullmatch(parameter.name) for parameter in parameters)
    if nameless and len(docs.arguments) == len(parameters):
        return tuple(replace(known, name=name) for known, name in zip(parameters, docs.arguments, strict=True))
    return parameters


def _with(parameter: Parameter, said: DocumentedArgument | None) -> Parameter:
    if said is None:
        return parameter
    schema, kind = parameter.schema, said.schema
    default = {} if isinstance(schema, bool) else {"default": schema["default"]} if "default" in schema else {}
    if schema in (True, {}, default):
        if default.get("default", 0) is None:
            kind = or_null(kind)
        schema = {**kind, **default} if isinstance(kind, Mapping) else schema
    return replace(
        parameter,
        schema=schema,
        required=parameter.required and not said.optional,
        description=parameter.description or said.description,
    )


def parse_docstring(text: str, name: str = "") -> Docs:
    """Return what a description says. ``name`` is what the method is called in a first line that is the call."""
    docs = Docs(text)
    if not text or len(text) > _LONGEST:
        return docs
    lines = _remove_stars(cleandoc(text).splitlines())
    if name and lines and len(lines[0]) <= _LONGEST_CALL:
        _read_call(lines[0].strip(), name, docs)
    kept = []
    at = 0
    while at < len(lines):
        taken = _read_section(lines, at, docs) or _read_field(lines, at, docs)
        if not taken:
            kept.append(lines[at])
        at += taken or 1
    if len(kept) < len(lines) or lines[0] != text.strip().partition("\n")[0]:
        docs.text = re.sub(r"\n{3,}+", "\n\n", "\n".join(kept)).strip()
    return docs


def _remove_stars(lines: list[str]) -> list[str]:
    """Return the lines of a comment in C's form without its stars."""
    if not lines or not lines[0].startswith("/**"):
        return lines
    return [re.sub(r"^[ \t]*+(?:/\*\*|\*/|\*)[ \t]?|\*/$", "", line) for line in lines]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _block(lines: list[str], at: int, indent: int) -> int:
    """Return the index after the lines from ``at`` on that are indented deeper, blank ones among them included."""
    end = at
    for index in range(at, len(lines)):
        if lines[index].strip():
            if _indent(lines[index]) <= indent:
                break
            end = index + 1
    return end


def _read_field(lines: list[str], at: int, docs: Docs) -> int:
    """Read a field of Sphinx's, epytext's, JSDoc's or PHPDoc's at a line. Return how many lines it has, 0 for none, and
    where it stays in the text."""
    line = lines[at].strip()
    if not line.startswith((":", "@")):
        return 0
    end = _block(lines, at + 1, _indent(lines[at]))
    more = " ".join(part.strip() for part in lines[at + 1 : end] if part.strip())
    if match := _SPHINX.fullmatch(line):
        kind, head, rest = match["kind"], (match["head"] or "").split(), f"{match['rest'] or ''} {more}".strip()
        if kind in _ARGUMENT and head:
            argument = docs.argument(head[-1])
            argument.type = argument.type or " ".join(head[:-1])
            _describe(argument, rest)
        elif kind in ("type", "paramtype") and head:
            _type(docs.argument(head[-1]), rest)
        elif kind == "rtype":
            docs.result = docs.result or rest
        else:
            return 0
        return end - at
    if match := _TAG.fullmatch(line):
        return end - at if _read_tag(match["kind"], f"{match['rest']} {more}".strip(), docs) else 0
    return 0


def _read_tag(kind: str, rest: str, docs: Docs) -> bool:
    """Read a tag of JSDoc's or PHPDoc's. Return whether it goes out of the text."""
    if kind.startswith("return"):
        braced = re.match(r"\{([^}]*+)\}", rest)
        docs.result = docs.result or (braced[1] if braced else rest.split()[0])
        return False
    php = _PHPDOC.fullmatch(rest)
    match = php or _JSDOC.fullmatch(rest)
    if match is None:
        return False
    name, kind = match["name"], match["type"] or ""
    bracketed = name.startswith("[")
    name = name.strip("[]").partition("=")[0].strip()
    if "." in name:
        return False  # a member of another argument
    argument = docs.argument("*" if kind.startswith("...") else name)
    argument.optional = bracketed or kind.endswith("=")
    # PHP's array is a list or a map.
    _type(argument, "" if php and "array" in kind.split("|") else kind.rstrip("="))
    _describe(argument, match["rest"])
    return True


def _read_section(lines: list[str], at: int, docs: Docs) -> int:
    """Read a section of Google's or NumPy's style that begins at a line. Return how many lines go out of the text."""
    title = lines[at].strip()
    ruled = at + 1 < len(lines) and _RULE.fullmatch(lines[at + 1].strip()) is not None
    if not ruled and not title.endswith(":"):
        return 0
    indent = _indent(lines[at])
    end = _until_rule(lines, at + 2) if ruled else _block(lines, at + 1, indent)
    entries = list(_entries(lines[at + (2 if ruled else 1) : end]))
    if _RETURNS.fullmatch(title) and entries:
        head = entries[0][0]
        docs.result = docs.result or (head if ruled else head.partition(":")[0]).rpartition(" : ")[2]
        return 0
    form = _NUMPY if ruled else _GOOGLE
    matches = [form.fullmatch(head) for head, _ in entries]
    if not _ARGUMENTS.fullmatch(title) or not entries or None in matches:
        return 0
    for match, (_, more) in zip(filter(None, matches), entries, strict=True):
        for name in match["name"].split(","):
            argument = docs.argument(name.strip())
            _type(argument, match["type"] or "")
            _describe(argument, more if ruled else f"{match['rest'] or ''} {more}".strip())
    return end - at


def _until_rule(lines: list[str], at: int) -> int:
    """Return the index of the next title that has a rule beneath it."""
    for index in range(at, len(lines) - 1):
        if lines[index].strip() and _RULE.fullmatch(lines[index + 1].strip()):
            return index
    return len(lines)


def _entries(lines: list[str]) -> Iterator[tuple[str, str]]:
    """The first line of each entry of a section, and the rest of it, which is indented deeper."""
    indent = next((_indent(line) for line in lines if line.strip()), 0)
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        end = max(at + 1, _block(lines, at + 1, indent))
        yield lines[at].strip(), " ".join(part.strip() for part in lines[at + 1 : end] if part.strip())
        at = end


def _type(argument: DocumentedArgument, phrase: str) -> None:
    argument.optional = argument.optional or _OPTIONAL.search(phrase) is not None
    argument.type = argument.type or phrase


def _describe(argument: DocumentedArgument, text: str) -> None:
    start = text.lstrip("([*").casefold()
    argument.optional = argument.optional or start.startswith("optional")
    argument.description = argument.description or text


def _read_call(line: str, name: str, docs: Docs) -> None:
    """Read a line that may be the call of a method: ``f(a, b: int = 1, *, c) -> int`` or ``int f(int a [, int b])``."""
    call = _CALL.fullmatch(line)
    if call is None or call["name"].rpartition(".")[2] != name:
        return
    prose, _, result = call["after"].partition("->")
    if prose.strip():
        return
    docs.complete, docs.result = True, result.strip()
    optional = 0
    keywords = False
    for part in _split(call["arguments"]):
        words = part.strip()
        bracketed = optional > 0 or words.startswith("[")
        if part.count("[") != part.count("]") or bracketed:
            words = words.strip("[] ")
        optional += part.count("[") - part.count("]")
        if words in ("*", "/", ""):
            keywords = keywords or words == "*"
            continue
        declared, has_default, _ = words.partition("=")
        name, _, kind = declared.partition(":")
        *before, name = name.split() or [""]
        argument = docs.argument(name)
        argument.optional = bool(has_default) or bracketed
        argument.type = kind.strip() or " ".join(before)
        docs.keywords = docs.keywords or (keywords and not name.startswith("*"))


def _split(text: str) -> Iterator[str]:
    """The parts between commas that no bracket of a type holds together; ``[, b]`` opens what is optional."""
    depth, start = 0, 0
    for index, character in enumerate(text):
        if character in "({<" or (
            character == "[" and text[index + 1 : index + 2] not in (",", " ") and _within(text, index)
        ):
            depth += 1
        elif character in ")}>" or (character == "]" and depth):
            depth -= 1
        elif character == "," and depth <= 0:
            yield text[start:index]
            start = index + 1
    if text.strip():
        yield text[start:]


def _within(text: str, index: int) -> bool:
    """Tell whether a bracket belongs to a word before it, as in ``list[int]``."""
    return index > 0 and (text[index - 1].isalnum() or text[index - 1] == "_")
