"""A member is set in a JSON file with comments, and no other character changes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.cli.jsonc import NotJson, read_jsonc, with_member
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
        ("", "line 1: a value is missing"),
        ('{\n"a" 1}', "line 2: a colon is missing"),
        ('{"a": 1 "b": 2}', "line 1: a comma is missing"),
        ("[1 2]", "line 1: a comma is missing"),
        ("{,}", "line 1: a value is missing"),
        ("{1: 2}", "line 1: a name in quotes is missing"),
        ('{"a": 1, "a": 2}', "line 1: a stands there twice"),
        ('{"a": nope}', "line 1: nope is not JSON"),
        ('{"a": "b\nc"}', "line 1: a value is missing"),
        ("{} x", "line 1: something follows the value"),
        ("{ /* no end }", "line 1: a value is missing"),
        ("[" * 1000, "line 1: it nests too deeply"),
        ("[]", "its value is not an object"),
        ('{"servers": []}', "servers is not an object"),
    ],
)
def test_what_cannot_be_edited_is_refused_with_the_reason(text: str, fault: str) -> None:
    with pytest.raises(NotJson) as caught:
        with_member(text, PATH, 1)
    assert str(caught.value) == fault


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
