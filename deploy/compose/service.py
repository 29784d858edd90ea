"""A sample service for compose.yaml: JSON-RPC 2.0 over HTTP, which lists its methods by rpc.discover.

python service.py 127.0.0.1 8000
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NUMBER = {"type": "number"}
DOCUMENT = {
    "openrpc": "1.3.2",
    "info": {"title": "Sample", "version": "1.0.0"},
    "methods": [
        {
            "name": "add",
            "summary": "Add two numbers.",
            "paramStructure": "by-name",
            "params": [{"name": name, "required": True, "schema": NUMBER} for name in ("a", "b")],
            "result": {"name": "sum", "schema": NUMBER},
        }
    ],
}


def add(a: float, b: float) -> float:
    return a + b


METHODS = {"rpc.discover": lambda: DOCUMENT, "add": add}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    """Return the response to one request."""
    head = {"jsonrpc": "2.0", "id": message.get("id")}
    method = METHODS.get(message["method"])
    if method is None:
        return head | {"error": {"code": -32601, "message": "Method not found"}}
    try:
        return head | {"result": method(**message.get("params") or {})}
    except TypeError as error:
        return head | {"error": {"code": -32602, "message": str(error)}}


class Handler(BaseHTTPRequestHandler):
    """Answer POST /jsonrpc."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.dumps(answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
