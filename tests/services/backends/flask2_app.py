"""PyPI Flask-JSONRPC 2.2.2, with packages of its own: JSON-RPC 1.1's `system.describe`, errors over HTTP 400 and 500.

Usage: python flask2_app.py --port N      (POST http://127.0.0.1:N/api)
"""

import argparse
from typing import Any

from flask import Flask
from flask_jsonrpc import JSONRPC
from werkzeug.serving import WSGIRequestHandler, make_server

app = Flask("demo")
rpc = JSONRPC(app, "/api", enable_web_browsable_api=False)
notes: list[list[str]] = []


@rpc.method("App.index")
def index() -> str:
    return "Welcome to Flask JSON-RPC"


@rpc.method("App.add")
def add(a: float, b: float) -> float:
    """Adds."""
    return a + b


@rpc.method("App.greet")
def greet(name: str, loudly: bool = False) -> str:
    """Greets.

    Loudly, where that is wanted.
    """
    return f"Hello {name}".upper() if loudly else f"Hello {name}"


@rpc.method("App.sort")
def sort(items: list[int], options: dict[str, Any]) -> list[int]:
    return sorted(items, reverse=options.get("reverse", False))


@rpc.method("App.note", validate=False)
def note(a, b="nothing"):  # type: ignore[no-untyped-def]
    """Takes two arguments, and is listed without any, since it has no annotations."""
    notes.append([a, b])


@rpc.method("App.notes")
def noted() -> list[list[str]]:
    return notes


@rpc.method("App.fails")
def fails(n: int) -> int:
    raise ValueError("no n")


class SilentHandler(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """No access log."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    port = parser.parse_args().port
    make_server("127.0.0.1", port, app, threaded=True, request_handler=SilentHandler).serve_forever()


if __name__ == "__main__":
    main()
