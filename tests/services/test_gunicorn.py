"""A service that ends idle connections soon: PyPI gunicorn, after a second."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit, urlunsplit

from tests.clients.tap import tapped
from tests.front import front
from tests.services.launch import gunicorn_app
from tests.waiting import PATIENCE

AT_ONCE = 8
ROUNDS = 2


async def test_no_call_is_lost_where_the_service_closes_its_idle_connections() -> None:
    with gunicorn_app(keep_alive=1) as service:
        async with tapped(service.port) as tap:
            url = urlunsplit(urlsplit(service.url)._replace(netloc=f"127.0.0.1:{tap.port}"))
            # The shared listing is not refreshed meanwhile, so that all connections get idle.
            async with front(url, "catalog.ttl=10m") as gateway:
                for _ in range(ROUNDS):
                    calls = [gateway.call("rest", "App.add", {"a": n, "b": 1}) for n in range(AT_ONCE)]
                    assert [called.value for called in await asyncio.gather(*calls)] == [n + 1 for n in range(AT_ONCE)]
                    async with asyncio.timeout(PATIENCE):
                        await tap.deserted()
                assert len(tap.asked) >= ROUNDS, "each round began with the connections of the one before closed"
