"""Knobs of listings, lists, streams, tokens and lines."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import aiohttp

from lab.tuning.stand import KIB, SUM, Slow, Stand, many, stand
from tests.authorization.issuer import ForgedIssuer
from tests.fault.behaviours import CLOSE, result
from tests.fault.methods import METHODS, openrpc
from tests.protocol.talk import modern_headers, modern_request
from tests.waiting import until

_TOKEN_BYTES: Final = 4
"""Bytes of JSON in English that a model's tokenizer makes a token of, about."""
_PUBLIC: Final = "https://gw.example.com"


async def ttl(value: str) -> str:
    async with stand(f"catalog.ttl={value}") as it:
        before = it.service.calls("rpc.discover")
        await asyncio.sleep(6)
        return f"{(it.service.calls('rpc.discover') - before) * 10} listings a minute"


async def max_stale(value: str) -> str:
    async with stand("catalog.ttl=200ms", f"catalog.max_stale={value}") as it:
        it.service.on("rpc.discover", CLOSE)
        await asyncio.sleep(3)
        status = await _list_status(it)
        return f"a list gets {status}"


async def listing_timeout(value: str) -> str:
    async with stand(f"backend.listing.timeout={value}") as it:
        it.service.on("rpc.discover", Slow(1.5, result(openrpc(METHODS))))
        async with it.session.post(f"http://127.0.0.1:{it.admin}/refresh") as response:
            return "the listing fails" if response.status != 200 else "the listing comes"


async def include(value: str) -> str:
    async with stand(f"catalog.include={value}", methods=many(200)) as it:
        return size(await it.list_text())


async def search(value: str) -> str:
    async with stand(f"catalog.search={value}", methods=many(200)) as it:
        return size(await it.list_text())


def size(text: str) -> str:
    """Return how long a list is."""
    tools = len(json.loads(text)["result"]["tools"])
    return f"{tools} tools, {len(text) / KIB:.0f} KiB, about {len(text) // _TOKEN_BYTES:,} tokens"


async def page_size(value: str) -> str:
    async with stand(f"catalog.page_size={value}", "catalog.search=false", methods=many(1000)) as it:
        before = await it.metrics()
        tools = await it.front.tools()
        lists = (await it.metrics()).grown(
            before, "mcp_server_operation_duration_seconds_count", mcp_method_name="tools/list"
        )
        return f"{lists:.0f} requests for {len(tools):,} tools"


async def discovery(value: str) -> str:
    async with stand(f"limits.discovery={value}") as it:
        statuses = await asyncio.gather(*(_list_status(it) for _ in range(100)))
        return f"{statuses.count(429)} of 100 refused"


async def _list_status(it: Stand) -> int:
    async with it.session.get(f"{it.front.mcp}/tools/list") as response:
        return response.status


async def streams(value: str) -> str:
    async with stand(f"limits.streams={value}") as it:
        opened = await asyncio.gather(*(_listen(it) for _ in range(48)))
        try:
            return f"{sum(response.status == 429 for response in opened)} of 48 refused"
        finally:
            for response in opened:
                response.close()


async def _listen(it: Stand) -> aiohttp.ClientResponse:
    body = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    headers = {"Accept": "application/json, text/event-stream", **modern_headers("subscriptions/listen")}
    return await it.session.post(it.front.mcp, json=body, headers=headers)


async def heartbeat(value: str) -> str:
    async with stand(f"mcp.heartbeat={value}") as it:
        response = await _listen(it)
        await response.content.readany()  # the acknowledgement
        came = 0
        with contextlib.closing(response), contextlib.suppress(TimeoutError):
            async with asyncio.timeout(6):
                while data := await response.content.readany():
                    came += len(data)
        return f"{came * 10} bytes a minute"


async def introspection(value: str) -> str:
    resource = f"{_PUBLIC}/mcp"
    async with ForgedIssuer(resource) as issuer:
        token = {"active": True, "client_id": "client", "sub": "ann", "aud": resource, "exp": int(time.time()) + 600}
        issuer.introspections["opaque"] = token
        asked = f"{{issuer: '{issuer.issuer}', introspection: {{client_id: gw, cache: {value}}}}}"
        knobs = ("auth.mode=jwt", f"auth.issuers=[{asked}]", "backend.credentials.mode=none")
        async with stand(f"server.public_url={_PUBLIC}", *knobs) as it:
            for _ in range(60):
                called = await it.front.call("rest", "add", SUM, {"Authorization": "Bearer opaque"})
                assert called.status == 200, called.text
                await asyncio.sleep(0.05)
        return f"{issuer.count('introspection')} questions for 60 calls in 3 s"


async def audit(value: str) -> str:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "audit"
        async with stand(f"telemetry.audit.to={file}", f"telemetry.audit.arguments={value}") as it:
            for _ in range(100):
                await it.front.call("rest", "echo", {"value": "a text of a hundred bytes " * 4})
            await until(lambda: file.read_bytes().count(b"\n") >= 100)
        return f"{file.stat().st_size / 100:.0f} bytes a call"


async def log_requests(value: str) -> str:
    async with stand(f"telemetry.log.requests={value}") as it:
        before = len(it.program.output)
        for _ in range(100):
            await it.add()
        await it.metrics()
        await asyncio.sleep(0.5)  # lines are written behind the answers
        return f"{(len(it.program.output) - before) / 100:.0f} bytes a call"
