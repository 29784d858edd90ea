"""What the gateway holds in memory: of a caller that it knows, of an idle stream, of an answer that it refuses, of a
catalog of 5,000 methods."""

from __future__ import annotations

import asyncio
import gc
import logging
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Final

import structlog

from gateway.auth.authenticator import Authenticator, PresentedToken
from gateway.auth.claims import issuer_policy
from gateway.auth.jwks import IssuerKeys
from gateway.auth.verifier import SignatureVerifier
from gateway.catalog.build import Builder
from gateway.discovery.discovery import Discovery
from gateway.http_client.session import Outbound
from gateway.model import Caller, Listing, Method, View
from gateway.schema.validation import ValidatorCache
from gateway.settings import CatalogSettings, Issuer, Params
from tests.authorization.issuer import ForgedIssuer
from tests.fault.behaviours import Behaviour, GzipBomb, Stream, result
from tests.fault.scripted import ScriptedBackend
from tests.front import Surface
from tests.orders import openrpc
from tests.program import serving
from tests.protocol.test_many_streams import ACKNOWLEDGED, MODERN, close, opened, ready_for

_MIB: Final = 1024 * 1024
_CALLERS: Final = 2000
_WARM: Final = 100
_STREAMS: Final = 1000
_METHODS: Final = 5000
_SURFACES: Final[tuple[Surface, ...]] = ("modern", "legacy", "rest")


def bytes_per_caller() -> list[float]:
    """What Python allocates for a caller's token, principal and view, the raw token included."""
    with quiet():
        return [asyncio.run(_of_callers())]


@contextmanager
def quiet() -> Iterator[None]:
    """Write no lines of log below errors: so many would take longer than all the rest."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    try:
        yield
    finally:
        structlog.configure(**before)


async def _list_all(caller: Caller) -> Listing:
    """Make each caller's listing anew, as it comes off the wire."""
    return Listing("static", tuple(Method(name) for name in ("add", "echo")))


@asynccontextmanager
async def newcomers() -> AsyncIterator[tuple[ForgedIssuer, Callable[[bytes], Awaitable[None]]]]:
    """Yield an issuer, and a function that lets the bearer of its token come: the token is verified, the view made."""
    async with ForgedIssuer() as issuer:
        outbound, settings = Outbound(), Issuer(issuer=issuer.issuer)
        policy = issuer_policy(settings, issuer.resource, extra_audiences=False, implies={})
        verifier = SignatureVerifier([(policy, IssuerKeys(settings, outbound))], keep=3600)
        authenticator = Authenticator(verifier)
        knobs = CatalogSettings(ttl=3600)
        discovery = Discovery(_list_all, Builder(Params(), ValidatorCache()), knobs, uses_callers_token=True)

        async def comes(authorization: bytes) -> None:
            shown = PresentedToken((authorization.decode(),), (), "POST", "/mcp", False, "127.0.0.1")
            principal = await authenticator.authenticate(shown)
            if principal is None:
                raise ValueError("a sound token was taken for none")
            view = View(principal.issuer, principal.subject, principal.client, principal.scopes)
            await discovery.catalog(Caller("127.0.0.1", view, principal))

        yield issuer, comes
        await outbound.close()


async def _of_callers() -> float:
    async with newcomers() as (issuer, comes):
        sent = [f"Bearer {issuer.sign(sub=f'user-{n}')}".encode() for n in range(_WARM + _CALLERS)]
        for authorization in sent[:_WARM]:
            await comes(authorization)
        gc.collect()
        tracemalloc.start()
        for authorization in sent[_WARM:]:
            await comes(authorization)
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return grown / _CALLERS


def bytes_per_stream() -> list[float]:
    """What the process grows by for each of a thousand idle streams."""
    return [asyncio.run(_of_streams())]


async def _of_streams() -> float:
    ready_for(_STREAMS)
    knobs = ("backend.listing.dialect=openrpc", f"limits.streams={2 * _STREAMS}")
    async with ScriptedBackend() as backend, serving(backend.url, *knobs) as (program, front):
        port = int(front.base.rpartition(":")[2])
        close(await opened(port, 50, MODERN, ACKNOWLEDGED))  # whatever is made once is made by now
        before = program.memory()
        clients = await opened(port, _STREAMS, MODERN, ACKNOWLEDGED)
        grown = program.memory() - before
        close(clients)
    return grown / _STREAMS


def mebibytes_for_refused() -> list[float]:
    """The most that the process grows by while answers of 50 and 300 MiB are refused."""
    refused: list[Behaviour] = [Stream(50 * _MIB), Stream(50 * _MIB, chunked=True), GzipBomb(300 * _MIB)]
    held = asyncio.run(_of_answer(Stream(60 * _MIB), "backend.max_response=100MiB"))
    if held < 60:  # a measurement that never rises would prove nothing
        raise ValueError(f"the process grew by {held:.0f} MiB for an answer of 60 MiB that it held")
    return [asyncio.run(_of_answer(behaviour)) for behaviour in refused]


async def _of_answer(behaviour: Behaviour, *knobs: str) -> float:
    async with ScriptedBackend() as backend, serving(backend.url, *knobs) as (program, front):
        for surface in _SURFACES:
            await front.call(surface, "add", {"a": 2, "b": 3})
        before = program.peak_memory()
        backend.default = behaviour
        for surface in _SURFACES:
            await front.call(surface, "echo", {"value": 1})
        return (program.peak_memory() - before) / _MIB


def mebibytes_for_many() -> list[float]:
    """What the process grows by with 5,000 methods in place of one."""
    return [asyncio.run(_of_methods())]


async def _of_methods() -> float:
    async with AsyncExitStack() as stack:
        peaks = []
        for count in (1, _METHODS):
            backend = await stack.enter_async_context(ScriptedBackend())
            backend.on("rpc.discover", result(openrpc(count)))
            program, _ = await stack.enter_async_context(serving(backend.url, "backend.listing.dialect=openrpc"))
            peaks.append(program.peak_memory())
        return (peaks[1] - peaks[0]) / _MIB
