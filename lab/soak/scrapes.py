"""What ``/metrics`` of the gateways says while the soak runs: no counter goes back, and the lines stay few."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import aiohttp

from tests.scrape import Scrape, scrape


@dataclass
class Scrapes:
    """The newest scrape of each gateway, by its admin port. ``most`` is the largest number of lines of one scrape."""

    last: dict[int, Scrape] = field(default_factory=dict)
    gone_back: list[str] = field(default_factory=list)
    most: int = 0

    async def look(self, admin_ports: Iterable[int]) -> None:
        async with aiohttp.ClientSession() as session:
            for port in admin_ports:
                now = await scrape(session, port)
                if before := self.last.get(port):
                    counters = now.counters
                    self.gone_back += [
                        f"{key}: {was} -> {counters.get(key)}"
                        for key, was in before.counters.items()
                        if counters.get(key, -1) < was
                    ]
                self.last[port] = now
                self.most = max(self.most, sum(len(family.samples) for family in now.families))

    def sum(self, name: str) -> int:
        """Return the sum of these lines, of all gateways."""
        return round(sum(each.value(name) for each in self.last.values()))
