"""Three incidents, played through with real processes: what docs/operating.md shows of them is what they print."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import aiohttp

from lab.observe.causes import Late, tokens
from lab.observe.scene import SUM, knobs
from tests.authorization.issuer import RESOURCE, ForgedIssuer
from tests.fault.load import addresses, session
from tests.fault.scripted import ScriptedBackend
from tests.program import Program, run
from tests.waiting import until

PAGE: Final = Path(__file__).parents[2] / "docs" / "operating.md"
BEGIN, END = "<!-- made by python -m lab.incidents -->\n", "<!-- end of what is made -->\n"


@dataclass
class Play:
    """A gateway in trouble. ``shown`` is the text of the page so far, ``names`` what it says in place of addresses."""

    stack: AsyncExitStack
    shown: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    port: int = 0
    admin: str = ""
    program: Program | None = None

    async def gateway(self, url: str, *more: str) -> None:
        self.program = await self.stack.enter_async_context(Program("serve", *knobs(url, *more)))
        started = await self.program.logged("gateway started")
        self.port, self.admin = started["port"], f"http://127.0.0.1:{started['admin_port']}"

    def say(self, text: str) -> None:
        self.shown.append(f"{text}\n")

    async def status(self) -> None:
        ran = await run("status", self.admin)
        self.print("jsonrpc-mcp-gateway status", ran.out)

    async def get(self, path: str) -> str:
        async with aiohttp.ClientSession() as client, client.get(self.admin + path) as answer:
            return await answer.text()

    async def ready(self) -> None:
        lines = (await self.get("/readyz?verbose")).splitlines()[:4]
        self.print("curl -s 'admin/readyz?verbose' | head -4", "\n".join(lines))

    async def metrics(self, pattern: str) -> None:
        text = await self.get("/metrics")
        found = [line for line in text.splitlines() if re.search(pattern, line) and not line.startswith("#")]
        self.print(f"curl -s admin/metrics | grep -E '{pattern}'", "\n".join(found))

    async def logged(self, pattern: str) -> None:
        """The last line of the log of this form."""
        assert self.program is not None
        program = self.program
        await until(lambda: any(re.search(pattern, line) for line in program.lines))
        line = [line for line in program.lines if re.search(pattern, line)][-1]
        self.print(f"grep -E '{pattern}' log | tail -1", line)

    def print(self, command: str, output: str) -> None:
        text = output.strip("\n")
        for address, name in {self.admin: "http://127.0.0.1:9090", **self.names}.items():
            text = text.replace(address, name)
        self.shown.append(f"```\n$ {command}\n{text}\n```\n")

    async def call(self, caller: aiohttp.ClientSession, headers: dict[str, str]) -> int:
        url = f"http://127.0.0.1:{self.port}/mcp/tools/invoke"
        async with caller.post(url, json=SUM, headers=headers) as answer:
            await answer.read()
            return answer.status


async def slow_service(play: Play) -> None:
    play.say(
        "#### The service became slow\n\n`McpGatewayServiceSlow` fires. Is it the gateway, the queue, or the service?"
    )
    backend = await play.stack.enter_async_context(ScriptedBackend())
    await play.gateway(backend.url, "backend.connections=4", "backend.queue_timeout=1s")
    callers = [await play.stack.enter_async_context(session(one)) for one in addresses(9, 8)]
    assert await play.call(callers[0], {}) == 200
    backend.on("add", Late(1.5))
    statuses = [asyncio.create_task(play.call(caller, {})) for caller in callers for _ in range(2)]
    await until(lambda: play.get("/readyz?verbose"), lambda text: f"under way: {len(statuses)} calls" in text)
    await play.status()
    play.say("Calls wait for a slot, and those that have one take long: the service is slow. The metrics say how slow:")
    assert 200 in await asyncio.gather(*statuses)
    await play.metrics(r'call_duration_seconds_(count|sum)|requests_total.*outcome="backend')
    play.say(
        "**Cause:** the service takes seconds for a call. Calls that get no turn within `backend.queue_timeout` end "
        "with `backend_busy`, and were not sent.\n"
        "**Remedy:** look into the service; its requests have the `X-Request-Id` of the log's lines. If it can bear "
        "more at once, raise `backend.connections`. If it is slow by nature, callers are served better by a short "
        "`backend.queue_timeout` than by a long wait."
    )


async def issuer_without_keys(play: Play) -> None:
    play.say(
        "#### Nobody gets in\n\nCallers report 401 and 503 since a restart. `McpGatewayTokensRefused` may fire or not."
    )
    backend = await play.stack.enter_async_context(ScriptedBackend())
    issuer = await play.stack.enter_async_context(ForgedIssuer(RESOURCE))
    play.names[issuer.issuer] = "https://login.example.com"
    issuer.disturb("jwks", "500")
    await play.gateway(backend.url, *tokens(issuer))
    async with aiohttp.ClientSession() as caller:
        assert await play.call(caller, {"Authorization": f"Bearer {issuer.sign()}"}) == 503
    await play.ready()
    play.say("The issuer's keys cannot be read, so no token can be verified. The log has the reason of each attempt:")
    await play.logged("keys")
    play.say(
        "**Cause:** the issuer answers 500 for its keys. Keys that were read once stay in use for a while, which is "
        "why it began with the restart.\n"
        "**Remedy:** the issuer's operators. Nothing has to be restarted here: the gateway asks again by itself, and "
        "the next token that it can verify gets in."
    )


async def greedy_caller(play: Play) -> None:
    play.say(
        "#### One caller is refused\n\n`McpGatewayRateLimited` fires. Is one caller too fast, or the limit too low?"
    )
    backend = await play.stack.enter_async_context(ScriptedBackend())
    issuer = await play.stack.enter_async_context(ForgedIssuer(RESOURCE))
    play.names[issuer.issuer] = "https://login.example.com"
    await play.gateway(backend.url, *tokens(issuer), "limits.invocation=60/minute")
    async with aiohttp.ClientSession() as caller:
        for subject, calls in (("reporting-job", 30), ("ann", 3)):
            headers = {"Authorization": f"Bearer {issuer.sign(sub=subject)}"}
            for _ in range(calls):
                await play.call(caller, headers)
    await play.metrics(r'limits_refused_total|requests_total.*outcome="(ok|rate_limited)"')
    play.say("Which caller it is, no metric says, because callers would be labels without a bound. The log does:")
    await play.logged('"outcome":"rate_limited"')
    play.say(
        "**Cause:** one job calls in bursts. Others are served: a limit is each caller's own.\n"
        "**Remedy:** the response says when to come again (`Retry-After`); the job should heed it. If it may call "
        "so often, raise `limits.invocation`; give a dear tool a `limit` of its own under `catalog.tools`."
    )


_Incident: TypeAlias = Callable[[Play], Awaitable[None]]
INCIDENTS: Final[tuple[_Incident, ...]] = (slow_service, issuer_without_keys, greedy_caller)


async def played() -> str:
    """Play all of them. Return what the page has between its markers."""
    shown: list[str] = []
    for incident in INCIDENTS:
        async with AsyncExitStack() as stack:
            play = Play(stack)
            await incident(play)
            shown += play.shown
    return "\n".join(shown)


def without_figures(text: str) -> str:
    """Return the text without what differs from run to run: figures, ids, widths of columns. A minute, on a busy
    machine, is as good as a second."""
    text = re.sub(r'"(request_id|trace_id|time)":"[^"]*"', r'"\1":""', text)
    text = re.sub(r"\d+(?:[.:]\d+)*", "0", text)
    return re.sub(r"[ ]+", " ", re.sub(r"\b0 (?:ms|s|min|h)\b", "0 s", text))


def main() -> None:
    text = PAGE.read_text()
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{asyncio.run(played())}\n{END}{after}")


def shown() -> str:
    """Return what the page has between its markers now."""
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0].strip("\n")
