"""Prometheus and Alertmanager as processes on loopback, with the rules of deploy/monitoring, and who they tell.

async with Watch(folder, factor=60) as watch:
    watch.scrape("a-jsonrpc-mcp-gateway", admin_port)
    notice = await watch.told("McpGatewayStoreAway", "a-jsonrpc-mcp-gateway", within=60)
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
from aiohttp import web

from tests.monitoring import shortened
from tests.services.process import Service, require_program
from tests.waiting import until

_LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True)
class Notice:
    """What Alertmanager said of one alert, once; ``at`` is monotonic."""

    alert: str
    job: str
    labels: dict[str, str]
    annotations: dict[str, str]
    status: str
    at: float = field(default_factory=time.monotonic)


class Watch:
    """Both, while the block runs. ``factor`` divides the durations of the rules. ``notices`` are all that came."""

    def __init__(self, folder: Path, factor: int) -> None:
        self.notices: list[Notice] = []
        self._folder = folder
        self._targets: dict[str, int] = {}
        self._stack = AsyncExitStack()
        (folder / "rules.json").write_text(json.dumps(shortened(factor)))  # JSON is YAML
        self.alertmanager = Service("alertmanager", self._alertmanager)
        self.prometheus = Service("prometheus", self._prometheus)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = await self._stack.enter_async_context(aiohttp.ClientSession())
        await self._receive()
        self._place_targets()
        self._stack.enter_context(self.alertmanager)
        self._stack.enter_context(self.prometheus)
        await until(self._is_ready)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def scrape(self, job: str, admin_port: int) -> None:
        """Scrape a gateway each second from now on, or at another port than before."""
        self._targets[job] = admin_port
        self._place_targets()

    def forget(self, job: str) -> None:
        """Scrape it no longer: its alerts end."""
        if self._targets.pop(job, None) is not None:
            self._place_targets()

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """Ask Prometheus. Return the samples of now."""
        assert self._session is not None
        async with self._session.get(f"{self.prometheus.base}/api/v1/query", params={"query": expression}) as answer:
            found: list[dict[str, Any]] = (await answer.json())["data"]["result"]
        return found

    async def value(self, expression: str) -> float | None:
        """Return the one value of an expression, None where it has none."""
        samples = await self.query(expression)
        return float(samples[0]["value"][1]) if samples else None

    async def comes(self, expression: str, right: Callable[[float], bool], within: float) -> float:
        """Return the value of an expression once it is right."""

        async def value() -> float | None:
            return await self.value(expression)

        found = await until(value, lambda seen: seen is not None and right(seen), within=within)
        assert found is not None
        return found

    def of(self, alert: str, job: str) -> list[Notice]:
        """Return the notices that an alert of this job fires."""
        return [one for one in self.notices if (one.alert, one.job, one.status) == (alert, job, "firing")]

    async def told(self, alert: str, job: str, within: float) -> Notice:
        """Return the first notice of an alert, awaited."""
        return (await until(lambda: self.of(alert, job), within=within))[0]

    async def _is_ready(self) -> bool:
        assert self._session is not None
        for service, path in ((self.prometheus, "/-/ready"), (self.alertmanager, "/-/ready")):
            async with self._session.get(service.base + path) as answer:
                if answer.status != 200:
                    return False
        return True

    async def _receive(self) -> None:
        """Start what Alertmanager calls, and write its configuration."""
        runner = web.ServerRunner(web.Server(self._note), shutdown_timeout=0.1)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, _LOOPBACK, 0).start()
        url = f"http://{_LOOPBACK}:{runner.addresses[0][1]}/"
        # Each alert by itself and at once; an alert that goes on is not said again.
        route = {"receiver": "us", "group_by": ["..."], "group_wait": "0s", "group_interval": "1s"}
        configuration = {
            "route": {**route, "repeat_interval": "1h"},
            "receivers": [{"name": "us", "webhook_configs": [{"url": url, "send_resolved": True}]}],
        }
        (self._folder / "alertmanager.json").write_text(json.dumps(configuration))

    async def _note(self, request: web.BaseRequest) -> web.Response:
        for one in (await request.json())["alerts"]:
            labels = one["labels"]
            named = labels["alertname"], labels.get("job", "")
            self.notices.append(Notice(*named, labels, one["annotations"], one["status"]))
        return web.Response()

    def _place_targets(self) -> None:
        targets = [{"targets": [f"{_LOOPBACK}:{port}"], "labels": {"job": job}} for job, port in self._targets.items()]
        new = self._folder / "targets.new"
        new.write_text(json.dumps(targets))
        new.replace(self._folder / "targets.json")

    def _alertmanager(self, port: int) -> list[str]:
        return [
            require_program("prometheus-alertmanager", "prometheus-alertmanager"),
            f"--config.file={self._folder / 'alertmanager.json'}",
            f"--web.listen-address={_LOOPBACK}:{port}",
            f"--storage.path={self._folder / 'alertmanager'}",
            "--cluster.listen-address=",
        ]

    def _prometheus(self, port: int) -> list[str]:
        alertmanagers = [{"static_configs": [{"targets": [f"{_LOOPBACK}:{self.alertmanager.port}"]}]}]
        configuration = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(self._folder / "rules.json")],
            "alerting": {"alertmanagers": alertmanagers},
            "scrape_configs": [
                {
                    "job_name": "gateways",
                    "file_sd_configs": [{"files": [str(self._folder / "targets.json")], "refresh_interval": "1s"}],
                }
            ],
        }
        (self._folder / "prometheus.json").write_text(json.dumps(configuration))
        return [
            require_program("prometheus", "prometheus"),
            f"--config.file={self._folder / 'prometheus.json'}",
            f"--web.listen-address={_LOOPBACK}:{port}",
            f"--storage.tsdb.path={self._folder / 'prometheus'}",
        ]
