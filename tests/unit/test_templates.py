"""Templates in the settings: names, base64, and what stays as it is."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.settings.sending import fill, names_in
from tests.each import each

VALUES = {"user": "admin", "id": 7, "session": "a(b)c", "odd": "{user} {base64(x)}"}
FILLED: dict[str, tuple[Any, Any]] = {
    "a name": ("s {session}", "s a(b)c"),
    "a name alone keeps its type": ("{id}", 7),
    "a number within a text": ("{user}:{id}", "admin:7"),
    "base64": ("Session {base64({user}:{id}:{session})}", "Session YWRtaW46NzphKGIpYw=="),
    "base64 of a text": ("{base64(plain)}", "cGxhaW4="),
    "base64 twice": ("{base64(a)}.{base64({user})}", "YQ==.YWRtaW4="),
    "what a value contains is no template": ("{odd}{base64({odd})}", "{user} {base64(x)}e3VzZXJ9IHtiYXNlNjQoeCl9"),
    "other braces": ('{"a": {}} {A} { user }', '{"a": {}} {A} { user }'),
    "lists and objects": (["{user}", {"{user}": "{id}", "x": [None, 1.5]}], ["admin", {"{user}": 7, "x": [None, 1.5]}]),
}


@each(("template", "expected"), FILLED)
def test_a_template_is_filled(template: Any, expected: Any) -> None:
    assert fill(template, VALUES) == expected


def test_a_name_without_a_value_is_an_error() -> None:
    for template in ("{sesion}", "x {sesion}", "{base64({sesion})}"):
        with pytest.raises(KeyError):
            fill(template, VALUES)


def test_the_names_in_a_template_are_known() -> None:
    assert {*names_in(["{a} {base64({b}:x)}", {"key": "{c}", "{d}": 1}])} == {"a", "b", "c"}
