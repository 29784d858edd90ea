"""What the rows of docs/security.md expect, for the tests that are named after them.

A refused token is refused alike on every surface, before anything of the request is looked at: so each expectation
asks on several, and holds the backend to have seen nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gateway.jsonrpc import encode
from tests.authorization.stand import METADATA, Bearer, Stand
from tests.protocol.talk import Answer, modern_headers, modern_request, request

ARGUMENTS: Final = {"a": 1, "b": 2}
NOT_VALID: Final = "The access token is not valid here"


async def everywhere(it: Stand, headers: Iterable[tuple[str, str]], query: str = "") -> list[Answer]:
    """The answers of all surfaces to a request with these headers."""
    client = Bearer(it.session, it.gateway.port, None)
    call = {"name": "add", "arguments": ARGUMENTS}
    named = modern_headers("tools/call", "add")
    shown = list(headers)
    it.backend.requests.clear()
    return [
        await _post(client, f"/mcp{query}", modern_request("tools/call", call), named, shown),
        await _post(client, f"/mcp{query}", request("tools/list", {}), {}, shown),
        await _post(client, f"/mcp/tools/invoke{query}", call, {}, shown),
        await _post(client, f"/mcp/tools/add{query}", request("add", ARGUMENTS), {}, shown),
        await _post(client, f"/jsonrpc{query}", request("add", ARGUMENTS), {}, shown),
        await client.send("GET", f"/mcp/tools/list{query}", None, shown),
        await client.send("DELETE", f"/mcp{query}", None, shown),
    ]  # fmt: skip


async def _post(
    client: Bearer, path: str, body: object, headers: Mapping[str, str], shown: list[tuple[str, str]]
) -> Answer:
    usual = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
    return await client.send("POST", path, encode(body), [*usual.items(), *shown])


def bearer(token: str) -> list[tuple[str, str]]:
    return [("Authorization", f"Bearer {token}")]


async def invites(it: Stand, headers: Iterable[tuple[str, str]] = ()) -> None:
    """A0: 401, where to get a token, and no error."""
    for answer in await everywhere(it, headers):
        _check(answer, 401, f'Bearer resource_metadata="{METADATA}"')
    untouched(it)


async def refuses(
    it: Stand,
    token: str,
    *,
    fetches: int | None = None,
    description: str = NOT_VALID,
    also: Iterable[tuple[str, str]] = (),
) -> None:
    """AT: 401 invalid_token with one fixed sentence; ``fetches`` are how often the keys were asked for meanwhile."""
    before = it.issuer.count("jwks")
    expected = f'Bearer error="invalid_token", error_description="{description}", resource_metadata="{METADATA}"'
    for answer in await everywhere(it, [*bearer(token), *also]):
        _check(answer, 401, expected)
        assert token not in answer.body.decode()
    untouched(it)
    if fetches is not None:
        assert it.issuer.count("jwks") - before == fetches


async def rejects(it: Stand, headers: Iterable[tuple[str, str]], query: str = "") -> None:
    """AR: 400 invalid_request."""
    for answer in await everywhere(it, headers, query):
        assert answer.status == 400
        assert answer.headers["WWW-Authenticate"].startswith('Bearer error="invalid_request", error_description="')
        assert answer.headers["Cache-Control"] == "no-store"
    untouched(it)


async def accepts(it: Stand, token: str) -> None:
    """The token lists and calls."""
    client = it.client(token)
    assert (await client.list("rest")).status == 200
    answer = await client.call("jsonrpc", "add", ARGUMENTS)
    assert answer.json["result"] == {"sum": 3}
    it.backend.requests.clear()


async def cannot_tell(it: Stand, token: str) -> None:
    """AU: 503 with Retry-After and no challenge, for which clients would throw their tokens away."""
    for answer in await everywhere(it, bearer(token)):
        assert answer.status == 503
        assert int(answer.headers["Retry-After"]) >= 1
        assert "WWW-Authenticate" not in answer.headers
    untouched(it)


async def warm(it: Stand) -> None:
    """Have the keys fetched, so that a test counts what it causes."""
    await accepts(it, it.issuer.sign(sub="warm"))


def untouched(it: Stand) -> None:
    """The backend has seen nothing of it."""
    seen = [f"{sent.verb} {sent.path} {sent.method}" for sent in it.backend.requests]
    assert seen == [], seen


def _check(answer: Answer, status: int, challenge: str) -> None:
    assert answer.status == status, answer
    assert answer.headers["WWW-Authenticate"] == challenge
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.json.get("id") is None  # nothing of the body was read
