"""The methods of the backend that the protocol tests stand on: one for each shape of result."""

from __future__ import annotations

from typing import Final

from tests.fault.methods import ADD, ECHO, FAIL, VOID, Rpc

NUMBERS: Final = Rpc("numbers", {}, {"type": "array", "items": {"type": "integer"}}, "List numbers", lambda: [1, 2, 3])
GREET: Final = Rpc("greet", {"name": {"type": "string"}}, {"type": "string"}, "Greet", lambda name: f"Hello, {name}")
METHODS: Final = (ADD, ECHO, FAIL, GREET, NUMBERS, VOID)
NAMES: Final = sorted(method.name for method in METHODS)
