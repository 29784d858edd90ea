"""Count what a service is asked at the first contact, and write the table in docs/reach.md: ``python -m
lab.reach.first_contact``, which ``make reach`` runs.

A service of ours keeps every request: what is counted is what came, by ``check`` as a program.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from aiohttp.test_utils import TestServer

from lab.reach.table import with_table
from tests.program import run, settings

PAGE: Final = Path(__file__).parents[2] / "docs" / "reach.md"
BEGIN: Final = "<!-- make reach writes the table of the first contact -->"
END: Final = "<!-- end of the table of the first contact -->"
_MANY: Final = 3000
_EXACT: Final = 100
_SHOWN: Final = 3
"""Methods, and paths, that are named in a cell; the others are counted."""
_LISTING: Final = {
    "openrpc": "1.3.2",
    "info": {"title": "Rooms", "version": "1"},
    "methods": [{"name": "rooms.free", "params": [], "result": {"name": "count", "schema": {"type": "integer"}}}],
}
_DESCRIBED: Final = {"system.methodSignature": [["int", "int"]], "system.methodHelp": "Count the free rooms."}


@dataclass
class Asked:
    """What a service was asked: how many requests by verb, path and method, "" for what is no JSON-RPC."""

    requests: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def of(self, verb: str, part: int) -> Counter[str]:
        """Count the paths (1) or methods (2) of a verb, the most frequent first."""
        counted: Counter[str] = Counter()
        for request, count in self.requests.items():
            if request[0] == verb and request[part]:
                counted[request[part]] += count
        return counted

    @property
    def total(self) -> int:
        return self.requests.total()


Answer = Callable[[str, str], web.Response]
"""What a service answers to a message: its method and its id."""


def _result(value: Any, id: str) -> web.Response:
    return web.json_response({"jsonrpc": "2.0", "id": id, "result": value})


def _unknown(_: str, id: str) -> web.Response:
    return web.json_response({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}})


def _lists(method: str, id: str) -> web.Response:
    return _result(_LISTING, id) if method == "rpc.discover" else _unknown(method, id)


def _lists_many(method: str, id: str) -> web.Response:
    names = [*(f"rooms.free{number}" for number in range(_MANY)), *_DESCRIBED]
    answers = {"system.listMethods": names, **_DESCRIBED}
    return _result(answers[method], id) if method in answers else _unknown(method, id)


def _always(status: int, **headers: str) -> Answer:
    return lambda _, __: web.Response(status=status, headers=headers, text="no")


CASES: Final[dict[str, Answer]] = {
    "lists with `rpc.discover`": _lists,
    "lists nothing: each method is unknown": _unknown,
    "refuses the password (401)": _always(401, **{"WWW-Authenticate": 'Basic realm="here"'}),
    "is not there (404)": _always(404),
    "wants a pause (429, Retry-After: 120)": _always(429, **{"Retry-After": "120"}),
    f"lists {_MANY:,} names with `system.listMethods`": _lists_many,
}
_PASSWORD: Final = "backend.credentials={mode: basic, user: gateway, password: wrong}"


@asynccontextmanager
async def _service(answer: Answer) -> AsyncIterator[tuple[str, Asked]]:
    """A service that keeps what it is asked: its endpoint, and that."""
    asked = Asked()

    async def handle(request: web.Request) -> web.Response:
        raw = await request.read()
        try:
            message = json.loads(raw) if raw else {}
        except ValueError:
            message = {}
        method = str(message.get("method", "")) if isinstance(message, dict) else ""
        asked.requests[request.method, request.path, method] += 1
        if request.method != "POST" or request.path != "/rpc":
            return web.Response(status=answer("", "").status if answer("", "").status >= 400 else 404, text="no")
        return answer(method, message.get("id", ""))

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    async with TestServer(application, host="127.0.0.1") as server:
        yield str(server.make_url("/rpc")), asked


async def asked_by_check(answer: Answer) -> Asked:
    """Return what ``check`` asks a service. It has a password, as most services want one."""
    async with _service(answer) as (url, asked):
        await run("check", *settings(url, _PASSWORD))
    return asked


def _named(counted: Counter[str]) -> str:
    names = [f"`{name}`" + f" ({_about(count)} times)" * (count > 1) for name, count in counted.most_common(_SHOWN)]
    more = len(counted) - _SHOWN
    return ", ".join([*names, *([f"{more} more"] if more > 0 else [])]) or "none"


def _about(count: int) -> str:
    """Return a count, or "many": how many questions fit into the time for a listing depends on the machine."""
    return str(count) if count < _EXACT else "many"


def table(rows: dict[str, Asked]) -> str:
    """Return the table in Markdown."""
    lines = ["| the service | requests | methods, by POST | paths, by GET |", "|---|---|---|---|"]
    for what, asked in rows.items():
        lines.append(
            f"| {what} | {_about(asked.total)} | {_named(asked.of('POST', 2))} | {_named(asked.of('GET', 1))} |"
        )
    return "\n".join(lines)


async def main() -> int:
    rows = {what: await asked_by_check(answer) for what, answer in CASES.items()}
    text = table(rows)
    print(text)
    PAGE.write_text(with_table(PAGE.read_text(), text, BEGIN, END))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
