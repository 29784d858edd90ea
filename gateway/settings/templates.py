"""Fill templates: texts of the settings that take values found out later, such as the token of a login.

``{name}`` is a value, ``{base64(…)}`` encodes what stands in it, with its own names filled: ``{base64({user}:{id})}``.
Other braces stay as they are. A text that is one name alone becomes the value itself, which may be a number.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.settings.knobs import texts_in

NAME_PATTERN: Final = "[a-z][a-z0-9_]{0,31}"
_NAME: Final = re.compile(rf"\{{({NAME_PATTERN})\}}")
_PART: Final = re.compile(rf"\{{base64\(((?:[^{{}}]|\{{{NAME_PATTERN}\}})*)\)\}}|\{{({NAME_PATTERN})\}}")


def names_in(value: Any) -> Iterator[str]:
    """Yield each name in the texts of a JSON value."""
    for text in texts_in(value):
        yield from _NAME.findall(text)


def fill(value: Any, values: Mapping[str, str | int]) -> Any:
    """Return the JSON value with its texts filled. Raises :class:`KeyError` for a name without a value."""
    if isinstance(value, str):
        whole = _NAME.fullmatch(value)
        return values[whole[1]] if whole else _filled(value, values)
    if isinstance(value, list):
        return [fill(item, values) for item in value]
    if isinstance(value, dict):
        return {key: fill(child, values) for key, child in value.items()}
    return value


def _filled(text: str, values: Mapping[str, str | int]) -> str:
    def part(match: re.Match[str]) -> str:  # one pass: what a value contains is never taken for a template
        if match[2] is not None:
            return str(values[match[2]])
        return base64.b64encode(_filled(match[1], values).encode()).decode()

    return _PART.sub(part, text)
