"""Words for types, as descriptions older than JSON Schema use them, become schemas.

XML-RPC's (https://xmlrpc.com/spec.md), JSON-RPC 1.1's (working draft of 2006, section 6.3: bit num str arr obj any
nil), those of SMD and of Flask-JSONRPC, and what services add. A word that is not known says nothing of the value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from gateway.model import Schema

NULL: Final[Schema] = {"type": "null"}

_WORDS: Final[dict[str, Schema]] = {
    word: schema
    for words, schema in (
        ("int integer i1 i2 i4 i8 int32 int64 long short", {"type": "integer"}),
        ("num number numeric double float real", {"type": "number"}),
        ("bit bool boolean", {"type": "boolean"}),
        ("str string text", {"type": "string"}),
        ("base64", {"type": "string", "contentEncoding": "base64"}),
        ("datetime.iso8601", {"type": "string", "format": "date-time"}),
        ("arr array list", {"type": "array"}),
        ("obj object struct dict map", {"type": "object"}),
        ("nil null none void", NULL),
    )
    for word in words.split()
}


def schema_of_word(word: Any) -> Schema:
    """The schema for one word, in any case of letters; for a list of words, the schema of any of them.

    Where something else than a word stands, it is taken as a schema if it can be one.
    """
    if isinstance(word, list):
        return any_of(map(schema_of_word, word)) if word else True
    if isinstance(word, str):
        return _WORDS.get(word.casefold(), True)
    return word if isinstance(word, dict | bool) else True


def any_of(schemas: Iterable[Schema]) -> Schema:
    """The schema that takes what one of them takes."""
    different: list[Schema] = []
    for schema in schemas:
        if schema not in different:
            different.append(schema)
    if True in different or {} in different:
        return True
    return different[0] if len(different) == 1 else {"anyOf": different}


def told(schema: Schema) -> Schema:
    """What is left of a schema where ``null`` stands for a type that nobody declared."""
    return True if schema == NULL else schema
