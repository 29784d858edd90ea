"""What handlers find on the application and the request, by typed key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from gateway.auth.access import Access
from gateway.auth.authenticator import Authenticator, Presented
from gateway.auth.metadata import ResourceMetadata
from gateway.catalog.discovery import Discovery
from gateway.errors import InvalidParams
from gateway.invocation import Invocation
from gateway.limits import AddressReader
from gateway.mcp.endpoint import Endpoint
from gateway.mcp.operations import Operations
from gateway.model import Caller, Naming
from gateway.web.origins import Origins


@dataclass(frozen=True)
class Context:
    """All that the public port serves from."""

    endpoint: Endpoint
    operations: Operations
    invocation: Invocation
    discovery: Discovery
    addresses: AddressReader
    origins: Origins
    authenticator: Authenticator | None
    access: Access
    metadata: ResourceMetadata | None
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


CALLER: Final = web.RequestKey("caller", Caller)


def caller_of(request: web.Request) -> Caller:
    """Who asks, as :func:`authenticate` found out."""
    return request[CALLER]


async def authenticate(request: web.Request) -> None:
    """Find out who asks. Raises :class:`~gateway.errors.Unauthorized`,
    :class:`~gateway.errors.MalformedAuthorization`, :class:`~gateway.errors.AuthUnavailable`,
    :class:`~gateway.errors.InvalidParams`."""
    context = request.app[CONTEXT]
    headers = request.headers
    address = context.addresses.caller(request.remote or "", headers.getall("X-Forwarded-For", []))
    language = headers.get("Accept-Language")
    if context.authenticator is None:
        request[CALLER] = Caller(address, language, naming=_naming_of(request))
        return
    principal = await context.authenticator.authenticate(
        Presented(
            headers.getall("Authorization", ()),
            headers.getall("DPoP", ()),
            request.method,
            request.path,
            bool(request.query_string) and "access_token" in request.query,
            address,
        )
    )
    if not context.access.may_enter(principal):
        raise context.authenticator.missing()
    request[CALLER] = Caller(address, language, context.access.view_of(principal), principal, _naming_of(request))
    if principal is not None:
        request[TRACE].fields["sub"] = principal.subject


def _naming_of(request: web.Request) -> Naming | None:
    """Which names of tools the client wants to see: ``?names=``. Raises :class:`InvalidParams`."""
    wanted = request.query.getall("names", []) if request.query_string else ()
    if not wanted:
        return None
    if len(wanted) > 1 or wanted[0] not in tuple(Naming):
        raise InvalidParams(f'The parameter "names" must be {" or ".join(Naming)}, and be there once')
    return Naming(wanted[0])
