"""Send JSON-RPC messages over HTTP, each in a POST. No other file of this folder knows what a status means.

Services disagree about everything around the message: the same error comes as HTTP 200, 400 or 500, with four content
types or none. So the body counts wherever it is a response, and the status only where it is not. But a 429 has not run
the call, whatever error it holds. A 503 says nothing of the kind: proxies send it also for a call that ran and did not
end in time.
"""

import math
import re
import time
from calendar import timegm
from collections.abc import Collection, Iterable
from email.utils import parsedate
from typing import Final

from gateway import USER_AGENT, errors
from gateway.backend.request_parts import RequestParts
from gateway.backend.transport import UNKNOWN, UNSENT, Outgoing, Refusal, Reply
from gateway.http_client.choice import HttpClient
from gateway.http_client.response import Answer, ConnectFailed, HandshakeRefused
from gateway.model import HttpFacts, SourceAnswer

HEADERS: Final = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": USER_AGENT}
"""Headers of every request to the backend."""
MAX_RETRY_AFTER: Final = 300
"""Longest wait, in seconds, that a caller is told."""
_RETRY_UNRUN: Final = 1
"""Seconds after which a caller may repeat a call that was not run, where the service names none."""
_THROTTLED: Final = 429  # RFC 6585 §4
_BUSY: Final = 503  # RFC 9110 §15.6.4
_FORM_STATUSES: Final = (400, 422, 500)
"""Statuses with which services refuse a form."""
_PROXY_STATUSES: Final = (502, 503, 504)
"""Statuses with which a proxy says that there is no service behind it."""
_SECONDS: Final = re.compile("[0-9]{1,9}")
_KEPT: Final = 4096
"""Bytes of each answer that tell a login page from another page."""


class HttpReply(Reply, eq=False, gc=False, kw_only=True):
    """Hold an answer over HTTP, whose status says more than its body."""

    answer: Answer
    not_run: Collection[int] = ()
    """``backend.not_run``: statuses with which this service surely ran nothing."""

    @property
    def label(self) -> str:
        return f"HTTP {self.answer.status}"

    @property
    def http(self) -> HttpFacts:
        # A copy of the start: a slice of a large body must not keep it alive, and steps are kept with a failed view.
        return HttpFacts(self.answer.status, self.answer.content_type, self.answer.headers, bytes(self.body[:_KEPT]))

    @property
    def is_alone(self) -> bool:
        return True

    @property
    def is_success(self) -> bool:
        return self.answer.status < 300

    @property
    def blames_message(self) -> bool:
        return self.answer.status in _FORM_STATUSES

    @property
    def cannot_serve(self) -> bool:
        return self.answer.status >= 500 or self.is_throttled

    @property
    def is_throttled(self) -> bool:
        return self.answer.status == _THROTTLED

    @property
    def ran_nothing(self) -> bool:
        return self.is_throttled or self.answer.status in self.not_run

    @property
    def retry_after(self) -> int | None:
        if not self.ran_nothing and self.answer.status != _BUSY:
            return None
        seconds = _retry_after(self.answer.headers.get("Retry-After", ""))
        if seconds is None:
            return _RETRY_UNRUN if self.ran_nothing else None
        return min(seconds, MAX_RETRY_AFTER)

    @property
    def wanted_pause(self) -> int | None:
        is_busy = self.answer.status in (_THROTTLED, _BUSY)
        return _retry_after(self.answer.headers.get("Retry-After", "")) if is_busy else None

    def failure(self) -> errors.ToolFault | None:
        status = self.answer.status
        if status == 403:
            return errors.BackendDenied("The backend refuses this caller (HTTP 403)")
        if status == _BUSY:
            return errors.BackendBusy(f"The backend is busy (HTTP 503); {UNKNOWN}")
        if status >= 500:
            return errors.BackendUnavailable(f"The backend failed (HTTP {status}); {UNKNOWN}")
        if 300 <= status < 400:
            return errors.BadBackendAnswer(f"The backend redirects (HTTP {status}), which is not followed; {UNKNOWN}")
        return None

    def summary(self, violation: str = "") -> SourceAnswer:
        status = self.answer.status
        if self.refused is not None:
            unauthorized = self.refused is Refusal.CREDENTIAL
            return SourceAnswer(f"{self.label}, access denied", denied=True, unauthorized=unauthorized)
        what = self.answer.content_type or "no content type"
        if 300 <= status < 400:
            what = "a redirect, which is not followed"
        elif not self.body:
            what = "empty"
        elif status == 200 and violation:
            what = f"no JSON-RPC response: {violation}"
        return SourceAnswer(f"{self.label}, {what}", away=status in _PROXY_STATUSES)


