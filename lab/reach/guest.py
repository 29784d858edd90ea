"""What the owner of a real service sees of a first contact that does harm: to a user, and to the service.

``python -m lab.reach.guest``, which ``make reach`` runs, prints a line for each, and ends with 1 where one is not as it
should be.

- A wrong password before a real nginx: what fail2ban's own filter finds in its log. No daemon of it runs.
- Debian's ``JSON::RPC::Legacy``, which refuses all calls after one GET until its restart.
- libjson-rpc-cpp on a Unix socket, which takes one message for each connection.
- pjrpc, where the address of its document is taken for the endpoint.
- django-modern-rpc behind nginx' ``limit_req``: the listing takes two questions for each method.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Final

from aiohttp import ClientSession

from lab.reach.launch import django_modern_rpc, pjrpc
from tests.front import Front
from tests.nginx import Nginx
from tests.program import Program, run, settings
from tests.services.process import Service, ServiceMissing
from tests.waiting import until

SERVED: Final = 20.0
"""Seconds for which ``serve`` runs, in which it would list some ten times."""
CREDENTIALS: Final = "backend.credentials={mode: basic, user: gateway, password: wrong}"
APP: Final = Path(__file__).parent / "apps" / "legacy_daemon.pl"
ONE_CALL: Final = APP.with_name("one_call.cpp")
_LIBRARIES: Final = ("-I/usr/include/jsoncpp", "-ljsonrpccpp-server", "-ljsonrpccpp-common", "-ljsoncpp")
_CALLS: Final = 40
_METHODS: Final = 40
_WITHIN: Final = 60.0
_MATCHES: Final = re.compile(r"^Failregex: (\d+) total", re.MULTILINE)


async def matches(log: Path) -> int:
    """Return how many lines of a log fail2ban counts as failed logins. Raise ServiceMissing."""
    program = shutil.which("fail2ban-regex")
    if program is None:
        raise ServiceMissing("fail2ban-regex is missing: run tests/install.sh PYTHON reach")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(program, str(log), "nginx-http-auth", stdout=pipe, stderr=pipe)
    said, _ = await process.communicate()
    found = _MATCHES.search(said.decode())
    return int(found[1]) if found else -1


async def wrong_password() -> list[tuple[str, int, int]]:
    """Return what was done, the failed logins that fail2ban found after it, and how many there may be."""
    with tempfile.TemporaryDirectory() as name:
        log, users = Path(name, "error.log"), Path(name, "users")
        await asyncio.to_thread(users.write_text, "gateway:{PLAIN}right\n")
        directives = f'error_log {log} error; auth_basic "here"; auth_basic_user_file {users};'
        async with Nginx([1], directives) as nginx:
            url = f"http://127.0.0.1:{nginx.port}/rpc"
            await run("check", *settings(url, CREDENTIALS))
            rows = [("check with a wrong password", await matches(log), 1)]
            async with Program("serve", *settings(url, CREDENTIALS)) as program:
                await program.logged("listing failed")
                await asyncio.sleep(SERVED)
            rows.append((f"then serve, for {SERVED:g} s", await matches(log), 2))
    return rows


def calls(url: str) -> int:
    """Return how many of two calls the service answers."""
    body = json.dumps({"version": "1.1", "id": 1, "method": "echo", "params": ["here"]}).encode()
    right = 0
    for _ in range(2):
        try:
            with urllib.request.urlopen(url, body, timeout=10) as answer:
                right += json.load(answer)["result"] == ["here"]
        except OSError:
            continue
    return right


async def harmed_by_get() -> tuple[str, int, int]:
    """Return what was done, the calls that the service still answers, and how many it was sent."""
    with Service("perl", lambda port: ["perl", str(APP), str(port)], "/jsonrpc/API") as service:
        await run("check", *settings(service.url))
        return "calls of JSON::RPC::Legacy that work after check", await asyncio.to_thread(calls, service.url), 2


async def address_of_document() -> tuple[str, int, int]:
    """Return what was done, the exit code of ``check``, which names the endpoint, and the code that it should be."""
    with pjrpc() as service:
        ran = await run("check", *settings(f"{service.url}/openrpc.json"))
    return "check of the address of pjrpc's document", ran.code if f"{service.url}" in ran.said else -1, 3


async def limited() -> tuple[str, int, int]:
    """Return what was done, the tools that are listed a minute after the start, and how many there are."""
    zone = "limit_req_zone $binary_remote_addr zone=all:1m rate=5r/s;"
    with django_modern_rpc(more=_METHODS - 2) as service:
        async with Nginx([service.port], "limit_req zone=all burst=5;", zone) as nginx, ClientSession() as session:
            url = f"http://127.0.0.1:{nginx.port}/rpc"
            async with Program("serve", *settings(url)) as program:
                gateway = Front((await program.logged("gateway started"))["port"], session)
                began, listed = time.monotonic(), 0
                while listed < _METHODS and time.monotonic() - began < _WITHIN:
                    await asyncio.sleep(1.0)
                    listed = await _count(gateway)
    return f"tools of django-modern-rpc behind limit_req after {_WITHIN:g} s", listed, _METHODS


async def one_call_each() -> tuple[str, int, int]:
    """Return what was done, the calls that were right, and how many were made, eight at a time."""
    compiler = shutil.which("g++")
    if compiler is None:
        raise ServiceMissing("g++ is missing: run tests/install.sh PYTHON reach")
    with tempfile.TemporaryDirectory() as name:
        program, listening = Path(name, "one_call"), Path(name, "socket")
        compiling = await asyncio.create_subprocess_exec(compiler, str(ONE_CALL), "-o", str(program), *_LIBRARIES)
        assert await compiling.wait() == 0
        service = await asyncio.create_subprocess_exec(str(program), str(listening))
        try:
            await until(listening.exists)
            async with Program("serve", *settings(f"unix:{listening}")) as gateway, ClientSession() as session:
                await gateway.logged("listing refreshed")
                front = Front((await gateway.logged("gateway started"))["port"], session)
                eight = asyncio.Semaphore(8)

                async def is_right(number: int) -> bool:
                    async with eight:
                        called = await front.call("rest", "add", {"a": number, "b": 1})
                        return not called.failed and called.value == number + 1

                right = sum(await asyncio.gather(*map(is_right, range(_CALLS))))
        finally:
            service.kill()
            await service.wait()
    return "calls of libjson-rpc-cpp, which takes one for each connection, that are right", right, _CALLS


async def _count(gateway: Front) -> int:
    with suppress(AssertionError):  # nothing is listed yet
        return len(await gateway.tools("rest"))
    return 0


async def main() -> int:
    rows = [
        *await wrong_password(),
        await harmed_by_get(),
        await one_call_each(),
        await address_of_document(),
        await limited(),
    ]
    for what, seen, wanted in rows:
        print(f"{what}: {seen} of {wanted}")
    return 0 if all(seen == wanted for _, seen, wanted in rows) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
