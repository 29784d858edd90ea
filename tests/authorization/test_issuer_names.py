"""Under which name clients are told of an issuer: the one in its own metadata, where only a slash at the end differs.
Clients compare both, character for character. Tokens are compared with the configured one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientSession

from tests.authorization.issuer import ForgedIssuer
from tests.authorization.stand import METADATA, PUBLIC, RESOURCE, Bearer, running, settings
from tests.each import each
from tests.fault.methods import ADD
from tests.fault.scripted import ScriptedBackend
from tests.program import run
from tests.protocol.official import MODERN
from tests.waiting import until


@asynccontextmanager
async def gateway(change: Callable[[ForgedIssuer], None], path: str) -> AsyncIterator[tuple[ForgedIssuer, Any]]:
    """A gateway whose issuer was changed before the gateway started, and a client without a token."""
    async with (
        ForgedIssuer(RESOURCE, path=path) as issuer,
        ScriptedBackend([ADD]) as backend,
        ClientSession() as session,
    ):
        change(issuer)
        configured = f"auth.issuers=[{{issuer: '{issuer.issuer}', metadata: {{jwks_uri: '{issuer.jwks_uri}'}}}}]"
        async with running(settings(backend.url, [issuer], configured)) as it:

            def client(token: str | None = None) -> Bearer:
                return Bearer(session, it.port, token)

            yield issuer, client


async def named(client: Bearer) -> list[str]:
    names: list[str] = (await client.get(METADATA.removeprefix(PUBLIC))).json["authorization_servers"]
    return names


@each("path", ["", "/realms/shop"])
async def test_it_is_named_as_its_own_metadata_do_once_they_were_read(path: str) -> None:
    def slow_and_other(issuer: ForgedIssuer) -> None:
        issuer.metadata["issuer"] += "/"
        issuer.disturb("metadata", "hold")

    async with gateway(slow_and_other, path) as (issuer, client):
        await issuer.held("metadata")
        assert await named(client()) == [issuer.issuer]
        issuer.restore()
        assert await until(lambda: named(client()), lambda names: names != [issuer.issuer]) == [f"{issuer.issuer}/"]
        assert (await client(issuer.sign()).list(MODERN)).status == 200
        assert (await client(issuer.sign(iss=f"{issuer.issuer}/")).list(MODERN)).status == 401


@each("other", [str.upper, "{}//".format, "{}/other".format])
async def test_where_more_differs_it_is_named_as_configured_and_check_calls_it_a_fault(
    other: Callable[[str], str],
) -> None:
    def another(issuer: ForgedIssuer) -> None:
        issuer.metadata["issuer"] = other(issuer.issuer)

    async with gateway(another, "") as (issuer, client):
        await until(lambda: issuer.count("metadata"), lambda count: count >= 2)  # at each of its places
        assert (await client(issuer.sign()).list(MODERN)).status == 200
        assert await named(client()) == [issuer.issuer]
        async with ScriptedBackend([ADD]) as backend:
            knobs = (
                f"backend.url={backend.url}", "backend.credentials.mode=none", f"server.public_url={PUBLIC}",
                f"auth.issuers=[{{issuer: '{issuer.issuer}', metadata: {{jwks_uri: '{issuer.jwks_uri}'}}}}]",
            )  # fmt: skip
            ran = await run("check", *(word for knob in knobs for word in ("--set", knob)))
        assert ran.code == 1
        assert "its issuer is not the configured one, character for character but a slash at the end" in ran.out
        assert f'"authorization_servers":["{issuer.issuer}"]' in ran.out
