"""The routes of the public port."""

from __future__ import annotations

from aiohttp import web

from gateway.web import mcp, rest, rpc, tool_route
from gateway.web.context import CONTEXT, Context
from gateway.web.middleware import MIDDLEWARES, complete_headers
from gateway.web.replies import JSONRPC_PATH, MCP_PATH, TOOL_PATH


def public_application(context: Context) -> web.Application:
    application = web.Application(middlewares=MIDDLEWARES, client_max_size=context.max_body)
    application[CONTEXT] = context
    application.on_response_prepare.append(complete_headers)
    router = application.router
    router.add_post(MCP_PATH, mcp.post)
    router.add_get(MCP_PATH, mcp.get, allow_head=False)
    router.add_delete(MCP_PATH, mcp.delete)
    router.add_get(f"{rest.TOOLS}/list", rest.list_tools)
    router.add_get(f"{rest.TOOLS}/describe", rest.describe)
    router.add_post(f"{rest.TOOLS}/invoke", rest.invoke)
    router.add_post(TOOL_PATH, tool_route.post)
    router.add_get(TOOL_PATH, tool_route.get)
    router.add_post(JSONRPC_PATH, rpc.post)
    return application
