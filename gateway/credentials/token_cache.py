"""Cache tokens until shortly before they expire, and fetch each once for all who wait."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

from cachetools import TLRUCache

from gateway.credentials.grants import Grant
from gateway.single_flight import SingleFlight

MAX_TOKENS: Final = 10_000
MARGIN: Final = 30.0
"""Seconds before its end from which a token is no longer used: clocks differ, and requests take time."""
UNKNOWN_LIFETIME: Final = 60.0
"""Seconds for which a token is kept when the server does not say how long it is valid."""


class TokenCache:
    """Hold tokens by key. ``clock`` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._tokens: TLRUCache[bytes, tuple[str, float]] = TLRUCache(
            MAX_TOKENS, ttu=lambda _, entry, now: now + entry[1], timer=clock
        )
        self._fetches = SingleFlight[bytes, str]()

    def __repr__(self) -> str:
        return f"<TokenCache {len(self._tokens)} tokens, {self._fetches!r}>"

    async def get_token(self, key: bytes, fetch: Callable[[], Awaitable[Grant]], at_most: float | None = None) -> str:
        """Return the token of ``key``, else that of ``fetch``, kept ``at_most`` seconds. Raises what ``fetch`` does."""
        cached = self._tokens.get(key)
        if cached is not None:
            return cached[0]
        return await self._fetches.join(key, lambda: self._fetch_token(key, fetch, at_most))

    def forget(self, key: bytes) -> None:
        """Drop the token of ``key``, so that the next request fetches a new one."""
        self._tokens.pop(key, None)

    async def _fetch_token(self, key: bytes, fetch: Callable[[], Awaitable[Grant]], at_most: float | None) -> str:
        grant = await fetch()
        keep = UNKNOWN_LIFETIME if grant.expires_in is None else grant.expires_in - MARGIN
        if at_most is not None:
            keep = min(keep, at_most - MARGIN)
        if keep > 0:
            self._tokens[key] = (grant.token, keep)
        return grant.token