class HandshakeReply(HttpReply, eq=False, gc=False, kw_only=True):
    """Hold an answer that opens no WebSocket, so that the message was not sent."""

    @property
    def is_success(self) -> bool:
        return False

    @property
    def ran_nothing(self) -> bool:
        return True

    @property
    def retry_after(self) -> int | None:
        return super().retry_after if self.cannot_serve else None

    def failure(self) -> errors.ToolFault | None:
        if self.refused is Refusal.CALLER:
            return super().failure()
        redirects = 300 <= self.answer.status < 400
        what = "The backend redirects, which is not followed" if redirects else "The backend opens no WebSocket"
        seen = f"{what} ({self.label})"
        fault = errors.BackendUnavailable(f"{seen}; the call {UNSENT}")
        fault.seen = seen
        return fault


def handshake_reply(refused: HandshakeRefused, parts: RequestParts) -> Reply:
    """Return what the answer to a handshake says. Raises :class:`ConnectFailed` where it is not the service's."""
    reply = HandshakeReply(b"", _refusal(refused.answer.status, parts), answer=refused.answer)
    if refused.answer.status >= 500 and "Retry-After" not in refused.answer.headers:
        raise ConnectFailed(str(refused)) from refused
    return reply


class HttpTransport:
    """Send messages to ``url`` through an HTTP client. What this class adds to a message is its way."""

    has_documents = True
    dropped = unowned = 0

    def __init__(self, client: HttpClient, url: str, not_run: Iterable[int] = ()) -> None:
        self._client = client
        self._url = url
        self._not_run = frozenset(not_run)

    def __repr__(self) -> str:
        return f"<HttpTransport through {self._client!r}>"

    async def send(self, outgoing: Outgoing, *, timeout: float, max_bytes: int) -> HttpReply:
        """Send a message as the body of a POST, or GET a document."""
        parts, url, body = outgoing.parts, outgoing.url or self._url, outgoing.body
        if parts.query:
            url = parts.url(url)
        answer = await self._client.request(
            "POST" if body else "GET", url, body, outgoing.headers, timeout=timeout, max_bytes=max_bytes
        )
        if answer.status == 200:
            return HttpReply(answer.body, answer=answer)
        return HttpReply(answer.body, _refusal(answer.status, parts), answer=answer, not_run=self._not_run)

    async def ends_after_one(self, patience: float) -> bool:
        return False  # the client sees how each exchange ends

    async def close(self) -> None:
        await self._client.close()


def _refusal(status: int, parts: RequestParts) -> Refusal | None:
    if status in parts.refusing_statuses:
        return Refusal.CREDENTIAL
    return Refusal.CALLER if status == 403 else None


def _retry_after(text: str) -> int | None:
    """Return the seconds that a Retry-After names (RFC 9110 §10.2.3), 0 for a date that is over. None where it cannot
    be read."""
    try:
        # An HTTP date is in GMT, whatever zone it names (§5.6.7).
        seconds = int(text) if _SECONDS.fullmatch(text) else math.ceil(timegm(parsedate(text) or ()) - time.time())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return max(0, seconds)
