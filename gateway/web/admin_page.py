"""The page for people who run the gateway, at ``/`` on the admin port.

It says what ``/status`` and ``/metrics`` say, with what happened in the last hour, what is not offered, and the
configuration in force. A browser sees it, and its buttons work, only from loopback or ``server.admin_page.networks``,
under a name of loopback or of ``hosts``, and from a page of this port: the address stops a neighbor, the name stops DNS
rebinding, the origin stops other pages (CSRF).
"""

import asyncio
import ipaddress
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import inf
from typing import Any, Final

from gateway.errors import GatewayError
from gateway.http_server.request import HttpRequest
from gateway.http_server.response import Response
from gateway.networks import AddressReader
from gateway.settings.server import AdminPageSettings
from gateway.telemetry import cells
from gateway.telemetry.figures import ServiceFigures
from gateway.telemetry.logs import RequestLine
from gateway.telemetry.metrics import Snapshot
from gateway.text import printable
from gateway.web.pages import render
from gateway.web.public import Origins, hostname_of

_EVERY: Final = 30.0
"""Seconds from one sample to the next."""
_HOUR: Final = 3600.0
_WINDOWS: Final = (("5 minutes", 300.0), ("hour", _HOUR))
_LOOPBACK: Final = ("127.0.0.0/8", "::1/128")
_OF_NETWORKS: Final = (".svc", ".local", ".internal", ".home.arpa")
"""Ends of names that nobody outside of a network can make lead into it: of Kubernetes, of machines (RFC 8375)."""
_KEYS: Final = tuple(f"mcp_gateway_issuer_keys_{what}_seconds" for what in ("age", "max_age"))


@dataclass(slots=True)
class Calls:
    """Hold how many calls of a service there were, how many failed, and how many took how long."""

    total: float = 0.0
    failed: float = 0.0
    buckets: list[float] = field(default_factory=lambda: [0.0] * (len(cells.BUCKETS) + 1))

    def since(self, before: "Calls") -> ServiceFigures:
        """Return the figures of the time from ``before``. Counters that went back are of another process."""
        if self.total < before.total:
            before = Calls()
        counts = accumulate(now - was for now, was in zip(self.buckets, before.buckets, strict=True))
        bounds = dict(zip((*cells.BUCKETS, inf), counts, strict=True))
        return ServiceFigures(calls=self.total - before.total, failed=self.failed - before.failed, buckets=bounds)


def count_calls(found: cells.Cells) -> dict[str, Calls]:
    calls: dict[str, Calls] = {}
    for key, cell in found.items():
        if key[0] != cells.REQUEST or key[3] != "tools/call":
            continue
        one = calls.setdefault(key[1], Calls())
        number = sum(cell[: cells.SUM])
        one.total += number
        one.failed += number if cells.error_type(key[2], key[4], key[5]) else 0
        one.buckets = [total + more for total, more in zip(one.buckets, cell[: cells.SUM], strict=True)]
    return calls


def refused_row(line: RequestLine) -> dict[str, str]:
    """Return what the page shows of a refused request. JSON can express all of it, and a name may be any text."""
    name, who = printable(line.tool or line.method), printable(line.subject or line.address)
    about = {"time": line.time.isoformat(), "outcome": line.outcome, "service": line.service}
    return {**about, "name": name, "who": who, "request_id": line.request_id}


