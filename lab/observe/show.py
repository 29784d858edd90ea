"""``make observe``: a service, a gateway, callers, Prometheus and Alertmanager with the rules, until Ctrl-C.

``python -m lab.observe.show [FACTOR]`` divides the durations of the rules, so that alerts come sooner.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from lab.observe.scene import NAME, Scene, knobs
from lab.observe.watch import Watch

_RATE: Final = 5.0
_FAILING: Final = {"name": "fail", "arguments": {}}
_P99: Final = "job_service:mcp_gateway_call_duration_seconds:p99_5m"


def _page(watch: Watch, scene: Scene, pid: int) -> str:
    graph = f"{watch.prometheus.base}/graph?g0.tab=0&g0.range_input=15m&g0.expr={quote(_P99)}"
    admin = f"http://127.0.0.1:{scene.admin_port}"
    return f"""
MCP            http://127.0.0.1:{scene.port}/mcp     {_RATE:g} calls a second, and one in five seconds that fails
metrics        {admin}/metrics
state          {admin}/readyz?verbose    {admin}/status
alerts         {watch.prometheus.base}/classic/alerts
one call in a hundred takes longer than    {graph}
Alertmanager   {watch.alertmanager.base}
dashboard      import deploy/monitoring/dashboard.json into a Grafana, with {watch.prometheus.base} as its source

kill -9 {pid} ends the gateway: McpGatewayNotScraped follows. Ctrl-C ends all of it.
"""


async def show(factor: int) -> None:
    """Start all, print what to open and each notice of Alertmanager, and end with SIGINT or SIGTERM."""
    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    with tempfile.TemporaryDirectory() as folder:
        watch = Watch(Path(folder), factor)
        async with AsyncExitStack() as stack:
            scene = Scene(NAME, watch, Path(folder), stack)
            backend = await scene.service()
            program = await scene.start(*knobs(backend.url))
            watch.scrape(NAME, scene.admin_port)  # before Prometheus starts, which else finds no gateway at first
            await stack.enter_async_context(watch)
            await scene.calls(_RATE)
            await scene.calls(_RATE / 25, _FAILING)
            print(_page(watch, scene, program.pid), flush=True)
            said = 0
            while not over.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), 1)
                for notice in watch.notices[said:]:
                    print(f"{notice.status:<9} {notice.alert}  {notice.annotations['summary']}", flush=True)
                said = len(watch.notices)
            scene.stop()


if __name__ == "__main__":
    asyncio.run(show(int(sys.argv[1]) if sys.argv[1:] else 1))
