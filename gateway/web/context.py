"""What handlers find on the application and the request, by typed key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from gateway.catalog.discovery import Discovery
from gateway.invocation import Invocation
from gateway.limits import AddressReader, Budget
from gateway.mcp.endpoint import Endpoint
from gateway.mcp.operations import Operations
from gateway.model import Caller
from gateway.web.origins import Origins


@dataclass(frozen=True)
class Context:
    """All that the public port serves from."""

    endpoint: Endpoint
    operations: Operations
    invocation: Invocation
    discovery: Discovery
    budget: Budget
    addresses: AddressReader
    origins: Origins
    rest_page_size: Callable[[], int]
    max_body: int
    body_timeout: float


@dataclass
class Trace:
    """What a handler adds to its request's line in the log."""

    fields: dict[str, object] = field(default_factory=dict)
    cors: tuple[str, bool] | None = None
    """The request's Origin, and whether it is another site's that may read the answer."""


CONTEXT: Final = web.AppKey("context", Context)
TRACE: Final = web.RequestKey("trace", Trace)


def caller_of(request: web.Request) -> Caller:
    """Who asks."""
    addresses = request.app[CONTEXT].addresses
    headers = request.headers
    address = addresses.caller(request.remote or "", headers.getall("X-Forwarded-For", []))
    return Caller(address, headers.get("Accept-Language"))
