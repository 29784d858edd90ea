"""What a call pays for its token once the token is known, and the first call of a caller; both in this process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from gateway.auth.authenticator import Authenticator, PresentedToken
from gateway.auth.claims import issuer_policy
from gateway.auth.jwks import IssuerKeys
from gateway.auth.verifier import SignatureVerifier
from gateway.http_client.session import Outbound
from gateway.settings import Issuer
from lab.bench.memory import newcomers, quiet
from tests.authorization.issuer import RESOURCE, ForgedIssuer

_CALLS = 20_000
_REPEATS = 5
_NEWCOMERS = 400


def microseconds_per_warm_token() -> list[float]:
    """One figure per repeat, less what awaiting anything at all costs."""
    return asyncio.run(_measure())


async def _measure() -> list[float]:
    outbound = Outbound()
    async with ForgedIssuer(RESOURCE) as forged:
        issuer = Issuer(issuer=forged.issuer)
        policy = issuer_policy(issuer, RESOURCE, extra_audiences=False, implies={})
        verifier = SignatureVerifier([(policy, IssuerKeys(issuer, outbound))])
        authenticator = Authenticator(verifier)
        headers = [f"Bearer {forged.sign()}"]

        async def authenticate() -> None:
            await authenticator.authenticate(PresentedToken(headers, (), "POST", "/mcp", False, "127.0.0.1"))

        async def nothing() -> None: ...

        await authenticate()
        figures = []
        for _ in range(_REPEATS):
            empty, full = [await _seconds(work) for work in (nothing, authenticate)]
            figures.append((full - empty) / _CALLS * 1e6)
    await outbound.close()
    return figures


def microseconds_per_newcomer() -> list[float]:
    """CPU for a caller that was not seen before, one figure per repeat: its token is verified, and its view made."""
    with quiet():
        return asyncio.run(_of_newcomers())


async def _of_newcomers() -> list[float]:
    figures = []
    async with newcomers() as (issuer, comes):
        for repeat in range(_REPEATS + 1):
            sent = [f"Bearer {issuer.sign(sub=f'user-{repeat}-{n}')}".encode() for n in range(_NEWCOMERS)]
            started = time.process_time()
            for authorization in sent:
                await comes(authorization)
            figures.append((time.process_time() - started) / _NEWCOMERS * 1e6)
    return figures[1:]  # the first ones pay for what is made once


async def _seconds(work: Callable[[], Awaitable[None]]) -> float:
    started = time.perf_counter()
    for _ in range(_CALLS):
        await work()
    return time.perf_counter() - started
