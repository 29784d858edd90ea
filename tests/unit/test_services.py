"""Several services in one configuration: what each has, what it inherits, and what keeps it from being used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gateway.config.layers import mistaken_names
from gateway.config.source import ConfigError, files_of, load_settings, needs_restart
from gateway.settings import ServiceSettings, Settings
from tests.each import each

PUBLIC = "https://gw.example.com"
ISSUER = "https://login.example.com"
TWO = f"""
server: {{public_url: {PUBLIC}}}
auth: {{issuers: [{{issuer: {ISSUER}}}]}}
catalog: {{ttl: 1m, exclude: [a, b], tools: {{"node.*": {{title: Node, timeout: 5s}}}}}}
services:
  crm:
    backend: {{url: https://crm.example.com/jsonrpc, credentials: {{mode: none}}}}
  shop:
    backend: {{url: https://shop.example.com/jsonrpc, credentials: {{mode: none}}}}
    auth: {{mode: "off", allow_unauthenticated: true}}
    catalog: {{exclude: [c], tools: {{"node.*": {{title: Page}}, extra: {{title: Extra}}}}}}
"""


def read(folder: Path, text: str, *overrides: str, **environ: str) -> Settings:
    file = folder / "gateway.yaml"
    file.write_text(text)
    return load_settings(file, overrides, environ)


def faults(folder: Path, text: str, *overrides: str, **environ: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        read(folder, text, *overrides, **environ)
    return caught.value.faults


def two(crm: dict[str, Any] | None = None, shop: dict[str, Any] | None = None, **top: Any) -> Settings:
    """Two services before one backend, open to all unless something else is said."""
    backend = {"url": "http://127.0.0.1:8000/jsonrpc", "credentials": {"mode": "none"}}
    services = {"crm": {"backend": backend, **(crm or {})}, "shop": {"backend": backend, **(shop or {})}}
    return Settings.model_validate({"auth": {"mode": "off"}, **top, "services": services})


def of(settings: Settings, name: str) -> ServiceSettings:
    return settings.by_mount[f"/{name}" if name else ""]


# --- where services are -----------------------------------------------------------------------------------------


def test_each_of_several_services_is_a_resource_of_its_own_below_its_name(tmp_path: Path) -> None:
    made = read(tmp_path, TWO)
    assert list(made.by_mount) == ["/crm", "/shop"]
    crm = of(made, "crm")
    assert (crm.name, crm.mount, crm.server.origin) == ("crm", "/crm", PUBLIC)
    assert crm.resource == crm.mount_id == f"{PUBLIC}/crm/mcp"
    assert crm.knob("auth.issuers") == "services.crm.auth.issuers"


def test_the_only_service_is_at_the_root(tmp_path: Path) -> None:
    made = read(
        tmp_path, f"{{backend: {{url: http://127.0.0.1/}}, auth: {{mode: 'off'}}, server: {{public_url: {PUBLIC}}}}}"
    )
    assert list(made.by_mount) == [""]
    only = of(made, "")
    assert (only.name, only.mount, only.resource) == ("", "", f"{PUBLIC}/mcp")
    assert only.knob("auth.issuers") == "auth.issuers"
    assert (only.backend, only.catalog, only.limits) == (made.backend, made.catalog, made.limits)


def test_two_open_services_before_one_backend_share_no_signed_text() -> None:
    settings = two()
    assert of(settings, "crm").backend == of(settings, "shop").backend
    assert of(settings, "crm").mount_id != of(settings, "shop").mount_id


# --- what is inherited ------------------------------------------------------------------------------------------


def test_maps_of_the_top_level_merge_and_lists_are_replaced(tmp_path: Path) -> None:
    made = read(tmp_path, TWO)
    crm, shop = of(made, "crm"), of(made, "shop")
    assert (crm.catalog.ttl, shop.catalog.ttl) == (60, 60)
    assert (crm.catalog.exclude, shop.catalog.exclude) == (("a", "b"), ("c",))
    assert [(name, tool.title, tool.timeout) for name, tool in shop.catalog.tools.items()] == [
        ("node.*", "Page", 5),
        ("extra", "Extra", None),
    ]
    assert [issuer.issuer for issuer in shop.auth.issuers] == [ISSUER]
    assert (crm.auth.mode, shop.auth.mode) == ("jwt", "off")


def test_a_default_can_be_taken_back_with_null(tmp_path: Path) -> None:
    made = read(tmp_path, TWO, "catalog.pin=pins.json", "services.crm.catalog.pin=")
    assert (of(made, "crm").catalog.pin, of(made, "shop").catalog.pin) == (None, "pins.json")


def test_a_backend_is_never_inherited(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, TWO, "backend.timeout=1s")
    assert fault.startswith("backend: ")
    assert "services.crm.backend" in fault
    assert "GATEWAY__SERVICES__CRM__BACKEND__URL" in fault
    assert fault == faults(tmp_path, TWO, GATEWAY__BACKEND__URL="http://127.0.0.1/")[0]
    (fault,) = faults(tmp_path, TWO, "services.other.limits.streams=1")
    assert fault == "services.other.backend.url: is required"


def test_without_services_a_backend_is_required(tmp_path: Path) -> None:
    for text in ("auth: {mode: off}", "{auth: {mode: off}, backend: }"):
        assert faults(tmp_path, text) == ("backend.url: is required",)


@each("text", ["services: {}", "services:", "services: [crm]", "{services: {}, backend: {url: 'http://h/'}}"])
def test_services_without_a_service_are_a_fault(tmp_path: Path, text: str) -> None:
    assert any(fault.startswith("services: must ") for fault in faults(tmp_path, text))


# --- names ------------------------------------------------------------------------------------------------------


@each("name", ["Crm", "1crm", "_crm", "c-rm", "c.rm", "a" * 33, "", "crm ", "é"])
def test_a_name_that_is_no_path_is_a_fault_with_the_remedy(tmp_path: Path, name: str) -> None:
    text = TWO.replace("crm:", f"{name!r}:")
    (fault,) = faults(tmp_path, text)
    assert fault.startswith(f"services.{name}: is not a valid name of a service")
    assert "use a lower-case letter" in fault


@each("name", ["mcp", "jsonrpc", "page", "static"])
def test_a_name_that_is_a_path_of_the_gateway_is_a_fault_with_the_remedy(tmp_path: Path, name: str) -> None:
    (fault,) = faults(tmp_path, TWO.replace("crm:", f"{name}:"))
    assert fault.startswith(f"services.{name}: is a path of the gateway itself")
    assert "another name" in fault


@each("name", ["a", "crm_2", "a" * 32, "mcp_2", "well_known"])
def test_these_are_names(tmp_path: Path, name: str) -> None:
    assert f"/{name}" in read(tmp_path, TWO.replace("crm:", f"{name}:")).by_mount


# --- outside the file -------------------------------------------------------------------------------------------


def test_knobs_of_a_service_are_set_in_the_environment_in_files_and_with_set(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    made = read(
        tmp_path,
        TWO,
        "services.shop.backend.url=https://other.example.com/",
        GATEWAY__SERVICES__CRM__BACKEND__URL="https://elsewhere.example.com/",
        GATEWAY__SERVICES__CRM__BACKEND__CREDENTIALS__MODE="basic",
        GATEWAY__SERVICES__CRM__BACKEND__CREDENTIALS__PASSWORD_FILE=str(secret),
        GATEWAY__SERVICES__CRM__BACKEND__CREDENTIALS__USER="gateway",
    )
    crm, shop = of(made, "crm"), of(made, "shop")
    assert (crm.backend.url, shop.backend.url) == ("https://elsewhere.example.com/", "https://other.example.com/")
    assert crm.backend.credentials.password is not None
    assert crm.backend.credentials.password.get_secret_value() == "s3cret"


def test_services_can_be_had_from_the_environment_alone() -> None:
    environ = {f"GATEWAY__SERVICES__{name}__BACKEND__URL": f"http://127.0.0.1/{name}" for name in ("CRM", "MY_SHOP")}
    assert list(load_settings(None, (), environ | {"GATEWAY__AUTH__MODE": "off"}).by_mount) == ["/crm", "/my_shop"]


def test_a_misspelled_knob_of_a_service_is_told_with_the_right_one() -> None:
    name = "GATEWAY__SERVICES__CRM__BACKEND__CREDENTALS__MODE"
    with pytest.raises(ConfigError) as caught:
        load_settings(None, ["services.crm.backend.url=http://127.0.0.1/", "auth.mode=off"], {name: "none"})
    meant = "GATEWAY__SERVICES__CRM__BACKEND__CREDENTIALS__MODE"
    assert caught.value.faults == (f"{name}: is not a knob; did you mean {meant}?",)
    (line,) = mistaken_names({"GATEWAY_SERVICES_MY_CRM_BACKEND_URL": "x"})
    assert line.endswith("did you mean GATEWAY__SERVICES__MY_CRM__BACKEND__URL?")


def test_an_unknown_key_of_a_service_is_told_with_the_known_ones(tmp_path: Path) -> None:
    told = faults(tmp_path, TWO, "services.crm.server.port=1", "services.crm.backend.urll=x")
    assert any(fault.startswith("services.crm.server: unknown key; known here: backend, catalog") for fault in told)
    assert any(fault.startswith("services.crm.backend.urll: unknown key; known here: url, ") for fault in told)


def test_files_that_a_service_names_start_from_the_folder_of_the_file(tmp_path: Path) -> None:
    text = TWO.replace("crm:\n", "crm:\n    catalog: {pin: crm.pins}\n", 1).replace(
        "catalog: {ttl", "catalog: {pin: pins, ttl"
    )
    made = read(tmp_path, text, "server.secret_file=secret")
    assert sorted(files_of(made)) == [
        ("server.secret_file", Path("secret")),
        ("services.crm.catalog.pin", tmp_path / "crm.pins"),
        ("services.shop.catalog.pin", tmp_path / "pins"),
    ]


# --- faults -----------------------------------------------------------------------------------------------------


def test_a_fault_of_a_default_is_told_once_by_its_own_name(tmp_path: Path) -> None:
    told = faults(tmp_path, TWO, "limits.streams=0", "catalog.ttll=1m", "auth.issuers=[{issuer: 'ftp://x'}, {}]")
    assert [fault.partition(": ")[0] for fault in told] == [
        "catalog.ttll", "auth.issuers.0.issuer", "auth.issuers.1.issuer", "limits.streams",
    ]  # fmt: skip


def test_a_fault_of_a_service_is_told_by_the_services_name(tmp_path: Path) -> None:
    told = faults(tmp_path, TWO, "limits.streams=0", "services.crm.limits.streams=0", "services.shop.catalog.tools=5")
    assert [fault.partition(": ")[0] for fault in told] == [
        "services.crm.limits.streams", "services.shop.catalog.tools", "limits.streams",
    ]  # fmt: skip


def test_a_section_with_a_faulty_default_is_told_once(tmp_path: Path) -> None:
    told = faults(tmp_path, TWO.replace("off", "jwt"), f"auth.issuers=[{{issuer: '{ISSUER}'}}, {{issuer: '{ISSUER}'}}]")
    assert told == ("auth: issuers: an issuer is listed twice",)


def test_a_default_that_cannot_be_read_is_one_fault(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, TWO.replace("ttl: 1m", "ttl: ${ABSENT}"))
    assert fault == "catalog.ttl: the environment has no variable ABSENT; set it, or write $${ for ${"


def test_faults_of_all_services_are_told_at_once(tmp_path: Path) -> None:
    told = faults(
        tmp_path, TWO, "server.host=0.0.0.0", "services.shop.auth={mode: off}", "services.crm.auth.issuers=[]"
    )
    assert len(told) == 2
    assert told[0].startswith("services.crm.auth.issuers: must name at least one authorization server")
    assert told[1].startswith("services.shop.auth.mode: is off, and server.host 0.0.0.0 is reachable by others")
    assert "services.shop.auth.allow_unauthenticated" in told[1]


def test_what_the_top_level_opens_to_all_is_told_once(tmp_path: Path) -> None:
    text = TWO.replace("auth: {issuers", "auth: {mode: 'off', issuers").replace(", allow_unauthenticated: true", "")
    (fault, of_shop) = faults(tmp_path, text, "server.host=0.0.0.0")
    assert fault.startswith("auth.mode: is off, and server.host")
    assert of_shop.startswith("services.shop.auth.mode: is off")
    text = text.replace('auth: {mode: "off"}', "limits: {}")
    assert faults(tmp_path, text, "server.host=0.0.0.0") == (fault,)
    assert "services." not in fault


def test_what_the_backend_is_shown_is_judged_for_each_service(tmp_path: Path) -> None:
    told = faults(tmp_path, TWO, "services.crm.backend.credentials.mode=same_resource")
    (fault,) = told
    assert fault.startswith("services.crm.backend.credentials.backend_audience: set it to the audience")
    assert f"{PUBLIC}/crm/mcp" in fault
    audience = f"services.crm.backend.credentials.backend_audience={PUBLIC}/crm/mcp"
    read(tmp_path, TWO, "services.crm.backend.credentials.mode=same_resource", audience)


def test_the_same_settings_cannot_be_said_of_process_and_service() -> None:
    for section in ("server", "telemetry"):
        with pytest.raises(ValidationError, match="Extra inputs"):
            two(crm={section: {}})


# --- one token for two services ---------------------------------------------------------------------------------

SHARED = {"issuers": [{"issuer": ISSUER, "audiences": ["all"]}]}
COGNITO = {"issuers": [{"issuer": ISSUER, "preset": "cognito", "clients": ["app1", "app2"]}]}


def pair(folder: Path, crm: Any, shop: Any) -> tuple[str, ...]:
    """The faults of two services with this ``auth``."""
    made = TWO.replace('auth: {mode: "off", allow_unauthenticated: true}', f"auth: {shop}").replace(
        "    backend: {url: https://crm", f"    auth: {crm}\n    backend: {{url: https://crm"
    )
    try:
        read(folder, made)
    except ConfigError as error:
        return error.faults
    return ()


@each("auth", {"an audience": SHARED, "a client that stands for one": COGNITO})
def test_one_token_for_two_services_is_a_fault_unless_both_say_so(tmp_path: Path, auth: dict[str, Any]) -> None:
    told = pair(tmp_path, auth, auth)
    assert len(told) == len({"all"} if auth is SHARED else {"app1", "app2"})
    for fault in told:
        assert fault.startswith("services.crm.auth.issuers: ")
        assert ISSUER in fault
        assert "crm, shop" in fault
        assert "auth.shared_audience: true" in fault
    said = auth | {"shared_audience": True}
    assert pair(tmp_path, said, auth) == pair(tmp_path, auth, said) == told
    assert pair(tmp_path, said, said) == ()


@each(
    ("crm", "shop"),
    {
        "resources": ({}, {}),
        "resource and audience": (SHARED, {}),
        "audiences": (SHARED, {"issuers": [{"issuer": ISSUER, "audiences": ["other"]}]}),
        "issuers": (SHARED, {"issuers": [{"issuer": "https://other.example.com", "audiences": ["all"]}]}),
        "clients": (COGNITO, {"issuers": [{"issuer": ISSUER, "preset": "cognito", "clients": ["app3"]}]}),
        "one without tokens": (SHARED, SHARED | {"mode": "off", "allow_unauthenticated": True}),
    },
)
def test_services_that_accept_no_token_of_each_others_may_start(tmp_path: Path, crm: Any, shop: Any) -> None:
    assert pair(tmp_path, crm, shop) == ()


def test_an_audience_that_all_inherit_is_told_at_the_top_level(tmp_path: Path) -> None:
    (fault,) = faults(
        tmp_path, TWO.replace(", allow_unauthenticated: true", "").replace('"off"', "jwt"), f"auth={SHARED}"
    )
    assert fault.startswith("auth.issuers: ")


# --- reloading --------------------------------------------------------------------------------------------------


def test_settings_of_a_service_differ_where_its_sections_or_its_name_do() -> None:
    before = two()
    assert of(two(), "crm") == of(before, "crm")
    assert of(before, "crm") != of(before, "shop")
    assert of(two(server={"port": 1}), "crm") == of(before, "crm")
    after = two(shop={"limits": {"streams": 1}})
    assert of(after, "crm") == of(before, "crm")
    assert of(after, "shop") != of(before, "shop")
    assert of(two(limits={"streams": 1}), "crm") != of(before, "crm")


def test_settings_differ_where_patterns_of_tools_are_in_another_order() -> None:
    patterns = {"node.*": {"title": "Node"}, "*.get": {"title": "Get"}}
    before, after = (two(catalog={"tools": tools}) for tools in (patterns, dict(reversed(patterns.items()))))
    assert of(before, "crm") != of(after, "crm")
    assert of(before, "crm") == of(two(catalog={"tools": patterns}), "crm")


def test_a_restart_is_for_what_belongs_to_the_process() -> None:
    before = two()
    after = two(
        crm={"catalog": {"ttl": "7s"}, "mcp": {"heartbeat": "3s"}},
        server={"port": 1, "secret_file": "s", "allowed_hosts": ["a"], "allowed_origins": ["https://a.example"]},
        telemetry={"log": {"level": "debug"}},
        auth={"mode": "off", "scopes": {"list": ["read"]}},
    )
    assert needs_restart(before, after) == ("server.port", "server.secret_file")
    assert needs_restart(before, before) == ()
