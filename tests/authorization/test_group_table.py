"""Who gets in at a group and through to its services: every kind of caller, auth of a service and credential mode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.auth.api_keys import digest_of, new_key
from gateway.config.key_file import add_key
from gateway.config.source import ConfigError, load_settings
from gateway.settings.auth import ApiKey
from tests.authorization.issuer import ForgedIssuer
from tests.authorization.stand import PUBLIC, REST, bearer_of
from tests.authorization.token_endpoint import TokenEndpoint
from tests.fault.methods import ADD, Rpc
from tests.protocol.grouped import Grouped, grouped
from tests.tables import each_row

SIGN_IN: Final = Rpc("sign_in", {}, {}, "Sign in", lambda: "session")
SERVICES: Final = {"crm": [ADD, SIGN_IN], "shop": [ADD, SIGN_IN]}
TWO_AND_THREE: Final = {"a": 2, "b": 3}
AT_GROUP, AT_CRM, AT_SHOP = (f"{PUBLIC}/{name}/mcp" for name in ("all", "crm", "shop"))
LOGIN: Final = "{method: sign_in, find: {t: $.result}}"
MODES: Final = {
    "none": "{mode: none}",
    "static": "{mode: static, send: {headers: {Authorization: 'Bearer of the gateway'}}}",
    "basic": "{mode: basic, user: u, password: p4ssword}",
    "digest": "{mode: digest, user: u, password: p4ssword}",
    "login": f"{{mode: login, user: u, password: p4ssword, login: {LOGIN}, send: {{headers: {{X-Session: '{{t}}'}}}}}}",
    "client_credentials": "{mode: client_credentials, client_id: gw, client_secret: s3cret, token_endpoint: '%s'}",
    "token_exchange": "{mode: token_exchange, client_id: gw, client_secret: s3cret, audience: b, token_endpoint: '%s'}",
    "same_resource": f"{{mode: same_resource, backend_audience: '{AT_CRM}'}}",
}
CALLERS: Final = ("nobody", "a token", "a service's", "expired", "a key", "no such key")
OPEN: Final = (200, 200, 200, 200, 200, 200)
KEYED: Final = (401, 401, 401, 401, 200, 401)
TOKENS: Final = (401, 200, 401, 401, 401, 401)
EITHER: Final = (401, 200, 401, 401, 200, 401)
STATUSES: Final = {"open": OPEN, "keyed": KEYED, "tokens": TOKENS, "either": EITHER, "fault": None}
"""A status for each of CALLERS; None: the configuration is refused."""


def auth(kind: str, issuer: str, keys: Path) -> tuple[str, ...]:
    """Return the knobs of such a group and its services."""
    named, file = f"auth.issuers=[{{issuer: '{issuer}'}}]", f"auth.keys.file={keys}"
    return {
        "off": ("auth.mode=off",),
        "keys": ("auth.mode=keys", file),
        "jwt": ("auth.mode=jwt", named),
        "jwt and keys": ("auth.mode=jwt", named, file),
        "jwt, one audience": (
            f"auth.issuers=[{{issuer: '{issuer}', audiences: ['{AT_CRM}']}}]", "auth.shared_audience=true",
        ),
    }[kind]  # fmt: skip


def callers(issuer: ForgedIssuer, key: str, kind: str) -> dict[str, str | None]:
    good = AT_CRM if kind == "jwt, one audience" else AT_GROUP
    shown = {
        "nobody": None,
        "a token": issuer.sign(aud=good),
        "a service's": issuer.sign(aud=AT_SHOP),
        "expired": issuer.sign(aud=good, exp=1),
        "a key": key,
        "no such key": new_key(),
    }
    assert tuple(shown) == CALLERS
    return shown


def given_key(file: Path, *scopes: str) -> str:
    key = new_key()
    add_key(file, ApiKey(name="ann", sha256=digest_of(key), scopes=scopes))
    return key


async def statuses(it: Grouped, shown: dict[str, str | None]) -> tuple[int, ...]:
    """The status of a call by each caller. A call that is refused reaches no service."""
    found = []
    for token in shown.values():
        before = it.backends["crm"].calls("add")
        answer = await it.client(token).call(REST, "crm.add", TWO_AND_THREE)
        assert it.backends["crm"].calls("add") - before == (answer.status == 200), answer
        found.append(answer.status)
    return tuple(found)


@each_row
async def test_each_caller_gets_the_status_of_its_cell(
    kind: str, modes: dict[str, str], tmp_path: Path, endpoint: TokenEndpoint
) -> None:
    """``modes`` are those of backend.credentials, each with who gets in."""
    key = given_key(keys := tmp_path / f"{kind}.yaml")
    cells = {}
    async with ForgedIssuer(AT_GROUP) as issuer:
        knobs = (f"server.public_url={PUBLIC}", *auth(kind, issuer.issuer, keys))
        shown = callers(issuer, key, kind)
        for mode, section in MODES.items():
            text = section % endpoint.url if "%s" in section else section
            other = MODES["none"] if mode == "same_resource" else text  # the resource of one service alone is shared
            own = [f"services.crm.backend.credentials={text}", f"services.shop.backend.credentials={other}"]
            try:
                async with grouped(*knobs, *own, services=SERVICES) as it:
                    cells[mode] = await statuses(it, shown)
                    sent = [bearer_of(one) or "" for backend in it.backends.values() for one in backend.requests]
                    assert not {key, shown["no such key"]} & {*sent}
                    assert mode == "same_resource" or shown["a token"] not in sent
            except ConfigError:
                cells[mode] = None
    assert cells == {mode: STATUSES[word] for mode, word in modes.items()}


ISSUER: Final = "https://login.example.com"


@each_row
def test_a_group_that_lets_in_anybody_whom_a_service_refuses_is_a_fault(
    group: dict[str, Any], service: dict[str, Any], knob: str
) -> None:
    """``knob`` is the one at fault, and empty where none is."""
    knobs = (
        f"server.public_url={PUBLIC}", "services.crm.backend={url: 'http://127.0.0.1:1/', credentials: {mode: none}}",
        f"services.crm.auth={json.dumps(service)}",
        f"groups.all={json.dumps({'services': ['crm'], 'auth': group})}",
    )  # fmt: skip
    if not knob:
        assert load_settings(None, knobs, environ={}).groups_by_mount
        return
    with pytest.raises(ConfigError) as caught:
        load_settings(None, knobs, environ={})
    (fault,) = caught.value.faults
    assert fault.startswith(f"groups.all.{knob}: ")
    assert f"would let in callers whom crm refuses: set it as services.crm.{knob}" in fault


def faults(*knobs: str, **more: Any) -> str:
    ground = [f"services.{name}.backend.url=http://127.0.0.1:1/{name}" for name in ("crm", "shop")]
    with pytest.raises(ConfigError) as caught:
        load_settings(None, [*ground, *knobs], environ={})
    return "\n".join(caught.value.faults)


def test_a_group_names_services_that_there_are_and_has_a_name_of_its_own() -> None:
    off = "auth.mode=off"
    assert "shopp is none of the services crm, shop; did you mean shop?" in faults(off, "groups.all.services=[shopp]")
    assert "must name at least one service" in faults(off, "groups.all.services=[]")
    assert "groups.crm: is the name of a service" in faults(off, "groups.crm.services=[shop]")
    assert "is a path of the gateway itself" in faults(off, "groups.mcp.services=[shop]")
    assert "unknown key; known here: services" in faults(off, "groups.all={services: [crm], backend: {}}")
    assert "unknown key; known here: search" in faults(off, "groups.all={services: [crm], catalog: {include: [a]}}")
    assert "groups.all.services: is required" in faults(off, "groups.all={}")


def test_a_service_that_is_sent_callers_tokens_is_a_fault_with_both_remedies() -> None:
    issuers = f"auth.issuers=[{{issuer: {ISSUER}}}]"
    found = faults(
        issuers, f"server.public_url={PUBLIC}", "groups.all.services=[crm]",
        f"services.crm.backend.credentials.backend_audience={AT_CRM}",
        "services.shop.backend.credentials.mode=none",
    )  # fmt: skip
    assert "services.crm.backend.credentials.mode: same_resource sends callers' tokens" in found
    assert f"those of the group all are for {AT_GROUP}: set token_exchange there" in found
    assert "or set groups.all.auth.shared_audience and services.crm.auth.shared_audience to true" in found


def test_an_audience_that_a_group_shares_with_a_service_must_be_said() -> None:
    issuers = f"auth.issuers=[{{issuer: {ISSUER}, audiences: [one]}}]"
    found = faults(
        issuers, f"server.public_url={PUBLIC}", "groups.all.services=[crm]", "auth.shared_audience=true",
        "groups.all.auth.shared_audience=false", "services.crm.backend.credentials.mode=none",
        "services.shop.backend.credentials.mode=none",
    )  # fmt: skip
    assert "would be accepted by the services crm, shop, all" in found
