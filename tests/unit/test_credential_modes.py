"""What a mode of credentials needs of its section, and how it is told where that is not there: with all other faults,
naming what is known, and without what was written. What a mode shows is in tests/contract/test_credentials.py."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gateway.config.source import ConfigError, load_settings
from gateway.credentials import AUTO, MODES, credential_modes
from gateway.credentials.contract import credential_sections
from gateway.credentials.fixed import NoCredential
from gateway.credentials.same_resource import SameResource
from gateway.settings import Settings
from tests.each import each
from tests.front import built
from tests.tables import each_row

GATEWAY = Path(__file__).parents[2] / "gateway"
GROUND = ("backend.url=http://127.0.0.1:9/jsonrpc", "auth.mode=off")
CLIENT = "client_id: gw, client_secret: sesame"
SECTIONS = ("backend.credentials", "backend.listing.credentials")
# Words that mean nothing else. "static" is a dialect too, "none" and "auto" are values of many knobs.
UNMISTAKABLE = {"same_resource", "token_exchange", "client_credentials"}


def faults(*knobs: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_settings(None, [*GROUND, *knobs], {})
    return list(caught.value.faults)


@each("section", SECTIONS)
def test_a_mode_that_is_not_known_is_answered_with_those_that_are(section: str) -> None:
    (fault,) = faults(f"{section}.mode=statik")
    assert fault.startswith(f"{section}: mode: must be one of ")
    assert all(mode in fault for mode in (AUTO, *MODES))
    assert fault.endswith("did you mean static?")


def test_what_was_written_in_place_of_a_mode_is_not_shown() -> None:
    (fault,) = faults("backend.credentials.mode=hunter2-hunter2")
    assert "hunter2" not in fault
    assert "did you mean" not in fault


@each_row
def test_a_mode_says_what_it_lacks_and_what_it_has_no_use_for(knobs: str, told: str) -> None:
    (fault,) = faults(f"backend.credentials={knobs}")
    assert fault.startswith(f"backend.credentials: {told}")


@each_row
def test_a_login_that_cannot_be_is_told_with_what_is_wrong_in_it(knobs: str, told: str) -> None:
    (fault,) = faults(f"backend.credentials={knobs}")
    assert fault.startswith("backend.credentials")
    assert told in fault


@each(
    ("knobs", "told"),
    [
        ("{mode: static}", "needs send"),
        ("{mode: none, send: {headers: {X: y}}}", "takes no send, which is for mode: static, login"),
        ("{send: {headers: {X: y}}}", "takes no send, which is for mode: static, login"),
        ("{mode: client_credentials}", "needs client_id, client_secret of backend.credentials"),
        ("{mode: token_exchange}", "needs client_id, client_secret, audience or resource of backend.credentials"),
    ],
)
def test_a_listings_mode_says_what_it_lacks_and_where_that_stands(knobs: str, told: str) -> None:
    (fault,) = faults(f"backend.listing.credentials={knobs}")
    assert fault.startswith("backend.listing.credentials: mode: ")
    assert fault.endswith(told)


def test_a_listing_shares_user_and_password_of_the_calls_and_not_what_they_send() -> None:
    calls = "backend.credentials={mode: basic, user: gw, password: sesame, send: {headers: {X: ours}}}"
    own = "backend.listing.credentials={mode: static, send: {headers: {Y: 'theirs of {user}'}}}"
    for knobs, mode, headers in (
        ((calls,), "auto", {"X": "ours"}),
        ((calls, own), "static", {"Y": "theirs of {user}"}),
    ):
        made = load_settings(None, [*GROUND, *knobs], {}).by_mount[""]
        (_, calling), (_, listing) = credential_sections(made)
        assert calling.send is not None
        assert listing.send is not None
        assert (calling.send.revealed()["headers"], listing.mode, listing.user) == ({"X": "ours"}, mode, "gw")
        assert listing.send.revealed()["headers"] == headers


def test_a_listing_that_sends_what_nobody_says_is_a_fault() -> None:
    (fault,) = faults("backend.listing.credentials={mode: static, send: {headers: {X: '{user}'}}}")
    said = "send.headers uses {user}, which has no value; there may be user, password, and those of login.find"
    assert fault == f"backend.listing.credentials: {said}; a secret that has braces goes into password"


@each("knob", ["backend_audience", "trusted_network", "client_id", "token_endpoint", "audience"])
def test_what_the_backend_decides_is_no_knob_of_the_listing(knob: str) -> None:
    (fault,) = faults(f"backend.listing.credentials={{mode: none, {knob}: x}}")
    known = "known here: mode, send; did you mean backend.credentials"
    assert fault == f"backend.listing.credentials.{knob}: unknown key; {known}.{knob}?"


def test_faults_of_modes_are_told_with_all_others() -> None:
    found = faults(
        "server.port=x", "backend.credentials.mode=static", "backend.listing.credentials.mode=nobody", "catalog.tll=1m"
    )
    assert len(found) == 4
    for knob in ("server.port: ", "backend.credentials: mode: ", "backend.listing.credentials: mode: ", "catalog.tll:"):
        assert any(fault.startswith(knob) for fault in found)


def test_a_secret_that_cannot_be_read_is_one_fault_and_not_a_missing_secret_besides() -> None:
    (fault,) = faults("backend.credentials.mode=static", "backend.credentials.value=${file:/nowhere/secret}")
    assert "/nowhere/secret" in fault


def test_an_audience_that_cannot_be_read_is_one_fault_and_not_a_missing_audience_besides() -> None:
    issuers = "auth={mode: jwt, issuers: [{issuer: 'https://login.example.com'}]}"
    (fault,) = faults(issuers, "backend.credentials.backend_audience=${file:/nowhere/audience}")
    assert "/nowhere/audience" in fault


async def test_settings_that_were_never_loaded_are_judged_at_start() -> None:
    backend = {"url": "http://127.0.0.1:9/jsonrpc", "credentials": {"mode": "statik"}}
    unloaded = Settings.model_validate({"backend": backend, "auth": {"mode": "off"}})
    with pytest.raises(ConfigError) as caught:
        await built(unloaded.by_mount[""])
    assert caught.value.faults[0].startswith("backend.credentials: mode: must be one of ")


def test_auto_is_the_callers_token_where_callers_bring_one_and_else_nothing() -> None:
    off = load_settings(None, GROUND, {}).by_mount[""]
    assert {credential_modes(off).calls, credential_modes(off).listing} == {NoCredential}
    issuers = "auth.issuers=[{issuer: 'https://login.example.com'}]"
    audience = "backend.credentials.backend_audience=http://127.0.0.1:8080/mcp"
    on = load_settings(None, [GROUND[0], issuers, audience], {}).by_mount[""]
    assert {credential_modes(on).calls, credential_modes(on).listing, credential_modes(on).effective_listing} == {
        SameResource
    }
    assert credential_modes(on).lists_per_caller
    shared = credential_modes(
        load_settings(None, [GROUND[0], issuers, audience, "backend.listing.identity=shared"], {}).by_mount[""]
    )
    assert (shared.calls, shared.effective_listing, shared.lists_per_caller) == (SameResource, NoCredential, False)


@each("mode", ["basic", "digest"])
def test_a_user_name_with_a_colon_would_end_before_it(mode: str) -> None:
    (fault,) = faults(f"backend.credentials={{mode: {mode}, user: 'a:b', password: sesame}}")
    assert fault.startswith("backend.credentials.user: must have no colon")


@each("mode", [mode.name for mode in MODES.values() if mode.per_caller])
def test_what_everybody_is_shown_is_not_asked_for_in_a_callers_name(mode: str) -> None:
    (fault,) = faults(
        "auth={mode: jwt, issuers: [{issuer: 'https://login.example.com'}]}",
        f"backend.credentials={{mode: none, audience: a, backend_audience: 'http://127.0.0.1:8080/mcp', {CLIENT}}}",
        f"backend.listing.credentials.mode={mode}",
        "backend.listing.identity=shared",
    )
    assert fault.startswith(f"backend.listing.credentials.mode: {mode} asks in a caller's name")
    assert fault.endswith("use client_credentials, static, basic, digest, login, none")


def test_a_mode_is_one_class_and_is_named_by_no_other_folder() -> None:
    assert len(set(MODES.values())) == len(MODES)
    assert {mode.__module__.rpartition(".")[0] for mode in MODES.values()} == {"gateway.credentials"}
    named = [
        f"{path.relative_to(GATEWAY)}:{node.lineno}: {node.value}"
        for path in GATEWAY.rglob("*.py")
        if path.parent.name != "credentials"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in UNMISTAKABLE
    ]
    assert named == []
