"""An issuer behind a fault proxy, which is its address to everybody."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.authorization.issuer import ForgedIssuer
from tests.authorization.stand import RESOURCE
from tests.fault.proxy import FaultProxy


@asynccontextmanager
async def issuer_behind_proxy() -> AsyncIterator[tuple[ForgedIssuer, FaultProxy]]:
    async with ForgedIssuer(RESOURCE) as issuer, FaultProxy(int(issuer.issuer.rpartition(":")[2])) as proxy:
        issuer.issuer = proxy.url()
        issuer.metadata |= {"issuer": issuer.issuer, "jwks_uri": issuer.jwks_uri}
        issuer.metadata["introspection_endpoint"] = issuer.url("introspection")
        yield issuer, proxy
