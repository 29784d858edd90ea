"""Find out whether calls reach a JSON-RPC endpoint, where the listing came from elsewhere: a document that is read by
GET may stand where no call can go. What is known to be an endpoint is asked no more."""

from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Final
from urllib.parse import urlsplit

from cachetools import LRUCache

from gateway.backend.client import same_origin
from gateway.backend.source import BackendSource
from gateway.listing.dialect import path_of
from gateway.model import EndpointFault, Listing, SourceAnswer
from gateway.text import masked_url

_MOST: Final = 5
"""Endpoints of one listing that are asked."""
_MISSING: Final = (404, 405, 410)
_NO_ACCESS: Final = (401, 403)


class Endpoints:
    """Keep what is known of the endpoints of one service. With ``trusts_refusals`` questions have the credential of
    calls, so that its refusal says something of them."""

    def __init__(self, *, trusts_refusals: bool) -> None:
        self._trusts_refusals = trusts_refusals
        self._known: LRUCache[str, EndpointFault | None] = LRUCache(4 * _MOST)

    def forget(self) -> None:
        """Ask all again after the next listing."""
        self._known.clear()

    async def faults(
        self, listing: Listing, source: BackendSource, ask: Callable[[str], Awaitable[SourceAnswer]], *, is_shared: bool
    ) -> tuple[EndpointFault, ...]:
        """Return where calls of a listing may not work. ``source`` has the answers that brought it, ``ask`` gets that
        of another endpoint. A shared credential that was refused is not shown again: that would count as an attack."""
        if not source.document and not source.by_url:  # it is a file's
            return ()
        paths = (method.endpoint for method in listing.methods)
        urls = dict.fromkeys(source.url if path is None else same_origin(source.url, path) for path in paths)
        found = []
        for url in islice(urls, _MOST):
            if url not in self._known:
                answer = source.by_url.get(url)
                if answer is None or answer.away:
                    answer = await ask(url)
                fault = self._fault(url, answer, _place(source))
                if fault is None or (fault.kind == "refused" and is_shared):
                    self._known[url] = fault
            else:
                fault = self._known[url]
            found += [] if fault is None else [fault]
        return tuple(found)

    def _fault(self, url: str, answer: SourceAnswer, listing: str) -> EndpointFault | None:
        path = masked_url(path_of(url))
        status, content_type = (0, "") if answer.http is None else (answer.http.status, answer.http.content_type)
        if answer.unauthorized or (status in _NO_ACCESS and not answer.is_response):
            said = f"HTTP {status}" if status else answer.summary
            return EndpointFault(path, said, "refused", listing) if self._trusts_refusals else None
        if answer.is_response:
            return None
        if status in _MISSING:
            return EndpointFault(path, f"HTTP {status}", "missing", listing)
        if 300 <= status < 400:
            return EndpointFault(path, f"a redirect (HTTP {status})", "missing", listing)
        if 0 < status < 300 and "html" in content_type:
            return EndpointFault(path, "a web page", "missing", listing)
        return EndpointFault(path, answer.summary, "odd", listing)


def _place(source: BackendSource) -> str:
    """Return where the listing is, as the operator reads it: a path, or the whole address on another host."""
    url = source.document or source.listing.url or source.url
    is_here = urlsplit(url)[:2] == urlsplit(source.url)[:2]
    return masked_url(path_of(url) if is_here else url)
