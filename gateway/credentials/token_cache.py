"""Cache tokens until shortly before they expire, and fetch each once for all who wait.

A token is kept as the parts of a request that carry it: what is found out about them, like the forms in which a result
may quote the token, is then found out once for each token and not for each call.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

from cachetools import TLRUCache

from gateway.backend.request_parts import RequestParts
from gateway.concurrency.single_flight import SingleFlight
from gateway.credentials.grants import Grant

MAX_TOKENS: Final = 10_000
MARGIN: Final = 30.0
"""Seconds before its end from which a token is no longer used: clocks differ, and requests take time."""
UNKNOWN_LIFETIME: Final = 60.0
"""Seconds for which a token is kept when the server does not say how long it is valid."""


class TokenCache:
    """Hold tokens by key. ``clock`` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._tokens: TLRUCache[bytes, tuple[RequestParts, float]] = TLRUCache(
            MAX_TOKENS, ttu=lambda _, entry, now: now + entry[1], timer=clock
        )
        self._fetches = SingleFlight[bytes, RequestParts]()

    def __repr__(self) -> str:
        return f"<TokenCache {len(self._tokens)} tokens, {self._fetches!r}>"

    async def get_parts(
        self, key: bytes, fetch: Callable[[], Awaitable[Grant]], at_most: float | None = None
    ) -> RequestParts:
        """Return parts with the token of ``key``, else with that of ``fetch``, kept ``at_most`` seconds. Raises what
        ``fetch`` does."""
        cached = self._tokens.get(key)
        if cached is not None:
            return cached[0]
        return await self._fetches.join(key, lambda: self._fetch_token(key, fetch, at_most))

    def forget(self, key: bytes) -> None:
        """Drop the token of ``key``, so that the next request fetches a new one."""
        self._tokens.pop(key, None)

    async def _fetch_token(
        self, key: bytes, fetch: Callable[[], Awaitable[Grant]], at_most: float | None
    ) -> RequestParts:
        grant = await fetch()
        keep = UNKNOWN_LIFETIME if grant.expires_in is None else grant.expires_in - MARGIN
        if at_most is not None:
            keep = min(keep, at_most - MARGIN)
        parts = RequestParts({"Authorization": f"Bearer {grant.token}"})
        if keep > 0:
            self._tokens[key] = (parts, keep)
        return parts
