"""Write and read JSON pointers (RFC 6901), and find the target of a reference that is one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote

_INDEX: Final = re.compile("0|[1-9][0-9]{0,8}")
"""An index of a list (§4). Nine digits are enough for any list that fits into memory."""


def escape_pointer(part: str) -> str:
    """Return one part of a pointer with ``~`` and ``/`` escaped (§3)."""
    return part.replace("~", "~0").replace("/", "~1")


def pointer_of(parts: Iterable[object]) -> str:
    """Return the pointer made of names and indexes, empty where there are none."""
    return "".join(f"/{escape_pointer(str(part))}" for part in parts)


def parts_of(pointer: str) -> list[str]:
    """Return the names and indexes of a pointer."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def resolve(document: Any, reference: str) -> Any:
    """Return the target of a reference like ``#/a/b`` within a document (§6), None where there is none."""
    pointer = unquote(reference[1:])
    if reference[:1] != "#" or pointer[:1] not in ("", "/"):
        return None
    target = document
    for part in parts_of(pointer):
        if isinstance(target, Mapping):
            target = target.get(part)
        elif isinstance(target, list) and _INDEX.fullmatch(part) and int(part) < len(target):
            target = target[int(part)]
        else:
            return None
    return target
