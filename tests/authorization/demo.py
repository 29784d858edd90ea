"""``make demo-oauth``: a real authorization server, a bookshop that wants tokens, and the gateway between them.

It types the commands of the README's "With OAuth" for you, with what they print, and then serves until Ctrl-C, so that
you can type more. ``--once`` ends it after that.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import jwt

from gateway.cli.demo import Bookshop, free_or_any
from gateway.config.source import load_settings
from gateway.http_server.request import HttpRequest
from gateway.http_server.response import Response
from gateway.process.server import Server
from gateway.telemetry import logs
from tests.authorization.servers import OidcProvider, Resource, oidc_provider
from tests.services.process import ServiceFailed, free_port

READ: Final = "books:read"
ORDER: Final = "orders:write"


class Guarded(Bookshop):
    """The bookshop, which checks tokens itself: a service must not trust that only the gateway can reach it."""

    def __init__(self, server: OidcProvider, resource: str) -> None:
        self._server = server
        self._resource = resource
        super().__init__()
        self._keys: jwt.PyJWKSet | None = None

    async def __call__(self, request: HttpRequest) -> Response:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        try:
            if self._keys is None:
                self._keys = jwt.PyJWKSet.from_dict(await self._server.jwks())
            key = self._keys[jwt.get_unverified_header(token)["kid"]]
            jwt.decode(token, key, audience=self._resource, issuer=self._server.issuer)
        except (jwt.PyJWTError, KeyError):
            return Response(status=401, headers={"WWW-Authenticate": "Bearer"})
        return await super().__call__(request)


@asynccontextmanager
async def bookshop(server: OidcProvider, resource: str) -> AsyncIterator[str]:
    port = await Guarded(server, resource).listen(0)
    try:
        yield f"http://127.0.0.1:{port.number}/jsonrpc"
    finally:
        await port.close()


@asynccontextmanager
async def gateway(issuer: str, backend: str, port: int, *more: str) -> AsyncIterator[str]:
    settings = load_settings(
        None,
        [
            f"backend.url={backend}",
            f"backend.credentials.backend_audience=http://127.0.0.1:{port}/mcp",
            f"server.port={port}",
            f"server.admin_port={free_port()}",
            f"auth.issuers=[{{issuer: {issuer}}}]",
            f"auth.scopes={{list: [{READ}], call: [{READ}], challenge: all}}",
            f"catalog.tools={{orders.*: {{scopes: [{ORDER}]}}}}",
            *more,
        ],
        environ={},
    )
    running = Server(settings)
    await running.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await running.stop()


def script(server: OidcProvider, gateway: str) -> list[str]:
    """The commands, as a person would type them."""
    client, secret = server.machine.id, server.machine.secret
    json_body = "-H 'Content-Type: application/json'"
    bearer = '-H "Authorization: Bearer $TOKEN"'
    return [
        f"curl -si {gateway}/mcp/tools/list | grep -e HTTP -e WWW",
        f"curl -s {gateway}/.well-known/oauth-protected-resource/mcp",
        f"curl -s -u {client}:{secret} {server.issuer}/token -d grant_type=client_credentials"
        f" -d resource={gateway}/mcp -d scope={READ} -o token.json",
        'TOKEN=$(sed \'s/.*"access_token":"\\([^"]*\\).*/\\1/\' token.json)',
        f"curl -s {gateway}/mcp/tools/list {bearer} | tr , '\\n' | grep '\"name\"'",
        f"curl -s {gateway}/mcp/tools/invoke {bearer} {json_body}"
        ' -d \'{"name": "books.search", "arguments": {"query": "sea"}}\'',
        f"curl -si {gateway}/mcp/tools/invoke {bearer} {json_body}"
        ' -d \'{"name": "orders.create", "arguments": {"isbn": "9780142437247"}}\' | grep -e HTTP -e WWW',
    ]


async def play(commands: list[str], folder: Path, say: Callable[[str], None]) -> list[str]:
    """Run the commands in one shell and show each with its output; returns the outputs."""
    mark = "--- next command ---"
    program = "\n".join(
        f"{command}\nstatus=$?; echo; echo '{mark}'; test $status = 0 || exit 1" for command in commands
    )
    shell = await asyncio.create_subprocess_exec(
        "bash", "-c", program, cwd=folder, stdout=asyncio.subprocess.PIPE, env={"PATH": os.environ["PATH"]}
    )
    stdout, _ = await shell.communicate()
    outputs = [output.strip() for output in stdout.decode().split(mark)[:-1]]
    for command, output in zip(commands, outputs, strict=False):
        say(f"$ {command}")
        say(f"{output}\n" if output else "")
    if shell.returncode:
        raise RuntimeError(f"failed: {shlex.quote(commands[len(outputs) - 1])}")
    return outputs


async def run(say: Callable[[str], None], *, once: bool, port: int = 0) -> list[str]:
    """Start everything and play the script; returns what each command printed."""
    logs.configure("error", "text")
    port = port or free_port()
    resource = f"http://127.0.0.1:{port}/mcp"
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    async with (
        oidc_provider([Resource(resource, (READ, ORDER))]) as server,
        bookshop(server, resource) as backend,
        gateway(server.issuer, backend, port) as url,
    ):
        say(f"authorization server   {server.issuer} (oidc-provider)")
        say(f"bookshop               {backend}, which takes tokens for {resource} alone")
        say(f"gateway                {url}/mcp\n")
        with TemporaryDirectory() as folder:
            outputs = await play(script(server, url), Path(folder), say)
        if not once:
            say("All of it goes on running; a token is good for an hour. Ctrl-C ends it.")
            await stop.wait()
    return outputs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--once", action="store_true", help="end after the commands")
    parser.add_argument(
        "--port", type=int, default=8080, help="the gateway's; a free one if it is in use (default: %(default)s)"
    )
    arguments = parser.parse_args()
    try:
        asyncio.run(run(lambda line: print(line, flush=True), once=arguments.once, port=free_or_any(arguments.port)))
    except (OSError, ServiceFailed) as error:
        sys.exit(f"The demo cannot start: {error}")


if __name__ == "__main__":
    main()
