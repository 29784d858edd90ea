"""Templates in the settings: names, base64, and what stays as it is."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.settings.sending import fill, names_in
from tests.tables import each_row

VALUES = {"user": "admin", "id": 7, "session": "a(b)c", "odd": "{user} {base64(x)}"}


@each_row
def test_a_template_is_filled(template: Any, expected: Any) -> None:
    assert fill(template, VALUES) == expected


def test_a_name_without_a_value_is_an_error() -> None:
    for template in ("{sesion}", "x {sesion}", "{base64({sesion})}"):
        with pytest.raises(KeyError):
            fill(template, VALUES)


def test_the_names_in_a_template_are_known() -> None:
    assert {*names_in(["{a} {base64({b}:x)}", {"key": "{c}", "{d}": 1}])} == {"a", "b", "c"}
