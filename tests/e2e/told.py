"""A gateway as a process, and what its admin port says of it, held against the schema of /status."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from aiohttp import ClientSession
from jsonschema import Draft202012Validator

from tests.configuring import put
from tests.front import Front
from tests.program import Program

SCHEMA: Final = json.loads((Path(__file__).parents[2] / "config" / "status.schema.json").read_text())
CALL: Final = ("rest", "add", {"a": 2, "b": 3})


def closed(schema: Any) -> Any:
    """The schema without room for members that it does not name."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    open_yet = {name: closed(one) for name, one in schema.items()}
    return open_yet | ({"additionalProperties": False} if "properties" in schema else {})


VALIDATOR: Final = Draft202012Validator(closed(SCHEMA), format_checker=Draft202012Validator.FORMAT_CHECKER)


class Told:
    """A gateway that serves with a configuration file, and what its admin port says."""

    def __init__(self, file: Path, program: Program, session: ClientSession, ports: tuple[int, int]) -> None:
        self.file = file
        self.program = program
        self.front = Front(ports[0], session)
        self._session = session
        self._admin = f"http://127.0.0.1:{ports[1]}"

    async def status(self) -> dict[str, Any]:
        async with self._session.get(f"{self._admin}/status") as answer:
            found: dict[str, Any] = await answer.json()
        VALIDATOR.validate(found)
        return found

    async def lines(self, path: str) -> list[str]:
        async with self._session.get(f"{self._admin}{path}") as answer:
            return (await answer.text()).splitlines()

    async def shows(self, token: str) -> int:
        """The status of a listing with an access token."""
        headers = {"Authorization": f"Bearer {token}"}
        async with self._session.get(f"{self.front.mcp}/tools/list", headers=headers) as answer:
            return answer.status

    async def call(self, tool: str, address: str) -> int:
        """The status of a call from an address behind a proxy."""
        body = {"name": tool, "arguments": CALL[2] if tool == CALL[1] else {}}
        url, headers = f"{self.front.mcp}/tools/invoke", {"X-Forwarded-For": address}
        async with self._session.post(url, json=body, headers=headers) as answer:
            return answer.status

    async def refresh(self) -> None:
        async with self._session.post(f"{self._admin}/refresh") as answer:
            await answer.read()

    async def problems(self) -> list[dict[str, Any]]:
        parts = [part for one in (await self.status())["processes"] for part in (one, *one["services"])]
        return [problem for part in parts for problem in part["problems"]]


@asynccontextmanager
async def serving(
    folder: Path, url: str | None, until: str = "listing refreshed", **sections: Any
) -> AsyncIterator[Told]:
    """``serve`` once it has logged ``until``."""
    file = folder / "gateway.yaml"
    configured = {
        **({} if url is None else {"backend": {"url": url}}),
        "server": {"port": 0, "admin_port": 0, **sections.pop("server", {})},
        "auth": {"mode": "off"},
        "limits": {"invocation": "100000/second", "discovery": "1000/minute", "concurrent": 1000},
    }
    put(file, json.dumps(configured | sections))
    async with Program("serve", "--config", str(file)) as program, ClientSession() as session:
        started = await program.logged("gateway started")
        await program.logged(until)
        yield Told(file, program, session, (started["port"], started["admin_port"]))
