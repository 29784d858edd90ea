"""Listings of many methods, all of a plausible size: the orders of a shop."""

from __future__ import annotations

from typing import Any, Final

TOOL: Final = "order_find"
LISTED: Final = 20


def openrpc(tools: int = LISTED) -> dict[str, Any]:
    """A listing of that many methods, all like :data:`TOOL`, which is the first."""
    names = [TOOL, *(f"{TOOL}_{number:02}" for number in range(1, tools))]
    return {
        "openrpc": "1.3.2",
        "info": {"title": "Orders", "version": "1.0.0"},
        "methods": [_method(name) for name in names],
    }


def _method(name: str) -> dict[str, Any]:
    parameters = {
        "customer": {"type": "string", "maxLength": 64, "description": "Number of the customer"},
        "status": {
            "type": "string",
            "enum": ["open", "paid", "shipped"],
            "description": "State of the order",
        },
        "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "How many orders at most"},
    }
    return {
        "name": name,
        "summary": "Find orders",
        "description": "Find the orders of a customer that are in a given state, the newest first",
        "paramStructure": "by-name",
        "params": [{"name": n, "required": True, "schema": schema} for n, schema in parameters.items()],
        "result": {"name": "found", "schema": {"type": "object"}},
    }
