"""A stand-in for FortiManager, which cannot be installed from a registry: its oddities as its documentation has them.

One path, one certificate that it made itself, and for another name. Three methods; each takes a list with one object,
whose url is what others would call the method. The session stands beside the result, and goes into each message. An
error is a result with a status. No answer has a member "jsonrpc".

Usage: python fortimanager.py --port N      (POST https://127.0.0.1:N/jsonrpc; user admin, password sesame-0pens)
"""

from __future__ import annotations

import argparse
import ssl
from typing import Any, Final

import trustme
from aiohttp import web

SESSION: Final = "nT1+s/cfKlv7dZl4=="
LOGIN: Final = {"user": "admin", "passwd": "sesame-0pens"}
DEVICES: Final = {"/dvmdb/device/branch-1": {"name": "branch-1", "ip": "192.0.2.7", "conn_status": 1}}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to one request."""
    (asked,) = message["params"]
    url, status, more, found = asked["url"], {"code": 0, "message": "OK"}, {}, {}
    if url == "/sys/login/user":
        if asked.get("data") == LOGIN:
            more = {"session": SESSION}
        else:
            status = {"code": -22, "message": "Login fail"}
    elif message.get("session") != SESSION:
        status = {"code": -11, "message": "No permission for the resource"}
    elif message["method"] == "update":
        DEVICES[url].update(asked["data"])
    elif message["method"] == "get" and url in DEVICES:
        found = {"data": DEVICES[url]}
    else:
        status = {"code": -3, "message": "Object does not exist"}
    return {"id": message.get("id"), "result": [{**found, "status": status, "url": url}], **more}


async def serve(request: web.Request) -> web.Response:
    try:
        return web.json_response(answer(await request.json()))
    except (LookupError, TypeError, ValueError):
        status = {"code": -32600, "message": "Invalid request"}
        return web.json_response({"id": None, "result": [{"status": status, "url": "/"}]})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("FMG-VM0000000000").configure_cert(context)
    application = web.Application()
    application.router.add_post("/jsonrpc", serve)
    web.run_app(application, host="127.0.0.1", port=parser.parse_args().port, ssl_context=context, print=None)
