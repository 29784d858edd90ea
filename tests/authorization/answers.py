"""What a test can have an issuer answer in place of one of its documents.

A disturbance is the name of a kind, or an :class:`Answer` of the test's own. The kinds are made from the genuine
document, so that a client that lacks a limit takes what it should have refused, and the test notices.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

Kind: TypeAlias = Literal[
    "500", "html", "list", "keys-object", "empty", "huge", "bomb", "cut", "redirect", "hold", "reset"
]
MOVED: Final = "/moved"
"""Where a redirect leads: below it, on the same origin, is the genuine document."""
HUGE: Final = 50 * 1024 * 1024
_JSON: Final = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Answer:
    """``padding`` spaces go before the body; a ``cut`` answer ends before the length that its header promises."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: _JSON)
    body: bytes = b""
    padding: int = 0
    cut: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the form that ``node/door.mjs`` reads."""
        return vars(self) | {"headers": dict(self.headers), "body": b64encode(self.body).decode()}


Disturbance: TypeAlias = Kind | Answer
"""``hold`` answers nothing until the disturbance ends, then the genuine document; ``reset`` breaks the connection."""


def _bomb(genuine: bytes, _: str) -> Answer:
    squeezed = gzip.compress(b" " * HUGE + genuine, compresslevel=1)
    return Answer(headers={**_JSON, "Content-Encoding": "gzip"}, body=squeezed)


_KINDS: Final[Mapping[str, Callable[[bytes, str], Answer]]] = {
    "500": lambda genuine, _: Answer(500, body=genuine),
    "html": lambda _, path: Answer(
        headers={"Content-Type": "text/html"}, body=b"<!doctype html><title>Sign in</title>"
    ),
    "list": lambda *_: Answer(body=b"[]"),
    "keys-object": lambda *_: Answer(body=b'{"keys":{}}'),
    "empty": lambda *_: Answer(body=b'{"keys":[]}'),
    "huge": lambda genuine, _: Answer(body=genuine, padding=HUGE),
    "bomb": _bomb,
    "cut": lambda genuine, _: Answer(body=genuine, cut=True),
    "redirect": lambda _, path: Answer(302, headers={"Location": MOVED + path}),
}


def answer_of(kind: Kind, genuine: bytes, path: str) -> Answer:
    """Any kind but ``hold`` and ``reset``, which are no answers."""
    return _KINDS[kind](genuine, path)
