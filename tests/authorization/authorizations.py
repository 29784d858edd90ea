"""Watching how often a call is authorized, without taking the place of anything.

with authorized() as tools:
    await ann.call(MODERN, "add", {"a": 2, "b": 3})
assert tools == ["add"]

``python -m tests.authorization.authorizations call add …`` is the command line, watched: what it wrote, then a line of
JSON with the tools.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from gateway.auth.access import Access
from gateway.cli import main


@contextmanager
def authorized() -> Iterator[list[str]]:
    """The names of the tools whose call is decided on meanwhile in this thread, one for each decision."""
    tools: list[str] = []
    decides = Access.check_call.__code__

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is decides:
            tools.append(frame.f_locals["tool"].name)

    sys.setprofile(note)
    try:
        yield tools
    finally:
        sys.setprofile(None)


if __name__ == "__main__":
    with authorized() as decided:
        code = main(standalone_mode=False)
    print(json.dumps(decided))
    raise SystemExit(code)
