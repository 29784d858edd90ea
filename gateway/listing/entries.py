"""Read the entries of a listing. A stranger wrote them, so each member may be anything.

Descriptions older than JSON Schema have words for types. Those known here are of XML-RPC (https://xmlrpc.com/spec.md),
JSON-RPC 1.1 (working draft of 2006, section 6.3: bit num str arr obj any nil), SMD, Flask-JSONRPC, and real services.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from gateway.model import Method, Parameter, Schema, Structure

REMEDY: Final = "fix the entry in the backend's listing"
_NOT_IN_KEYS: Final = re.compile(r"[\s()\[\]{}<>]")


class UnusableMethod(Exception):
    """Raised for a listed method that cannot be called through the gateway."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


def object_of(value: Any) -> dict[str, Any]:
    """Return the value if it is an object, else an empty one: PHP writes an empty object as ``[]``."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def text_of(value: Any) -> str:
    """Return the value if it is a text, else ``""``."""
    return value if isinstance(value, str) else ""


def texts_of(value: Any) -> frozenset[str]:
    """Return the texts of a list; none where the value is not a list."""
    return frozenset(item for item in value if isinstance(item, str)) if isinstance(value, list) else frozenset()


def entry_of(value: Any) -> dict[str, Any]:
    """Return the entry of a method. Raise :class:`UnusableMethod` where it is not an object."""
    if isinstance(value, dict):
        return value
    raise UnusableMethod("the entry is not an object", REMEDY)


def is_heading(name: Any) -> bool:
    """Return whether a name cannot be a key of ``params``: it is missing, or a heading ("Transaction hash")."""
    return not isinstance(name, str) or not name or _NOT_IN_KEYS.search(name) is not None


def name_parameters(method: Method) -> Method:
    """Return the method, each parameter with its own name. It is called by position where one is missing or stands
    twice, because only its position identifies such a parameter."""
    named: dict[str, Parameter] = {}
    for position, parameter in enumerate(method.parameters or ()):
        name = parameter.name or f"arg{position}"
        while name in named:
            name = f"{name}_{position}"
        named[name] = parameter if name == parameter.name else replace(parameter, name=name)
    parameters = tuple(named.values())
    if parameters == (method.parameters or ()):
        return method
    return replace(method, parameters=parameters, structure=Structure.BY_POSITION)


NULL: Final[Schema] = {"type": "null"}
_MOST_ALTERNATIVES: Final = 50
"""Alternatives of one type at most: each is compared with all others, and a stranger's list may have a million."""

_WORDS: Final[dict[str, Schema]] = {
    word: schema
    for words, schema in (
        ("int integer i1 i2 i4 i8 int32 int64 long short", {"type": "integer"}),
        ("num number numeric double float real", {"type": "number"}),
        ("bit bool boolean", {"type": "boolean"}),
        ("str string text", {"type": "string"}),
        ("base64", {"type": "string", "contentEncoding": "base64"}),
        ("datetime.iso8601", {"type": "string", "format": "date-time"}),
        ("arr array list tuple set sequence iterable", {"type": "array"}),
        ("obj object struct dict map dictionary mapping record", {"type": "object"}),
        ("nil null none void", NULL),
    )
    for word in words.split()
}


def schema_of(value: Any) -> Schema:
    """Return the value if it can be a schema; else True, which accepts any value (null, ``[]``)."""
    return value if isinstance(value, dict | bool) else True


def schema_of_word(word: Any) -> Schema:
    """Return the schema for a word, in upper or lower case, or for any of a list of words. Another value is returned as
    it is where it can be a schema, else True."""
    if isinstance(word, list):
        return any_of(map(schema_of_word, word)) if word else True
    if isinstance(word, str):
        return _WORDS.get(word.casefold(), True)
    return schema_of(word)


_ROLE: Final = re.compile(r":\w{1,20}(?::\w{1,20})?:`[~!]?([^`]*+)`")
_CLAUSE: Final = re.compile(
    r"\s(?:if|when|that|which|with|containing|representing|for|where|as|in|was|were)\b|;|\.\s|\s-\s|--|\n"
)
_ASIDE: Final = re.compile(r"[\s,]*+\(?\b(?:optional|required|defaults?\b.*)\)?$", re.IGNORECASE)
_OF: Final = re.compile(r"(?:an? |the )?(\w++)\s++of\s++(.+)", re.IGNORECASE)
_GENERIC: Final = re.compile(r"([\w.]++)\s*+[\[<](.*)[\]>]")
_LITERAL: Final = re.compile(r"""'[^']*+'|"[^"]*+"|-?\d++""")
_OR: Final = re.compile(r"\s++or\s++|\s*+\|\s*+|\s*+,\s*+or\s++")
_COMMA: Final = re.compile(r"\s*+,\s*+")
_LONGEST: Final = 200


