"""The backend as a source of listings: questions that never raise, whatever comes back."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import structlog

from gateway import jsonrpc
from gateway.backend.redaction import in_order, quotes, redacting, shown_in, without
from gateway.backend.transport import Transport
from gateway.model import Seen
from gateway.outbound import Answer, ConnectFailed, DeadlinePassed, OutboundError
from gateway.settings import CustomListing

_ID: Final = "listing"
_EXCERPT: Final = 80
_FIRST: Final = 40
"""Characters of a broken answer that are shown."""
_LOOKED_AT: Final = 16 * 1024
_SPACE: Final = b" \t\r\n"
_SLICE: Final = 0.005
"""Seconds of work between two turns of the loop."""

log = structlog.get_logger()


class BackendSource:
    """Questions about one listing, asked with one caller's headers, within one deadline.

    ``url`` is the JSON-RPC endpoint, ``base`` the same without its last path segment, ``origin`` without its path.
    ``place`` is where the operator says the listing is, ``file`` the file it is in, ``custom`` what form it has.
    ``patience`` bounds each question in seconds. ``secrets`` are taken out of what comes back, as the headers' are.
    """

    def __init__(
        self,
        transport: Transport,
        url: str,
        headers: Mapping[str, str],
        *,
        place: str | None = None,
        file: str | None = None,
        custom: CustomListing | None = None,
        timeout: float,
        max_bytes: int,
        patience: float | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
        parts = urlsplit(url)
        self.url = url
        self.base = urlunsplit((parts.scheme, parts.netloc, parts.path.rpartition("/")[0], "", ""))
        self.origin = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
        self.place = place
        self.file = file
        self.custom = custom or CustomListing()
        self.patience = patience
        self._transport = transport
        self._headers = headers
        self._credentials = in_order((*shown_in(headers), *secrets))
        # Params of a custom listing may be ordinary words, which a listing has every right to.
        self._shown = in_order((*self._credentials, *self.custom.secrets()))
        self._deadline = time.monotonic() + timeout
        self._max_bytes = max_bytes
        self._heard = hashlib.sha256()
        self.size = 0

    @property
    def digest(self) -> str:
        """Return the digest of all questions and answers so far."""
        return self._heard.hexdigest()

    async def call(self, method: str, params: Any = None) -> Seen:
        """POST a JSON-RPC call to ``place`` or ``url``."""
        body = jsonrpc.request_bytes(_ID, method, params)
        return await self._ask("POST", self.place or self.url, body)

    async def get(self, url: str) -> Seen:
        """GET a JSON document."""
        return await self._ask("GET", url, None)

    async def read(self, file: str) -> bytes:
        """The content of a local file. Raises :class:`OSError`."""
        content = await asyncio.to_thread(Path(file).read_bytes)
        self._hear(file, content)
        return content

    def _hear(self, question: str, answer: bytes) -> None:
        self._heard.update(f"{question} {len(answer)} ".encode("utf-8", "surrogateescape"))
        self._heard.update(answer)
        self.size += len(answer)

    async def _ask(self, verb: str, url: str, body: bytes | None) -> Seen:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            return Seen("not asked, the time for the listing is over")
        timeout = remaining if self.patience is None else min(remaining, self.patience)
        try:
            if body is not None:
                answer = await self._transport.post(
                    url, body, self._headers, timeout=timeout, max_bytes=self._max_bytes
                )
            else:
                answer = await self._transport.get(url, self._headers, timeout=timeout, max_bytes=self._max_bytes)
        except ConnectFailed as error:
            return Seen(str(error), unreachable=True)
        except DeadlinePassed:
            return Seen(f"no answer within {timeout:.0f} s")
        except OutboundError as error:
            return Seen(str(error))
        self._hear(f"{url} {body!r} {answer.status} {answer.content_type}", answer.body)
        return await self._result_in(answer) if verb == "POST" else await self._document_in(answer)

    async def _result_in(self, answer: Answer) -> Seen:
        try:
            document = await self._decoded(answer.body)
        except ValueError:
            return _not_json(answer, self._shown)
        try:
            result, fault = jsonrpc.answer_in(document, _ID)
        except ValueError:
            return _other(answer)
        if fault is None:
            return Seen("a result", result, found=True)
        denied = answer.status in (401, 403)
        text = f"error {fault.code}: {_excerpt(without(fault.message, self._shown))}"
        return Seen(text, denied=denied, unauthorized=answer.status == 401)

    async def _document_in(self, answer: Answer) -> Seen:
        if answer.status != 200:
            return _other(answer)
        try:
            return Seen("a document", await self._decoded(answer.body), found=True)
        except ValueError:
            return _not_json(answer, self._shown)

    async def _decoded(self, raw: bytes) -> Any:
        """JSON without the credentials that it quotes. Raises :class:`ValueError`."""
        value = await _in_turns(jsonrpc.decoding(raw.strip(_SPACE)))
        if self._credentials and quotes(value, self._credentials):
            log.warning("the listing quotes a credential, which is taken out of it")
            value = await _in_turns(redacting(value, self._credentials))
        return value


async def _in_turns(parts: Generator[None, None, Any]) -> Any:
    """A listing may have megabytes: what goes over it takes turns with the other work of the loop."""
    turn = time.monotonic()
    while True:
        try:
            next(parts)
        except StopIteration as done:
            return done.value
        if time.monotonic() - turn > _SLICE:
            await asyncio.sleep(0)
            turn = time.monotonic()


def _not_json(answer: Answer, shown: Sequence[str]) -> Seen:
    """Broken JSON where JSON was meant: with its place, and with the first bytes, which tell most of the causes (a byte
    order mark, a warning of PHP's before the JSON)."""
    meant = "json" in answer.content_type or answer.body.lstrip(_SPACE)[:1] in (b"{", b"[")
    if not meant or not answer.body or answer.status in (401, 403):
        return _other(answer)
    # Without what the service was shown, before anything is cut: half a secret is found nowhere.
    start = without(answer.body[:_LOOKED_AT].decode("utf-8", "surrogateescape"), shown)
    first = repr(start[:_FIRST].encode("utf-8", "surrogateescape")).removeprefix("b")
    return Seen(f"HTTP {answer.status}, broken JSON: {jsonrpc.fault_in(answer.body)}; it begins with {first}")


def _other(answer: Answer) -> Seen:
    if answer.status in (401, 403):
        text = f"HTTP {answer.status}, credentials are needed"
        return Seen(text, denied=True, unauthorized=answer.status == 401)
    what = answer.content_type or "no content type"
    if 300 <= answer.status < 400:
        what = "a redirect, which is not followed"
    elif not answer.body:
        what = "empty"
    return Seen(f"HTTP {answer.status}, {what}")


def _excerpt(text: str) -> str:
    return text if len(text) <= _EXCERPT else text[:_EXCERPT] + "…"
