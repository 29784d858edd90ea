"""Tokens that are kept until shortly before they end, and fetched once for all who wait."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

from cachetools import TLRUCache

from gateway.credentials.grants import Grant
from gateway.single_flight import SingleFlight

MAX_TOKENS: Final = 10_000
MARGIN: Final = 30.0
"""Seconds before its end at which a token is not used any more: the backend's clock and the way there take some."""
UNKNOWN_LIFETIME: Final = 60.0
"""Seconds that a token is kept whose life the server does not tell."""


class TokenCache:
    """Tokens by key. ``clock`` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._tokens: TLRUCache[bytes, tuple[str, float]] = TLRUCache(
            MAX_TOKENS, ttu=lambda _, entry, now: now + entry[1], timer=clock
        )
        self._fetches = SingleFlight[bytes, str]()

    async def get_token(self, key: bytes, fetch: Callable[[], Awaitable[Grant]], at_most: float | None = None) -> str:
        """The token of ``key``, or the one that ``fetch`` brings; kept ``at_most`` seconds. Raises what ``fetch``
        raises."""
        known = self._tokens.get(key)
        if known is not None:
            return known[0]
        return await self._fetches.join(key, lambda: self._fetch_token(key, fetch, at_most))

    def forget(self, key: bytes) -> None:
        """Fetch anew the next time."""
        self._tokens.pop(key, None)

    async def _fetch_token(self, key: bytes, fetch: Callable[[], Awaitable[Grant]], at_most: float | None) -> str:
        grant = await fetch()
        keep = UNKNOWN_LIFETIME if grant.expires_in is None else grant.expires_in - MARGIN
        if at_most is not None:
            keep = min(keep, at_most - MARGIN)
        if keep > 0:
            self._tokens[key] = (grant.token, keep)
        return grant.token