def schema_of_phrase(phrase: str) -> Schema:
    """Return the schema for a type as people write it: ``list of string or None``, ``Optional[int]``, ``string[]``,
    ``{'a', 'b'}``. A part that is not understood allows any value."""
    if len(phrase) > 5 * _LONGEST:
        return True
    phrase = _ROLE.sub(r"\1", phrase).strip()
    phrase = _CLAUSE.split(phrase, maxsplit=1)[0].replace("`", "").strip(" .,")
    while (shorter := _ASIDE.sub("", phrase)) != phrase:
        phrase = shorter.strip(" .,")
    if not phrase or len(phrase) > _LONGEST:
        return True
    if phrase.startswith("{") and phrase.endswith("}"):
        return _enum_schema(phrase[1:-1])
    alternatives = _parts(phrase, _OR)
    if len(alternatives) > 1:
        return any_of(map(schema_of_phrase, alternatives))
    first, *more = _parts(phrase, _COMMA)
    if not more:
        return _schema_of_part(phrase)
    # After a comma often comes prose ("str, the name"): where it is not understood, the first part counts alone.
    each = [schema_of_phrase(part) for part in (first, *more)]
    return each[0] if True in each[1:] else any_of(each)


def _schema_of_part(part: str) -> Schema:
    if part.startswith("?"):
        return or_null(schema_of_phrase(part[1:]))
    if part.endswith("[]"):
        return _list_of(part[:-2])
    if match := _OF.fullmatch(part):
        outer = schema_of_word(_singular(match[1]))
        return _list_of(match[2]) if outer == {"type": "array"} else outer
    if match := _GENERIC.fullmatch(part):
        word = match[1].rpartition(".")[2].casefold()
        if word in ("optional", "union"):
            inner = map(schema_of_phrase, _parts(match[2], _COMMA))
            return any_of((*inner, NULL) if word == "optional" else inner)
        kind = schema_of_word(word)
        return _list_of(match[2]) if kind == {"type": "array"} and "," not in match[2] else kind
    word = re.sub(r"^(?:an?|the)\s++", "", part, flags=re.IGNORECASE).rpartition(".")[2]
    if word.casefold() in ("true", "false"):
        return {"type": "boolean"}
    return schema_of_word(_singular(word))


def _list_of(inner: str) -> Schema:
    items = schema_of_phrase(inner)
    return {"type": "array"} if items is True else {"type": "array", "items": items}


def _singular(word: str) -> str:
    return word if word.casefold() in _WORDS else word.removesuffix("s")


def _enum_schema(inner: str) -> Schema:
    """Return an enumeration for ``'a', 'b'``; a map for any other text within braces."""
    parts = [part.strip() for part in inner.split(",")]
    if all(_LITERAL.fullmatch(part) for part in parts):
        return {"enum": [part[1:-1] if part[0] in "'\"" else int(part) for part in parts]}
    return {"type": "object"}


def _parts(text: str, separator: re.Pattern[str]) -> list[str]:
    """Return the parts of a text between the separators that are outside brackets."""
    parts, start = [], 0
    for match in separator.finditer(text):
        before = text[: match.start()]
        if all(before.count(opening) == before.count(closing) for opening, closing in ("[]", "()", "<>", "{}")):
            parts.append(text[start : match.start()])
            start = match.end()
    return [*parts, text[start:]]


def any_of(schemas: Iterable[Schema]) -> Schema:
    """Return the schema of the values that at least one of the schemas accepts: any value for more than 50."""
    different: list[Schema] = []
    for schema in schemas:
        different += [one for one in _alternatives(schema) if one not in different]
        if len(different) > _MOST_ALTERNATIVES:
            return True
    if True in different or {} in different:
        return True
    return different[0] if len(different) == 1 else {"anyOf": different}


def or_null(schema: Schema) -> Schema:
    return any_of((schema, NULL))


def _alternatives(schema: Schema) -> list[Schema]:
    return schema["anyOf"] if isinstance(schema, Mapping) and schema.keys() == {"anyOf"} else [schema]


def any_if_null(schema: Schema) -> Schema:
    """Return True for the null schema, which services send for an undeclared type; else the schema."""
    return True if schema == NULL else schema
