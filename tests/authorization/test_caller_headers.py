"""Headers that tell the service who calls: made of what was verified, whatever a client sends."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth.api_keys import digest_of, new_key
from gateway.auth.claims import header_text
from gateway.config.key_file import add_key
from gateway.config.source import ConfigError, load_settings
from gateway.settings.auth import ApiKey
from tests.authorization.issuer import ForgedIssuer
from tests.authorization.stand import CALLS, RESOURCE, Bearer, Stand, names, running, stand
from tests.each import each
from tests.fault.behaviours import result
from tests.fault.methods import ADD, ECHO
from tests.protocol.official import MODERN
from tests.tables import each_row

TWO_AND_THREE: Final = {"a": 2, "b": 3}
USER, MAIL, GROUPS, TENANT = "X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Groups", "X-Tenant"
TOLD: Final = f"{{{USER}: '{{sub}}', {MAIL}: '{{claims.email}}', {GROUPS}: '{{claims.groups}}'}}"
NONE: Final = "backend.credentials.mode=none"


@asynccontextmanager
async def told(*knobs: str, headers: str = TOLD) -> AsyncIterator[Stand]:
    async with stand(NONE, f"backend.caller_headers={headers}", *knobs) as it:
        yield it


def about(it: Stand, method: str = "add") -> list[dict[str, str | None]]:
    """What each request for a method said of its caller."""
    found = [sent.headers for sent in it.backend.requests if sent.method == method]
    return [{name: headers.get(name) for name in (USER, MAIL, GROUPS)} for headers in found]


async def test_every_surface_tells_the_service_who_calls_and_shows_no_token() -> None:
    async with told() as it:
        ann = it.of("ann", email="ann@example.com", groups=["staff", "a,b"])
        for surface in CALLS:
            assert (await ann.call(surface, "add", TWO_AND_THREE)).status == 200
        assert about(it) == [{USER: "ann", MAIL: "ann@example.com", GROUPS: "staff,a%2Cb"}] * len(CALLS)
        assert {*it.shown("add")} == {None}


async def test_one_group_that_is_no_list_is_told_as_a_list_of_one_is() -> None:
    async with told() as it:
        for groups in ("a,b", ["a,b"], ["a", "b"]):
            assert (await it.of("ann", groups=groups).call("rest", "add", TWO_AND_THREE)).status == 200
        assert [sent[GROUPS] for sent in about(it)] == ["a%2Cb", "a%2Cb", "a,b"]


async def test_a_claim_that_is_missing_or_is_no_text_leaves_the_header_out() -> None:
    async with told() as it:
        for claims in ({}, {"email": None, "groups": {}}, {"email": {"a": 1}, "groups": [["x"]]}, {"groups": []}):
            assert (await it.of("ann", **claims).call("rest", "add", TWO_AND_THREE)).status == 200
        assert about(it) == [{USER: "ann", MAIL: None, GROUPS: None}] * 4


@each("surface", CALLS)
async def test_a_caller_without_what_is_required_is_refused_and_nothing_is_sent(surface: str) -> None:
    required = f"{{{MAIL}: {{value: 'mail {{claims.email}}', required: true}}}}"
    async with told(headers=required) as it:
        answer = await it.of("ann").call(surface, "add", TWO_AND_THREE)
        assert "must know who calls" in answer.body.decode()
        assert about(it) == []
        assert (await it.of("ann", email="a@b").call(surface, "add", TWO_AND_THREE)).status == 200
        assert [found[MAIL] for found in about(it)] == ["mail a@b"]


async def test_what_a_client_sends_under_these_names_never_reaches_the_service() -> None:
    async with told() as it:
        forged = {name: "admin" for one in (USER, MAIL) for name in (one, one.lower(), one.replace("-", "_"))}
        ann = it.of("ann")
        body = {"name": "add", "arguments": TWO_AND_THREE}
        assert (await ann.send("POST", "/mcp/tools/invoke", body=json.dumps(body).encode(),
                               headers={"Content-Type": "application/json", **forged})).status == 200  # fmt: skip
        sent = next(one for one in it.backend.requests if one.method == "add")
        assert "admin" not in str(sent.headers)
        assert sent.headers[USER] == "ann"


async def test_a_claim_of_another_token_of_the_same_person_is_told_as_it_is() -> None:
    async with told() as it:
        for groups in (["a"], ["b"]):
            await it.of("ann", groups=groups).call("rest", "add", TWO_AND_THREE)
        assert [found[GROUPS] for found in about(it)] == ["a", "b"]


async def test_claims_beyond_the_bound_are_left_out_whole_and_the_others_stay() -> None:
    async with told() as it:
        await it.of("ann", email="e" * 1000, groups=["g" * 30]).call("rest", "add", TWO_AND_THREE)
        await it.of("ann", email="e" * 1025, groups=["g" * 30]).call("rest", "add", TWO_AND_THREE)
        assert [(found[MAIL], found[GROUPS]) for found in about(it)] == [("e" * 1000, None), (None, "g" * 30)]


async def test_a_listing_that_is_each_callers_own_is_asked_with_them_and_shared_with_no_other_claims() -> None:
    async with told("backend.listing.identity=caller") as it:
        original = it.listings.play

        async def by_group(exchange: Any) -> None:
            it.listings.everybody = [ADD.listed() if exchange.request.headers.get(GROUPS) == "a" else ECHO.listed()]
            await original(exchange)

        it.listings.play = by_group  # type: ignore[method-assign]
        ann = [it.of("ann", groups=[group]) for group in "abab"]
        assert [await names(one) for one in ann] == [["add"], ["echo"]] * 2
        assert it.backend.calls("rpc.discover") == 2


async def test_a_shared_listing_tells_of_nobody() -> None:
    async with told() as it:
        await names(it.of("ann", email="a@b"))
        assert about(it, "rpc.discover") == [dict.fromkeys((USER, MAIL, GROUPS))]


async def test_the_name_of_the_caller_is_no_secret_in_a_result() -> None:
    async with told() as it:
        value = "ann-of-the-long-name@example.com"
        answer = await it.of("ann", email=value).call("rest", "echo", {"value": value})
        assert value in answer.body.decode()


async def test_a_key_has_a_name_and_no_claims(tmp_path: Path) -> None:
    key, file = new_key(), tmp_path / "keys.yaml"
    add_key(file, ApiKey(name="ann", sha256=digest_of(key), scopes=("read",)))
    headers = f"{{{USER}: '{{sub}}', {MAIL}: '{{claims.email}}', {GROUPS}: '{{iss}} {{client}} {{scopes}}'}}"
    async with told("auth.mode=keys", f"auth.keys.file={file}", headers=headers) as it:
        assert (await it.client(key).call("rest", "add", TWO_AND_THREE)).status == 200
        assert about(it) == [{USER: "ann", MAIL: None, GROUPS: f"keys {digest_of(key)[:8]} read"}]


async def test_a_caller_whom_nobody_knows_is_told_of_by_no_header() -> None:
    async with told("auth.anonymous=open-tools", "backend.listing.dialect=jsonrpc_mcp") as it:
        it.offers({"name": "echo", "annotations": {"auth": {"level": "none"}}})
        it.backend.on("echo", result("heard"))
        async with running(it.gateway.settings) as gateway:
            assert (await Bearer(it.session, gateway.port, None).call(MODERN, "echo")).status == 200
        assert about(it, "echo") == [dict.fromkeys((USER, MAIL, GROUPS))]


async def test_what_introspection_says_is_told_too() -> None:
    async with ForgedIssuer(RESOURCE) as issuer:
        issuer.introspections["opaque"] = {
            "active": True, "sub": "ann", "aud": RESOURCE, "exp": int(time.time()) + 300, "token_type": "Bearer",
            "email": "a@b",
        }  # fmt: skip
        async with told(f"auth.issuers=[{{issuer: '{issuer.issuer}', introspection: {{cache: 0s}}}}]") as it:
            assert (await it.client("opaque").call("rest", "add", TWO_AND_THREE)).status == 200
            assert about(it) == [{USER: "ann", MAIL: "a@b", GROUPS: None}]


async def test_fixed_headers_are_on_every_request_and_a_secret_one_in_no_answer() -> None:
    fixed = f"backend.headers={{{TENANT}: crm, X-Service-Key: 'a-secret-of-the-service-42'}}"
    async with stand(NONE, fixed) as it:
        answer = await it.of("ann").call("rest", "echo", {"value": "a-secret-of-the-service-42"})
        assert "a-secret-of-the-service-42" not in answer.body.decode()
        assert {sent.headers.get(TENANT) for sent in it.backend.requests} == {"crm"}
        assert {sent.method for sent in it.backend.requests} >= {"echo", "rpc.discover"}


TEXTS = st.one_of(st.text(), st.text(alphabet=" ,%\r\n\0\x7fä\udc80a"), st.integers(), st.booleans(), st.floats())


@given(TEXTS)
def test_any_value_becomes_printable_and_no_two_the_same(value: Any) -> None:
    text = header_text(value)
    assert re.fullmatch(r"(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?", text)
    if isinstance(value, str) and not re.search("[\ud800-\udfff]", value):
        assert unquote(text) == value
        assert "," not in header_text(value, ",")


KEYS: Final = ("backend.url=http://127.0.0.1:8000/jsonrpc", "auth.issuers=[{issuer: 'https://login.example.com'}]",
               "server.public_url=https://gw.example.com")  # fmt: skip


@each_row
def test_headers_that_would_say_something_else_are_faults(knobs: tuple[str, ...], fault: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_settings(None, [*KEYS, *knobs], {})
    assert fault in str(raised.value)


SEVERAL: Final = "auth.issuers=[{issuer: 'https://login.example.com'}, {issuer: 'https://other.example.com'}]"


@each(
    "headers", ["{X-User: '{sub} {iss}'}", "{X-User: '{sub}', X-Issuer: '{iss}'}", "{X-Mail: '{claims.email}'}", "{}"]
)
def test_who_is_told_with_the_issuer_or_by_a_claim_may_be_of_several(headers: str) -> None:
    assert load_settings(None, [*KEYS, NONE, SEVERAL, f"backend.caller_headers={headers}"], {}).backend


@each("auths, fault", [
    (("{mode: jwt, issuers: [{issuer: 'https://a.example'}]}",), ""),
    (("{mode: jwt, issuers: [{issuer: 'https://a.example'}, {issuer: 'https://b.example'}]}",), "https://b.example"),
    (("{mode: jwt, issuers: [{issuer: 'https://a.example'}]}", "{mode: keys, keys: {file: keys.yaml}}"), "keys.yaml"),
])  # fmt: skip
def test_callers_through_groups_count_too(auths: tuple[str, ...], fault: str) -> None:
    """A service that lets in everybody may be in groups that do not."""
    groups = (f"groups.g{number}={{services: crm, auth: {auth}}}" for number, auth in enumerate(auths))
    knobs = ("server.public_url=https://gw.example.com", "services.crm.backend.url=http://127.0.0.1:8000/jsonrpc",
             "services.crm.auth.mode=off", "services.crm.backend.caller_headers={X-User: '{sub}'}")  # fmt: skip
    try:
        load_settings(None, [*knobs, *groups], {})
        said = ""
    except ConfigError as error:
        said = str(error)
    assert said == "" if not fault else said.startswith("services.crm.backend.caller_headers: ") and fault in said


def test_a_header_of_each_form_is_none() -> None:
    forms: Mapping[str, str] = {"X-A": "'{sub}'", "X-B": "{value: '{claims.a.b} of {iss}', required: true}"}
    written = ", ".join(f"{name}: {value}" for name, value in forms.items())
    made = load_settings(None, [*KEYS, NONE, f"backend.caller_headers={{{written}}}"], {})
    assert made.backend is not None
    assert made.backend.told_claims == ("a.b",)