class AdminPage:
    """Make the page. ``figures`` returns the counters and gauges now; ``details`` returns ``values``, ``refused`` and
    ``left_out``, or nothing where no worker answers."""

    def __init__(
        self,
        settings: AdminPageSettings,
        figures: Callable[[], Snapshot],
        details: Callable[[], Awaitable[Mapping[str, Any]]],
    ) -> None:
        self._neighbors = AddressReader((*_LOOPBACK, *settings.networks))
        self._origins = Origins(None, settings.hosts, ())
        self._figures = figures
        self._details = details
        self._samples: deque[tuple[float, dict[str, Calls]]] = deque(maxlen=int(_HOUR / _EVERY) + 1)

    def serves(self, host: str) -> bool:
        """Return whether the port has answers under this host. A web page that a browser shows may have its own name
        lead to the port (DNS rebinding): it has a full name of the public DNS, never an address."""
        name = hostname_of(host).removesuffix(".")
        if not name:
            return False
        try:
            self._origins.check_host(name)
        except GatewayError:
            return "." not in name or name.endswith(_OF_NETWORKS) or _is_address(name)
        return True

    def admits(self, request: HttpRequest) -> bool:
        """Return whether the page and its buttons answer a request."""
        if not self._neighbors.trusts(request.connection.remote):
            return False
        try:
            self._origins.check_host(request.host)
            if (origin := request.headers.get("Origin")) is not None:
                return not self._origins.check_origin(origin, request.host)
        except GatewayError:
            return False
        return True

    async def keep_history(self) -> None:
        while True:
            self._samples.append((time.monotonic(), count_calls(self._figures()[0])))
            await asyncio.sleep(_EVERY)

    async def respond(self, unready: str | None, processes: Sequence[Mapping[str, Any]], *, reloads: bool) -> Response:
        found, _ = self._figures()
        now, calls = time.monotonic(), count_calls(found)
        samples = [*self._samples, (now, calls)]
        names = dict.fromkeys(one["name"] for process in processes for one in process["services"])
        services = [self._service(name, processes, samples, found) for name in names]
        known = dict.fromkeys(key[1:3] for key in found if key[0] in _KEYS)  # without an age: its keys never came
        issuers = [(*one, found.get((_KEYS[0], *one), [None])[0]) for one in known]
        files = next((process["configuration"] for process in processes if process["configuration"]), None)
        details = await self._details()
        return render(
            "admin.html", "/", unready=unready, services=services, issuers=issuers, configuration=files,
            reloads=reloads, problems=_problems(processes), processes=processes, has_details=bool(details),
            **{"values": [], "refused": [], "left_out": {}, **details},
        )  # fmt: skip

    def _service(
        self, name: str, processes: Sequence[Mapping[str, Any]], samples: list[tuple[float, dict[str, Calls]]],
        found: cells.Cells,
    ) -> dict[str, Any]:  # fmt: skip
        parts = [one for process in processes for one in process["services"] if one["name"] == name]
        now, current = samples[-1]
        windows = [
            (words, current.get(name, Calls()).since(_at(samples, now - seconds).get(name, Calls())))
            for words, seconds in _WINDOWS
        ]
        steps = [(after.get(name, Calls()), before.get(name, Calls())) for (_, before), (_, after) in pairwise(samples)]
        rates = [after.since(before) for after, before in steps]
        gauges = {what: found.get((f"mcp_gateway_{what}", name), [0.0])[0] for what in ("queue_length", "breaker_open")}
        return {
            "name": name, "path": parts[0]["path"], "tools": parts[0]["tools"], "quarantined": parts[0]["quarantined"],
            "age": parts[0]["listing_age"], "at_limit": sum(one.get("callers_at_limit", 0) for one in parts),
            "in_trouble": any(one["problems"] for one in parts), "windows": windows, **gauges,
            "calls_line": _line([one.calls for one in rates]), "failed_line": _line([one.failed for one in rates]),
        }  # fmt: skip


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _problems(processes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return each problem once, with the name of its service, and with the workers that have it."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for process in processes:
        for part in (*process["services"], process):
            for one in part["problems"]:
                name = part.get("name", "")
                known = found.setdefault((name, one["cause"]), {**one, "of": name, "workers": []})
                known["workers"].append(process["worker"])
    return [*found.values()]


def _at(samples: Sequence[tuple[float, dict[str, Calls]]], when: float) -> dict[str, Calls]:
    """Return the last sample that is not younger than ``when``; the first, where the history does not reach it."""
    return next((calls for at, calls in reversed(samples) if at <= when), samples[0][1])


def _line(values: Sequence[float]) -> str:
    """Return the points of a sparkline 100 wide and 30 high, "" where nothing happened."""
    most = max(values, default=0.0)
    if not most or len(values) < 2:
        return ""
    step = 100 / (len(values) - 1)
    return " ".join(f"{number * step:.1f},{29 - 28 * value / most:.1f}" for number, value in enumerate(values))
