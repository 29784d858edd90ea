"""What the fixture backend knows of a method."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
Params: TypeAlias = JsonObject
Answer: TypeAlias = Callable[[Params], Awaitable[Any]]

NOTHING: Final[JsonObject] = {"type": "object", "properties": {}}


@dataclass(frozen=True)
class Method:
    """``answer`` makes the JSON-RPC result from the named params, or raises :class:`Failure`."""

    name: str
    description: str
    answer: Answer
    schema: JsonObject = field(default_factory=lambda: NOTHING)


class Failure(Exception):
    """Becomes a JSON-RPC error with this code and message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Methods(dict[str, Method]):
    """Methods by name; :meth:`add` makes one of a function, which describes it."""

    def add(self, name: str, schema: JsonObject = NOTHING) -> Callable[[Answer], Answer]:
        def added(answer: Answer) -> Answer:
            self[name] = Method(name, (answer.__doc__ or "").strip(), answer, schema)
            return answer

        return added
