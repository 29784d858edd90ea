"""PyPI mcp: an MCP server, which needs no gateway. Usage: python mcp_server.py --port N     (http://127.0.0.1:N/mcp)"""

from __future__ import annotations

import argparse

from mcp.server import MCPServer

server = MCPServer("parcels", version="2.1.0")


@server.tool()
def weigh(grams: int) -> int:
    """Weigh a parcel."""
    return grams


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    server.run("streamable-http", host="127.0.0.1", port=parser.parse_args().port)
