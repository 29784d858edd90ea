"""PyPI Flask-JSONRPC 4: `rpc.describe`, errors over HTTP 400 and 500.

Usage: python flask_app.py --port N      (POST http://127.0.0.1:N/api)
"""

import argparse
from dataclasses import dataclass
from typing import Any

from flask import Flask
from flask_jsonrpc import JSONRPC
from werkzeug.serving import WSGIRequestHandler, make_server

app = Flask("demo")
rpc = JSONRPC(app, "/api", enable_web_browsable_api=False)
spendings: list[float] = []


@dataclass
class Car:
    name: str
    color: str


@rpc.method("App.index")
def index() -> str:
    """Says hello."""
    return "Welcome to Flask JSON-RPC"


@rpc.method("App.add")
def add(a: float, b: float) -> float:
    return a + b


@rpc.method("App.car")
def car(car: Car) -> Car:
    return car


@rpc.method("App.notify")
def notify(string: str) -> None:
    """Takes a string and answers null."""


@rpc.method("App.strangeEcho", validate=False)
def strange_echo(string, omg, wtf="nothing"):  # type: ignore[no-untyped-def]
    return [string, omg, wtf]


@rpc.method("App.fails")
def fails(n: int) -> int:
    raise ValueError("no n")


@rpc.method("App.spend")
def spend(amount: float) -> float:
    """Spends, then fails with a TypeError: the answer is -32602 although the money is gone.

    A caller that takes -32602 for "wrong shape of params" and tries the other shape spends twice.
    """
    spendings.append(amount)
    raise TypeError("the receipt printer is out of paper")


@rpc.method("App.spent")
def spent() -> float:
    return sum(spendings)


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
