"""Read the arguments of a method from its description, for listings that do not have them.

It understands Python's conventions (Sphinx fields, epytext, Google and NumPy sections), JSDoc and PHPDoc, and a first
line that is the call itself: ``add(a, b=1) -> int``. The parts about arguments are removed from the description; what
is not understood stays. A type of unknown words allows any value.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from inspect import cleandoc
from typing import Final

from gateway.listing.entries import any_if_null, name_parameters, or_null, schema_of_phrase
from gateway.model import Method, Parameter, Structure

_LONGEST: Final = 32 * 1024
"""Characters of the longest text that is parsed. The possessive quantifiers (``++``) below keep parsing linear."""
_LONGEST_CALL: Final = 1000
_ARGUMENT: Final = ("param", "parameter", "arg", "argument", "key", "keyword")
# A role within a text, such as :class:`Track`, has no blank after its second colon, so it is no field.
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
    """Hold what a description says of one argument; ``type`` is as written."""

    type: str = ""
    description: str = ""
    optional: bool = False


@dataclass(slots=True)
class Docs:
    """Hold a description without its fields, and what they say. ``complete``: the first line is the call and names all
    arguments. ``keywords``: some are accepted only by name. ``collects``: any number is accepted (``*args``)."""

    text: str = ""
    arguments: dict[str, DocumentedArgument] = field(default_factory=dict)
    result: str = ""
    complete: bool = False
    keywords: bool = False
    collects: bool = False

    def argument(self, name: str) -> DocumentedArgument:
        """Return the argument of a name, added where it is new. ``*args`` only sets ``collects``."""
        if name.startswith("*"):
            self.collects = True
            return DocumentedArgument()
        return self.arguments.setdefault(name.removeprefix("$"), DocumentedArgument())


def fill_from_docstring(method: Method) -> Method:
    """Return the method, with what its listing lacks filled in from its description. Fields that name no parameter stay
    in the description."""
    method = name_parameters(method)  # where a description names a parameter first, it would be sent by name
    # The description names a method without its namespace: "add" for "math.add".
    docs = parse_docstring(method.description, re.split(r"[./:]", method.name)[-1])
    result = method.result
    if result in (None, True) and (documented := any_if_null(schema_of_phrase(docs.result))) is not True:
        result = documented
    parameters = _name_parameters(method.parameters, docs)
    if parameters is not None:
        parameters = tuple(_merge(parameter, docs.arguments.get(parameter.name)) for parameter in parameters)
    is_complete = method.parameters is not None or docs.complete or not docs.arguments
    are_named = any(parameter.name in docs.arguments for parameter in parameters or ())
    structure = Structure.BY_NAME if docs.keywords and are_named else method.structure
    if not is_complete and structure is Structure.BY_POSITION:
        parameters = None
    are_used = parameters is not None and docs.arguments.keys() <= {parameter.name for parameter in parameters}
    return replace(
        method,
        description=docs.text if are_used else method.description,
        parameters=parameters,
        is_complete=is_complete,
        result=result,
        structure=structure,
    )


def _name_parameters(parameters: tuple[Parameter, ...] | None, docs: Docs) -> tuple[Parameter, ...] | None:
    """Return the parameters, with the documented names where the listing has none; None where neither knows them.

    Fields stand in any order, so only the call itself says which of several unnamed parameters has which name."""
    if docs.collects:
        return parameters
    if parameters is None:
        documented = (Parameter(name, required=docs.complete) for name in docs.arguments)
        return tuple(documented) if docs.arguments or docs.complete else None
    is_unnamed = all(_PLACEHOLDER.fullmatch(parameter.name) for parameter in parameters)
    is_order_stated = docs.complete or len(parameters) == 1
    if is_unnamed and is_order_stated and len(docs.arguments) == len(parameters):
        return tuple(replace(parameter, name=name) for parameter, name in zip(parameters, docs.arguments, strict=True))
    return parameters


def _merge(parameter: Parameter, documented: DocumentedArgument | None) -> Parameter:
    if documented is None:
        return parameter
    schema, kind = parameter.schema, any_if_null(schema_of_phrase(documented.type))
    default = {} if isinstance(schema, bool) else {"default": schema["default"]} if "default" in schema else {}
    # The listing's own schema wins, unless it has no more than a default.
    if schema in (True, {}, default):
        if default.get("default", 0) is None:
            kind = or_null(kind)
        schema = {**kind, **default} if isinstance(kind, Mapping) else schema
    return replace(
        parameter,
        schema=schema,
        required=parameter.required and not documented.optional,
        description=parameter.description or documented.description,
    )


def parse_docstring(text: str, name: str = "") -> Docs:
    """Return what a description says. ``name`` is the method's name in a first line that is the call."""
    docs = Docs(text)
    lines = _remove_stars(cleandoc(text).splitlines()) if len(text) <= _LONGEST else []
    if not lines:  # also for a text of blanks
        return docs
    if name and len(lines[0]) <= _LONGEST_CALL:
        _read_call(lines[0].strip(), name, docs)
    remaining = []
    at = 0
    while at < len(lines):
        removed = _read_section(lines, at, docs) or _read_field(lines, at, docs)
        if not removed:
            remaining.append(lines[at])
        at += removed or 1
    if len(remaining) < len(lines) or lines[0] != text.strip().partition("\n")[0]:
        docs.text = re.sub(r"\n{3,}+", "\n\n", "\n".join(remaining)).strip()
    return docs


