"""/mcp/tools of the module jsonrpc_mcp 1.5: the list, describe with its trap, scopes of a tool's route.

The list names tools that an account may call; scopes are checked on a tool's own route only, neither
in the list nor at /jsonrpc.
"""

import base64
import binascii
import re
from typing import Any

from drupal_site import php
from drupal_site.methods import METHODS, Method, Site, Tool
from drupal_site.people import Account


def tools_of(account: Account) -> list[Method]:
    return [method for method in METHODS.values() if method.tool and account.may(method.permission)]


def page(account: Account, language: str, cursor: str, size: int) -> dict[str, Any]:
    """One page; `nextCursor` is null at the end, which MCP does not allow."""
    tools, start = tools_of(account), _offset(cursor)
    end = start + size
    following = base64.b64encode(str(end).encode()).decode() if end < len(tools) else None
    return {"tools": [shape(method, language) for method in tools[start:end]], "nextCursor": following}


def _offset(cursor: str) -> int:
    """PHP: (int) base64_decode($cursor), so that garbage is the first page."""
    try:
        decoded = base64.b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return 0
    digits = re.match(r"\d+", decoded)
    return int(digits[0]) if digits else 0


def shape(method: Method, language: str) -> dict[str, Any]:
    """One tool; without parameters `properties` becomes PHP's empty array."""
    properties = {}
    for parameter in method.parameters:
        text = {"description": parameter.description} if parameter.description else {}
        properties[parameter.name] = {**parameter.schema, **text}
    required = [parameter.name for parameter in method.parameters if parameter.required]
    tool = _tool(method)
    return {
        "name": method.id,
        "description": method.usage_in(language),
        "inputSchema": {
            "type": "object",
            "properties": properties,
            **({"required": required} if required else {}),
        },
        "outputSchema": tool.output,
        "title": tool.title,
        "annotations": tool.annotations,
    }


def describe(account: Account, site: Site, language: str, name: str | None) -> tuple[int, str]:
    """Status and body. A wrong name poisons: its answer is cached without the name, for everybody,
    until the next cache rebuild."""
    if site.describe_cache is not None:
        return site.describe_cache
    if not name:
        site.describe_cache = 400, _error("missing_parameter", "Missing required parameter: name")
        return site.describe_cache
    for method in tools_of(account):
        if method.id == name:
            return 200, php.encode({"tool": shape(method, language)})
    site.describe_cache = 404, _error("tool_not_found", f"Tool '{name}' not found or access denied")
    return site.describe_cache


def _error(code: str, message: str) -> str:
    return php.encode({"error": {"code": code, "message": message}})


def challenge(method: Method, account: Account | None) -> tuple[int, str] | None:
    """Status and WWW-Authenticate when the route of a tool turns its caller away, with an empty body."""
    auth = _tool(method).annotations.get("auth", {})
    if auth.get("level") != "required":
        return None
    if account is None:
        return 401, 'Bearer realm="MCP Tools"'
    missing = [scope for scope in auth["scopes"] if scope not in account.scopes]
    if missing:
        return 403, f'Bearer realm="MCP Tools", error="insufficient_scope", scope="{" ".join(missing)}"'
    return None


def _tool(method: Method) -> Tool:
    assert method.tool is not None
    return method.tool
