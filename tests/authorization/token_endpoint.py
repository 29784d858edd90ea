"""An authorization server's token endpoint, as a real server on loopback that records what it is asked."""

from __future__ import annotations

import asyncio
import json
import ssl
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qs

from aiohttp import web
from pytest_aiohttp.plugin import AiohttpServer

from gateway.credentials.grants import ACCESS_TOKEN_TYPE

OWN: Final = "backend.credentials.mode=client_credentials"
EXCHANGE: Final = ("backend.credentials.mode=token_exchange", "backend.credentials.audience=b")


class TokenEndpoint:
    """An authorization server's token endpoint. ``answer`` makes status and body of a form; while ``gate`` is closed
    it hangs."""

    def __init__(self) -> None:
        self.url = ""
        self.forms: list[dict[str, str]] = []
        self.clients: list[str] = []
        self.arrived = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.answer: Callable[[Mapping[str, str]], tuple[int, Any]] = lambda form: (200, self.grant(form))

    def knobs(self, *more: str) -> tuple[str, ...]:
        """What a gateway needs that gets its tokens here, and more."""
        login = ("backend.credentials.client_id=gw", "backend.credentials.client_secret=s3cret-of-the-gateway")
        return (f"backend.credentials.token_endpoint={self.url}", *login, *more)

    def grant(self, form: Mapping[str, str], **changes: Any) -> dict[str, Any]:
        """A token that says whom it was given for and how many were given before; a change to None leaves out."""
        whom = form.get("subject_token", "the gateway").replace(" ", "-")
        token = f"{whom}.at-backend.{len(self.forms)}"
        members = {"access_token": token, "token_type": "Bearer", "expires_in": 300}
        if "subject_token" in form:
            members["issued_token_type"] = ACCESS_TOKEN_TYPE
        return {name: value for name, value in (members | changes).items() if value is not None}

    async def serve(self, request: web.Request) -> web.Response:
        form = {name: values[0] for name, values in parse_qs((await request.read()).decode()).items()}
        self.forms.append(form)
        self.clients.append(b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode())
        self.arrived.set()
        await self.gate.wait()
        status, body = self.answer(form)
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Location": "/moved"} if 300 <= status < 400 else None
        return web.Response(status=status, body=raw, headers=headers, content_type="application/json")


async def start_token_endpoint(serve: AiohttpServer, tls: ssl.SSLContext | None = None) -> TokenEndpoint:
    """A running one, until the test ends; ``moved`` on the same server records as well, so that whoever follows a
    redirect is seen. ``serve`` is the fixture ``aiohttp_server``."""
    endpoint = TokenEndpoint()
    application = web.Application()
    application.router.add_post("/token", endpoint.serve)
    application.router.add_route("*", "/moved", endpoint.serve)
    # What hangs is over as soon as its client is gone.
    server = await serve(application, ssl=tls, shutdown_timeout=0.1)
    endpoint.url = str(server.make_url("/token"))
    return endpoint