def _remove_stars(lines: list[str]) -> list[str]:
    """Return the lines of a C-style comment without its stars."""
    if not lines or not lines[0].startswith("/**"):
        return lines
    return [re.sub(r"^[ \t]*+(?:/\*\*|\*/|\*)[ \t]?|\*/$", "", line) for line in lines]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _block(lines: list[str], at: int, indent: int) -> int:
    """Return the index after the lines from ``at`` on that are indented deeper than ``indent``; blank lines count."""
    end = at
    for index in range(at, len(lines)):
        if lines[index].strip():
            if _indent(lines[index]) <= indent:
                break
            end = index + 1
    return end


def _read_field(lines: list[str], at: int, docs: Docs) -> int:
    """Read a Sphinx, epytext, JSDoc or PHPDoc field at line ``at``. Return the number of lines to remove from the text,
    0 where no field begins there or it stays."""
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
    """Read a JSDoc or PHPDoc tag. Return whether it is removed from the text."""
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
    """Read a Google or NumPy section that begins at line ``at``. Return the number of lines to remove from the text."""
    title = lines[at].strip()
    ruled = at + 1 < len(lines) and _RULE.fullmatch(lines[at + 1].strip()) is not None
    known = _ARGUMENTS.fullmatch(title) or _RETURNS.fullmatch(title)
    # Only a known title is worth a look at its lines: a text of rules alone would have each read to the end.
    if known is None or not (ruled or title.endswith(":")):
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
    # One entry that is not understood keeps the whole section in the text.
    if not _ARGUMENTS.fullmatch(title) or not entries or None in matches:
        return 0
    for match, (_, more) in zip(filter(None, matches), entries, strict=True):
        for name in match["name"].split(","):
            argument = docs.argument(name.strip())
            _type(argument, match["type"] or "")
            _describe(argument, more if ruled else f"{match['rest'] or ''} {more}".strip())
    return end - at


def _until_rule(lines: list[str], at: int) -> int:
    """Return the index of the next title with a rule below it, from line ``at`` on."""
    ruled = (index for index in range(at, len(lines) - 1) if _RULE.fullmatch(lines[index + 1].strip()))
    return next((index for index in ruled if lines[index].strip()), len(lines))


def _entries(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the first line of each entry of a section, and the other lines, which are indented deeper, as one text."""
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
    """Read a line that may be the call: ``f(a, b: int = 1, *, c) -> int`` or ``int f(int a [, int b])``."""
    call = _CALL.fullmatch(line)
    if call is None or call["name"].rpartition(".")[2] != name:
        return
    prose, _, result = call["after"].partition("->")
    if prose.strip():
        return  # a sentence that begins with the name
    docs.complete, docs.result = True, result.strip()
    optional = 0
    keywords = False
    for part in _split(call["arguments"]):
        words = part.strip()
        bracketed = optional > 0 or words.startswith("[")
        if part.count("[") != part.count("]") or bracketed:
            words = words.strip("[] ")
        optional += part.count("[") - part.count("]")
        if words in ("*", "/", "", "self", "cls"):  # Python passes the last two
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
    """Yield the parts between commas outside the brackets of a type. ``[, b]`` is no type: it marks optional ones."""
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
    """Return whether a bracket belongs to a word before it, as in ``list[int]``."""
    return index > 0 and (text[index - 1].isalnum() or text[index - 1] == "_")
