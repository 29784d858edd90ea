"""Words for types in descriptions older than JSON Schema."""

from __future__ import annotations

from typing import Any

from gateway.listing.entries import schema_of_word
from tests.each import each
from tests.tables import each_row

# XML-RPC's specification, JSON-RPC 1.1's working draft §6.3, and what services write.
WORDS: dict[str, str] = {
    "int": "integer", "i4": "integer", "i8": "integer", "integer": "integer", "long": "integer",
    "double": "number", "float": "number", "num": "number", "number": "number",
    "boolean": "boolean", "bool": "boolean", "bit": "boolean",
    "string": "string", "str": "string",
    "array": "array", "arr": "array", "list": "array",
    "struct": "object", "object": "object", "obj": "object", "dict": "object",
    "nil": "null", "null": "null", "none": "null", "void": "null",
}  # fmt: skip


@each("word", [*WORDS])
def test_a_word_is_the_type_that_its_specification_says(word: str) -> None:
    for written in (word, word.upper(), word.capitalize()):
        assert schema_of_word(written) == {"type": WORDS[word]}


@each_row
def test_other_words_say_what_json_schema_can_say_of_them(word: Any, schema: Any) -> None:
    assert schema_of_word(word) == schema
