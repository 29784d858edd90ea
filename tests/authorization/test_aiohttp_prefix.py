"""A client logs in to a gateway that is a part of an aiohttp application: from a bare 401, by OAuth alone."""

from __future__ import annotations

from aiohttp import web
from mcp.client.auth import OAuthClientProvider

from gateway.aiohttp_app import aiohttp_app, well_known
from gateway.config.source import load_settings
from tests.authorization.conftest import Provider
from tests.authorization.forge import claims_of
from tests.authorization.person import METADATA, Browser, Storage, connected
from tests.authorization.servers import Resource
from tests.fault.methods import ADD
from tests.fault.scripted import ScriptedBackend
from tests.services.process import free_port


async def test_a_person_authorizes_a_client_below_a_prefix(oidc_provider: Provider) -> None:
    port = free_port()
    public = f"http://127.0.0.1:{port}/tools"
    url = f"{public}/crm/mcp"
    server = await oidc_provider(Resource(url, ("tools:call",)))
    async with ScriptedBackend([ADD]) as backend:
        knobs = (
            f"server.public_url={public}", f"services.crm.backend.url={backend.url}",
            f"services.crm.auth.issuers=[{{issuer: '{server.issuer}'}}]", "services.crm.auth.scopes.call=[tools:call]",
            f"services.crm.backend.credentials.backend_audience={url}",
        )  # fmt: skip
        app = aiohttp_app(load_settings(None, knobs, environ={}), "/tools")
        outer = web.Application()
        outer.add_routes(well_known(app))
        outer.add_subapp("/tools", app)
        runner = web.AppRunner(outer)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port).start()
            browser, storage = Browser(server.visit), Storage()
            auth = OAuthClientProvider(url, METADATA, storage, browser.open, browser.callback)
            async with connected(url, auth, "auto") as client:
                assert not (await client.call_tool("add", {"a": 2, "b": 3})).is_error
        finally:
            await runner.cleanup()
    assert browser.visits == 1
    assert storage.tokens is not None
    claims = claims_of(storage.tokens.access_token)
    assert (claims["iss"], claims["aud"], claims["sub"]) == (server.issuer, url, "alice")
