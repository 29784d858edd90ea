"""What is asked and what is answered: one tool of a plausible size, in every form that the rivals speak."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tests.orders import LISTED, TOOL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ARGUMENTS: Final = {"customer": "ACME-004217", "status": "paid", "limit": 5}


def orders(count: int) -> dict[str, Any]:
    """A result of so many orders, of about 180 bytes of JSON each."""
    return {
        "total": 17,
        "orders": [
            {
                "id": f"ORD-2026-{number:06}",
                "customer": "ACME-004217",
                "status": "paid",
                "currency": "EUR",
                "amount": 1234.5 + number,
                "placed": "2026-11-02T09:15:00Z",
                "note": "leave with the porter",
            }
            for number in range(count)
        ],
    }


RESULT: Final = orders(5)
"""What the backend answers to everything, unless a row says otherwise: about 0.9 kB of JSON."""

_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1.0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_JSON_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@dataclass(frozen=True)
class Workload:
    """One request, repeated; ``check`` tells a right answer, as decoded JSON, from a wrong one. Where there are
    ``variants``, each a prefix of the path and a token, the requests take turns with them."""

    path: str
    message: Mapping[str, Any]
    headers: Mapping[str, str]
    check: Callable[[Any], bool]
    variants: tuple[tuple[str, str], ...] = ()

    @property
    def body(self) -> str:
        return json.dumps(self.message, separators=(",", ":"))

    def of(self, token: str) -> Workload:
        """The same with this token."""
        return replace(self, headers={**self.headers, "Authorization": f"Bearer {token}"})

    def at(self, mount: str) -> Workload:
        """The same of the service that is mounted there."""
        return replace(self, path=mount + self.path)

    def answered(self, check: Callable[[Any], bool]) -> Workload:
        """The same request with another right answer."""
        return replace(self, check=check)


def tool_result(expected: Any) -> Callable[[Any], bool]:
    """A check: the result of ``tools/call`` is this one, and no error."""

    def check(answer: Any) -> bool:
        outcome = answer["result"]
        return outcome["structuredContent"] == expected and not outcome.get("isError")

    return check


def rpc_result(expected: Any) -> Callable[[Any], bool]:
    """A check: the result of JSON-RPC, or of REST, is this one."""
    return lambda answer: bool(answer["result"] == expected)


def _modern(method: str, **headers: str) -> dict[str, str]:
    return _JSON_HEADERS | {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method} | headers


def _lists(tools: int, answer: Any) -> bool:
    result = answer["result"]
    return len(result["tools"]) == tools or ("nextCursor" in result and len(result["tools"]) > 0.9 * tools)


def listing(tools: int) -> Workload:
    """MCP 2026-07-28 ``tools/list``, checked for the number of tools. No page has over 1 MiB, so that of 2,000 tools a
    few are on a second one."""
    message = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": _META}}
    return Workload("/mcp", message, _modern("tools/list"), partial(_lists, tools))


PLAIN_CALL: Final = Workload(
    "/jsonrpc",
    {"jsonrpc": "2.0", "id": "3", "method": TOOL, "params": ARGUMENTS},
    _JSON_HEADERS,
    rpc_result(RESULT),
)
REST_CALL: Final = Workload(
    "/mcp/tools/invoke", {"name": TOOL, "arguments": ARGUMENTS}, _JSON_HEADERS, rpc_result(RESULT)
)
LEGACY_CALL: Final = Workload(
    "/mcp",
    {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": TOOL, "arguments": ARGUMENTS}},
    _JSON_HEADERS | {"MCP-Protocol-Version": "2025-06-18"},
    tool_result(RESULT),
)
MODERN_CALL: Final = Workload(
    "/mcp",
    {
        "jsonrpc": "2.0",
        "id": 3,
        "method": "tools/call",
        "params": {"name": TOOL, "arguments": ARGUMENTS, "_meta": _META},
    },
    _modern("tools/call", **{"Mcp-Name": TOOL}),
    tool_result(RESULT),
)
LIST: Final = listing(LISTED)
