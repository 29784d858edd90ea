"""Fetch and keep the keys of one issuer.

They are refreshed in the background before they expire, and for an unknown ``kid`` once per cooldown. A failure
replaces nothing: the known keys serve for a bounded time, and after that tokens cannot be verified (503).
"""

import asyncio
import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from gateway import USER_AGENT, jsonrpc
from gateway.auth.asking import IssuerTurns
from gateway.auth.compact import InvalidToken, Undecidable
from gateway.auth.keys import Key, KeySet, parse_key_set
from gateway.auth.metadata import IssuerMetadata, metadata_urls, parse_issuer_metadata
from gateway.concurrency.background import Problem, keep_fresh, retry_delay
from gateway.concurrency.single_flight import SingleFlight
from gateway.http_client.response import Answer, OutboundError
from gateway.http_client.session import Outbound
from gateway.settings import Issuer

MAX_BYTES: Final = 256 * 1024
TIMEOUT: Final = 5.0
COOLDOWN: Final = 30.0
"""Seconds between two fetches for an unknown kid: anybody can invent one."""
PATIENCE: Final = 2.0
"""Seconds that a request with an unknown kid waits for a fetch."""
TTL: Final = 300.0
"""Seconds after which keys are fetched again, where the issuer's answer has no max-age."""
MAX_TTL: Final = 3600.0
MIN_TTL: Final = 60.0
MAX_STALE: Final = 86400.0
"""Seconds for which known keys serve while the issuer cannot be reached."""
_KEYS, _METADATA = "keys", "metadata"
_MAX_AGE = re.compile(r"(?:^|[,\s])max-age=(\d{1,9})\b", re.IGNORECASE)
HEADERS: Final = {"Accept": "application/json", "User-Agent": USER_AGENT}

log = structlog.get_logger()


class FetchFailed(Exception):
    """Raised where a document cannot be fetched; the text says which one and why."""


