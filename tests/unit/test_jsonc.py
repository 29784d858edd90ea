"""A member is set in a JSON file with comments, and no other character changes."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.cli.client_entries import read_jsonc, with_member
from tests.each import each

PATH = ("servers", "crm")
VALUE = {"command": "x", "args": ["y"]}
SETTINGS = """\
// what I like
{
    "theme": "dark", // not light
    "servers": {
        /* the first one */
        "other": { "command": "keep   me" }, // kept
    },
    "last": [1, 2,],
}
"""


def test_an_entry_is_added_in_the_files_own_indentation_and_all_else_stays() -> None:
    added = """\
        /* the first one */
        "other": { "command": "keep   me" }, // kept
        "crm": {
          "command": "x",
          "args": [
            "y"
          ]
        }
    },
"""
    before, _, after = SETTINGS.partition(
        '        /* the first one */\n        "other": { "command": "keep   me" }, // kept\n    },\n'
    )
    assert with_member(SETTINGS, PATH, VALUE) == before + added + after


@each(
    ("text", "changed"),
    [
        ("{}", '{\n  "servers": {\n    "crm": 1\n  }\n}'),
        ("{ }\n", '{\n  "servers": {\n    "crm": 1\n  }\n}\n'),
        ('{"servers":{}}', '{"servers":{\n  "crm": 1\n}}'),
        ('{"servers": {"a": 2}}', '{"servers": {"a": 2,\n  "crm": 1\n}}'),
        ('{"servers": {"crm": 2, "b": 3}}', '{"servers": {"crm": 1, "b": 3}}'),
        (
            '{\r\n\t"servers": {\r\n\t\t"a": 2\r\n\t}\r\n}',
            '{\r\n\t"servers": {\r\n\t\t"a": 2,\r\n\t\t"crm": 1\r\n\t}\r\n}',
        ),
        ('{"servers": {"a": 2 // end\n}}', '{"servers": {"a": 2, // end\n  "crm": 1\n}}'),
        ('{"servers": {// nothing yet\n}}', '{"servers": {// nothing yet\n  "crm": 1\n}}'),
        ('\ufeff{"a": "// no { comment"}', '\ufeff{"a": "// no { comment",\n  "servers": {\n    "crm": 1\n  }\n}'),
    ],
)
def test_each_form_of_object_takes_a_member(text: str, changed: str) -> None:
    assert with_member(text, PATH, 1) == changed


@each(
    ("text", "fault"),
    [
        ("", "Expecting value: line 1 column 1 ("),
        ('{\n"a" 1}', "Expecting ':' delimiter: line 2 column 5 ("),
        ('{"a": 1 "b": 2}', "Expecting ',' delimiter: line 1 column 9 ("),
        ("[1 2]", "Expecting ',' delimiter: line 1 column 4 ("),
        ("{,}", "Expecting property name enclosed in double quotes: line 1 column 2 ("),
        ("{1: 2}", "Expecting property name enclosed in double quotes: line 1 column 2 ("),
        ('{"a": 1, "a": 2}', "a stands there twice"),
        ('{"a": nope}', "Expecting value: line 1 column 7 ("),
        ('{"a": "b\nc"}', "Invalid control character at: line 1 column 9 ("),
        ("{} x", "Extra data: line 1 column 4 ("),
        ("{ /* no end }", "Expecting property name enclosed in double quotes: line 1 column 3 ("),
        ("[]", "its value is not an object"),
        ('{"servers": []}', "servers is not an object"),
    ],
)
def test_what_cannot_be_edited_is_refused_with_the_reason(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(fault)}"):
        with_member(text, PATH, 1)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40)
@given(st.dictionaries(st.text(), values, max_size=4), values, st.sampled_from([None, 1, "\t"]))
def test_any_json_reads_as_json_does_and_takes_a_member(tree: dict[str, object], value: object, indent: object) -> None:
    text = json.dumps(tree, indent=indent, ensure_ascii=False)  # type: ignore[arg-type]
    assert read_jsonc(text) == tree
    assert json.loads(with_member(text, ("a new one",), value)) == {**tree, "a new one": value}
