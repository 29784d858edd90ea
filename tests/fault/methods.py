"""The honest half of the scripted backend: a few JSON-RPC methods and the OpenRPC document listing them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]


class RpcFailure(Exception):
    """What a method raises to be answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


@dataclass(frozen=True)
class Rpc:
    """A method: how it is listed and what it does.

    All of ``params`` are required. ``result`` is the schema of the result; None lists a notification, as
    OpenRPC 1.3 has it. ``run`` takes the parameters by name.
    """

    name: str
    params: Mapping[str, Schema] = field(default_factory=dict)
    result: Schema | None = field(default_factory=dict)
    summary: str = ""
    run: Callable[..., object] = lambda **params: params

    def __call__(self, params: object) -> object:
        """Run with ``params`` as they came: an object, an array or nothing."""
        named = dict(zip(self.params, params, strict=False)) if isinstance(params, list) else params or {}
        if not isinstance(named, dict) or set(named) != set(self.params):
            raise RpcFailure(-32602, "Invalid params")
        return self.run(**named)

    def listed(self) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "name": self.name,
            "summary": self.summary or f"The method {self.name}",
            "params": [{"name": name, "required": True, "schema": schema} for name, schema in self.params.items()],
        }
        if self.result is not None:
            entry["result"] = {"name": "result", "schema": self.result}
        return entry


def _fail() -> object:
    raise RpcFailure(-32000, "It failed, as it always does")


_NUMBER: Schema = {"type": "number"}
_SUM: Schema = {"type": "object", "properties": {"sum": _NUMBER}, "required": ["sum"]}

ADD = Rpc("add", {"a": _NUMBER, "b": _NUMBER}, _SUM, "Add two numbers", lambda a, b: {"sum": a + b})
ECHO = Rpc("echo", {"value": {}}, {}, "Give the value back", lambda value: value)
FAIL = Rpc("fail", {}, {}, "Fail", _fail)
VOID = Rpc("void", {}, None, "Take notice, answer nothing", lambda: None)
METHODS: tuple[Rpc, ...] = (ADD, ECHO, FAIL, VOID)


def openrpc(methods: Sequence[Rpc]) -> dict[str, Any]:
    """The document that ``rpc.discover`` answers."""
    return {
        "openrpc": "1.3.2",
        "info": {"title": "Scripted backend", "version": "1.0.0"},
        "methods": [method.listed() for method in methods],
    }
