"""Services that are added, changed and removed while three real ones are called all the time."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import ClientSession

from tests.authorization.stand import CALLS, MODERN, PUBLIC, Bearer, tools_in
from tests.e2e.several import CALLED, NAMES, Stage, stage
from tests.e2e.test_reload import RELOADED
from tests.fault.behaviours import Hang
from tests.fault.scripted import ScriptedBackend
from tests.program import Program
from tests.protocol.talk import LEGACY, Answer, Client
from tests.protocol.test_streams_alone import CHANGED, ERAS, begun, opened
from tests.waiting import PATIENCE

OPEN: Final = {"mode": "off"}
SUM: Final = {"a": 2, "b": 3}


@pytest.fixture(scope="module")
def real() -> Iterator[Stage]:
    with stage() as running:
        yield running


@dataclass
class Load:
    """Calls without a pause, and what came of them."""

    clients: Mapping[str, Bearer]
    answered: dict[str, int] = field(default_factory=lambda: dict.fromkeys(NAMES, 0))
    failed: list[Answer] = field(default_factory=list)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def call(self, name: str) -> None:
        """Call a service on each surface in turn, for ever."""
        tool, arguments = CALLED[name]
        while True:
            for surface in CALLS:
                answer = await self.clients[name].call(surface, tool, arguments)
                faulty = answer.status != 200 or "error" in answer.json
                if faulty or (surface in (MODERN, LEGACY[0]) and answer.result["isError"]):
                    self.failed.append(answer)
                async with self.news:
                    self.answered[name] += 1
                    self.news.notify_all()

    async def more(self) -> None:
        """Return once each service has answered on each surface, from now on."""
        goal = {name: count + 2 * len(CALLS) for name, count in self.answered.items()}
        async with asyncio.timeout(PATIENCE):
            async with self.news:
                await self.news.wait_for(lambda: all(self.answered[name] >= count for name, count in goal.items()))


@dataclass
class Running:
    """``serve`` with a configuration in a file, which is changed."""

    program: Program
    file: Path
    session: ClientSession
    port: int
    reloads: int = 0

    async def reload(self, tree: Mapping[str, Any]) -> list[str]:
        """Replace the file; return what the log says has changed."""
        write(self.file, tree)
        self.reloads += 1
        changed: list[str] = (await self.program.logged(RELOADED, self.reloads))["changed"]
        return changed

    def client(self, name: str, token: str | None = None) -> Bearer:
        return Bearer(self.session, self.port, token, f"/{name}")


def write(file: Path, tree: Mapping[str, Any]) -> None:
    """In one step, as editors and deployment tools do."""
    temporary = file.with_name(".new")
    temporary.write_text(json.dumps(tree))
    temporary.replace(file)


@asynccontextmanager
async def serving(file: Path, tree: Mapping[str, Any]) -> AsyncIterator[Running]:
    write(file, tree)
    async with Program("serve", "--config", str(file)) as program, ClientSession() as session:
        yield Running(program, file, session, (await program.logged("gateway started"))["port"])


async def reading(stack: AsyncExitStack, client: Client) -> list[asyncio.Task[list[Any]]]:
    """Open a stream in each era; each task ends with its stream, with the messages after the first."""
    tasks = []
    for era in ERAS:
        stream = await stack.enter_async_context(opened(client, era))
        await begun(stream, era)
        tasks.append(asyncio.create_task(stream.rest()))
    return tasks


def notices(messages: list[Any]) -> int:
    return sum(message.get("method") == CHANGED for message in messages)


async def test_services_come_change_and_go_under_load_without_a_failed_call(real: Stage, tmp_path: Path) -> None:
    more = {"backend": real.tree()["services"]["books"]["backend"], "auth": OPEN, "catalog": {"page_size": 100}}
    other = {**more, "catalog": {"page_size": 100, "exclude": ["echo"]}}
    async with serving(tmp_path / "gateway.yaml", real.tree()) as it, AsyncExitStack() as stack:
        clients = {name: it.client(name, await real.token(name)) for name in NAMES}
        load = Load(clients)
        calls = [asyncio.create_task(load.call(name)) for name in (*NAMES, *NAMES)]
        await load.more()
        streams = {name: await reading(stack, clients[name]) for name in NAMES}

        assert await it.reload(real.tree(more=more)) == ["services.more"]
        assert "echo" in tools_in(await it.client("more").list(MODERN))
        await load.more()
        coming = await reading(stack, it.client("more"))

        assert await it.reload(real.tree(more=other)) == ["services.more.catalog.exclude"]
        assert "echo" not in tools_in(await it.client("more").list(MODERN))
        await load.more()
        # Another service takes the place of one that is called all the time, and lists the same.
        knob = "services.books.limits.streams"
        assert await it.reload(real.tree(books={"limits": {"streams": 9}}, more=other)) == [knob]
        await load.more()

        assert await it.reload(real.tree(books={"limits": {"streams": 9}})) == ["services.more"]
        async with asyncio.timeout(PATIENCE):
            assert [notices(await stream) for stream in coming] == [1, 1]
        assert (await it.client("more").get("/mcp/tools/list")).status == 404
        await load.more()

        # Who may call changes at one of the three: its streams end, and no others.
        changed = {"books": {"limits": {"streams": 9}}, "files": {"auth": {"scopes": {"call": ["tutorial:read"]}}}}
        assert await it.reload(real.tree(**changed)) == ["services.files.auth.scopes.call"]
        async with asyncio.timeout(PATIENCE):
            assert [notices(await stream) for stream in streams.pop("files")] == [0, 0]
        await load.more()

        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        assert load.failed == []
        for name, tasks in streams.items():
            assert not any(task.done() for task in tasks), name
        it.program.signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            for tasks in streams.values():
                assert [notices(await task) for task in tasks] == [0, 0]
        assert await it.program.ended() == 0


@pytest.mark.parametrize("change", ["knob", "backend", "gone"])
async def test_a_call_under_way_at_a_service_that_changes_or_goes_is_answered(
    real: Stage, tmp_path: Path, change: str
) -> None:
    async with ScriptedBackend() as held, ScriptedBackend() as elsewhere:
        backend = {"url": held.url, "listing": {"dialect": "openrpc"}}
        service = {"backend": backend, "auth": OPEN}
        changed: dict[str, Any] = {
            "knob": {"more": {**service, "limits": {"discovery": "7/minute"}}},
            "backend": {"more": {**service, "backend": {**backend, "url": elsewhere.url}}},
            "gone": {},
        }
        async with serving(tmp_path / "gateway.yaml", real.tree(more=service)) as it:
            held.on("add", Hang("nothing"))
            async with asyncio.timeout(PATIENCE):
                calls = [asyncio.create_task(it.client("more").call(surface, "add", SUM)) for surface in CALLS]
                await held.called("add", len(CALLS))
                await it.reload(real.tree(**changed[change]))
                assert not any(call.done() for call in calls)
                held.release.set()
                for call in calls:
                    answer = await call
                    assert answer.status == 200, answer
                    assert b'"sum":5' in answer.body.replace(b" ", b"")
            assert held.calls("add") == len(CALLS)
            assert (await it.client("books", await real.token("books")).call("tool", "add", SUM)).result == 5


async def test_a_faulty_service_in_the_file_leaves_all_of_them_as_they_are(real: Stage, tmp_path: Path) -> None:
    taken = {"auth": {"issuers": [{"issuer": real.oidc.issuer, "audiences": [f"{PUBLIC}/site/mcp"]}]}}
    async with serving(tmp_path / "gateway.yaml", real.tree()) as it, AsyncExitStack() as stack:
        clients = {name: it.client(name, await real.token(name)) for name in NAMES}
        streams = [task for client in clients.values() for task in await reading(stack, client)]
        write(it.file, real.tree(files=taken, books={"limits": {"streams": 3}}))
        entry = await it.program.logged("configuration refused, the old one stays")
        assert "would be accepted by the services site, files" in entry["faults"][0]
        for name, client in clients.items():
            assert (await client.call("tool", *CALLED[name])).status == 200
        assert not any(task.done() for task in streams)
        for task in streams:
            task.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
