"""The reader of error texts, and what counts as a text that tells how to mend a call."""

from __future__ import annotations

import pytest

from lab.agents.judge import Repair, is_mended, read_repair
from lab.agents.mistakes import EXTRA, MISTAKES, Try, wrong_tries

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "kind": {"enum": ["cat", "dog"]},
        "limits": {"type": "object", "properties": {"end": {"type": "integer"}}},
        "note": {"type": "string"},
    },
    "required": ["name"],
}
RIGHT = {"name": "rex", "kind": "dog", "limits": {"end": 5}}


@pytest.mark.parametrize(
    ("text", "repair"),
    [
        ("Unknown tool: petGet. Did you mean pet_get?", Repair(tool="pet_get")),
        ("Unknown tool: petGet", None),
        ('Invalid arguments: "name" is a required property', None),
        ('Invalid arguments: "name" is a required property: a string', Repair(place="name", types=("string",))),
        ('Invalid arguments: limits: "end" is required: an integer', Repair(place="limits/end", types=("integer",))),
        ('Invalid arguments: limits/end: "5" is not of type "integer"', Repair(place="limits/end", types=("integer",))),
        ('kind: "Dog" is not one of "cat", "dog"', Repair(place="kind", values=("cat", "dog"))),
        ("'x' was unexpected; valid are name, kind", Repair(place="x", leave_out=True)),
        ("Additional properties are not allowed ('x' was unexpected)", None),
        ("Invalid arguments: it takes no arguments", Repair(leave_out=True)),
        ("Internal error", None),
        ("Invalid params.", None),
    ],
)
def test_a_text_is_read_for_what_it_says_to_change(text: str, repair: Repair | None) -> None:
    assert read_repair(text) == repair


def test_each_mistake_is_made_once_where_the_tool_can_have_it() -> None:
    tries = {one.mistake: one for one in wrong_tries("pet_get", SCHEMA, RIGHT, "pets", 0)}
    assert tuple(tries) == MISTAKES
    assert tries["wrong name"].tool == "petGet"
    assert tries["missing argument"].arguments == {"kind": "dog", "limits": {"end": 5}}
    assert tries["string for number"].arguments["limits"] == {"end": "5"}
    assert tries["extra argument"].arguments == {**RIGHT, EXTRA: True}
    assert tries["null"].place == ("note",)
    assert tries["wrong enum"].arguments["kind"] == "Dog"
    assert tries["nested JSON text"].arguments["limits"] == '{"end": 5}'


def test_what_a_tool_takes_is_no_mistake() -> None:
    tries = [*wrong_tries("ping", {"type": "object", "properties": {"x": {}}}, {"x": [1]}, "pets", 1)]
    assert [one.mistake for one in tries] == ["wrong name", "extra argument"]


def test_a_repair_counts_at_its_place_with_a_valid_value_or_another_type() -> None:
    number = Try("string for number", "t", {"n": "5"}, ("n",))
    label = Try("wrong enum", "t", {"n": "Dog"}, ("n",))
    assert is_mended(Repair(place="n", types=("integer",)), number, "t", 5, lambda value: False)
    assert not is_mended(Repair(place="m", types=("integer",)), number, "t", 5, lambda value: True)
    assert not is_mended(Repair(place="n", types=("string",)), label, "t", "dog", lambda value: False)
    assert is_mended(Repair(place="n", values=("cat",)), label, "t", "dog", lambda value: value == "cat")
    assert not is_mended(Repair(place="n", values=("rat", "cat")), label, "t", "dog", lambda value: value == "cat")
    assert not is_mended(None, label, "t", "dog", lambda value: True)
    assert is_mended(Repair(tool="t"), Try("wrong name", "T", {}), "t", None, lambda value: False)
