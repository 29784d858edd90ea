"""Annotations, texts and levels of access of a tool."""

from __future__ import annotations

from typing import Any

from gateway.model import Parameter
from tests.each import each
from tests.tables import each_row
from tests.unit.test_normalize import made, method

CLAIMS = {"readOnlyHint": True, "destructiveHint": "no", "category": "discovery"}


def test_the_backends_hints_are_data_unless_they_are_trusted() -> None:
    tool = made(method(annotations=CLAIMS))
    assert tool.annotations == {}
    assert tool.meta["annotations"] == CLAIMS


def test_trusted_hints_are_published_where_they_are_booleans() -> None:
    tool = made(method(annotations=CLAIMS), {"annotations": {"idempotentHint": False}}, trusted=True)
    assert tool.annotations == {"readOnlyHint": True, "idempotentHint": False}
    assert tool.meta["annotations"] == {"destructiveHint": "no", "category": "discovery"}


def test_the_operators_hint_beats_a_trusted_one() -> None:
    tool = made(method(annotations=CLAIMS), {"annotations": {"readOnlyHint": False}}, trusted=True)
    assert tool.annotations == {"readOnlyHint": False}


def test_annotations_too_large_to_publish_are_left_out() -> None:
    assert "annotations" not in made(method(annotations={"x": "y" * 5000})).meta


@each_row
def test_the_auth_level_is_the_one_that_drupals_bridge_means(auth: Any, level: str) -> None:
    assert made(method(annotations={"auth": auth})).auth_level == level


TEXTS = [
    ({"description": "D", "title": "T"}, "D"),
    ({"title": "T"}, "T"),
    ({}, "tool"),
    ({"description": " \u200b\n"}, "tool"),
    ({"description": "Say\x1b[0m\u202e it.", "deprecated": True}, "Say[0m it.\n\nDeprecated."),
]


@each(("members", "description"), TEXTS)
def test_a_tool_always_has_a_description_fit_to_show(members: Any, description: str) -> None:
    assert made(method(**members)).description == description


def test_long_texts_are_cut() -> None:
    tool = made(method(title="t" * 999, description="d" * 9999, parameters=(Parameter("a", description="p" * 9999),)))
    sizes = [
        len(text.encode())
        for text in (tool.title, tool.description, tool.input_schema["properties"]["a"]["description"])
    ]
    assert sizes == [256, 4096, 4096]
