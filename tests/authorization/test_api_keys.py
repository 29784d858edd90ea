"""API keys: whom they let in, where they never go, and how soon a revoked one is over."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from gateway.auth.api_keys import digest_of, new_key
from gateway.config.key_file import KeyFileError, add_key, read_keys, revoke_keys
from gateway.config.source import ConfigError, load_settings
from gateway.settings.auth import ApiKey
from tests.authorization.issuer import ForgedIssuer
from tests.authorization.stand import CALLS, LISTS, REST, Stand, challenge_of, names, stand
from tests.configuring import put
from tests.each import each
from tests.protocol.official import LEGACY, MODERN
from tests.protocol.talk import Answer, legacy_headers, request

TWO_AND_THREE = {"a": 2, "b": 3}
SHARED = ("backend.credentials.mode=none",)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.yaml"


def given(file: Path, name: str, *scopes: str, **more: Any) -> str:
    """A new key of this name, which the file knows from now on."""
    key = new_key()
    add_key(file, ApiKey(name=name, sha256=digest_of(key), scopes=scopes, **more))
    return key


@asynccontextmanager
async def keyed(file: Path, *knobs: str, mode: str = "keys") -> AsyncIterator[Stand]:
    async with stand(f"auth.mode={mode}", f"auth.keys.file={file}", *SHARED, *knobs) as it:
        yield it


async def read_again(it: Stand) -> None:
    """What the watcher does when the key file changed."""
    await it.gateway.reload(it.gateway.settings)


def is_refused(answer: Answer) -> bool:
    return answer.status == 401 and "resource_metadata" not in answer.headers["WWW-Authenticate"]


async def test_a_key_lists_and_calls_on_every_surface_and_the_service_sees_nothing_of_it(file: Path) -> None:
    key = given(file, "ann")
    async with keyed(file) as it:
        for surface in LISTS:
            assert "add" in await names(it.client(key), surface)
        for surface in CALLS:
            assert (await it.client(key).call(surface, "add", TWO_AND_THREE)).status == 200
        assert {*it.shown("add"), *it.shown("rpc.discover")} == {None}
        assert all(key not in str(sent) for sent in it.backend.requests)


async def test_without_a_key_nobody_gets_in_and_no_client_is_sent_to_an_issuer(file: Path) -> None:
    given(file, "ann")
    async with keyed(file) as it:
        for surface in LISTS:
            assert is_refused(await it.client().list(surface))
        for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
            assert (await it.client().get(path)).status == 404


def test_a_file_with_line_ends_of_windows_keeps_them(file: Path) -> None:
    file.write_bytes(b"# Ours.\r\n")
    given(file, "ann")
    given(file, "bob")
    before = file.read_bytes()
    assert before.startswith(b"# Ours.\r\n- name: 'ann'\n")
    revoke_keys(file, "bob")
    assert file.read_bytes() == before[: before.index(b"- name: 'bob'")]


ANN, BOB = (f"{{name: {name}, sha256: '{digest_of(name)}'}}" for name in ("ann", "bob"))
BY_HAND = {
    "a list in brackets": f"[\n  {ANN},\n  {BOB}\n]\n",
    "a list in one line": f"[{ANN}, {BOB}]\n",
    "a mark of its end": f"- {ANN}\n- {BOB}\n...\n",
}


@each("text", BY_HAND.values(), ids=BY_HAND)
def test_a_key_is_revoked_so_that_the_file_can_be_read_or_by_hand(file: Path, text: str) -> None:
    for name, other in (("ann", "bob"), ("bob", "ann")):
        file.write_text(text)
        try:
            revoke_keys(file, name)
        except KeyFileError as fault:
            assert "by hand" in str(fault)  # noqa: PT017, either is right
            assert file.read_text() == text
        else:
            assert [key.name for key in read_keys(file)] == [other]


SPOILED = {
    "another": lambda _: new_key(),
    "cut": lambda key: key[:-1],
    "mistyped": lambda key: key[:-1] + "_",
    "longer": lambda key: key + "0",
    "swapped case": lambda key: key[:4] + key[4:].swapcase(),
    "prefix alone": lambda _: "jmg_",
    "without prefix": lambda key: key[4:],
}


async def test_a_text_that_is_no_key_of_the_file_is_refused(file: Path) -> None:
    key = given(file, "ann")
    async with keyed(file) as it:
        for name, spoil in SPOILED.items():
            assert is_refused(await it.client(spoil(key)).list(MODERN)), name
        assert (await it.client(key).list(MODERN)).status == 200


async def test_a_key_ends_at_its_time(file: Path) -> None:
    over = given(file, "ann", expires=datetime.now(UTC) - timedelta(seconds=1))
    good = given(file, "ann", expires=datetime.now(UTC) + timedelta(days=1))
    async with keyed(file) as it:
        refused = await it.client(over).list(MODERN)
        assert is_refused(refused)
        assert "expired" in refused.headers["WWW-Authenticate"]
        assert (await it.client(good).list(MODERN)).status == 200


async def test_a_key_needs_the_scopes_that_a_token_would_and_implied_ones_count(file: Path) -> None:
    plain, reader, admin = given(file, "ann"), given(file, "bob", "read"), given(file, "eve", "admin")
    knobs = ("catalog.tools={add: {scopes: [read]}}", "auth.scopes.implies={admin: [read]}")
    async with keyed(file, *knobs) as it:
        refused = await it.client(plain).call("rest", "add", TWO_AND_THREE)
        assert (refused.status, challenge_of(refused)["scope"]) == (403, "read")
        assert "add" not in await names(it.client(plain))
        for key in (reader, admin):
            assert (await it.client(key).call("rest", "add", TWO_AND_THREE)).status == 200


async def test_two_keys_of_a_name_share_its_limits(file: Path) -> None:
    old, new, other = given(file, "ann"), given(file, "ann"), given(file, "bob")
    async with keyed(file, "limits.invocation=1/hour") as it:
        while (await it.client(old).call("rest", "add", TWO_AND_THREE)).status == 200:
            pass
        assert (await it.client(new).call("rest", "add", TWO_AND_THREE)).status == 429
        assert (await it.client(other).call("rest", "add", TWO_AND_THREE)).status == 200


@each("era", [MODERN, LEGACY[0]])
async def test_a_revoked_key_is_refused_and_its_streams_end_while_all_others_stay(file: Path, era: str) -> None:
    file = file.with_name(f"{era}.yaml")
    old, new, bob = given(file, "ann"), given(file, "ann"), given(file, "bob")
    async with keyed(file, "mcp.heartbeat=5m") as it:
        clients = [it.client(key) for key in (old, new, bob)]

        def listening(number: int) -> Any:
            client = clients[number]
            return client.listen({}) if era == MODERN else client.stream(headers=legacy_headers(era))

        async with listening(0) as first, listening(1) as second, listening(2) as third:
            for stream in (first, second, third):
                await (stream.message() if era == MODERN else stream.comment())
            revoke_keys(file, "ann", digest_of(old)[:8])
            await read_again(it)
            await first.rest()
            assert is_refused(await clients[0].list(era))
            for client in clients[1:]:
                assert (await client.list(era)).status == 200
            given(file, "zoe")  # somebody's new key ends nothing
            await read_again(it)
            await it.gateway.reload(it.gateway.settings)
            revoke_keys(file, "bob")
            await read_again(it)
            await third.rest()
            revoke_keys(file, "ann")
            await read_again(it)
            await second.rest()


async def test_a_session_does_not_outlive_its_key(file: Path) -> None:
    key = given(file, "ann")
    async with keyed(file) as it:
        client = it.client(key)
        headers = legacy_headers(LEGACY[0], await client.initialize())
        assert (await client.mcp(request("ping"), headers)).status == 200
        revoke_keys(file, "ann")
        await read_again(it)
        assert is_refused(await client.mcp(request("ping"), headers))


async def test_a_file_that_cannot_be_read_changes_nothing_and_is_named(file: Path) -> None:
    key = given(file, "ann")
    async with keyed(file) as it:
        put(file, "- {name: ann, sha256: short}\n")
        with pytest.raises(ConfigError, match=r"auth\.keys\.file: .*keys\.yaml: entry 1, sha256"):
            await read_again(it)
        await asyncio.to_thread(file.unlink)
        with pytest.raises(ConfigError, match="No such file or directory; `keys add NAME"):
            await read_again(it)
        assert (await it.client(key).list(MODERN)).status == 200


def test_a_file_of_many_services_is_parsed_once(file: Path) -> None:
    """Else the last of a dozen would learn of a revoked key long after the first."""
    given(file, "ann")
    assert read_keys(file) is (before := read_keys(file))
    given(file, "bob")
    assert len(read_keys(file)) == len(before) + 1


async def test_beside_issuers_a_key_is_decided_by_the_file_alone(file: Path) -> None:
    key = given(file, "ann")
    async with keyed(file, mode="jwt") as it:
        assert (await it.client(key).list(MODERN)).status == 200
        assert (await it.of("ann").list(MODERN)).status == 200
        refused = await it.client(new_key()).list(MODERN)
        assert refused.status == 401
        assert "resource_metadata" in challenge_of(refused)


async def test_no_issuer_is_asked_about_a_text_that_begins_as_keys_do(file: Path) -> None:
    key = given(file, "ann")
    async with ForgedIssuer("") as asked:
        issuers = f"auth.issuers=[{{issuer: '{asked.issuer}', introspection: {{client_id: gw, client_secret: s}}}}]"
        async with keyed(file, issuers, mode="jwt") as it:
            for text in (key, new_key(), "jmg_", "jmg_a.b.c", key.upper(), f"Jmg_{key[4:]}"):
                await it.client(text).list(MODERN)
            revoke_keys(file, "ann")
            await read_again(it)
            assert (await it.client(key).list(MODERN)).status == 401
        async with stand(issuers, *SHARED) as it:  # no keys here at all
            assert (await it.client(key).list(MODERN)).status == 401
        assert asked.count("introspection") == 0


async def test_a_key_in_the_url_is_refused_and_logged_nowhere(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = given(file, "ann")
    async with keyed(file) as it:
        assert (await it.client().get(f"/mcp/tools/list?access_token={key}")).status == 400
        for text in (key, key[:-1], new_key()):
            await it.client(text).list(MODERN)
        for path in (f"/mcp/tools/{key}", f"/{key}", f"/mcp/tools/describe?name={key}"):  # put in a wrong place
            assert (await it.client(key).get(path)).status == 404
        for surface in CALLS:
            await it.client(key).call(surface, f"{key} add")
        await it.client(key).send("GET", "/mcp/tools/list", headers={"X-Request-Id": key})
        client = it.client(key)
        state = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01", "tracestate": f"a={key}", "baggage": f"b={key}"}
        params = {"name": "add", "arguments": {"a": 2, "b": 3}, "_meta": state}
        assert (await client.modern("tools/call", params)).status == 200
        assert (await client.call(REST, "add", {"a": 2, "b": 3})).status == 200
        sent = [str(dict(asked.headers)) for asked in it.backend.requests]
        assert any("jmg_***" in headers for headers in sent)
        assert not any(key in headers for headers in sent)
        assert "jmg_***" in (await client.speak(MODERN, key, {})).error["message"]
        named = {"protocolVersion": LEGACY[0], "capabilities": {}, "clientInfo": {"name": key, "version": "1"}}
        assert (await client.speak(LEGACY[0], "initialize", named)).status == 200
        revoke_keys(file, "ann")
        await read_again(it)
        await it.client(key).list(MODERN)
    assert "jmg_***" in (logged := "".join(capsys.readouterr()))
    assert not re.search("jmg_[0-9A-Za-z]", logged)


async def test_a_key_of_one_service_is_none_of_another(file: Path, tmp_path: Path) -> None:
    ann, bob = given(file, "ann"), given(tmp_path / "others.yaml", "ann")
    async with keyed(file) as it, keyed(tmp_path / "others.yaml") as other:
        assert (await it.client(ann).list(MODERN)).status == (await other.client(bob).list(MODERN)).status == 200
        assert is_refused(await it.client(bob).list(MODERN))
        assert is_refused(await other.client(ann).list(MODERN))


async def test_who_am_i_shows_name_scopes_and_end(file: Path) -> None:
    key = given(file, "ann", "read", expires=datetime(2099, 1, 1, tzinfo=UTC))
    async with keyed(file, "server.page=public") as it:
        page = (await it.client(key).get("/page")).body.decode()
        assert all(word in page for word in ("ann", digest_of(key)[:8], "read", "2099-01-01T00:00:00Z"))
        refused = (await it.client(new_key()).get("/page")).body.decode()
        assert "`keys add` makes one" in refused
        overview = (await it.client(key).get("/")).body.decode()
        assert "GATEWAY_KEY" in overview
        link = re.search(r"mcp/install\?name=gateway&amp;config=([^\"]+)", overview)
        assert link is not None
        added = json.loads(base64.b64decode(unquote(link[1])))
        assert added["headers"] == {"Authorization": "Bearer ${env:GATEWAY_KEY}"}


BASE = ("backend.url=http://127.0.0.1:8000/jsonrpc", "auth.mode=keys", "auth.keys.file=keys.yaml")


@each("knobs, fault", [
    (("auth.keys={}",), "keys.file: must be set with mode: keys"),
    (("auth.dpop=require",), "dpop: with require, API keys would go round it"),
    (("server.host=0.0.0.0",), "server.public_url: is not set, and server.host is reachable over plain http"),
    (("server.public_url=http://gw.example.com",), "server.public_url: is reachable over plain http"),
    (("backend.credentials.mode=same_resource",), "same_resource needs callers' tokens"),
    (("backend.credentials.mode=token_exchange",), "token_exchange needs"),
])  # fmt: skip
def test_what_would_show_a_key_to_others_is_a_fault_at_the_start(knobs: tuple[str, ...], fault: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_settings(None, [*BASE, *knobs], {})
    assert fault in str(raised.value)


@each("mode", ["auto", "same_resource"])
def test_a_service_that_is_sent_callers_tokens_takes_no_keys(mode: str) -> None:
    audience = "backend.credentials.backend_audience=https://gw.example.com/mcp"
    issuers = ("auth.mode=jwt", "auth.issuers=[{issuer: 'https://login.example.com'}]", audience)
    knobs = (*BASE, *issuers, "server.public_url=https://gw.example.com", f"backend.credentials.mode={mode}")
    with pytest.raises(ConfigError, match=r"same_resource sends callers' tokens, and an API key of auth\.keys\.file"):
        load_settings(None, knobs, {})


@each("knobs", [
    ("server.host=0.0.0.0", "server.public_url=https://gw.example.com"),
    ("server.host=0.0.0.0", "auth.keys.trusted_network=true"),
    ("server.public_url=http://gw.example.com", "auth.keys.trusted_network=true"),
    ("server.host=0.0.0.0", "server.tls={cert_file: a.pem, key_file: b.pem}"),
    (),
])  # fmt: skip
def test_a_network_that_the_operator_vouches_for_is_none(knobs: tuple[str, ...]) -> None:
    assert load_settings(None, [*BASE, *knobs], {}).auth.takes_keys
