"""Read the entries of a listing. A stranger wrote them, so each member may be anything."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from gateway.model import Parameter, Structure

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
    """Return whether a name cannot be a key of ``params``: it is missing, or a heading (Ethereum's "Transaction hash").

    With one, methods whose structure the document leaves open are called by position: its names are no keys."""
    return not isinstance(name, str) or not name or _NOT_IN_KEYS.search(name) is not None


def name_parameters(parameters: Iterable[Parameter], structure: Structure) -> tuple[tuple[Parameter, ...], Structure]:
    """Return the parameters, each with its own name, and the structure to pass them in: by position where a name is
    missing or stands twice, because only its position identifies such a parameter."""
    named: dict[str, Parameter] = {}
    for position, parameter in enumerate(parameters):
        name = parameter.name or f"arg{position}"
        while name in named:
            name = f"{name}_{position}"
        if name != parameter.name:
            structure = Structure.BY_POSITION
        named[name] = replace(parameter, name=name)
    return tuple(named.values()), structure
