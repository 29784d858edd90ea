"""A service that quotes in its listing what it was shown: nobody who lists gets to see it."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from structlog.testing import capture_logs

from gateway.backend.redaction import contains_secret, prepare_secrets, redact_in_steps, redact_text
from tests.authorization.stand import stand
from tests.each import each
from tests.fault.behaviours import Body, error, result
from tests.fault.methods import ADD, openrpc
from tests.fault.scripted import ScriptedBackend
from tests.front import SURFACES, Front, front

KEY = "k3y/4f1c+9a7be2=="
SHOWN = {"type": "string", "default": KEY, "examples": [f"use {KEY}"], "enum": ["a", KEY], "title": KEY}
QUOTING = {
    "name": "quote",
    "summary": f"Send X-Api-Key: {KEY}",
    "description": f"curl -H 'X-Api-Key: {KEY}'",
    "params": [
        {"name": "a", "description": KEY, "schema": SHOWN},
        {"name": f"p_{KEY}", "schema": {"type": "object", "properties": {KEY: {"const": KEY, "pattern": KEY}}}},
    ],
    "result": {"name": "result", "schema": {"type": "object", "description": KEY}},
    "x-scopes": [KEY],
}
NAMED = {"name": f"get.{KEY}", "params": []}


def document() -> dict[str, Any]:
    document = openrpc([ADD])
    document["info"]["title"] = f"The service of {KEY}"
    return document | {"methods": [*document["methods"], QUOTING, NAMED]}


def escaped(value: Any) -> bytes:
    r"""Return it as PHP writes it, ``\/``, and .NET, ``\u002B``."""
    return json.dumps(value).replace("/", "\\/").replace("+", "\\u002B").encode()


def by_call(backend: ScriptedBackend) -> None:
    backend.on("rpc.discover", result(document()))


def by_call_escaped(backend: ScriptedBackend) -> None:
    backend.on("rpc.discover", Body(b'{"jsonrpc":"2.0","id":@ID@,"result":' + escaped(document()) + b"}"))


def by_get(backend: ScriptedBackend) -> None:
    backend.pages["/openrpc.json"] = Body(escaped(document()))
    backend.on("rpc.discover", Body(status=404))


async def everything(gateway: Front) -> str:
    """All that clients are told of the tools."""
    return "\n".join([json.dumps(await gateway.tools(surface)) for surface in SURFACES])


def static(*more: str) -> tuple[str, ...]:
    credentials = ("mode=static", f"send.headers.X-Api-Key={KEY}")
    return (*(f"backend.credentials.{knob}" for knob in credentials), *more)


@each("way", [by_call, by_call_escaped, by_get])
async def test_a_static_credential_is_redacted_wherever_a_listing_quotes_it(way: Any) -> None:
    async with ScriptedBackend([ADD]) as backend:
        way(backend)
        with capture_logs() as lines:
            async with front(backend.url, *static("catalog.names=mcp")) as gateway:
                seen = await everything(gateway)
                tool = (await gateway.tools())["quote"]
                assert (await gateway.call("rest", "add", {"a": 2, "b": 3})).value == {"sum": 5}
        assert KEY not in seen
        assert tool["inputSchema"]["properties"]["a"]["default"] == "[redacted]"
        assert "curl -H 'X-Api-Key: [redacted]'" in tool["description"]
        assert [sent.headers["X-Api-Key"] for sent in backend.requests] == [KEY] * len(backend.requests)
        assert KEY not in str(lines)
        assert "the listing quotes a credential, which is taken out of it" in [line["event"] for line in lines]
        quarantined = [line["reason"] for line in lines if line["event"] == "method quarantined"]
        assert quarantined == ["its name quotes a credential"], "it could not be called by what is left of its name"


@each("header", ["Authorization", "X-Api-Key", "X_AUTH_TOKEN"])
async def test_a_short_credential_is_redacted_where_the_header_s_name_says_that_it_is_one(header: str) -> None:
    async with ScriptedBackend([ADD]) as backend:
        backend.on("rpc.discover", result(openrpc([ADD]) | {"info": {"title": "of k3y7 and acme", "version": "1"}}))
        backend.on("add", error(-32000, "k3y7 is not a key of acme"))
        send = f"backend.credentials={{mode: static, send: {{headers: {{{header}: Bearer k3y7, X-Tenant: acme}}}}}}"
        with capture_logs() as lines:
            async with front(backend.url, send) as gateway:
                called = await gateway.call("rest", "add", {"a": 2, "b": 3})
        assert "[redacted] is not a key of acme" in str(called)
        assert "k3y7" not in str(lines)


async def test_what_calls_show_is_redacted_where_the_listing_is_asked_for_with_something_else() -> None:
    async with ScriptedBackend([ADD]) as backend:
        by_call(backend)
        async with front(backend.url, *static("backend.listing.credentials.mode=none")) as gateway:
            assert KEY not in await everything(gateway)
        assert "X-Api-Key" not in backend.requests[0].headers


async def test_a_callers_token_is_redacted_in_its_own_listing_too() -> None:
    async with stand() as it:
        ann = it.of("ann")
        it.listings.shows("ann", ADD.listed() | {"description": f"Called with {ann.token}"})
        answer = await ann.list("rest")
        assert [tool["description"] for tool in answer.json["tools"]] != []
        assert ann.token not in answer.body.decode()
        assert "Called with [redacted]" in answer.body.decode()


async def test_a_listing_that_quotes_nothing_is_as_it_was() -> None:
    """Words of a credential are no credential."""
    async with ScriptedBackend([ADD]) as backend:
        async with front(backend.url, *static()) as gateway:
            with_credential = await gateway.tools()
        async with front(backend.url) as gateway:
            assert await gateway.tools() == with_credential


def redacted(value: Any, *secrets: str) -> Any:
    parts = redact_in_steps(value, partial(redact_text, secrets=prepare_secrets(secrets)))
    while True:
        try:
            next(parts)
        except StopIteration as done:
            return done.value


def test_texts_and_names_are_redacted_at_any_depth_and_nothing_else_changes() -> None:
    value = [1, None, True, 2.5, "x", {"hunter22": {"a": ["hunter22", "my hunter22!"], "b": 22}}]
    for _ in range(2000):
        value = [value]
    whole = redacted(value, "hunter22")
    for _ in range(2000):
        (whole,) = whole
    assert whole == [1, None, True, 2.5, "x", {"[redacted]": {"a": ["[redacted]", "my [redacted]!"], "b": 22}}]
    assert redacted("hunter22", "hunter22") == "[redacted]"


def test_members_keep_their_order() -> None:
    assert list(redacted({"z": 1, "hunter22": 2, "a": 3}, "hunter22")) == ["z", "[redacted]", "a"]


def test_a_secret_within_another_leaves_nothing_of_the_longer_one() -> None:
    assert redact_text("Bearer abcdef", prepare_secrets(["abcdef", "Bearer abcdef"])) == "[redacted]"


def test_what_is_too_short_to_tell_from_words_is_no_secret() -> None:
    assert prepare_secrets(["", "abc", "abcd", "abcd"]) == ("abcd",)


@each("secret", ['with "quotes"', "back\\slash", "tab\tand é", "a/b+c"])
def test_a_secret_is_found_however_json_writes_it(secret: str) -> None:
    assert contains_secret({"x": [f"<{secret}>"]}, (secret,))
    assert not contains_secret({"x": [f"<{secret[:-1]}>"]}, (secret,))
