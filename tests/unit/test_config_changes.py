"""What differs between two configurations, and what a reload keeps of the old one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.config.source import ConfigError, differing, keep_for_process, load_settings, needs_restart
from gateway.settings import Settings
from tests.configuring import URL
from tests.each import each
from tests.unit.test_config_references import SECRET


def made(**sections: Any) -> Settings:
    backend = {"url": URL} | sections.pop("backend", {})
    return Settings.model_validate({"backend": backend, "auth": {"mode": "off"}, **sections})


def test_a_reload_names_the_knobs_of_the_process_and_keeps_their_values() -> None:
    old = made()
    new = made(
        server={"port": 1, "allowed_hosts": ["gw.example.com"]},
        backend={"credentials": {"mode": "static", "send": {"headers": {"X": SECRET}}}, "timeout": "1s"},
        catalog={"ttl": "7s", "tools": {"a": {"title": "A"}}},
        auth={"mode": "off", "scopes": {"list": ["read"]}},
        telemetry={"log": {"level": "debug"}},
    )
    assert needs_restart(old, new) == ("server.port",)
    kept = keep_for_process(old, new)
    assert set(differing(old, kept)) == {
        "server.allowed_hosts",
        "backend.timeout",
        "backend.credentials.mode",
        "backend.credentials.send",
        "catalog.ttl",
        "catalog.tools.a",
        "auth.scopes.list",
        "telemetry.log.level",
    }
    assert set(differing(kept, new)) == {"server.port"}
    assert old == made()


def test_of_several_services_what_differs_is_named_by_its_service() -> None:
    crm, shop = {"backend": {"url": URL}}, {"backend": {"url": f"{URL}/shop"}}
    old = Settings.model_validate({"services": {"crm": crm, "shop": shop}, "auth": {"mode": "off"}})
    other = {**crm, "limits": {"discovery": "1/hour"}}
    new = Settings.model_validate({"services": {"crm": other, "news": shop}, "auth": {"mode": "off"}})
    assert [*differing(old, new)] == ["services.crm.limits.discovery", "services.shop", "services.news"]
    assert [*differing(old, old)] == []


def test_who_may_call_is_not_decided_by_an_address_that_only_a_restart_binds() -> None:
    """Else a reload would open a service to the network, with the new address alone to say that it does not."""
    backend = "backend.url=http://127.0.0.1:1/jsonrpc"
    asks = ("server.public_url=https://gw.example.com", "auth.issuers=[{issuer: 'https://issuer.example.com'}]")
    old = load_settings(None, (backend, "server.host=0.0.0.0", "backend.credentials.mode=none", *asks), environ={})
    new = load_settings(None, (backend, "auth.mode=off"), environ={})
    with pytest.raises(ConfigError) as caught:
        keep_for_process(old, new)
    (fault,) = caught.value.faults
    assert fault.startswith("auth.mode: is off, and server.host 0.0.0.0 is reachable by others")
    assert fault.endswith("a reload keeps the old value of server knobs that need a restart")


@each(("written", "read"), [("off", "off"), ("on", "on"), ("'on'", "on"), ("content", "content")])
def test_traces_are_chosen_by_words_that_yaml_reads_as_booleans_and_a_change_needs_a_restart(
    written: str, read: str, tmp_path: Path
) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(f"backend: {{url: '{URL}'}}\nauth: {{mode: 'off'}}\ntelemetry: {{traces: {written}}}\n")
    settings = load_settings(file, (), environ={})
    assert settings.telemetry.traces == read
    assert needs_restart(made(), settings) == (() if read == "off" else ("telemetry.traces",))