class IssuerKeys:
    """Keep the metadata and the keys of one issuer. ``clock`` is monotonic seconds. Tokens that were verified with
    another ``generation`` of keys have to be verified again."""

    def __init__(self, issuer: Issuer, outbound: Outbound, clock: Callable[[], float] = time.monotonic) -> None:
        self.issuer = issuer
        self.published = issuer.issuer  # the issuer as its own metadata name it, once they were read
        self.generation = 0
        self.first_attempt_over = asyncio.Event()
        """Set once the keys were fetched for the first time, or could not be."""
        self.problem = Problem()
        self.outbound = outbound
        self._clock = clock
        self._metadata: IssuerMetadata | None = None
        self._keys: KeySet | None = None
        self._fetched_at = 0.0
        self._refresh_at = 0.0
        self._failures = 0
        self.turns = IssuerTurns(issuer.issuer)
        self.failure = "its keys have not been fetched yet"  # why the last attempt failed; empty after a good one
        self._unknown_kid_asked_at: float | None = None
        self._flights = SingleFlight[str, None]()
        self._metadata_retry_at = 0.0
        self._metadata_failure = ""

    @property
    def keys(self) -> KeySet | None:
        """Return the usable keys, None where there are none or they are too old."""
        if self._keys is None or self._clock() - self._fetched_at > MAX_STALE:
            return None
        return self._keys

    @property
    def age(self) -> float | None:
        """Return the seconds since the keys were fetched, None if they never were."""
        return None if self._keys is None else self._clock() - self._fetched_at

    async def candidates(self, kid: str | None, alg: str) -> tuple[Key, ...]:
        """Return the keys that may have signed a token. Raises :class:`Undecidable`, :class:`InvalidToken`."""
        keys = self.keys
        if keys is None and (_KEYS in self._flights or self._clock() >= self._refresh_at):  # else it just failed
            await self._await_fetch()
            keys = self.keys
        if keys is None:
            wait = max(1, round(self._refresh_at - self._clock() + 0.5))
            raise Undecidable(f"{self.issuer.issuer}: {self.failure}", wait)
        found = keys.candidates(kid, alg)
        # A known kid with another alg is a bad token, not a new key.
        is_new = kid is not None and all(key.kid != kid for key in keys.keys)
        if not found and is_new and await self._fetch_for_unknown_kid():
            found = (self.keys or keys).candidates(kid, alg)
        if not found:
            raise InvalidToken("no key of its issuer fits")
        return found

    async def get_metadata(self) -> IssuerMetadata:
        """Return the metadata, which are not fetched again right after a failure. Raises :class:`FetchFailed`."""
        if self._metadata is None and (_METADATA in self._flights or self._clock() >= self._metadata_retry_at):
            await self._flights.join(_METADATA, self._fetch_metadata)
        if self._metadata is None:
            raise FetchFailed(self._metadata_failure)
        return self._metadata

    async def refresh(self) -> None:
        """Fetch now, or join the fetch under way; failures are logged and kept, not raised."""
        await self._flights.join(_KEYS, self._run_fetch)
        with suppress(FetchFailed):  # beside a configured jwks_uri, they are read for the issuer's own name alone
            await self.get_metadata()

    async def refresh_forever(self) -> None:
        await keep_fresh(self.refresh, lambda: self._refresh_at - self._clock())

    async def _fetch_for_unknown_kid(self) -> bool:
        """Return whether a fetch for an unknown kid was allowed, and over in time."""
        if _KEYS not in self._flights:
            now = self._clock()
            if self._unknown_kid_asked_at is not None and now - self._unknown_kid_asked_at < COOLDOWN:
                return False
            self._unknown_kid_asked_at = now
        return await self._await_fetch()

    async def _await_fetch(self) -> bool:
        fetch = self._flights.start(_KEYS, self._run_fetch)
        await asyncio.wait((fetch,), timeout=PATIENCE)  # which does not cancel the fetch: others may wait for it
        return fetch.done()

    async def _run_fetch(self) -> None:
        try:
            keys, ttl = await self._fetch_keys()
        except FetchFailed as error:
            self._record_failure(str(error))
        except Exception as error:
            log.exception("keys of an issuer: unexpected failure", issuer=self.issuer.issuer)
            self._record_failure(type(error).__name__)
        else:
            self._record_keys(keys, ttl)
        finally:
            self.first_attempt_over.set()

    async def _fetch_keys(self) -> tuple[KeySet, float]:
        uri = self.issuer.metadata.jwks_uri
        if uri is None:
            self._metadata = self._metadata or await self._discover()
            uri = self._metadata.jwks_uri
            if uri is None:
                raise FetchFailed("its metadata have no jwks_uri; set auth.issuers.metadata")
        answer = await self._get_document(uri)
        try:
            keys = parse_key_set(jsonrpc.decode(answer.body))
        except ValueError as error:
            raise FetchFailed(f"{uri}: {error}") from None
        return keys, _ttl(answer)

    async def _fetch_metadata(self) -> None:
        try:
            self._metadata = await self._discover()
        except FetchFailed as error:
            self._metadata_failure, self._metadata_retry_at = str(error), self._clock() + retry_delay(1)

    async def _discover(self) -> IssuerMetadata:
        faults = []
        for url in metadata_urls(self.issuer.issuer):
            try:
                answer = await self._get_document(url)
                metadata = parse_issuer_metadata(jsonrpc.decode(answer.body), self.issuer.issuer)
                self.published = metadata.issuer
                return metadata
            except FetchFailed as error:
                faults.append(str(error))
            except ValueError as error:
                faults.append(f"{url}: {error}")
        raise FetchFailed("; ".join(faults))

    async def _get_document(self, url: str) -> Answer:
        try:
            answer = await self.outbound.request("GET", url, b"", HEADERS, timeout=TIMEOUT, max_bytes=MAX_BYTES)
        except OutboundError as error:
            raise FetchFailed(f"{url}: {error}") from None
        if answer.status != 200:
            raise FetchFailed(f"{url}: HTTP {answer.status}")
        return answer

    def _record_keys(self, keys: KeySet, ttl: float) -> None:
        now = self._clock()
        if self._keys is None or keys.keys != self._keys.keys:
            self.generation += 1
            log.info("keys of an issuer", issuer=self.issuer.issuer, keys=len(keys.keys), ignored=list(keys.ignored))
        self._keys, self._fetched_at, self._refresh_at = keys, now, now + ttl
        self._failures, self.failure = 0, ""
        self.problem.set("")

    def _record_failure(self, reason: str) -> None:
        self.failure = reason
        if self.issuer.metadata.jwks_uri is None:
            self._metadata = None  # discovered again, in case the issuer moved its keys
        self._failures += 1
        self._refresh_at = self._clock() + retry_delay(self._failures)
        serving = "the known keys" if self.keys else "nothing: they are too old" if self._keys else "nothing"
        cause = f"keys of {self.issuer.issuer} cannot be fetched: {reason}; serving {serving}"
        self.problem.set(cause, self._refresh_at - self._clock())
        log.warning("keys of an issuer cannot be fetched", issuer=self.issuer.issuer, reason=reason, serving=serving)


def _ttl(answer: Answer) -> float:
    """Return after how many seconds to fetch keys again: the max-age of the answer within bounds, else ``TTL``."""
    found = _MAX_AGE.search(answer.headers.get("Cache-Control", ""))
    return TTL if found is None else min(max(float(found[1]), MIN_TTL), MAX_TTL)
