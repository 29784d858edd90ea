"""JSON pointers (RFC 6901), and what a reference that is one leads to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote

_INDEX: Final = re.compile("0|[1-9][0-9]{0,8}")
"""An index of a list (§4), as long as a list that fits into memory can need."""


def escape_pointer(part: str) -> str:
    """Return one part of a pointer as it is written (§3)."""
    return part.replace("~", "~0").replace("/", "~1")


def pointer_of(parts: Iterable[object]) -> str:
    """Return the pointer that leads through names and indexes, empty for none."""
    return "".join(f"/{escape_pointer(str(part))}" for part in parts)


def parts_of(pointer: str) -> list[str]:
    """Return the names and indexes that a pointer leads through."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def resolve(document: Any, reference: str) -> Any:
    """Return what a reference like ``#/a/b`` leads to within a document (§6), or None."""
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
