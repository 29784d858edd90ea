"""A server on the low-level interface of the official Python SDK: one tool, stateless, answers as JSON.

Usage: ``mcp_server.py PORT SERVICE_URL``, or ``mcp_server.py stdio SERVICE_URL`` on the standard streams, for a proxy
in front of it.
"""

import asyncio
import json
import sys

import uvicorn
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

try:  # what the SDK itself depends on, where its version has it; it is the faster of the two
    import httpx2 as httpx
except ImportError:
    import httpx

PLACE, SERVICE = sys.argv[1:3]
SCHEMA = {
    "type": "object",
    "properties": {
        "customer": {"type": "string", "maxLength": 64},
        "status": {"type": "string", "enum": ["open", "paid", "shipped"]},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100},
    },
    "required": ["customer", "status", "limit"],
}
DESCRIPTION = "Find the orders of a customer that are in a given state, the newest first"
client = httpx.AsyncClient(limits=httpx.Limits(max_connections=512, max_keepalive_connections=512))


async def list_tools(context, params):
    tool = types.Tool(name="order_find", description=DESCRIPTION, input_schema=SCHEMA)
    return types.ListToolsResult(tools=[tool])


async def call_tool(context, params):
    call = {"jsonrpc": "2.0", "id": 1, "method": params.name, "params": params.arguments}
    result = (await client.post(SERVICE, json=call)).json()["result"]
    text = types.TextContent(type="text", text=json.dumps(result))
    return types.CallToolResult(content=[text], structured_content=result)


server = Server("bench", on_list_tools=list_tools, on_call_tool=call_tool)


async def on_standard_streams():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if PLACE == "stdio":
    asyncio.run(on_standard_streams())
else:
    app = server.streamable_http_app(json_response=True, stateless_http=True)
    uvicorn.run(app, host="127.0.0.1", port=int(PLACE), access_log=False, log_level="warning")
