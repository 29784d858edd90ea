"""PyPI openrpc's RPCServer behind a small HTTP wrapper: by name and by position, `rpc.discover`.

Usage: python openrpc_app.py --port N      (POST http://127.0.0.1:N/jsonrpc)
"""

import argparse
import asyncio
import warnings
from typing import Any

from aiohttp import web
from openrpc import OpenRPCError, RPCServer
from pydantic import BaseModel

with warnings.catch_warnings():
    # Its successor RPCApp is another API; the services in use are built with RPCServer.
    warnings.simplefilter("ignore", DeprecationWarning)
    rpc = RPCServer(title="Demo", version="1.0.0")

BEYOND_64_BITS = 2**70 + 1


class Vector3(BaseModel):
    x: float
    y: float
    z: float = 0.0


class Node(BaseModel):
    """Recursive model."""

    name: str
    children: list["Node"] = []


@rpc.method(summary="Add two integers.", description="Longer text.")
def add(a: int, b: int = 2) -> int:
    return a + b


@rpc.method()
def cross(u: Vector3, v: Vector3) -> Vector3:
    return Vector3(x=u.y * v.z - u.z * v.y, y=u.z * v.x - u.x * v.z, z=u.x * v.y - u.y * v.x)


@rpc.method()
def walk(node: Node, depth: int | None = None) -> list[str]:
    if depth == 0:
        return [node.name]
    deeper = None if depth is None else depth - 1
    return [node.name, *(name for child in node.children for name in walk(child, deeper))]


@rpc.method()
def ping() -> None:
    """Answers null."""


@rpc.method(deprecated=True)
def untyped(x, y=None):  # type: ignore[no-untyped-def]
    return [x, y]


@rpc.method()
def echo(value: Any) -> Any:
    """Answers any JSON value as it came."""
    return value


@rpc.method()
def big() -> int:
    """Answers an integer that no 64-bit number and no float holds."""
    return BEYOND_64_BITS


@rpc.method()
def withdraw(amount: int) -> int:
    """An application's own error: code 1001 with data, when the amount is more than 100."""
    if amount > 100:
        raise OpenRPCError(code=1001, message="Insufficient funds", data={"balance": 100})
    return 100 - amount


@rpc.method()
def crash() -> None:
    """An error that the method did not foresee: -32000 "Server error"."""
    raise RuntimeError("not foreseen")


@rpc.method()
async def slow(seconds: float) -> float:
    """Answers after that many seconds."""
    await asyncio.sleep(seconds)
    return seconds


async def answer(request: web.Request) -> web.Response:
    """One HTTP exchange; a notification has nothing to answer with."""
    body = await rpc.process_request_async(await request.read())
    if body is None:
        return web.Response(status=204, content_type="application/json")
    return web.Response(text=body, content_type="application/json")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    app = web.Application(client_max_size=64 * 1024**2)
    app.router.add_post("/jsonrpc", answer)
    web.run_app(app, host="127.0.0.1", port=parser.parse_args().port, print=None)


if __name__ == "__main__":
    main()
