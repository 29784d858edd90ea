"""What ``/metrics`` of a gateway says, as numbers.

before = await scrape(session, gateway.admin_port)
...
after = await scrape(session, gateway.admin_port)
assert after.grown(before, "mcp_gateway_requests_total", outcome="ok") == 1

The counters are the process's, which may have run other gateways before: so tests compare.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from aiohttp import ClientSession
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_text

OPEN: Final = "application/openmetrics-text"


@dataclass(frozen=True)
class Scrape:
    """The families of one scrape, and its text."""

    text: str
    families: list[Metric]

    def lines(self, name: str, **labels: str) -> Iterator[float]:
        """The values of the lines of a name that have these labels."""
        for family in self.families:
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    yield sample.value

    def value(self, name: str, **labels: str) -> float:
        """The sum of these lines."""
        return sum(self.lines(name, **labels))

    def grown(self, before: Scrape, name: str, **labels: str) -> float:
        """How much these lines have grown together."""
        return self.value(name, **labels) - before.value(name, **labels)

    @property
    def counters(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """Every line that must never go back."""
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in self.families
            if family.type in ("counter", "histogram") and not family.name.startswith("process_")
            for sample in family.samples
            if not sample.name.endswith("_created")
        }


async def scrape(session: ClientSession, admin_port: int, accept: str = "") -> Scrape:
    async with session.get(f"http://127.0.0.1:{admin_port}/metrics", headers={"Accept": accept}) as response:
        assert response.status == 200
        text = await response.text()
        parse = parse_open if accept else parse_text
        assert response.content_type == (accept or "text/plain")
    return Scrape(text, list(parse(text)))
